"""Failures in studies: how they are asked for, what is kept of them, and what people are told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import tomli_w

import unrack
from unrack.errors import StudyError
from unrack.metric.kinds.jobs import FAILURE_METRICS
from unrack.report.page import write_report
from unrack.sim.faults import random_faults
from unrack.study.grid import load_study
from unrack.study.results.from_folder import finished_run
from unrack.study.runner import run_study

ROOT = Path(__file__).parents[2]
CLUSTER: dict[str, Any] = {
    "name": "small",
    "nodes": [{"count": 8, "cores": 2, "memory": "8 GB"}],
    "memory_pools": [{"name": "shelf", "count": 1, "memory": "64 GB"}],
    "domains": {"aisle": ["2-5"]},
    "failure_domains": {"chassis": {"nodes_each": 4}, "feed": {"feed <A>": ["chassis0", "shelf"]}},
}
JOBS = {
    "jobs": 60,
    "arrivals": {"gap_s": 40},
    "classes": [{"run_s": 300, "tasks": 2, "memory_mb": 12_000, "request_factor": 1}],
}


def write(folder: Path, **keys: Any) -> str:
    table = {"policies": ["disaggregated"], "clusters": [CLUSTER], "workloads": [{"generate": JOBS}], **keys}
    folder.mkdir(exist_ok=True)
    (folder / "study.toml").write_text(tomli_w.dumps(table))
    return str(folder / "study.toml")


def refused(folder: Path, **keys: Any) -> StudyError:
    with pytest.raises(StudyError) as caught:
        load_study(write(folder, **keys))
    return caught.value


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two policies with random failures of feeds and nodes and one that is listed."""
    folder = tmp_path_factory.mktemp("failing")
    path = write(
        folder,
        policies=["baseline", "disaggregated"],
        workloads=[{"generate": {**JOBS, "classes": [*JOBS["classes"], {"run_s": 400, "tasks": 3}]}}],
        faults=[{"domain": "shelf", "at": 100, "repair_after": 50}, {"domain": "aisle", "at": 400, "repair_after": 5}],
        random_faults=[{"level": "feed", "mtbf": 1500, "mttr": 60}, {"mtbf": "5 h", "mttr": 100}],
    )
    run_study(load_study(path), folder / "out")
    write_report(folder / "out")
    return folder / "out"


def test_a_log_of_dates_has_the_failures_of_the_same_log_from_0_on(tmp_path: Path) -> None:
    first = 1_717_160_000
    lines = [f"{first + 400 * i},300,2,12000" for i in range(20)]
    (tmp_path / "dates.csv").write_text("\n".join(["submit,run,tasks,memory", *lines]))
    trace = str(tmp_path / "dates.csv")
    path = write(
        tmp_path, random_faults=[{"mtbf": "5 h", "mttr": 100}],
        workloads=[{"name": "dates", "trace": trace}, {"name": "from 0", "trace": trace, "rebase": 0}],
    )  # fmt: skip
    run_study(load_study(path), tmp_path / "out")
    page = write_report(tmp_path / "out").read_text()
    dated, plain = (pl.read_parquet(folder / "failures.parquet") for _, folder in runs_of(tmp_path / "out"))
    assert plain.height > 3
    assert (dated["time_s"] - first).to_list() == pytest.approx(plain["time_s"].to_list())
    assert re.search(r"<td[^>]*>\d+ d", page.partition('id="failures"')[2].partition("</section>")[0]) is None


# --- asking for failures ----------------------------------------------------------------------------------------------


def test_one_table_of_random_failures_draws_those_of_nodes_as_it_always_did(tmp_path: Path) -> None:
    run = load_study(write(tmp_path, random_faults={"mtbf": "1 h", "mttr": "1 min"})).runs[0]
    until = 2 * int(run.workload.jobs.submit_us[-1]) + 86_400_000_000
    assert run.world.faults == random_faults(run.cluster, 3_600_000_000, 60_000_000, until, run.seed)


