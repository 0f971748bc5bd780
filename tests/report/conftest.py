"""A browser for tests of pages."""

import shutil
from pathlib import Path

import pytest

CHROMIUM = next((path for path in ("/usr/bin/chromium", "/usr/bin/chromium-browser") if Path(path).exists()), None)
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None and shutil.which("chromium") is None:
        pytest.skip("Chromium is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM or shutil.which("chromium"), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def drawn(browser):
    """Opens a report in a scheme of colours: its page, drawn, and what the browser finds wrong with it from then on."""
    contexts = []

    def opened(path, scheme):
        faults = []
        contexts.append(browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900}))
        page = contexts[-1].new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-charts=drawn]")
        return page, faults

    yield opened
    for context in contexts:
        context.close()
