"""How the page looks, measured in Chromium: on a phone, on a desk and on paper."""

import polars as pl
import pytest
from fabricate import make_study
from fabricate_memory import make_memory_study
from measure import FAULTS

from unrack.report.page import write_report

pytestmark = [pytest.mark.browser, pytest.mark.long]
LOAD = ("workloads.scale_load", [0.8, 1.0, 1.2])
LONG = ("fcfs", "disaggregation-aware", "easy(place=disaggregation-aware)")
STUDIES = {
    "a sweep over the load": lambda folder: make_study(folder, sweep=LOAD, seeds=(0, 1)),
    "pools under policies with long names": lambda folder: make_study(folder, pools=True, policies=LONG),
    "lent memory": lambda folder: make_memory_study(folder, systems=((24, 8), (32, 0), (16, 16))),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    return {name: write_report(make(tmp_path_factory.mktemp("study") / "out")) for name, make in STUDIES.items()}


@pytest.fixture
def shown(browser, pages):
    contexts = []

    def opened(name, width):
        context = browser.new_context(viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.goto(pages[name].as_uri())
        page.wait_for_selector("html[data-charts=drawn]")
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", STUDIES)
def test_nothing_is_clipped_cut_rotated_overlapping_or_wider_than_the_page(shown, name, width):
    page = shown(name, width)
    assert len(page.query_selector_all("figure .plot svg")) >= 4
    assert page.evaluate(FAULTS) == []


def test_the_measure_finds_what_is_wrong(shown):
    page = shown("a sweep over the load", 390)
    page.evaluate("""() => {
        const svg = document.querySelector("figure svg"), axis = svg.querySelector(".role-axis-label");
        const texts = axis.querySelectorAll("text");
        texts[1].setAttribute("transform", texts[0].getAttribute("transform"));
        svg.removeAttribute("role");
        svg.removeAttribute("aria-label");
        const word = svg.querySelector(".role-axis-title text");
        word.setAttribute("transform", "translate(-500,0) rotate(90)");
        word.textContent += "…";
        document.querySelector("h1").style.width = "900px";
    }""")
    found = " / ".join(page.evaluate(FAULTS))
    for fault in ("overlap", "no role", "no title", "is clipped", "is cut", "is rotated", "wider than the page"):
        assert fault in found, fault


def test_every_picture_says_what_it_is_to_screen_readers(shown):
    page = shown("pools under policies with long names", 1280)
    told = page.eval_on_selector_all(
        "figure .plot svg", "all => all.map(one => [one.getAttribute('role'), one.getAttribute('aria-label')])"
    )
    captions = page.eval_on_selector_all("figure:has(.plot svg) figcaption", "all => all.map(one => one.textContent)")
    assert len(told) == len(captions) > 4
    for (role, label), caption in zip(told, captions, strict=True):
        assert role == "img"
        assert label.startswith(f"{caption}. ")


def test_a_swept_key_is_called_by_words_and_not_by_its_path(shown):
    page = shown("a sweep over the load", 1280)
    assert page.text_content("figure figcaption") == "Mean wait over load"
    text = page.evaluate("document.querySelector('main').innerText.split('How to reproduce')[0]")
    assert "scale_load" not in text
    assert "load = 1.2" in page.text_content("#runs")


def test_on_paper_each_chart_has_its_own_key_beside_it_and_tables_fit(shown):
    page = shown("a sweep over the load", 1280)
    assert page.locator("figure .policy-key").first.is_hidden()
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 without its margins
    assert page.locator("#legend").is_hidden()
    for figure in page.query_selector_all("#figures figure"):
        key = figure.query_selector(".policy-key")
        assert key.inner_text().split() == ["fcfs", "easy", "sjf"]
        plot, words = figure.query_selector(".plot").bounding_box(), key.bounding_box()
        assert 0 <= words["y"] - (plot["y"] + plot["height"]) < 10
        assert figure.evaluate("one => getComputedStyle(one).breakInside") == "avoid"
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    wide = "all => all.filter(one => one.getBoundingClientRect().right > 719).map(one => one.id || one.className)"
    assert page.eval_on_selector_all("table, svg, canvas", wide) == []


def test_charts_that_say_nothing_are_left_out_without_a_hole(browser, tmp_path):
    study = make_study(tmp_path / "study", pools=True, policies=("fcfs",))
    for path in (study / "runs").glob("*/jobs.parquet"):
        placed = pl.when(pl.col("placed_by").is_not_null()).then(pl.lit("first-fit"))
        pl.read_parquet(path).with_columns(placed.alias("placed_by")).write_parquet(path)
    for path in (study / "runs").glob("*/shares.parquet"):  # each share is a composition of its own
        every = pl.read_parquet(path)
        every.with_columns(pl.int_range(pl.len(), dtype=every["composition"].dtype).alias("composition")).write_parquet(
            path
        )
    page = browser.new_page()
    page.goto(write_report(study).as_uri())
    page.wait_for_selector("html[data-charts=drawn]")
    names = page.eval_on_selector_all("#pools figure", "all => all.map(one => one.dataset.chart)")
    assert names
    assert not [name for name in names if name.startswith(("rules", "sharing", "sharers"))]
    assert page.locator("#pool-rules").count() == 0
    empty = "all => all.filter(one => one.textContent.includes('Nothing to draw')).length"
    assert page.eval_on_selector_all("#pools .plot", empty) == 0
    page.close()
