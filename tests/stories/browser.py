"""Pages as a reader sees them: in headless Chromium, without a network."""

from __future__ import annotations

import shutil
from pathlib import Path

REPORT = ("h1", "table", "html[data-charts=drawn]", "#charts svg, #charts canvas", "#gantt-canvas[data-run]")
PLAN = ("h1", "table", "html[data-charts=drawn]", "#front svg")


def look(path: Path) -> list[str]:
    """What is wrong with a report or a plan: parts that are not seen, errors, and what it would fetch."""
    from playwright.sync_api import TimeoutError as NotSeen
    from playwright.sync_api import sync_playwright

    faults: list[str] = []
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda one: faults.append(one.url) if one.url.startswith("http") else None)
        page.goto(path.as_uri())
        for part in PLAN if path.name == "plan.html" else REPORT:
            try:
                page.wait_for_selector(part, timeout=20_000, state="attached" if part.startswith("html") else "visible")
            except NotSeen:
                faults.append(f"{path.name} shows no {part}")
        browser.close()
    return faults
