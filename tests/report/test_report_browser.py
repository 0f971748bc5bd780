import shutil
from pathlib import Path

import pytest
from fabricate import make_study

from unrack.report.page import write_report

pytestmark = pytest.mark.browser
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
def open_page(browser, tmp_path):
    """Open the report of a made-up study; at the end nothing may have gone wrong or have been fetched."""
    faults, contexts = [], []

    def opened(scheme="light", width=1280, **options):
        path = write_report(make_study(tmp_path / "study", **options))
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: faults.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-charts=drawn]")
        page.wait_for_selector("canvas[data-run]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


def colours(page):
    """How many different colours the Gantt chart shows."""
    page.wait_for_timeout(80)
    return page.evaluate("""() => {
        const canvas = document.getElementById("gantt-canvas");
        const image = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(image.data.buffer)).size;
    }""")


def picture(page):
    page.wait_for_timeout(80)
    return page.evaluate("document.getElementById('gantt-canvas').toDataURL()")


def view(page):
    return page.evaluate("JSON.parse(document.getElementById('gantt-canvas').dataset.view)")


def test_every_chart_is_drawn(open_page):
    page = open_page()
    names = page.eval_on_selector_all("figure", "all => all.map(one => one.dataset.chart)")
    assert names == ["utilisation", "queue", "wait", "response", "size"]
    marks = page.eval_on_selector_all("figure", "all => all.map(one => one.querySelectorAll('svg path[d]').length)")
    assert min(marks) >= 3
    assert colours(page) > 5


def test_hiding_a_policy_takes_its_line_out_of_the_charts(open_page):
    page = open_page()
    lines = "document.querySelectorAll('figure[data-chart=wait] .mark-line path').length"
    assert page.evaluate(lines) == 3
    page.click("#legend button >> nth=1")
    page.wait_for_function(f"{lines} === 2")


def test_the_gantt_chart_zooms_moves_and_returns(open_page):
    page = open_page()
    page.locator("#gantt-canvas").scroll_into_view_if_needed()
    whole, first = view(page), picture(page)
    box = page.locator("#gantt-canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 100)
    page.mouse.wheel(0, -300)
    zoomed, second = view(page), picture(page)
    assert zoomed["to"] - zoomed["from"] < 0.7 * (whole["to"] - whole["from"])
    assert first != second
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 - 150, box["y"] + 100)
    page.mouse.up()
    assert view(page)["from"] > zoomed["from"]
    page.focus("#gantt-canvas")
    page.keyboard.press("+")
    assert view(page)["to"] - view(page)["from"] < zoomed["to"] - zoomed["from"]
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + 100)
    assert view(page) == whole
    page.mouse.move(5, 5)
    assert picture(page) == first


def test_the_gantt_chart_finds_a_job_and_tells_of_the_one_under_the_pointer(open_page):
    page = open_page()
    page.locator("#gantt-canvas").scroll_into_view_if_needed()
    before = picture(page)
    page.fill("#gantt-find", "17")
    assert page.inner_text("#gantt-found").startswith("job 17: ")
    assert picture(page) != before
    page.fill("#gantt-find", "no such job")
    assert page.inner_text("#gantt-found") == "no job no such job here"
    page.fill("#gantt-find", "")
    page.click("#gantt-reset")
    box = page.locator("#gantt-canvas").bounding_box()
    for step in range(60):
        page.mouse.move(box["x"] + 60 + step * 18, box["y"] + 60)
        if page.is_visible("#gantt-tip"):
            break
    text = page.inner_text("#gantt-tip")
    assert "job " in text
    assert "user user" in text
    assert "waited " in text


def test_another_run_and_other_colours_change_the_gantt_chart(open_page):
    page = open_page(jobs=100)
    seen = {picture(page)}
    for colour in ("wait", "job", "app"):
        page.select_option("#gantt-colour", colour)
        seen.add(picture(page))
    page.select_option("#gantt-run", "2")
    page.wait_for_selector("canvas[data-run='2']")
    seen.add(picture(page))
    assert len(seen) == 5


def test_a_click_on_a_heading_sorts_the_table_and_a_second_one_turns_it_round(open_page):
    page = open_page()
    column = page.locator("#runs thead th", has_text="wait mean")
    place = column.evaluate("head => head.cellIndex")
    values = f"[...document.querySelectorAll('#runs tbody tr')].map(row => Number(row.cells[{place}].dataset.sort))"
    column.click()
    rising = page.evaluate(values)
    column.click()
    assert rising == sorted(rising)
    assert page.evaluate(values) == rising[::-1]
    assert page.is_hidden("#runs .more >> nth=0")
    page.check("#all-metrics")
    assert page.is_visible("#runs .more >> nth=0")


def test_hostile_names_run_nothing_and_show_as_they_are(open_page):
    evil = "</script><img src=x onerror=alert(1)>\"'&.[0]\\"
    page = open_page(name=evil, user=evil, policies=("fcfs", f"easy{evil}"), jobs=40)
    assert page.inner_text("h1") == evil
    assert page.locator("img").count() == 0
    assert evil in page.inner_text("#legend")


@pytest.mark.parametrize(
    "options", [{"state": "rejected"}, {"policies": ("fcfs",)}, {"sweep": ("x", ["a", "b"]), "seeds": (0, 1)}]
)
def test_odd_studies_are_drawn_without_errors_on_a_narrow_dark_screen(open_page, options):
    page = open_page(scheme="dark", width=420, jobs=40, **options)
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
