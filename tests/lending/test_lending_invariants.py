"""What lending never breaks, whatever the rule, the scheduler, the groups and the threshold: checked at every round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lending_worlds import contents, held_by_node, jobs_of, words
from plain_lending import EVERYBODY, RULES
from small_worlds import J, table
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.events import Event
from unrack.ledger.lease import Lease
from unrack.policy.contract import Decision, Start
from unrack.policy.table import parse_policy
from unrack.sim.kernel import Kernel
from unrack.sim.log import RunLog
from unrack.sim.world import World

EVERY_RULE = [*RULES, "contention-aware"]
SCHEDULERS = ["slurm", "fcfs", "easy", "conservative"]
JOB, AT, FOR, MB, NEXT_AT, _, NEXT_OF = range(7)


class Watched:
    """A run in which every start and every round is looked at."""

    def __init__(self, content: dict[str, Any], jobs: list[J], policy: str, group: str, share: float) -> None:
        self.cluster = Cluster.from_dict(content)
        self.jobs = jobs
        self.core = Core(self.cluster, table(jobs), parse_policy(policy))
        self.at_least = np.ceil(share * self.cluster.memory_mb)
        self.reach = reach(self.cluster, group)
        self.events: list[tuple[Event, int, list[object]]] = []
        start, handle = self.core.state.start, self.core.handle

        def starting(lease: Lease, expected_us: int, now: int) -> None:
            self.may_compute(lease)
            start(lease, expected_us, now)

        def handling(event: Event, now: int) -> list[Decision]:
            decisions = handle(event, now)
            self.events.append((event, now, [plain(decision) for decision in decisions]))
            return decisions

        self.core.state.start = starting  # type: ignore[method-assign]
        self.core.handle = handling  # type: ignore[method-assign]

    def run(self, ties: str = "together") -> RunLog:
        """The run, checked at every round and at its end."""
        log = Kernel(self.core, World(ties=ties)).run(after_round=self.check)
        state, memory = self.core.state, self.core.state.memory
        assert memory is not None
        assert (state.free == state.total).all(), "something was not given back"
        assert not memory.lent.any()
        assert not memory.borrowed.any()
        assert (memory.first_at == -1).all()
        assert (memory.first_of == -1).all()
        return log

    def may_compute(self, lease: Lease) -> None:
        """All nodes of a lease are idle and have the memory free that they must have to compute."""
        state = self.core.state
        for node in lease.nodes.tolist():
            assert state.free[0, node] == state.total[0, node] > 0
            assert state.free[1, node] >= self.at_least[node], "a node computes that has lent too much"

    def check(self, now: int) -> None:
        """Local + lent + free = installed; loans within groups; every task has its memory."""
        state, memory = self.core.state, self.core.state.memory
        assert memory is not None
        cores = state.total[0].copy()
        used = np.zeros((len(self.cluster), len(self.cluster)), np.int64)  # for whom, at whom
        for job in state.running[1, : state.running_count].tolist():
            lease = state.lease(job)
            need = dict.fromkeys(lease.nodes.tolist(), 0)
            tasks = 0
            for node, _, here, held, mb in held_by_node(lease.rows):
                need[node] = here * self.jobs[job].mb - mb
                tasks += here
                cores[node] -= held
                used[node, node] += mb
                assert held == self.cluster.cores[node] >= here * self.jobs[job].cores
            for borrower, lender, mb in lease.borrowed.tolist():
                assert mb > 0
                assert borrower != lender
                assert self.reach[borrower, lender], "a loan out of reach"
                need[borrower] -= mb
                used[borrower, lender] += mb
            assert set(need.values()) == {0}, "a task has not the memory that it asked for"
            assert tasks == self.jobs[job].tasks
            assert entries(memory.use, memory.first_of[job], NEXT_OF) == sorted(
                [[node, node, mb] for node, _, _, _, mb in held_by_node(lease.rows) if mb]
                + [[lender, borrower, mb] for borrower, lender, mb in lease.borrowed.tolist()]
            )
        lent = used.sum(axis=0) - used.diagonal()
        assert (state.free[0] == cores).all()
        assert (used.diagonal() + lent + state.free[1] == self.cluster.memory_mb).all()
        assert (memory.lent == lent).all()
        assert (self.core.view.lent == lent).all()
        assert (memory.borrowed == used.sum(axis=1) - used.diagonal()).all()
        assert [sum(mb for _, _, mb in entries(memory.use, first, NEXT_AT)) for first in memory.first_at] == (
            used.sum(axis=0).tolist()
        )


def entries(use: np.ndarray, entry: int, following: int) -> list[list[int]]:
    """A chain of uses: at whom, for whom, MB."""
    found = []
    while entry >= 0:
        found.append([int(use[row, entry]) for row in (AT, FOR, MB)])
        entry = int(use[following, entry])
    return sorted(found)


def reach(cluster: Cluster, group: str) -> np.ndarray:
    """bool[nodes, nodes]: who (second) may lend to whom (first), by the cluster and by the policy's groups."""
    computes = cluster.cores > 0
    own = cluster.lending_group
    found = own[:, None] == own[None, :]
    if group == "rack":
        found &= cluster.rack[:, None] == cluster.rack[None, :]
    elif group != "all":
        part = (np.cumsum(computes) - 1) // int(group)
        found &= (part[:, None] == part[None, :]) & computes[:, None] & computes[None, :]
    found |= (own == EVERYBODY)[None, :]
    return found


