"""Overestimation and dynamic provisioning: what is run, that it runs, and that pages come of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from zacarias_pretend import NAMES, engine, memory_of, pretended

from unrack.policy.table import parse_policy
from unrack_papers.execution import execute, tasks_of
from unrack_papers.pages.page import as_page, judged, write
from unrack_papers.pages.sheet import sheets_of
from unrack_papers.reproduction import Task
from unrack_papers.simulation import cluster_of, workload_of
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.verdict import NOT_MEASURED, Verdict
from unrack_papers.zacarias.dynamic.systems import (
    ALL_SYSTEMS,
    BASELINE,
    DYNAMIC,
    GRIZZLY,
    MIXES,
    STATIC,
    SYSTEMS,
    mix,
    row,
    rows_at,
    system,
    title,
)
from unrack_papers.zacarias.overestimation.users import BANDS

FEW = {"seeds": 1, "jobs": 40}


@pytest.mark.parametrize("name", NAMES)
def test_policies_and_systems_are_known(name: str) -> None:
    for point in REPRODUCTIONS[name].points:
        for own in point.rows:
            parse_policy(own.policy)
            assert cluster_of(own.cluster).total_mb


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_row_of_some_points_is_measured(name: str) -> None:
    one = replace(REPRODUCTIONS[name], points=REPRODUCTIONS[name].points[-2:], derive=None)
    measured = execute(one, replace(one.defaults, **FEW))
    for (values,) in measured.values.values():
        if one.solve is None:
            assert values["jobs_finished"] == 40
            assert values["jobs_rejected"] == 0
            assert values["jobs_per_h"]
        else:
            assert {"base_s", "alone.60", "1.base_s", f"{BANDS}.at.100"} <= set(values)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_claim_finds_its_numbers_and_every_panel_is_on_the_page(name: str, tmp_path: Path) -> None:
    measured = pretended(name, 3)
    findings = judged(measured)
    assert findings
    for claim, finding in findings:
        assert finding.checks, claim.sentence
        assert NOT_MEASURED not in finding.why, claim.sentence
    write(measured, findings, tmp_path)
    figure = (tmp_path / f"{name}.svg").read_text()
    for group in measured.groups:
        assert group in figure
    assert (tmp_path / f"{name}.md").read_text() == as_page(measured, findings)
    for sheet in sheets_of(measured):
        assert all(len(line) == len(sheet.heads) for line in sheet.lines)
        texts = ["".join(cell.lines) for line in sheet.lines for cell in line[sheet.names :]]
        assert all(re.search(r"\d|–", text) for text in texts)


def test_systems_have_the_memory_that_they_are_called_by() -> None:
    for memory in ALL_SYSTEMS:
        assert memory_of(row(STATIC, memory)) == pytest.approx(memory / 100, abs=0.0005)
        sizes = {kind["memory"] // 1024 for kind in system(memory)["nodes"]}
        assert sizes <= ({32, 64} if memory < 50 else {64, 128})
    assert sum(kind["count"] for kind in system(28.75, 1490)["nodes"]) == 1490


def test_bars_of_the_baseline_are_missing_where_the_thesis_has_none() -> None:
    for large in MIXES:
        there = [memory for memory in SYSTEMS if BASELINE in [own.name for own in rows_at(large, 0, memory)]]
        assert there == ([50, 62.5, 75, 100] if large == 0 else [62.5, 75, 100])
        assert not any(BASELINE in [own.name for own in rows_at(large, 60, memory)] for memory in SYSTEMS)


def test_only_dynamic_follows_use() -> None:
    policies = {name: row(name, 50).policy for name in (BASELINE, STATIC, DYNAMIC)}
    assert policies[DYNAMIC] == "disaggregated(scheduler=slurm, main=interval, provisioning=dynamic)"
    assert policies[STATIC] == "disaggregated(scheduler=slurm, main=interval)"
    assert row(DYNAMIC, 50, initial="0.5").policy.endswith("provisioning=dynamic, initial=0.5)")


def test_the_grid_of_throughput_is_whole() -> None:
    points = REPRODUCTIONS["dynamic-throughput"].points
    assert len(points) == 7 * 2 * len(SYSTEMS)
    grizzly = next(point for point in points if point.group == title(GRIZZLY, 60))
    assert grizzly.workload["usage"] == {"shapes": "grizzly"}
    assert {sum(kind["count"] for kind in own.cluster["nodes"]) for own in grizzly.rows} == {1490}  # type: ignore[index]


def test_keys_that_are_filters_are_applied_to_the_jobs_drawn() -> None:
    keys = {"jobs": 60, "load": 1.0}
    exact, more = (workload_of(Task({**mix(50, over), **keys}, 3, (), None, ())).jobs for over in (0, 60))
    assert exact.usage is not None
    assert (exact.usage.job_peaks(exact.memory_mb) == exact.memory_mb).all()
    assert (more.usage.job_peaks(more.memory_mb) == exact.memory_mb).all()  # type: ignore[union-attr]
    assert more.memory_mb == pytest.approx(1.6 * exact.memory_mb, abs=1)
    assert (more.submit_us == exact.submit_us).all()


def test_users_of_a_generator_are_no_filter() -> None:
    keys = {"jobs": 30, "users": 3, "arrivals": {"gap_s": 10}, "classes": [{"run_s": 100}]}
    assert len(workload_of(Task(keys, 0, (), None, ())).jobs.user_names) == 3


def test_applications_and_load_reach_the_generator() -> None:
    one = REPRODUCTIONS["dynamic-cost"]
    task = tasks_of(one, replace(one.defaults, seeds=1, jobs=70, load=0.8))[0]
    assert (task.workload["jobs"], task.workload["load"], task.workload["memory"]) == (70, 0.8, "table-5.5")
    assert task.workload["profile_cores"] == 32
    assert task.profiles == ""
    assert len(set(workload_of(task).jobs.app_names)) > 1


@pytest.mark.long
def test_gains_that_follow_the_thesis_are_found_and_others_differ() -> None:
    verdicts = {claim.sentence: finding.verdict for name in NAMES for claim, finding in judged(pretended(name, 6))}
    agree = [sentence for sentence, verdict in verdicts.items() if verdict is Verdict.AGREES]
    assert "Under dynamic it is at most 10 % longer" in agree
    assert "Static needs more memory at +100 % than with exact requests" in agree
    assert Verdict.DIFFERS in verdicts.values()


@pytest.mark.long
def test_results_are_the_same_over_processes() -> None:
    one = replace(REPRODUCTIONS["dynamic-users"], derive=None)
    options = replace(one.defaults, seeds=2, jobs=30)
    assert execute(one, options).values == execute(one, options, jobs=2).values


def test_the_engine_that_pretends_knows_what_every_point_asks() -> None:
    for name in NAMES:
        one = REPRODUCTIONS[name]
        assert all(engine(task) for task in tasks_of(one, replace(one.defaults, seeds=1)))
