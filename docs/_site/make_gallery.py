"""Draw the pictures of the gallery again, and make the reports that the site has whole.

    python docs/_site/make_gallery.py

Runs examples into out/gallery, and keeps a picture of each in docs/images/gallery. Needs Playwright and Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "images" / "gallery"
PARTS = {
    "demo": "#charts",
    "load-sweep": "#charts",
    "nvme": "#pool-deadlines",
    "lending": "#charts",
    "gpus": "#charts",
    "faults": "#charts",
    "operator": "#gantt",
    "plan-nvme": "svg",
}
"""Example → the part of its page that is shown."""


def main() -> None:
    """Run, look, keep."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("Chromium is not installed: apt-get install chromium")
    PICTURES.mkdir(parents=True, exist_ok=True)
    names = sys.argv[1:] or list(PARTS)
    for name in names:
        command = "plan" if name.startswith("plan-") else "run"
        study, out = ROOT / "examples" / f"{name}.toml", ROOT / "out" / "gallery" / name
        subprocess.run([sys.executable, "-m", "unrack", command, study, "--out", out], check=True)
        if command == "plan":
            shutil.copyfile(out / "plan.html", out / "report.html")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 800})
        for name in names:
            keep(page, name)
        browser.close()


def keep(page: Page, name: str) -> None:
    """A picture of the part of a report, no higher than a screen."""
    page.goto((ROOT / "out" / "gallery" / name / "report.html").as_uri())
    page.wait_for_timeout(3000)
    part = page.locator(PARTS[name]).first
    part.scroll_into_view_if_needed()
    page.wait_for_timeout(800)
    box = part.bounding_box()
    assert box is not None, name
    top = page.evaluate("scrollY") + box["y"]
    clip = {"x": box["x"], "y": top, "width": box["width"], "height": min(box["height"], 560)}
    page.screenshot(path=PICTURES / f"{name}.png", clip=clip, full_page=True)


if __name__ == "__main__":
    main()