def plain(decision: Decision) -> object:
    """A decision as values that can be compared."""
    if isinstance(decision, Start):
        return decision.lease.job, decision.lease.rows.tolist(), decision.lease.borrowed.tolist()
    return decision


def columns(log: RunLog) -> list[list[Any]]:
    """Everything in a log that lending could change."""
    names = ("attempt_job", "attempt_start_us", "attempt_end_us", "rows", "attempt_rows", "loans", "attempt_loans")
    return [getattr(log, name).tolist() for name in names]


@st.composite
def terms(draw: st.DrawFn, rule: str, scheduler: str) -> tuple[str, str, float]:
    """A policy, its groups, and the share of a node's memory that must be free for it to compute."""
    group = draw(st.sampled_from(["all", "all", "rack", "1", "2", "3"]))
    usual = {"strawman": 0.0, "naive": 0.0, "local": 0.5, "local-spread": 0.5}.get(rule, 1.0)
    given_share = draw(st.sampled_from([None, None, 0.0, 0.3, 1.0])) if usual else None
    others: dict[str, object] = {} if group == "all" else {"group": group}
    if scheduler == "slurm":
        others |= {"interval": "3 s", "main": draw(st.sampled_from(["events", "interval"]))}
    if rule in ("local-spread", "disaggregated") and draw(st.booleans()):
        others["near"] = "yes"
    return words(rule, scheduler, given_share, **others), group, usual if given_share is None else given_share


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("rule", EVERY_RULE)
@draws(25)
@given(data=st.data(), content=contents(), jobs=st.booleans().flatmap(jobs_of), racks=st.sampled_from([None, 2, 3]))
def test_memory_is_conserved_stays_in_its_groups_and_runs_repeat_themselves(
    rule: str, scheduler: str, data: st.DataObject, content: dict[str, Any], jobs: list[J], racks: int | None
) -> None:
    content = {**content, "nodes_per_rack": racks}
    policy, group, share = data.draw(terms(rule, scheduler))
    ties = data.draw(st.sampled_from(["together", "finish-first", "submit-first"]))
    first = Watched(content, jobs, policy, group, share)
    log = first.run(ties)
    assert columns(Watched(content, jobs, policy, group, share).run(ties)) == columns(log)
    fresh = Core(first.cluster, table(jobs), parse_policy(policy))
    for event, now, decisions in first.events:
        assert [plain(decision) for decision in fresh.handle(event, now)] == decisions
    assert set(log.state.tolist()) <= {3, 4}, "a job that is possible did not finish"


@pytest.mark.parametrize("rule", ["disaggregated", "contention-aware"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@draws(40)
@given(content=contents(), jobs=jobs_of(False))
def test_a_node_that_lends_starts_no_job(rule: str, scheduler: str, content: dict[str, Any], jobs: list[J]) -> None:
    run = Watched(content, jobs, words(rule, scheduler), "all", 0.0)
    state = run.core.state

    def may_compute(lease: Lease) -> None:
        assert state.memory is not None
        assert not state.memory.lent[lease.nodes].any()

    run.may_compute = may_compute  # type: ignore[method-assign]
    run.run()


def test_a_node_that_lends_computes_where_that_is_allowed() -> None:
    content = {"nodes": [{"count": 2, "cores": 1, "memory": 8}]}
    jobs = [J(0, 5, mb=12), J(1, 2, mb=3)]
    for policy, start in (("disaggregated", 5), ("disaggregated(lenders_compute=yes)", 1)):
        log = Watched(content, jobs, policy, "all", 0.0).run()
        assert log.attempt_start_us[log.attempt_job == 1].tolist() == [start * 1_000_000]
