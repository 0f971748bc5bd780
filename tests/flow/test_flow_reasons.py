"""Why flow rounds leave a job waiting: by hand, on small clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, PolicyError
from unrack.metric.audit.audit import violations
from unrack.metric.audit.tables import Tables
from unrack.policy.table import parse_policy
from unrack.reasons import Code, Reason
from unrack.sim.explained.job import explain, explain_round
from unrack.sim.simulate import simulate
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

S = 1_000_000


def nodes_of(count: int, cores: int, **more: Any) -> Cluster:
    """Nodes that are alike."""
    return Cluster.from_dict({"nodes": [{"count": count, "cores": cores, "memory": "1 GB"}], **more})


def gpu_pool(count: int, **more: Any) -> dict[str, Any]:
    """GPUs, each for one job at a time."""
    return {"kind": "gpu", "count": count, "share": 1, **more}


def jobs_of(*rows: dict[str, Any]) -> JobTable:
    """Jobs of a task of one core and 100 s unless a row says otherwise."""
    get = lambda key, default: np.array([row.get(key, default) for row in rows], np.int64)  # noqa: E731  # short
    devices = {("gpu", "devices"): get("gpus", 0)} if any("gpus" in row for row in rows) else {}
    if any("own" in row for row in rows):
        devices |= {("links", "mb_s"): get("own", 0)}
    return job_table(
        ids=pl.Series([row.get("id", f"j{i}") for i, row in enumerate(rows)]),
        submit_us=get("submit", 0) * S, work_us=get("work", 100) * S, tasks=get("tasks", 1), cores=get("cores", 1),
        memory_mb=get("mb", 0), devices=devices,
    )  # fmt: skip


def reasons(cluster: Cluster, jobs: JobTable, job: int, policy: str = "flow") -> list[tuple[float, Reason]]:
    """From when a job waited for what, s."""
    story = explain(cluster, jobs, parse_policy(policy), job)
    return [(spell.from_us / S, spell.reason) for spell in story.spells]


def two_with_gpus(**pool: Any) -> Cluster:
    """Two nodes with a GPU in each, for both."""
    return nodes_of(2, 4, pools=[gpu_pool(2, home=["0-1"], **pool)])


PASSED = [
    {"cores": 3}, {"cores": 6, "submit": 1}, {"submit": 2, "work": 50}, {"submit": 3, "work": 300},
    {"submit": 3, "cores": 5},
]  # fmt: skip
"""The second waits for all six cores; the third goes before it, the others are not to."""

CASES: dict[str, tuple[Cluster, list[dict[str, Any]], int, str, list[tuple[float, Reason]]]] = {
    # 1 - Ut = 1 + 0.3/1.5 for 1.8 times the run time, and twice that elsewhere; to wait costs 2, and 3 the next time
    "a host at a node is dearer than to wait": (
        two_with_gpus(overhead=0.8), [{"gpus": 2}], 0, "flow",
        [(0, Reason(Code.DEARER, "to wait costs 2, the cheapest place left, node 1, 2.4"))]),
    "a pool of no node is dearer than to wait": (
        nodes_of(2, 4, pools=[gpu_pool(2, name="shelf", overhead=0.8)]), [{"gpus": 2}], 0, "flow",
        [(0, Reason(Code.DEARER, "to wait costs 2, the cheapest place left, pool shelf, 2.4"))]),
    "places went to others of the same sort": (
        nodes_of(2, 3), [{"cores": 2}] * 3, 2, "flow",
        [(0, Reason(Code.NO_ROOM, "places on nodes for all that ask the same", 3, 2))]),
    "what is free is in pieces": (
        nodes_of(2, 3), [{"cores": 2}, {"cores": 2}, {"cores": 2, "submit": 1}], 2, "flow",
        [(1, Reason(Code.NO_ROOM, "cores on one node", 2, 1))]),
    "too many cores in all": (
        nodes_of(1, 4), [{"cores": 3}, {"cores": 2}], 1, "flow", [(0, Reason(Code.NO_ROOM, "cores", 2, 1))]),
    "too much memory in all": (
        nodes_of(1, 4), [{"mb": 700}, {"mb": 600}], 1, "flow", [(0, Reason(Code.NO_ROOM, "MB", 600, 324))]),
    "too many devices in all": (
        two_with_gpus(), [{"gpus": 1}, {"gpus": 2}], 1, "flow",
        [(0, Reason(Code.NO_ROOM, "free devices of kind gpu", 2, 1))]),
    "who was passed is promised a time": (
        nodes_of(1, 6), PASSED, 1, "flow(passes=1)",
        [(1, Reason(Code.NO_ROOM, "cores", 6, 3)), (3, Reason(Code.RESERVED, "from 100 s, as 1 job has passed it"))]),
    "a promise keeps others waiting": (
        nodes_of(1, 6), PASSED, 3, "flow(passes=1)",
        [(3, Reason(Code.WOULD_DELAY, "job j1, which 1 job has passed")), (100, Reason(Code.NO_ROOM, "cores", 1, 0))]),
    "no promise is named where there is no room anyway": (
        nodes_of(1, 6), PASSED, 4, "flow(passes=1)", [(3, Reason(Code.NO_ROOM, "cores", 5, 2))]),
    "nobody has looked since it came": (
        nodes_of(1, 4), [{"cores": 4, "work": 5}, {"cores": 4, "submit": 2}, {"submit": 3}], 2, "flow(interval=10s)",
        [(3, Reason(Code.NOT_YET)), (10, Reason(Code.NO_ROOM, "cores", 1, 0))]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_job_waits_because(case: str) -> None:
    cluster, rows, job, policy, wanted = CASES[case]
    assert reasons(cluster, jobs_of(*rows), job, policy) == wanted


def test_parts_that_cannot_be_held_together() -> None:
    """Each task has room on node 1 by itself; the link of the node does not carry both, and that of node 0 none."""
    jobs = jobs_of({"own": 500}, {"tasks": 2, "own": 600, "submit": 1})
    story = explain_round(nodes_of(2, 4, links={"mb_s": 1000}), jobs, parse_policy("flow"), S)
    wanted = "no-room: hosts that can hold all its parts together: by network, each of its parts has one"
    assert [(job.place, job.reason) for job in story.jobs] == [("", wanted)]


def test_the_round_of_a_dear_place_in_numbers() -> None:
    story = explain_round(two_with_gpus(overhead=0.8), jobs_of({"gpus": 2}, {}), parse_policy("flow"), 0)
    # each in a place that it likes costs 2/3; the first is tried again when the second has its place
    assert story.numbers == (0, 2, 2, 1, 4, 6667, 2 * 6667 + 20_001)
    assert story.jobs[1].place == "node 0"
    gpus = next(network for network in story.networks if network.resource == "gpu")
    assert (gpus.placed, gpus.waiting) == (1, 1)
    assert {(arc.tail, arc.head): (arc.cost, arc.flow, arc.capacity) for arc in gpus.arcs if arc.preferred} == {
        ("c0", "h0"): (0.6667, 1, 2)
    }


def test_a_round_is_told_where_policies_have_rounds_and_there_is_one() -> None:
    cluster, jobs = nodes_of(1, 4), jobs_of({}, {"submit": 7})
    assert explain_round(cluster, jobs, parse_policy("flow"), 1).numbers.at_us == 7 * S
    with pytest.raises(InputError, match="the last is at 7 s"):
        explain_round(cluster, jobs, parse_policy("flow"), 8 * S)
    with pytest.raises(PolicyError, match="tells no rounds"):
        explain_round(cluster, jobs, parse_policy("easy"), 0)


@pytest.mark.parametrize("policy", ["flow", "flow(passes=1)", "flow(cost=fragmentation, interval=10s)"])
def test_rounds_are_counted_and_what_is_wrong_with_them_is_found(policy: str) -> None:
    jobs = jobs_of(*[{"cores": 1 + i % 4, "gpus": i % 3, "submit": i, "work": 20 + i} for i in range(30)])
    result = simulate(two_with_gpus(), Workload("w", jobs, Intake("", "", 30, 30)), policy)
    rounds = result.table("rounds")
    assert rounds["placed"].sum() == 30
    assert (rounds["placed"] + rounds["left"] == rounds["jobs"]).all()
    wrong = rounds.with_columns(placed=rounds["placed"] + 1, jobs=rounds["jobs"] + 1, tried=rounds["tried"] + 1)
    tables = Tables(result.log.cluster, result.tables)

    def said_with(planted: pl.DataFrame) -> str:
        return str(violations(replace(tables, tables={**result.tables, "rounds": planted}))[0])

    assert violations(tables) == []
    assert "the rounds placed" in said_with(wrong)
    assert "a round of" in said_with(rounds.with_columns(left=rounds["jobs"]))
