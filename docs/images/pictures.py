"""Draw the pictures of the documentation again: screenshots of the reports of four examples.

    python docs/images/pictures.py

Needs Playwright and Chromium (``make env`` installs the first; ``apt-get install chromium`` the second).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def run(example: str, out: Path) -> str:
    """Run an example; returns the address of its report."""
    unrack = Path(sys.executable).with_name("unrack")
    subprocess.run([unrack, "run", ROOT / "examples" / f"{example}.toml", "--out", out / example], check=True)
    return (out / example / "report.html").as_uri()


def zoom(page: Page, canvas: str, x: float, clicks: int) -> None:
    """Turn the wheel over a picture, at a share of its width."""
    page.locator(canvas).scroll_into_view_if_needed()
    box = page.locator(canvas).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + x * box["width"], box["y"] + box["height"] / 2)
    for _ in range(clicks):
        page.mouse.wheel(0, -300)
        page.wait_for_timeout(60)


def of_demo(page: Page) -> None:
    """The page's head, its charts, and jobs on their nodes."""
    page.screenshot(path=HERE / "report.png")
    page.locator("#charts").screenshot(path=HERE / "distributions.png")
    page.locator("#gantt-run").select_option(label="easy")
    page.locator("#gantt-colour").select_option(label="wait")
    zoom(page, "#gantt-canvas", 0.35, 6)
    box = page.locator("#gantt-canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 0.35 * box["height"])
    page.wait_for_timeout(300)
    page.locator("#gantt").screenshot(path=HERE / "gantt.png")


def of_nvme(page: Page) -> None:
    """Compositions of drives, and deadlines."""
    names = page.locator("#pool-run option").all_inner_texts()
    page.locator("#pool-run").select_option(label=next(name for name in names if "aware" in name and "pool" in name))
    zoom(page, "#pool-canvas", 0.55, 7)
    page.mouse.move(5, 5)
    page.wait_for_timeout(300)
    first, last = (page.locator(each).bounding_box() for each in ("#pool-canvas", "#pool-legend"))
    assert first is not None and last is not None  # noqa: PT018  # for the types
    height = last["y"] + last["height"] - first["y"]
    page.screenshot(
        path=HERE / "pools.png", clip={"x": first["x"], "y": first["y"], "width": first["width"], "height": height}
    )
    page.locator("#pool-deadlines").screenshot(path=HERE / "deadlines.png")


def of_provisioning(page: Page) -> None:
    """Memory asked, held and used over time."""
    page.locator("#use-run").select_option(label="dynamic")
    page.wait_for_timeout(1000)
    page.locator("figure[data-chart='use over time']").screenshot(path=HERE / "memory_in_use.png")


def of_power(page: Page) -> None:
    """Power over time under a cap."""
    page.locator("svg[aria-label='Power over time']").nth(1).screenshot(path=HERE / "power.png")


def main() -> None:
    """Run, look, keep."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("Chromium is missing: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        flags = ["--headless", "--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        pages = ("demo", of_demo), ("nvme", of_nvme), ("provisioning", of_provisioning), ("power", of_power)
        for example, draw in pages:
            page = browser.new_page(viewport={"width": 1100, "height": 850})
            page.goto(run(example, Path(folder)))
            page.wait_for_selector("#figures svg, #figures canvas")
            page.wait_for_timeout(3000)
            draw(page)


if __name__ == "__main__":
    main()
