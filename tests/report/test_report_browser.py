import json
import re

import polars as pl
import pytest
from fabricate import make_study

from unrack.report.page import write_report

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture
def open_page(browser, tmp_path):
    """Open the report of a made-up study; at the end nothing may have gone wrong or have been fetched."""
    faults, contexts = [], []

    def opened(scheme="light", width=1280, **options):
        change = options.pop("change", None)
        study = make_study(tmp_path / "study", **options)
        if change:
            change(study)
        path = write_report(study)
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: faults.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-charts=drawn]")
        page.wait_for_selector("#gantt-canvas[data-run]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


def colours(page, canvas="gantt-canvas"):
    """How many different colours the Gantt chart, or another canvas, shows."""
    page.wait_for_timeout(80)
    return page.evaluate(
        """(id) => {
        const canvas = document.getElementById(id);
        const image = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(image.data.buffer)).size;
    }""",
        canvas,
    )


def picture(page, canvas="gantt-canvas"):
    page.wait_for_timeout(80)
    return page.evaluate("id => document.getElementById(id).toDataURL()", canvas)


def view(page, canvas="gantt-canvas"):
    return page.evaluate("id => JSON.parse(document.getElementById(id).dataset.view)", canvas)


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
    assert page.inner_text("#gantt-found") == "this run has no job no such job"
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


def test_where_no_user_or_application_is_known_the_gantt_chart_has_a_colour_a_job(open_page):
    def forget(study):
        for path in study.rglob("jobs.parquet"):
            pl.read_parquet(path).with_columns(user=pl.lit(None, pl.String), app=pl.lit(None, pl.String)).write_parquet(
                path
            )

    page = open_page(change=forget)
    assert page.input_value("#gantt-colour") == "job"
    assert colours(page) > 5


def test_the_shortest_job_of_a_large_run_is_found_and_drawn_where_it_ran(open_page):
    page = open_page(jobs=6000, nodes=64, policies=("sjf",))
    job, start, end, node = page.evaluate("""async () => {
        const run = await ganttRows.unpack(JSON.parse(document.getElementById("gantt-data").textContent)[0]);
        const area = (i) => (run.end[i] - run.start[i]) * run.nodes[i];
        const rows = [...run.job.keys()].sort((a, b) => area(a) - area(b));
        return [run.ids[run.job[rows[0]]], run.start[rows[0]], run.end[rows[0]], run.first[rows[0]]];
    }""")
    page.locator("#gantt-canvas").scroll_into_view_if_needed()
    page.fill("#gantt-find", job)
    assert page.inner_text("#gantt-found").startswith(f"job {job}: ")
    box = page.locator("#gantt-canvas").bounding_box()
    for _ in range(40):  # zoom around it, by the wheel, until it is wide
        now = view(page)
        at = 52 + (start + end - 2 * now["from"]) / 2 / (now["to"] - now["from"]) * (box["width"] - 52)
        if (end - start) / (now["to"] - now["from"]) * box["width"] > 60:
            break
        page.mouse.move(box["x"] + at, box["y"] + (node + 0.5) / 64 * (box["height"] - 24))
        page.mouse.wheel(0, -200)
    page.fill("#gantt-find", "")
    page.mouse.move(box["x"] + at - 3, box["y"] + (node + 0.5) / 64 * (box["height"] - 24))
    page.mouse.move(box["x"] + at, box["y"] + (node + 0.5) / 64 * (box["height"] - 24))
    assert page.inner_text("#gantt-tip").startswith(f"job {job}")
    page.wait_for_timeout(80)
    place = [at, (node + 0.5) / 64 * (box["height"] - 24)]
    pixel, ground = page.evaluate(
        """([x, y]) => {
        const pen = document.getElementById("gantt-canvas").getContext("2d");
        pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--idle").trim();
        return [[...pen.getImageData(x, y, 1, 1).data.slice(0, 3)], pen.fillStyle];
    }""",
        place,
    )
    assert "#" + "".join(f"{part:02x}" for part in pixel) != ground


def test_a_job_whose_nodes_changed_is_drawn_span_by_span_and_told_as_one_attempt(open_page):
    def change(study):
        path = study / "runs" / "log--000" / "placements.parquet"
        rows = pl.read_parquet(path)
        spans = pl.DataFrame({"job": [999, 999], "attempt": [1, 1], "start_s": [0.0, 60.0], "end_s": [60.0, 90.0],
                              "first_node": [0, 5], "nodes": [2, 1], "cores_per_node": [1, 1],
                              "outcome": ["finished", "finished"]})  # fmt: skip
        pl.concat([spans.cast(rows.schema), rows]).write_parquet(path)

    page = open_page(policies=("fcfs",), change=change)
    page.fill("#gantt-find", "999")
    assert page.inner_text("#gantt-found") == "job 999: 0 s to 1 min 30 s"
    told = page.evaluate("""async () => {
        const run = await ganttRows.unpack(JSON.parse(document.getElementById("gantt-data").textContent)[0]);
        const job = run.ids.indexOf("999"), rows = [...run.job.keys()].filter((i) => run.job[i] === job);
        return rows.map((i) => [run.start[i], run.end[i], run.first[i], run.nodes[i]]);
    }""")
    assert told == [[0, 60, 0, 2], [60, 90, 5, 1]]


def test_a_job_that_never_started_is_said_to_be_so(open_page):
    page = open_page(state="rejected", jobs=20)
    page.fill("#gantt-find", "7")
    assert page.inner_text("#gantt-found") == "job 7 never started (rejected)"
    page.fill("#gantt-find", "70")
    assert page.inner_text("#gantt-found") == "this run has no job 70"


def test_any_metric_can_be_drawn_against_a_sweep_and_who_served_less_is_hollow(open_page):
    def change(study):
        for path in sorted((study / "runs").glob("*/run.json"))[:1]:
            record = json.loads(path.read_text())
            record["metrics"]["served"] = 0.5
            path.write_text(json.dumps(record))

    page = open_page(jobs=40, policies=("fcfs", "easy"), sweep=("load", [1, 2]), change=change)
    figures = "[...document.querySelectorAll('#sweeps figure')].map(one => one.dataset.chart)"
    before = page.evaluate(figures)
    assert "wait_s_p95 over load" not in before
    page.select_option("#sweep-metric", "wait_s_p95")
    page.wait_for_function(f"{figures}[0] === 'wait_s_p95 over load'")
    page.wait_for_selector("#sweeps figure:first-child svg .mark-symbol path")
    marks = page.eval_on_selector_all(
        "#sweeps figure:first-child .mark-symbol path", "all => all.map(one => one.getAttribute('fill'))"
    )
    assert marks.count("transparent") == 1
    assert len(marks) == 4
    assert page.inner_text("#runs .less >> nth=0") == "served 50 %"
    dotted = page.eval_on_selector_all(
        "figure[data-chart=wait] .mark-line path", "all => all.map(one => one.getAttribute('stroke-dasharray'))"
    )
    assert dotted[0] == "1,3"
    page.select_option("#sweep-metric", "")
    page.wait_for_function(f"{figures}.length === {len(before)}")


def test_another_run_and_other_colours_change_the_gantt_chart(open_page):
    page = open_page(jobs=100)
    seen = {picture(page)}
    for colour in ("wait", "job", "app"):
        page.select_option("#gantt-colour", colour)
        seen.add(picture(page))
    page.select_option("#gantt-run", "2")
    page.wait_for_selector("#gantt-canvas[data-run='2']")
    seen.add(picture(page))
    assert len(seen) == 5


def test_a_click_on_a_heading_sorts_the_table_and_a_second_one_turns_it_round(open_page):
    page = open_page()
    column = page.locator("#runs thead th", has_text="mean wait")
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


POOLS = {"pools": True, "nodes": 5, "jobs": 120}


def test_every_picture_of_the_pools_is_drawn(open_page):
    page = open_page(**POOLS, policies=("first-fit", "max-composition"))
    found = {
        group: page.eval_on_selector_all(f"#pool-{group} figure", "all => all.map(one => one.dataset.chart)")
        for group in ("deadlines", "sharing", "nodes", "rules", "time")
    }
    assert found["deadlines"] == [f"deadlines {name}" for name in ("all jobs", "smufin", "compute", "capacity", "yolo")]
    assert found["sharing"] == ["size nvme", "sharing nvme", "sharing gpu"]
    assert found["nodes"] == ["nodes"]
    assert len(found["rules"]) == 5
    asked = {"nvme": ("bandwidth_mb_s", "capacity_mb"), "gpu": ("bandwidth_mb_s", "memory_mb")}
    assert found["time"] == [
        name for kind, quantities in asked.items()
        for name in (f"used {kind}", f"sharers {kind}", f"stranded {kind}",
                     *(f"fragmentation {kind} {quantity}" for quantity in quantities))
    ]  # fmt: skip
    marks = page.eval_on_selector_all(
        "#pools figure", "all => all.map(one => one.querySelectorAll('.mark-rect path, .mark-line path').length)"
    )
    assert min(marks) >= 2
    assert colours(page, "pool-canvas") > 5


def test_the_picture_of_a_pool_zooms_and_tells_of_the_composition_under_the_pointer(open_page):
    page = open_page(**POOLS, policies=("first-fit", "max-composition"))
    page.select_option("#pool-run", "1")
    page.wait_for_selector("#pool-canvas[data-run='1']")
    page.locator("#pool-canvas").scroll_into_view_if_needed()
    whole, first = view(page, "pool-canvas"), picture(page, "pool-canvas")
    assert whole["high"] == 11
    box = page.locator("#pool-canvas").bounding_box()
    seen = ""
    for step in range(60):
        page.mouse.move(box["x"] + 110 + step * 15, box["y"] + 60)
        if page.is_visible("#pool-tip") and "2 jobs share it" in (seen := page.inner_text("#pool-tip")):
            break
    assert re.match(r"composition \d+: nvme:\d", seen)
    assert re.search(r"2 jobs share it: \d+ \(\w+\), \d+ \(\w+\)\nsince .*\nuntil ", seen)
    assert re.search(r"node \d", seen)
    assert picture(page, "pool-canvas") != first
    page.mouse.wheel(0, -300)
    zoomed = view(page, "pool-canvas")
    assert zoomed["to"] - zoomed["from"] < 0.7 * (whole["to"] - whole["from"])
    assert view(page) != zoomed
    page.mouse.dblclick(box["x"] + 400, box["y"] + 100)
    page.mouse.move(5, 5)
    assert picture(page, "pool-canvas") == first


def test_another_run_is_seen_whole_unless_the_view_was_zoomed(open_page):
    page = open_page(**POOLS, policies=("first-fit", "max-composition"))
    ends = page.evaluate("JSON.parse(document.getElementById('pool-data').textContent).map(run => run.end)")
    assert ends[0] != ends[1]
    for run in (1, 0):
        page.select_option("#pool-run", str(run))
        page.wait_for_selector(f"#pool-canvas[data-run='{run}']")
        assert view(page, "pool-canvas")["to"] == ends[run]
    page.click("#pool-in")
    zoomed = view(page, "pool-canvas")
    page.select_option("#pool-run", "1")
    page.wait_for_selector("#pool-canvas[data-run='1']")
    assert view(page, "pool-canvas") == zoomed


def test_the_parts_of_a_split_device_are_told_apart(open_page):
    page = open_page(**POOLS, policies=("first-fit",))
    page.locator("#pool-canvas").scroll_into_view_if_needed()
    job = page.evaluate("""async () => {
        const run = await poolRows.unpack(JSON.parse(document.getElementById("pool-data").textContent)[0]);
        const split = run.bars.filter((bar) => bar.share >= 0);
        const top = split.find((bar) => bar.low > 0);
        return [run.ids[run.job[top.share]], top.low, top.tall, new Set(split.map((bar) => bar.low)).size];
    }""")
    assert job[1:3] == [0.25, 0.25]
    assert job[3] >= 2
    page.fill("#pool-find", job[0])
    assert page.inner_text("#pool-found").startswith(f"job {job[0]}: ")
    now, box = view(page, "pool-canvas"), page.locator("#pool-canvas").bounding_box()
    lane = (box["height"] - 24) / (now["high"] - now["low"])
    for step in range(80):
        page.mouse.move(box["x"] + 100 + step * 13, box["y"] + (10.375 - now["low"]) * lane)
        if page.is_visible("#pool-tip"):
            break
    text = page.inner_text("#pool-tip")
    assert re.match(r"gpu:10, split into 4 parts, [2-4] in use\n", text)
    assert "this part: job " in text
    assert "(yolo)" in text


def test_other_colours_and_a_hidden_policy_change_the_pools(open_page):
    page = open_page(**POOLS, policies=("first-fit", "max-composition"), sweep=("x", [1, 2]))
    seen = set()
    for colour in ("sharers", "size", "app", "life"):
        page.select_option("#pool-colour", colour)
        seen.add(picture(page, "pool-canvas"))
    assert len(seen) == 4
    bars = "document.querySelectorAll('figure[data-chart=\"sharing nvme\"] .mark-rect path').length"
    before = page.evaluate(bars)
    page.click("#pool-policies button >> nth=1")
    page.wait_for_function(f"{bars} < {before}")
    assert page.get_attribute("#legend button >> nth=1", "aria-pressed") == "false"
    assert page.locator("#pools [data-setting='1']:visible").count() == 0
    page.select_option("#pool-setting", "1")
    page.wait_for_selector("#pools [data-setting='1']:visible")
    assert page.locator("#pools [data-setting='0']:visible").count() == 0


def test_pools_fit_a_narrow_dark_screen_and_hostile_names_stay_text(open_page):
    evil = "</script><img src=x onerror=alert(1)>\"'&.[0]\\"
    page = open_page(scheme="dark", width=420, **POOLS, policies=("fcfs", f"easy{evil}"), seeds=(0, 1))
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    assert page.locator("img").count() == 0
    assert evil in page.inner_text("#pool-policies")
