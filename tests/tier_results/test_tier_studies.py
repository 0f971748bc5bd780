"""Runs on tiers of memory in studies: what is kept, that a kept run is the same run again, and what people are told."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tomli_w

from unrack.cli.study.finished import explain as explain_job
from unrack.cluster.spec import Cluster
from unrack.cluster.tiers import tiers_again, tiers_record
from unrack.errors import ClusterError, StudyError
from unrack.metric.kinds.memory import TIER_METRICS
from unrack.report.page import losses, render, write_report
from unrack.report.sections.section import section_of
from unrack.report.sections.tiers import TIERS, TierRun, became, busiest, of_run
from unrack.report.setting import read_finished, settings_of
from unrack.sim.explained.job import explain
from unrack.study.grid import load_study
from unrack.study.results.from_folder import finished_run
from unrack.study.runner import run_study
from unrack.workload.formats.readers import read_trace
from unrack.workload.tier_asks import NO_CEILING
from unrack_papers.servers.published_json import published_cluster

DOCS = Path(__file__).parents[2] / "docs"
CLUSTER: dict[str, Any] = {
    "name": "small",
    "nodes": [{"count": 4, "cores": 24, "memory": "16 GB"}],
    "tiers": [{"name": "local", "price": 1.5}, {"name": "rack", "cost": 1, "price": 0.5}, {"name": "far", "cost": 2.5}],
    "memory_pools": [
        {"name": "near", "count": 4, "memory": "64 GB", "tier": "rack"},
        {"name": "distant", "count": 2, "memory": "128 GB", "tier": "far", "shared_by": 2},
    ],
    "nodes_per_rack": 2,
}
PLAIN = {"name": "plain", "nodes": [{"count": 4, "cores": 64, "memory": "128 GB"}]}
SERVERS = {
    "servers": 120,
    "alive": 30,
    "lifetime_s": {"kind": "exponential", "mean": 3600},
    "replicas": {"share": 0.2, "size": 2},
}
POLICIES = ["slo", {"name": "slo-first-fit", "full": "reject"}, "fcfs"]


def study(folder: Path, **keys: Any) -> Path:
    """Run a study with its report."""
    fault = {"domain": "distant", "at": 3000, "repair_after": 600}
    table = {
        "policies": POLICIES, "clusters": [CLUSTER], "workloads": [{"name": "cloud", "generate": SERVERS}],
        "faults": [fault], **keys,
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / "study.toml").write_text(tomli_w.dumps(table))
    run_study(load_study(str(folder / "study.toml")), folder / "out")
    write_report(folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return study(tmp_path_factory.mktemp("tiers"))


def runs_of(folder: Path) -> list[tuple[dict[str, Any], Path]]:
    return [(json.loads(path.read_text()), path.parent) for path in sorted(folder.glob("runs/*/run.json"))]


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_a_kept_run_is_the_same_cluster_and_the_same_servers_again(finished: Path) -> None:
    runs = load_study(str(finished.parent / "study.toml")).runs
    for run in runs:
        again = finished_run(finished, run.id)
        assert again.cluster().digest() == run.cluster.digest()
        found, wanted = again.jobs(), run.workload.jobs
        assert [found.job(i) for i in range(len(found))] == [wanted.job(i) for i in range(len(wanted))]


def test_a_finished_run_tells_the_same_story_of_a_server_as_its_inputs(finished: Path) -> None:
    run = next(run for run in load_study(str(finished.parent / "study.toml")).runs if run.policy.label == "slo")
    jobs = run.workload.jobs
    replica = int((jobs.slo.group >= 0).argmax())
    for job in (0, replica, len(jobs) - 1):
        story = finished_run(finished, run.id).story(str(jobs.ids[job]))
        wanted = explain(run.cluster, jobs, run.policy.make(), job, run.seed, run.world)
        assert story == wanted
        assert story.job.demand.local_mb == jobs.slo.floor_mb[job]


def test_what_a_server_asks_of_tiers_is_said_with_its_story(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = finished_run(finished, "slo")
    replica = next(job for job in range(120) if run.jobs().slo.group[job] >= 0)
    explain_job(finished, str(run.frame["job"][replica]), "slo", None)
    demand = run.jobs().job(replica).demand
    wanted = f"at least {demand.local_mb:,} MB local, at most {demand.ceiling_mb:,} weighted MB that are not, "
    assert f"  with        {wanted}no rack that others of {demand.group} use\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "cluster",
    [
        Cluster.from_dict(CLUSTER),
        Cluster.from_dict({**CLUSTER, "tiers": [*CLUSTER["tiers"], {"name": "none", "cost": 0.125, "price": 0.001}]}),
        published_cluster(
            {
                "pools": [
                    {"id": "a", "cores": 4, "memory": 64, "type": "CPU"},
                    {"id": "b", "cores": 0, "memory": 640, "type": "LOCALMEM"},
                    {"id": "c", "cores": 4, "memory": 64, "type": "CPU"},
                ],
                "clusters": [{"id": "left", "pools": ["a", "b"]}, {"id": "right", "pools": ["b", "c"]}],
            },
            "published",
            "here",
        ),
    ],
    ids=["file", "tier without pools", "json"],
)
def test_tiers_come_back_from_their_record_as_they_were(cluster: Cluster) -> None:
    record = json.loads(json.dumps(tiers_record(cluster)))
    assert tiers_again(record).identity() == cluster.tiers.identity()
    assert sum(record["installed_mb"]) == cluster.memory_mb.sum()


def test_the_table_of_tiers_is_kept_where_there_are_tiers_and_only_there(finished: Path, tmp_path: Path) -> None:
    for record, folder in runs_of(finished):
        assert (folder / "tiers.parquet").is_file()
        assert record["cluster"]["tiers"]["names"] == ["local", "rack", "far"]
        assert record["metrics"]["slo_broken_local"] is not None
    jobs = {**{key: SERVERS[key] for key in ("servers", "alive", "lifetime_s")}, "local_share": 0, "alpha": "none"}
    plain = study(tmp_path, clusters=[PLAIN], policies=["fcfs"], faults=[], workloads=[{"generate": jobs}])
    record, folder = runs_of(plain)[0]
    assert not (folder / "tiers.parquet").exists()
    assert "tiers" not in record["cluster"]
    assert not {"slo", "local_asked_mb"} & set(pl.read_parquet_schema(folder / "jobs.parquet"))
    page = (plain / "report.html").read_text()
    assert 'id="tiers"' not in page
    assert '"tiers":' not in re.search(r'id="charts-data">(.*?)</script>', page)[1]


def test_two_runs_of_a_study_leave_the_same_bytes(finished: Path, tmp_path: Path) -> None:
    again = study(tmp_path)
    for _, folder in runs_of(finished):
        for path in sorted(folder.iterdir()):
            assert path.read_bytes() == (again / "runs" / folder.name / path.name).read_bytes(), path.name
    assert (finished / "report.html").read_bytes() == (again / "report.html").read_bytes()


# --- the report -------------------------------------------------------------------------------------------------------


def test_every_policy_has_its_row_and_its_slos_in_the_section(finished: Path) -> None:
    page = (finished / "report.html").read_text()
    section = re.search(r'<section id="tiers">.*?</section>', page, re.S)[0]
    assert section.count("<tr>") == 1 + len(POLICIES)
    for words in ("too little local (%)", "rack used (%)", "far stranded (%)", "price ÷ bound", "clusters in use"):
        assert f">{words}</th>" in section
    assert 'href="#tiers"' in page
    assert 'id="memory"' not in page  # what is lent there has its own section


def test_the_answer_speaks_of_slos_and_prices(finished: Path) -> None:
    said = re.search(r'<div class="answer">.*?</div>', (finished / "report.html").read_text(), re.S)[0]
    for words in ("less local memory than their floor", "too remote memory", "servers refused", "Price of a server"):
        assert words in said
    assert "slowdown" not in said


def test_what_became_of_the_servers_is_counted_once_each(finished: Path) -> None:
    for setting in settings_of(read_finished(finished).runs):
        for policy, runs in setting.runs.items():
            counts = became(runs)
            assert sum(counts.values()) == 120
            broken = counts["local"] + counts["both"]
            placed = sum(counts[key] for key in ("met", "local", "remote", "both"))
            assert broken / placed == pytest.approx(runs[0].metrics["slo_broken_local"])
            assert policy != "slo" or not broken


@pytest.mark.parametrize(("keys", "said"), [
    ({"clusters": [PLAIN]}, "policies.0.*policy slo: got cluster 'plain' without tiers"),
    ({"policies": ["slo", "disaggregated"]}, "policies.1.*policy disaggregated: got one that lends among all nodes"),
    ({"workloads": [{"generate": {**SERVERS, "replicas": {"spread": "row"}}}]}, "workloads.0.*spread: got 'row'"),
])  # fmt: skip
def test_studies_whose_memory_and_policies_do_not_go_together_are_refused_before_any_run(
    keys: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "study.toml"
    table = {"policies": POLICIES, "clusters": [CLUSTER], "workloads": [{"generate": SERVERS}], **keys}
    path.write_text(tomli_w.dumps(table))
    with pytest.raises(StudyError, match="line.*" + said.replace(".0", r"\[0\]").replace(".1", r"\[1\]")):
        load_study(str(path))


def test_a_pattern_of_sharing_may_name_ranges_of_pools() -> None:
    pools = [{"name": "near", "count": 6, "memory": "64 GB", "tier": "rack"}]
    table = {**CLUSTER, "memory_pools": pools}
    written = [["0", "4-6"], ["1", "6", "8-9"], ["2"], ["3", "7"]]
    spelled = [["0", "4", "5", "6"], ["1", "6", "8", "9"], ["2"], ["3", "7"]]
    found, wanted = (Cluster.from_dict({**table, "pool_clusters": pattern}) for pattern in (written, spelled))
    assert found.digest() == wanted.digest()
    for wrong in ("8-10", "6-5", "rack0"):
        with pytest.raises(ClusterError, match=f"pool_clusters.0: got '{wrong}'"):
            Cluster.from_dict({**table, "pool_clusters": [["0", wrong]]})


def test_refused_servers_are_grouped_by_all_that_the_clusters_lacked(tmp_path: Path) -> None:
    greedy = {"servers": 90, "alive": 60, "lifetime_s": {"kind": "exponential", "mean": 3600}}
    out = study(tmp_path, policies=[{"name": "slo", "full": "reject"}], workloads=[{"generate": greedy}])
    (setting,) = settings_of(read_finished(out).runs)
    (run,) = next(iter(setting.runs.values()))
    reasons = run.frame("jobs", ("reason",)).filter(pl.col("reason").str.starts_with("no-room"))["reason"].to_list()
    lacks = ("too few cores", "too little memory", "too little local memory", "memory that is too remote")
    counts = Counter(tuple(lack for lack in lacks if lack in reason) for reason in reasons)
    assert any(len(lacking) > 1 for lacking in counts)
    found = [loss for loss in losses([setting]) if loss.reason.startswith("no-room")]
    assert {tuple(lack for lack in lacks if lack in loss.reason): loss.high for loss in found} == counts
    assert all("(" not in loss.reason and "of 4 clusters some have" in loss.reason for loss in found)


def test_what_the_pools_of_a_run_hold_adds_up_to_its_table_of_tiers(finished: Path) -> None:
    for run in read_finished(finished).runs:
        own, use = TierRun(run), TierRun(run).memory_use()
        for time_s, *used in own.steps.select("time_s", *(f"used_mb_{name}" for name in own.tiers.names)).rows()[::7]:
            now = use.filter((pl.col("start_s") <= time_s) & (pl.col("end_s") > time_s))
            tiers = own.tiers.tier[now["lender"].to_numpy()]
            assert [now["mb"].filter(pl.Series(tiers == tier)).sum() for tier in range(3)] == used


def test_the_busiest_moment_is_the_first_at_which_most_memory_is_in_use() -> None:
    steps = pl.DataFrame(
        {"time_s": [0.0, 1.0, 2.0, 3.0, 4.0], "used_mb_a": [1, 4, 2, 0, 9], "used_mb_b": [0, 1, 3, 0, 9]}
    )
    assert busiest(steps, ["a", "b"], 0.0, 3.0) == 1.0
    assert busiest(steps, ["a", "b"], 1.5, 2.5) == 1.5  # what began before and lasts counts
    assert busiest(steps, ["a", "b"], 2.5, 3.5) == 2.5
    assert busiest(steps, ["a", "b"], 3.0, 3.5) is None
    assert busiest(steps, ["a", "b"], -1.0, 0.5) == 0.0


def test_the_bars_of_the_busiest_moment_are_all_the_memory_in_use_then(finished: Path) -> None:
    for run in read_finished(finished).runs:
        own = TierRun(run)
        used = own.steps.select(pl.sum_horizontal("used_mb_local", "used_mb_rack", "used_mb_far"))
        charts, _ = of_run(run, settings_of([run])[0])
        chart = next(chart for chart in charts if chart["id"] == "busiest")
        assert sum(sum(series["y"]) for series in chart["series"]) * 1024 == pytest.approx(used.max().item(), rel=1e-4)
        assert {x for series in chart["series"] for x in series["x"]} == {"0", "1", "2", "3"}


def test_a_study_of_clusters_with_and_without_tiers_shows_those_with(tmp_path: Path) -> None:
    out = study(tmp_path, clusters=[PLAIN, CLUSTER], policies=["fcfs"], faults=[], seeds=2)
    finished = read_finished(out)
    section = section_of(TIERS, settings_of(finished.runs), settings_of(finished.runs), ["fcfs"])
    assert [title for title, *_ in section.settings] == ["cloud on small"]
    assert [title for title, *_ in section.runs] == ["fcfs · cloud on small"]
    assert "First seed." in render(finished)


@pytest.mark.long
@pytest.mark.browser
def test_the_section_draws_every_chart_in_a_browser(finished: Path) -> None:
    api = pytest.importorskip("playwright.sync_api")
    chromium = next((path for path in ("/usr/bin/chromium", "/usr/bin/chromium-browser") if Path(path).exists()), None)
    if chromium is None:
        pytest.skip("Chromium is not installed")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    faults: list[str] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto((finished / "report.html").as_uri())
        page.wait_for_selector("html[data-charts=drawn]")
        shown = page.eval_on_selector_all("#tiers figure", "all => all.map((figure) => figure.dataset.chart)")
        assert shown == [
            "slos", "clusters", "price", "stranded", "used by tier", "stranded by tier", "tiers over time", "busiest",
            "pools over time",
        ]  # fmt: skip
        assert page.locator("#tiers figure .plot svg, #tiers figure .plot canvas").count() == len(shown)
        drawn = "document.querySelector('[data-chart=busiest] .plot svg')?.innerHTML"
        before = page.evaluate(drawn)
        page.select_option("#tier-run", "2")  # first come, first served: local memory only
        page.wait_for_function(f"before => {drawn} && {drawn} !== before", arg=before)
        browser.close()
    assert faults == []


# --- the pages --------------------------------------------------------------------------------------------------------


def test_every_metric_and_column_of_tiers_is_described() -> None:
    metrics = re.search(r"\n## Tiers of memory\n.*?(?=\n## )", (DOCS / "metrics.md").read_text(), re.S)[0]
    for name in TIER_METRICS:
        assert f"`{name}`" in metrics, name
    tables = (DOCS / "result-tables.md").read_text()
    for name in (
        "local_asked_mb", "ceiling_mb", "mb_TIER", "weighted_mb", "price_per_h", "slo", "clusters_used", "servers",
        "broken_local", "broken_remote", "least_price_per_h", "opened_mb", "stranded_opened_mb", "used_mb_TIER",
        "stranded_mb_TIER", "cluster.tiers",
    ):  # fmt: skip
        assert f"`{name}`" in tables, name


def test_the_table_of_jobs_read_as_a_trace_asks_what_the_jobs_asked(finished: Path) -> None:
    table = runs_of(finished)[0][1] / "jobs.parquet"
    jobs, again = pl.read_parquet(table), read_trace(table).jobs
    assert again.slo is not None
    assert again.slo.floor_mb.tolist() == jobs["local_asked_mb"].to_list()
    assert again.slo.ceiling_mb.tolist() == jobs["ceiling_mb"].fill_null(NO_CEILING).to_list()
    assert (again.slo.spread >= 0).any()
