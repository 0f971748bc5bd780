"""Disaggregated memory: mixes and systems, what is normalised to what, and the memory that can be saved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretend_memory import engine

from unrack.cluster.presets import PRESETS
from unrack.errors import InputError
from unrack.policy.table import parse_policy
from unrack_papers.execution import execute, tasks_of
from unrack_papers.options import Options
from unrack_papers.pages.page import as_csv, command, judged, long_rows, stem, warnings_of
from unrack_papers.reproduction import Reproduction
from unrack_papers.table import REPRODUCTIONS
from unrack_papers.verdict import Verdict
from unrack_papers.zacarias.systems import (
    BASELINE,
    DISAGGREGATED,
    MATCH,
    OVER,
    REFERENCE,
    SCENARIOS,
    SHARES,
    UNDER,
    Scenario,
    normalised,
)
from unrack_papers.zacarias.throughput import ENOUGH, EVERYWHERE, SAVED, least_share, title

MEMORY = {name: one for name, one in REPRODUCTIONS.items() if name.startswith("memory-")}
DRAWN = {name: one for name, one in MEMORY.items() if not one.exact}
THROUGHPUT = MEMORY["memory-throughput"]


def few(one: Reproduction, **options: object) -> Options:
    return replace(one.defaults, **{"seeds": 3, **options})


@pytest.mark.parametrize("name", DRAWN)
def test_policies_and_systems_are_known_and_the_baseline_runs_only_what_it_can(name: str) -> None:
    for point in DRAWN[name].points:
        for row in point.rows:
            parse_policy(row.policy)
            assert row.cluster in PRESETS
            if row.name == BASELINE and row.cluster == "memory-1024-0":
                assert point.workload["large_share"] == 0


def test_every_mix_is_on_every_system_and_missing_bars_are_those_of_the_thesis() -> None:
    places = {(p.group, p.x): [row.name for row in p.rows] for p in THROUGHPUT.points}
    assert len(places) == 36
    lacking = {place for place, names in places.items() if BASELINE not in names}
    assert lacking == {(title(jobs), 0) for jobs in SHARES if jobs}
    assert all(DISAGGREGATED in names for names in places.values())


def test_scenarios_are_two_of_each_kind() -> None:
    assert [one.kind for one in SCENARIOS] == [OVER, MATCH, UNDER] * 2
    assert Scenario(50, 0).kind == UNDER


def test_tasks_hold_applications_load_and_profiles() -> None:
    task = tasks_of(THROUGHPUT, few(THROUGHPUT, jobs=70, load=0.8))[0]
    assert (task.workload["jobs"], task.workload["load"], task.workload["large_share"]) == (70, 0.8, 0)
    assert task.workload["profile_cores"] == 32
    assert {one["id"] for one in task.workload["profiles"]} == {str(app) for app in range(12)}
    assert task.profiles == ""
    assert task.ideal is None


@pytest.mark.parametrize(
    ("name", "given_", "flag"),
    [
        ("memory-throughput", {"frozen": True}, "--frozen"),
        ("memory-policies", {"arrivals": "fixed"}, "--arrivals"),
        ("memory-groups", {"offers": ((1.0, 2.0),)}, "--offer"),
        ("memory-prediction", {"load": 1.0}, "--load"),
        ("memory-prediction", {"seeds": 2}, "--seeds"),
        ("nvme-s1", {"profiles": "x"}, "--profiles"),
        ("nvme-s1", {"load": 1.0}, "--load"),
    ],
)
def test_options_that_do_not_apply_are_refused_with_those_that_do(
    name: str, given_: dict[str, object], flag: str
) -> None:
    one = REPRODUCTIONS[name]
    with pytest.raises(InputError) as refused:
        tasks_of(one, replace(one.defaults, **given_))
    assert refused.value.got == flag
    assert "--" in refused.value.want


def test_profiles_that_cannot_be_read_are_refused_before_anything_runs() -> None:
    with pytest.raises(InputError):
        tasks_of(THROUGHPUT, few(THROUGHPUT, profiles="no/such/folder"))


def test_throughput_is_over_that_of_the_baseline_on_large_nodes_seed_by_seed() -> None:
    values = {
        ("a", 0, DISAGGREGATED): ({"jobs_per_h": 9.0}, {"jobs_per_h": 6.0}),
        ("a", 100, BASELINE): ({"jobs_per_h": 10.0}, {"jobs_per_h": 8.0}),
        ("b", 1, DISAGGREGATED): ({"jobs_per_h": 3.0},),
        ("b", 1, REFERENCE): ({"jobs_per_h": 4.0},),
        ("b", 2, DISAGGREGATED): ({"jobs_per_h": 2.0},),
        ("c", 1, DISAGGREGATED): ({"jobs_per_h": 2.0},),
    }
    found = {place: [seed["throughput_normalised"] for seed in seeds] for place, seeds in normalised(values).items()}
    assert found == {
        ("a", 0, DISAGGREGATED): [0.9, 0.75],
        ("a", 100, BASELINE): [1.0, 1.0],
        ("b", 1, DISAGGREGATED): [0.75],
        ("b", 1, REFERENCE): [1.0],
        ("b", 2, DISAGGREGATED): [0.5],
        ("c", 1, DISAGGREGATED): [None],
    }


@pytest.mark.parametrize(
    ("throughput", "expected"),
    [
        ({0: 0.96, 50: 1.0, 100: 1.0}, (0.0, 0.0)),
        ({0: 0.9, 50: 0.99, 100: 0.9}, (None, None)),
        ({0: 0.99, 50: 0.9, 100: 1.0}, (1.0, 0.75)),  # what lies below a system that is too small does not count
        ({0: None, 15: 0.97, 100: 1.0}, (0.15, 0.15)),
        ({0: 0.5, 50: 0.9, 75: 1.0, 100: 1.0}, (0.75, 0.625)),
    ],
)
def test_the_least_system_is_found_from_the_greatest_down(
    throughput: dict[int, float | None], expected: tuple[float | None, float | None]
) -> None:
    assert least_share(throughput) == (expected[0], pytest.approx(expected[1]))


@given(st.lists(st.floats(0, 1.2), min_size=6, max_size=6))
def test_between_systems_no_more_is_needed_than_the_least_system_has(values: list[float]) -> None:
    least, between = least_share(dict(zip(SHARES, values, strict=True)))
    assert (least is None) == (values[-1] < ENOUGH) == (between is None)
    if least is not None and between is not None:
        lower = max((share / 100 for share in SHARES if share / 100 < least), default=0.0)
        assert lower <= between <= least


def test_the_thesis_own_savings_come_out_of_throughput_as_the_thesis_has_it() -> None:
    measured = execute(THROUGHPUT, few(THROUGHPUT), solve=engine)
    saved = {jobs: measured.at((title(jobs), EVERYWHERE, DISAGGREGATED), SAVED.label) for jobs in (15, 25, 50)}
    assert [round(value.mean) for value in saved.values() if value is not None] == [13, 20, 33]
    rows = [row for row in long_rows(measured) if row["x"] == EVERYWHERE]
    assert {row["metric"] for row in rows} == {SAVED.label, "memory saved, interpolated", "Baseline needs",
                                               "Disaggregated needs"}  # fmt: skip
    assert {row["group"]: row["paper"] for row in rows if row["metric"] == SAVED.label} == {
        title(15): 14.0, title(25): 20.0, title(50): 33.0, title(75): 15.0, title(100): None,
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(DRAWN) - {"memory-throughput", "memory-policies", "memory-published-jobs"}))
def test_claims_hold_of_numbers_that_are_as_the_thesis_says(name: str) -> None:
    findings = judged(execute(DRAWN[name], few(DRAWN[name]), solve=engine))
    assert [finding.verdict for _, finding in findings] == [Verdict.AGREES] * len(findings)


def test_claims_about_designs_hold_where_memory_is_short_and_fail_where_all_are_equal() -> None:
    findings = judged(execute(MEMORY["memory-policies"], few(MEMORY["memory-policies"]), solve=engine))
    checks = findings[0][1].checks
    assert all(check.verdict is Verdict.AGREES for check in checks if UNDER in check.subject)
    assert findings[1][1].verdict is findings[3][1].verdict is findings[4][1].verdict is Verdict.AGREES


def test_rows_that_do_not_depend_on_the_axis_are_run_once_and_stand_everywhere() -> None:
    one = MEMORY["memory-groups"]
    tasks = tasks_of(one, few(one, seeds=1))
    assert sum(row.name == BASELINE for task in tasks for row in task.rows) == len(SCENARIOS)
    measured = execute(one, few(one), solve=engine)
    for group in measured.groups:
        values = {measured.at((group, x, BASELINE), "throughput") for x in measured.xs(group)}
        assert len(values) == 1
        assert None not in values


def test_rejected_jobs_are_told() -> None:
    def rejecting(task: object) -> list[dict[str, float | None]]:
        return [{**values, "jobs_rejected": 2.0} for values in engine(task)]  # type: ignore[arg-type]

    measured = execute(MEMORY["memory-policies"], few(MEMORY["memory-policies"], seeds=1), solve=rejecting)
    assert any("rejected" in warning for warning in warnings_of(measured))


def test_files_and_commands_say_what_differs_from_the_default() -> None:
    options = few(THROUGHPUT, seeds=3, jobs=900, load=0.8, profiles="a/measured.csv", profile_cores=8)
    measured = execute(replace(THROUGHPUT, points=()), replace(options, profiles=None), solve=engine)
    measured = replace(measured, options=options)
    assert stem(measured) == "memory-throughput-load-0.8-measured-900-jobs"
    expected = "--workload-jobs 900 --load 0.8 --profiles measured.csv --profile-cores 8"
    assert command(measured) == f"unrack reproduce memory-throughput {expected}"


def test_time_on_the_wall_is_said_aside_and_in_no_file() -> None:
    one = MEMORY["memory-overhead"]
    measured = execute(one, few(one), solve=engine)
    assert one.aside is not None
    lines = one.aside(measured)
    assert len(lines) == 6
    assert f"{BASELINE} / {DISAGGREGATED} = 1." in lines[1]
    assert "wall" not in as_csv(measured)
