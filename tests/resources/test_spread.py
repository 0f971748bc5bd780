"""At most so many instances of a group on a node: by hand, and held to a count of its own."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError
from unrack.policy.table import parse_policy
from unrack.resources.contract import Nodes
from unrack.resources.spread.resource import WHOLE, Limits, Spread, share
from unrack.resources.use import Kept
from unrack.sim.explained.job import explain
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

S = 1_000_000
POLICIES = (
    "list(backfill=any)",
    "easy",
    "conservative",
    "easy(place=best-fit)",
    "first-fit",
    "easy(memory=disaggregated)",
)


def nodes_of(count: int, cores: int = 8, groups: int = 4) -> Cluster:
    nodes = [{"count": count, "cores": cores, "memory": 64}]
    return Cluster.from_dict({"nodes": nodes, "spread": {"groups": groups}})


def jobs_of(*rows: dict[str, int]) -> JobTable:
    """Jobs of one core and 10 s unless a row says otherwise."""
    get = lambda key, default: np.array([row.get(key, default) for row in rows], np.int64)  # noqa: E731  # short
    return job_table(
        submit_us=get("submit", 0) * S, work_us=get("work", 10) * S, tasks=get("tasks", 1), cores=get("cores", 1),
        memory_mb=get("mb", 0), devices={("spread", "group"): get("group", 0), ("spread", "most"): get("most", 0)},
    )  # fmt: skip


def run(cluster: Cluster, jobs: JobTable, policy: str = "easy") -> Result:
    """A run with its audit."""
    return simulate(cluster, Workload("w", jobs, Intake("", "", len(jobs), len(jobs))), policy)


def limits(groups: int = 3, cores: tuple[int, ...] = (4, 0, 8)) -> Limits:
    """Three nodes, the second of them without cores."""
    count = len(cores)
    nodes = Nodes(np.array(cores), np.full(count, 64), np.zeros(count, np.int64), ("rack0",))
    return Limits({"groups": groups}, nodes, "spread")


@pytest.mark.parametrize("most", range(1, 17))
def test_limits_up_to_sixteen_are_exact(most: int) -> None:
    assert share(most) * most == WHOLE


@pytest.mark.parametrize("most", [17, 19, 100, 1000, WHOLE, WHOLE + 1, 2**40])
def test_larger_limits_are_never_passed(most: int) -> None:
    assert WHOLE // share(most) <= most


@pytest.mark.parametrize("policy", POLICIES)
def test_two_of_a_group_on_a_node_at_a_time(policy: str) -> None:
    jobs = jobs_of(*[{"group": 1, "most": 2}] * 5, {"group": 2, "most": 1}, {"group": 2, "most": 1}, {})
    result = run(nodes_of(2), jobs, policy)
    assert result.jobs["start_s"].to_list() == [0, 0, 0, 0, 10, 0, 0, 0]
    where = Counter(zip(result.table("claims")["place"], result.table("claims")["start_s"], strict=True))
    assert where["group1 on node0", 0.0] == where["group1 on node1", 0.0] == 2
    assert where["group2 on node0", 0.0] == where["group2 on node1", 0.0] == 1


def test_tasks_of_one_job_are_kept_apart_too() -> None:
    result = run(nodes_of(3), jobs_of({"group": 1, "most": 2, "tasks": 5}, {"group": 1, "most": 2, "tasks": 2}))
    assert sorted(result.table("claims")["amount"].to_list()[:3]) == [WHOLE // 2, WHOLE, WHOLE]
    assert result.jobs["start_s"].to_list() == [0, 10]


def test_limits_of_several_sizes_share_a_node() -> None:
    """A half and two quarters fill a node; a third half does not fit beside them."""
    rows = [{"group": 1, "most": 2}, {"group": 1, "most": 4}, {"group": 1, "most": 4}, {"group": 1, "most": 2}]
    assert run(nodes_of(1), jobs_of(*rows)).jobs["start_s"].to_list() == [0, 0, 0, 10]


def test_who_has_no_group_or_no_limit_claims_nothing() -> None:
    result = run(nodes_of(1), jobs_of({"group": 1}, {"most": 1}, {"most": 1}, {"group": 1, "most": 1}, {"group": 1}))
    assert result.jobs["start_s"].to_list() == [0] * 5
    assert result.table("claims")["job"].to_list() == [4]


def test_claims_and_open_nodes_by_hand() -> None:
    own = limits()
    asked = np.array([2, 3])
    assert (len(own.places), own.places[2].name, own.places.number("group3 on node2")) == (6, "group2 on node0", 5)
    free = np.full(6, WHOLE)
    claims = own.claims(asked, np.array([0, 2]), np.array([1, 2]), free)
    assert claims.tolist() == [[2, 240240], [3, 480480]]
    assert own.agrees(asked, np.array([0, 2]), np.array([1, 2]), claims)
    assert not own.agrees(asked, np.array([0, 2]), np.array([2, 1]), claims)
    free[2] = 240239
    assert own.open_nodes(asked, free, np.array([2]), np.array([2])).tolist() == [False, False, True]
    assert own.open_nodes(asked, free, np.array([2]), np.array([3])).tolist() == [False, False, False]
    assert own.open_nodes(np.array([0, 3]), free, np.array([2]), np.array([3])).tolist() == [True] * 3
    reason = own.lacks(asked, free, 4)
    assert (str(reason), own.lacks(asked, free, 3)) == (
        "no-room: places for tasks of group 2, at most 3 on a node (asked 4, free 3)", None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"group": 5, "most": 1}, "too-big: spread.group (asked 5, free 4)"),
        ({"group": 5}, "too-big: spread.group (asked 5, free 4)"),
        ({"group": 1, "most": 2, "tasks": 5},
         "too-big: places for tasks of group 1, at most 2 on a node (asked 5, free 4)"),
        ({"group": 1, "most": 3, "tasks": 5, "cores": 4},
         "too-big: places for tasks of group 1, at most 3 on a node (asked 5, free 4)"),
    ],
)  # fmt: skip
def test_who_could_never_run_is_rejected_with_a_reason(row: dict[str, int], words: str) -> None:
    for policy in ("easy", "first-fit", "easy(memory=disaggregated)"):
        assert run(nodes_of(2), jobs_of(row), policy).jobs["reason"].to_list() == [words], policy
    bare = run(Cluster.homogeneous(2, 8), jobs_of({"group": 1, "most": 1}))
    assert "spread.group, which the cluster does not have" in bare.jobs["reason"][0]


def test_explain_names_the_limit_for_which_a_job_waited() -> None:
    jobs = jobs_of({"group": 1, "most": 1}, {"group": 1, "most": 1})
    story = explain(nodes_of(1), jobs, parse_policy("easy"), 1)
    assert [str(spell.reason) for spell in story.spells] == [
        "no-room: places for tasks of group 1, at most 1 on a node (asked 1, free 0)"
    ]


@pytest.mark.parametrize(
    ("table", "where", "want"),
    [({}, "spread.groups", "this key"), ({"groups": 0}, "spread.groups", ""), ({"groups": True}, "spread.groups", ""),
     ({"groups": 2, "most": 1}, "spread.most", "groups"), (3, "spread", ""),
     ({"groups": 15_000_000}, "spread.groups", "at most 10000000 of them on 2 nodes")],
)  # fmt: skip
def test_wrong_keys_of_spread_are_refused_where_they_are(table: Any, where: str, want: str) -> None:
    with pytest.raises(ClusterError) as error:
        Cluster.from_dict({"nodes": [{"count": 2, "cores": 1}], "spread": table})
    assert where in error.value.where
    assert want in error.value.want


@draws(60)
@given(st.data(), st.sampled_from(POLICIES))
def test_no_node_ever_has_more_of_a_group_than_anybody_there_allows(data: st.DataObject, policy: str) -> None:
    rows = data.draw(st.lists(st.fixed_dictionaries({
        "submit": st.integers(0, 20), "work": st.integers(1, 15), "tasks": st.integers(1, 3),
        "cores": st.integers(1, 3), "group": st.integers(0, 2), "most": st.sampled_from([0, 1, 2, 3, 4, 16, 17]),
    }), min_size=1, max_size=14))  # fmt: skip
    result = run(nodes_of(3, groups=2), jobs_of(*sorted(rows, key=lambda row: row["submit"])), policy)
    assert "queued" not in result.jobs["state"].to_list()
    asks = {row["job"]: (row["spread.group"], row["spread.most"]) for row in result.jobs.iter_rows(named=True)}
    spells = [
        (node, *asks[row["job"]], row["tasks_per_node"], row["start_s"], row["end_s"])
        for row in result.placements.iter_rows(named=True)
        for node in range(row["first_node"], row["first_node"] + row["nodes"])
    ]
    for moment in {spell[4] for spell in spells}:
        there = Counter[tuple[int, int]]()
        least: dict[tuple[int, int], int] = {}
        for node, group, most, tasks, start, end in spells:
            if start <= moment < end and group and most:
                there[node, group] += tasks
                least[node, group] = max(least.get((node, group), 0), most)
        assert all(count <= least[key] for key, count in there.items())


def test_the_report_counts_nodes_at_the_limit() -> None:
    result = run(nodes_of(2), jobs_of(*[{"group": 1, "most": 2}] * 3, {"group": 2, "most": 3}))
    (table,) = Spread().section([Kept("easy", 0, {"groups": 4}, {}, result.table("claims"))])
    assert table.rows == (("easy", "4", "2", "3", "33.3 %"),)
    assert Spread().section([]) == ()


def test_many_groups_on_many_nodes_are_quick() -> None:
    """200 groups x 2000 nodes: 400 000 places, none of them made unless somebody asks."""
    cluster = nodes_of(2000, groups=200)
    assert len(cluster.places) == 400_000
    rows = [{"group": 1 + i % 200, "most": 1 + i % 16, "submit": i, "work": 3} for i in range(200)]
    result = run(cluster, jobs_of(*rows), "list(backfill=any)")
    assert result.jobs["wait_s"].to_list() == [0] * 200
