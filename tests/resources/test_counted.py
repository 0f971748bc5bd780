"""Counted things: never more held than installed, each job holds what it asked, by a count of its own; and refusals."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import ClusterError, RefusedError, RunError
from unrack.events import Round, Submitted
from unrack.ledger.lease import Lease
from unrack.policy.contract import Start
from unrack.policy.table import parse_policy
from unrack.reasons import Code
from unrack.resources.contract import Place
from unrack.resources.counted.resource import measures
from unrack.sim.effect import effects
from unrack.sim.explained.job import explain
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

S = 1_000_000
POLICIES = (
    "fcfs", "list(backfill=any)", "easy", "conservative", "slurm(interval=10 s)", "easy(place=worst-fit, nodes=whole)",
    "easy(memory=disaggregated)", "first-fit", "naive(scheduler=fcfs)",
)  # fmt: skip


def racks(counted: list[dict[str, Any]], nodes: int = 6, cores: int = 4) -> Cluster:
    """Racks of two nodes."""
    content = {"nodes": [{"count": nodes, "cores": cores, "memory": 16}], "nodes_per_rack": 2, "counted": counted}
    return Cluster.from_dict(content)


def jobs_of(*rows: dict[str, int], **asked: list[int]) -> JobTable:
    """Jobs of one core and 10 s unless a row says otherwise; ``asked``: counter to amounts."""
    get = lambda key, default: np.array([row.get(key, default) for row in rows], np.int64)  # noqa: E731  # short
    return job_table(
        submit_us=get("submit", 0) * S, work_us=get("work", 10) * S, tasks=get("tasks", 1), cores=get("cores", 1),
        memory_mb=get("mb", 0), devices={("counted", key): np.array(column) for key, column in asked.items()},
    )  # fmt: skip


def run(cluster: Cluster, jobs: JobTable, policy: str) -> Result:
    """A run with its audit."""
    return simulate(cluster, Workload("w", jobs, Intake("", "", len(jobs), len(jobs))), policy)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[dict[str, Any]], JobTable]:
    """Up to three counters of any sort, and jobs that ask for some of each."""
    counters = []
    for name in ("a", "b", "c")[: draw(st.integers(1, 3))]:
        counter = {"name": name, "amount": draw(st.integers(1, 6)), "per": draw(st.sampled_from(["cluster", "rack"]))}
        by = draw(st.sampled_from(["job", "task", None]))
        counters.append(counter if by is None else {**counter, "asked_by": by})
    count = draw(st.integers(2, 14))
    column = lambda least, most: draw(st.lists(st.integers(least, most), min_size=count, max_size=count))  # noqa: E731
    rows = [
        {"submit": at, "work": work, "tasks": tasks, "cores": cores, "mb": mb}
        for at, work, tasks, cores, mb in zip(
            sorted(column(0, 40)), column(0, 30), column(1, 4), column(0, 3), column(0, 9), strict=True
        )
    ]
    return counters, jobs_of(*rows, **{counter["name"]: column(0, 3) for counter in counters})


@draws(60)
@given(worlds(), st.sampled_from(POLICIES))
def test_what_is_held_is_what_was_asked_and_never_more_than_there_is(
    world: tuple[list[dict[str, Any]], JobTable], policy: str
) -> None:
    counters, jobs = world
    result = run(racks(counters), jobs, policy)
    assert "queued" not in result.jobs["state"].to_list(), "a job that could run never did"
    where: dict[int, dict[int, int]] = defaultdict(dict)
    times = {}
    for row in result.placements.iter_rows(named=True):
        for node in range(row["first_node"], row["first_node"] + row["nodes"]):
            where[row["job"]][node] = row["tasks_per_node"]
        times[row["job"]] = row["start_s"], row["end_s"]
    claimed = {(row["job"], row["place"]): row["amount"] for row in result.table("claims").iter_rows(named=True)}
    held: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for job, nodes in where.items():
        for counter in counters:
            amount = int(jobs.devices["counted", counter["name"]][job - 1])
            by_task = counter.get("asked_by", "task" if counter["per"] == "rack" else "job") == "task"
            tasks: dict[str, int] = defaultdict(int)
            for node, there in nodes.items():
                tasks[f"{counter['name']} of rack{node // 2}" if counter["per"] == "rack" else counter["name"]] += there
            for place, there in tasks.items():
                own = amount * there if by_task else amount
                assert claimed.pop((job, place), 0) == own
                held[place].append((*times[job], own))
    assert not claimed
    for place, spells in held.items():
        most = next(counter["amount"] for counter in counters if counter["name"] == place.split()[0])
        for moment, _, _ in spells:
            assert sum(own for start, end, own in spells if start <= moment < end) <= most, (place, moment)


@pytest.mark.parametrize("policy", POLICIES)
def test_two_licences_let_two_jobs_run_at_a_time(policy: str) -> None:
    cluster = racks([{"name": "matlab", "amount": 2}])
    result = run(cluster, jobs_of({}, {}, {}, {}, matlab=[1, 1, 1, 0]), policy)
    assert result.jobs["start_s"].to_list() == ([0, 0, 10, 10] if "fcfs" in policy else [0, 0, 10, 0])
    used, peak, full = (result.metrics[f"{stem}_counted_matlab"] for stem in ("used", "peak", "full"))
    assert (used, peak, full) == (0.75, 1.0, 0.5)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_uplink_spreads_tasks_over_racks(policy: str) -> None:
    cluster = racks([{"name": "uplink_mb_s", "amount": "2 GB/s", "per": "rack"}])
    result = run(cluster, jobs_of({"tasks": 6}, uplink_mb_s=[1000]), policy)
    assert result.table("claims").select("place", "amount").rows() == [
        (f"uplink_mb_s of rack{i}", 2000) for i in range(3)
    ]


def test_easy_keeps_the_head_its_licence() -> None:
    """The head waits for two licences until 10 s; who would hold one beyond that may not pass, who ends before may."""
    rows = [{"work": 10}, {"submit": 1}, {"submit": 2, "work": 20}, {"submit": 3, "work": 5}]
    result = run(racks([{"name": "m", "amount": 2}]), jobs_of(*rows, m=[1, 2, 1, 1]), "easy")
    assert result.jobs["start_s"].to_list() == [0, 10, 20, 3]


@pytest.mark.parametrize(
    ("asked", "row", "words"),
    [
        ({"m": [3]}, {}, "too-big: counted.m (asked 3, free 2)"),
        ({"seat": [2]}, {"tasks": 3}, "too-big: counted.seat (asked 6, free 5)"),
        ({"up": [11]}, {}, "too-big: counted.up in one rack (asked 11, free 10)"),
        ({"up": [6]}, {"tasks": 4}, "too-big: places for tasks with 6 counted.up in their racks (asked 4, free 3)"),
        ({"up": [1]}, {"tasks": 7, "cores": 4},
         "too-big: places for tasks with 1 counted.up in their racks (asked 7, free 6)"),
        ({"gone": [1]}, {}, "too-big: counted.gone, which the cluster does not have (asked 1, free 0)"),
    ],
)  # fmt: skip
def test_who_asks_for_more_than_there_is_is_rejected_with_a_reason(
    asked: dict[str, list[int]], row: dict[str, int], words: str
) -> None:
    counted = [{"name": "m", "amount": 2}, {"name": "seat", "amount": 5, "asked_by": "task"},
               {"name": "up", "amount": 10, "per": "rack"}]  # fmt: skip
    for policy in ("easy", "first-fit", "conservative(memory=naive)", "naive"):
        result = run(racks(counted), jobs_of(row, **asked), policy)
        assert result.jobs["reason"].to_list() == [words], policy
    bare = Cluster.homogeneous(4, 4)
    assert "does not have" in run(bare, jobs_of({}, m=[1]), "easy").jobs["reason"][0]


@pytest.mark.parametrize(
    ("counted", "where", "want"),
    [
        ([{"name": "m"}], "counted.0.amount", "this key"),
        ([{"name": "m", "amount": 0}], "counted.0", "1 or more"),
        ([{"name": "m", "amount": True}], "counted.0.amount", ""),
        ([{"name": "m", "amount": "2 GB/s"}], "counted.0", "a number from 0"),
        ([{"name": "m x", "amount": 1}], "counted.0.name", "match pattern"),
        ([{"name": "m", "amount": 1, "sort": 2}], "counted.0.sort", "name, amount, per, nodes, asked_by"),
        ([{"name": "m", "amount": 1, "per": "pod"}], "counted.0.per", "'cluster', 'rack' or 'node'"),
        ([{"name": "m", "amount": 1}] * 2, "counted.1.name", "no other counter"),
        ({"name": "m", "amount": 1}, "counted", "list"),
    ],
)
def test_wrong_keys_are_refused_where_they_are(counted: Any, where: str, want: str) -> None:
    with pytest.raises(ClusterError) as error:
        racks(counted)
    assert where in error.value.where
    assert want in error.value.want


def test_a_counter_per_rack_needs_racks() -> None:
    with pytest.raises(ClusterError, match="nodes_per_rack"):
        Cluster.from_dict({"nodes": [{"count": 2, "cores": 1}], "counted": [{"name": "u", "amount": 1, "per": "rack"}]})


def test_no_devices_may_have_the_name_of_a_resource() -> None:
    pool = {"kind": "counted", "count": 1, "quantities": {"x": 1}}
    with pytest.raises(ClusterError, match=r"pools\.0\.kind: got 'counted', wanted another word"):
        Cluster.from_dict({"nodes": [{"count": 2, "cores": 1}], "pools": [pool]})


def test_the_ledger_refuses_other_claims_and_a_refused_plan_changes_nothing() -> None:
    cluster = racks([{"name": "m", "amount": 2}])
    core = Core(cluster, jobs_of({}, {}, {}, m=[1, 2, 0]), parse_policy("list(backfill=any)"))
    for job in range(3):
        core.handle(Submitted(job), 0)
    state = core.state
    rows = np.array([[0, 1, 1, 1, 0]])
    for claims in ([], [[0, 2]], [[0, 1], [0, 1]], [[7, 1]]):
        with pytest.raises(RefusedError, match=r"its lease claims .*, not 1 of counted m"):
            state.start(Lease(0, rows, claims=np.array(claims, np.int64).reshape(-1, 2)), 10, 0)
    with pytest.raises(RefusedError, match=r"not nothing"):
        state.start(Lease(2, rows, claims=np.array([[0, 1]])), 10, 0)
    first, second = (Start(Lease(job, rows, claims=np.array([[0, job + 1]]))) for job in (0, 1))
    with pytest.raises(RefusedError, match="1 free"):
        core.commit([first, second], 0)
    assert state.claimed is not None
    assert (state.claimed.free.tolist(), state.claimed.asking, state.running_count) == ([2], 2, 0)
    decisions = core.handle(Round(), 0)
    assert [decision.lease.job for decision in decisions if isinstance(decision, Start)] == [0, 2]
    assert state.claimed.free.tolist() == [1]
    assert state.lease(0).claims.tolist() == [[0, 1]]
    reason = core.why(1, 0)
    assert (reason.code, reason.what, reason.asked, reason.free) == (Code.NO_ROOM, "counted.m", 2, 1)


def test_the_audit_finds_claims_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    good = run(racks([{"name": "m", "amount": 2}]), jobs_of({}, {}, {"submit": 20}, m=[1, 1, 0]), "easy")
    log, frame = good.log, good.table("claims")
    from unrack import audit

    for wrong, words in [
        (frame.with_columns(amount=pl.lit(2)), "4 of counted m are held, and 2 installed"),
        (frame.head(1), "job 2 claims something else than it asks"),
        (frame.with_columns(job=pl.lit(3)), "claims something"),
        (frame.with_columns(end_s=pl.lit(11.0)), "for another time than its span"),
        (frame.with_columns(place=pl.lit("n")), "does not exist"),
    ]:
        result = Result(log)
        result._made["claims"] = wrong
        with pytest.raises(RunError, match=words):
            audit(result)


def test_a_table_names_what_it_asks_of_counters(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submit,run,counted.m,counted.link_mb_s\n0,5,2,0\n1,5,,700.5\n")
    asked = read_trace(tmp_path / "jobs.csv").jobs.devices
    assert {key: column.tolist() for key, column in asked.items()} == {
        ("counted", "m"): [2, 0], ("counted", "link_mb_s"): [0, 701],
    }  # fmt: skip


def test_a_counter_that_nobody_asks_for_is_told() -> None:
    cluster, jobs = racks([{"name": "m", "amount": 2}, {"name": "n", "amount": 1}]), jobs_of({}, m=[1])
    found = [effect for effect in effects(cluster, jobs, parse_policy("easy")) if effect.key == "resources"]
    assert [(effect.of, effect.why_not) for effect in found] == [
        ("counted m", ""), ("counted n", "no job asks for counted.n"),
    ]  # fmt: skip


def test_explain_says_who_waited_for_a_licence_and_what_was_held() -> None:
    story = explain(racks([{"name": "m", "amount": 1}]), jobs_of({}, {}, m=[1, 1]), parse_policy("easy"), 1)
    assert [str(spell.reason) for spell in story.spells] == ["no-room: counted.m (asked 1, free 0)"]
    assert story.attempts[0].devices == ("1 of the 1 of m",)


def test_time_with_nothing_left_is_counted_once_for_all_racks() -> None:
    claims = pl.DataFrame({"place": ["u of a", "u of b", "u of a"], "start_s": [0.0, 2.0, 6.0],
                           "end_s": [4.0, 5.0, 8.0], "amount": [1, 1, 1]})  # fmt: skip
    places = [Place("u of a", "u", 1), Place("u of b", "u", 1)]
    assert measures(places, claims, 1.0, 11.0) == {
        "used_counted_u": 0.4, "peak_counted_u": 1.0, "full_counted_u": 0.6,
    }  # fmt: skip


@pytest.mark.parametrize(
    "policy", ["easy", "conservative", "slurm(interval=10 s)", "slurm(interval=10 s, main=interval)"]
)
def test_nobody_who_passes_keeps_the_licences_of_a_job_that_waits_for_a_running_one_to_end(policy: str) -> None:
    rows = ({"work": 100}, {"submit": 1, "work": 50}, {"submit": 2, "work": 900}, {"submit": 3, "work": 60})
    result = run(racks([{"name": "m", "amount": 2}]), jobs_of(*rows, m=[1, 2, 1, 1]), policy)
    starts = result.jobs.sort("job")["start_s"].to_list()
    assert starts[1] <= 110.0, "it starts when the first ends, or at the next pass"
    assert starts[2] >= starts[1] + 50, "this one would have kept a licence for 900 s"
    assert starts[3] < 60 - 10, "this one ends before"