def test_several_levels_are_drawn_side_by_side_and_for_every_seed_anew(tmp_path: Path) -> None:
    levels = [{"mtbf": "1 h", "mttr": "1 min"}, {"level": "chassis", "mtbf": "2 h", "mttr": "1 min"}]
    both = load_study(write(tmp_path, random_faults=levels, seeds=2)).runs
    alone = load_study(write(tmp_path, random_faults=levels[:1])).runs[0]
    assert both[0].world.faults[: len(alone.world.faults)] == alone.world.faults
    assert {fault.domain for fault in both[0].world.faults[len(alone.world.faults) :]} == {
        "chassis0",
        "chassis1",
        "chassis2",
    }
    assert both[0].world.faults != both[1].world.faults


@pytest.mark.parametrize(
    ("entry", "key", "message"),
    [
        ([{"level": "row", "mtbf": 1, "mttr": 1}], "random_faults[0].level", "a level of small: node, rack, chassis"),
        ([{"mtbf": 1, "mttr": 1}] * 2, "random_faults[1].level", "every level once"),
        ({"level": "row", "mtbf": 1, "mttr": 1}, "random_faults.level", "'row'"),
        ({"mtbf": 0, "mttr": 1}, "random_faults.mtbf", "a time above 0"),
        ({"mtbf": 1}, "random_faults.mttr", "nothing"),
        ([{"mtbf": 1, "mttr": 1, "levl": "rack"}], "random_faults[0].levl", "'level' perhaps"),
        (3, "random_faults", "3"),
        ([3], "random_faults[0]", "3"),
    ],
)
def test_wrong_random_failures_are_refused_by_their_key(tmp_path: Path, entry: Any, key: str, message: str) -> None:
    error = refused(tmp_path, random_faults=entry)
    assert error.where.endswith(f", {key}")
    assert message in f"{error.got} {error.want}"


def test_a_listed_failure_may_name_a_domain_of_any_level_and_no_other(tmp_path: Path) -> None:
    entry = {"at": 1, "repair_after": 1}
    names = ("node3", "rack0", "aisle", "chassis1", "feed <A>")
    study = load_study(write(tmp_path, faults=[{"domain": name, **entry} for name in names]))
    assert [fault.domain for fault in study.runs[0].world.faults] == list(names)
    assert "feed9" in refused(tmp_path, faults=[{"domain": "feed9", **entry}]).got


def test_the_time_between_failures_can_be_swept(tmp_path: Path) -> None:
    swept = {"random_faults.mtbf": ["1 h", "4 h"]}
    runs = load_study(write(tmp_path, random_faults={"level": "feed", "mtbf": 1, "mttr": 60}, sweep=swept)).runs
    assert len(runs[0].world.faults) > len(runs[1].world.faults) > 0


# --- what is kept -----------------------------------------------------------------------------------------------------


def runs_of(folder: Path) -> list[tuple[dict[str, Any], Path]]:
    return [(json.loads(path.read_text()), path.parent) for path in sorted(folder.glob("runs/*/run.json"))]


def test_the_failures_kept_agree_with_the_attempts_kept_and_with_the_metrics(finished: Path) -> None:
    elsewhere = 0
    for record, folder in runs_of(finished):
        failures, placements = (pl.read_parquet(folder / f"{name}.parquet") for name in ("failures", "placements"))
        stopped = placements.filter(pl.col("outcome") == "node-failed").select("job", "attempt").unique()
        assert failures["jobs_hit"].sum() == stopped.height > 0
        assert failures["jobs"].list.len().to_list() == failures["jobs_hit"].to_list()
        assert sorted(failures["jobs"].explode().drop_nulls().to_list()) == sorted(stopped["job"].to_list())
        metrics = record["metrics"]
        assert set(FAILURE_METRICS) <= set(metrics)
        assert metrics["jobs_hit_max"] == failures["jobs_hit"].max()
        assert failures["level"].unique().sort().to_list() == ["domain", "feed", "node", "rack"]
        elsewhere += failures["jobs_hit_elsewhere"].sum()
    assert elsewhere > 0


def test_a_run_without_failures_keeps_no_table_of_them(tmp_path: Path) -> None:
    run_study(load_study(write(tmp_path)), tmp_path / "out")
    ((record, folder),) = runs_of(tmp_path / "out")
    assert not (folder / "failures.parquet").exists()
    assert not set(FAILURE_METRICS) & set(record["metrics"])
    assert 'id="failures"' not in write_report(tmp_path / "out").read_text()


def test_a_finished_run_has_its_levels_again_and_explains_which_domain_failed(finished: Path) -> None:
    again = finished_run(finished, "disaggregated")
    cluster, made = again.cluster(), unrack.Cluster.from_dict(CLUSTER)
    assert cluster.digest() == made.digest()
    assert [np.array_equal(cluster.level(name), made.level(name)) for name in made.levels] == [True] * 4
    failures = pl.read_parquet(again.folder / "failures.parquet")
    by_domain = {row["domain"]: row for row in failures.rows(named=True) if row["jobs_hit"]}
    words = {}
    for domain in ("shelf", "feed <A>"):
        story = again.story(str(by_domain[domain]["jobs"][0]))
        words[domain] = [a.failure for a in story.attempts if a.end_us == round(by_domain[domain]["time_s"] * 1e6)]
    assert words["shelf"] == ["rack shelf failed: the job ran elsewhere, and used memory or a device there"]
    assert words["feed <A>"][0].startswith("feed <A> failed with its 5 nodes")


# --- what people are told ---------------------------------------------------------------------------------------------


def test_the_report_lists_failures_worst_first_with_the_jobs_that_each_hit(finished: Path) -> None:
    page = (finished / "report.html").read_text()
    part = page[page.index('<section id="failures">') :].partition("</section>")[0]
    assert "feed &lt;A&gt;" in part
    assert '<a href="#failures">' in page
    listed = re.search(r"worst first.*?<tbody>(.*?)</tbody>", part, re.DOTALL) or re.search(
        r"hit most jobs.*?<tbody>(.*?)</tbody>", part, re.DOTALL
    )
    assert listed is not None
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", listed[1])]
    hits = [max(int(text.split()[0]) for text in row[-2:] if text != "–") for row in rows]
    assert hits == sorted(hits, reverse=True)
    worst = max(pl.read_parquet(folder / "failures.parquet")["jobs_hit"].max() for _, folder in runs_of(finished))
    assert hits[0] == worst > 1
    for record, folder in runs_of(finished):
        failures = pl.read_parquet(folder / "failures.parquet")
        row = re.search(rf"</i>{record['policy_label']}</th>(.*?)</tr>", part, re.DOTALL)
        assert row is not None
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row[1])
        assert cells[1:3] == [str(failures.height), str(failures["jobs_hit"].sum())]
        assert cells[4:6] == [str(failures["jobs_hit"].max()), str(failures["jobs_hit_elsewhere"].sum())]


def test_a_run_that_drew_no_failure_has_none_and_not_nothing(tmp_path: Path) -> None:
    run_study(load_study(write(tmp_path, random_faults={"mtbf": "200 w", "mttr": 1})), tmp_path / "out")
    ((record, _),) = runs_of(tmp_path / "out")
    assert record["faults"] == []
    assert (record["metrics"]["failures"], record["metrics"]["jobs_hit_max"]) == (0, None)


def test_a_study_in_which_no_failure_strikes_in_time_says_so(tmp_path: Path) -> None:
    path = write(tmp_path, faults=[{"domain": "shelf", "at": "9 d", "repair_after": 50}])
    run_study(load_study(path), tmp_path / "out")
    page = write_report(tmp_path / "out").read_text()
    assert "None happened before the runs ended." in page


def test_every_column_and_metric_of_failures_is_documented() -> None:
    formats, metrics = ((ROOT / "docs" / name).read_text() for name in ("result-tables.md", "metrics.md"))
    columns = formats[formats.index("\n**failures**") :].split("\n\n")[1]
    plain = unrack.simulate(unrack.Cluster.homogeneous(1, 1), unrack.generate(JOBS), world=unrack.World(faults=[]))
    for column in plain.table("failures").columns:
        assert f"`{column}`" in columns, column
    for name in FAILURE_METRICS:
        assert f"| `{name}` |" in metrics, name
