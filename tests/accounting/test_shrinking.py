"""Leases that shrink below the request: what is allowed, what follows, and that a refused one changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Scripted
from small_worlds import J, start_on, table, work
from tries import draws

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import RefusedError
from unrack.ledger.lease import Lease, Loan
from unrack.ledger.memory_use import COUNT, NEXT_AT, smaller
from unrack.ledger.state import ClusterState
from unrack.metric.table import integrals
from unrack.policy.contract import Decision, Resize
from unrack.policy.file import load_policy
from unrack.sim.log import RunLog
from unrack.sim.simulate import prepared, simulate
from unrack.sim.world import World
from unrack.slowdown.memory.settings import MemoryContention, make_contention
from unrack.slowdown.memory.speeds import MemorySpeeds

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_shrinking_policy.py"
FOUR = Cluster.from_dict({"nodes": [{"count": 4, "cores": 4, "memory": 100}]})
JOBS = table([J(0, 9, tasks=2, cores=2, mb=80), J(0, 9, tasks=1, cores=1, mb=130), J(0, 9, mb=30), J(0, 9, cores=0)])


def pair(cores: tuple[int, int] = (2, 2), mb: tuple[int, int] = (80, 80), loans: tuple[Loan, ...] = ()) -> Lease:
    """A lease of job 0, a task on node 0 and one on node 1."""
    return Lease.on(0, [0, 1], [1, 1], list(cores), list(mb), list(loans))


def lending() -> ClusterState:
    """Job 0 runs on nodes 0 and 1 and borrows of 2; job 1 runs on 3 and borrows of 2 and 1; job 2 runs on 2."""
    state = ClusterState(FOUR, JOBS.asks, lends=True)
    for job in range(4):
        state.submit(job)
    state.start(pair(mb=(60, 80), loans=(Loan(0, 2, 20),)), 9, 0)
    state.start(Lease.on(1, [3], [1], [1], [100], [Loan(3, 2, 25), Loan(3, 1, 5)]), 9, 0)
    state.start(Lease.on(2, [2], [1], [1], [30]), 9, 0)
    return state


def chains(state: ClusterState) -> tuple[list[list[int]], list[int], list[int]]:
    """The uses at every node in the order of their chain; what is lent; what is borrowed."""
    memory = state.memory
    assert memory is not None
    found = []
    for node in range(len(FOUR)):
        entry, here = int(memory.first_at[node]), []
        while entry >= 0:
            here += memory.use[:4, entry].tolist()
            entry = int(memory.use[NEXT_AT, entry])
        found.append(here)
    return found, memory.lent.tolist(), memory.borrowed.tolist()


def seen(state: ClusterState) -> tuple[object, ...]:
    """Everything of a state, bytes and all."""
    count = state.running_count
    return (
        state.free.tobytes(), state.running[:, :count].tobytes(), state.pool[: state.pool_used].tobytes(),
        state.lease_at.tobytes(), state.free_cores, state.version, state.releases, state.pool_dead, chains(state),
        list(state.extra), [(e.borrowed.tobytes(), e.shares) for e in state.extra.values()],
    )  # fmt: skip


REFUSED: dict[str, tuple[Lease, bool, str]] = {
    "fewer cores": (pair(cores=(1, 2)), False, "fewer cores"),
    "less memory": (pair(mb=(79, 80)), False, "less memory"),
    "less memory on one node": (pair(mb=(70, 90)), False, "less memory"),
    "no core on a node": (pair(cores=(0, 2)), True, "no core"),
    "a task less": (Lease.on(0, [0], [1], [2], [80]), True, "all its tasks"),
    "more cores than a node has": (pair(cores=(5, 2)), True, "more cores or memory"),
    "more memory than a node has free": (pair(mb=(80, 96)), True, "more cores or memory"),
    "more lent memory than is free": (pair(mb=(60, 80), loans=(Loan(0, 2, 46),)), True, "than a node has free"),
    "a loan of itself": (pair(loans=(Loan(0, 0, 1),)), True, "from that node itself"),
    "a loan of nothing": (pair(loans=(Loan(0, 2, 0),)), True, "borrows"),
    "a node that does not exist": (Lease.on(0, [0, 4], [1, 1], [2, 2], [80, 80]), True, "does not exist"),
    "less than nothing": (pair(mb=(-1, 80)), True, "holds nothing there"),
    "loans in a wrong form": (pair()._replace(borrowed=np.zeros((1, 2), np.int64)), True, "loans, 3"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_resize_changes_nothing(what: str) -> None:
    lease, below, words = REFUSED[what]
    state = lending()
    before = seen(state)
    with pytest.raises(RefusedError, match=f"resize job 0: .*{words}"):
        state.exchange([lease], below)
    assert seen(state) == before


@draws(200)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 110), st.integers(0, 110),
                          st.integers(0, 60), st.booleans()), max_size=8))  # fmt: skip
def test_free_and_held_are_all_there_is_after_any_resizes(moves: list[tuple[int, int, int, int, int, bool]]) -> None:
    state = lending()
    for first, second, near, far, lent, below in moves:
        before = seen(state)
        try:
            lease = pair((first, second), (near, far), (Loan(0, 2, lent),) if lent else ())
            state.exchange([lease], below)
        except RefusedError:
            assert seen(state) == before
            continue
        assert state.lease(0).rows.tolist() == lease.rows.tolist()
        assert state.lease(0).borrowed.tolist() == lease.borrowed.tolist()
        assert state.booked_end(0) == 9
    held = np.zeros_like(state.free)
    uses = 0
    for job in range(3):
        lease = state.lease(job)
        np.add.at(held, (slice(None), lease.nodes), np.repeat(lease.rows[:, 3:], lease.rows[:, 1], axis=0).T)
        np.add.at(held[1], lease.borrowed[:, 1], lease.borrowed[:, 2])
        uses += int((lease.rows[:, 1] * (lease.rows[:, 4] > 0)).sum()) + len(lease.borrowed)
    assert (state.free + held == state.total).all()
    assert state.free_cores == state.free[0].sum()
    assert state.memory is not None
    assert state.memory.counter[COUNT] == uses
    assert sum(state.memory.lent.tolist()) == sum(state.lease(job).borrowed[:, 2].sum() for job in range(3))


def test_remote_memory_goes_back_first_and_may_come_again() -> None:
    state = lending()
    less = smaller(state.lease(0), {0: 50})
    assert (less.borrowed.tolist(), less.rows[:, 4].tolist()) == ([], [50, 80])
    state.exchange([less], True)
    assert state.free[1].tolist() == [50, 15, 45, 0]
    assert chains(state)[1] == [0, 5, 25, 0]
    state.exchange([pair(mb=(60, 80), loans=(Loan(0, 2, 20),))], False)
    assert state.free[1].tolist() == [40, 15, 25, 0]


def test_a_job_that_asks_for_no_cores_may_hold_none() -> None:
    state = lending()
    state.start(Lease.on(3, [2], [1], [1], [0]), 9, 0)
    state.exchange([Lease.on(3, [2], [1], [0], [0])], True)
    assert state.free[0].tolist() == [2, 2, 3, 3]


def test_the_tables_show_a_lease_below_the_request_and_its_speed_is_the_worlds() -> None:
    plan: dict[int, list[Decision]] = {
        0: [start_on(0, 0, cores=4, mb=100)],
        5: [Resize(Lease.on(0, [0], [1], [1], [20]), below=True), start_on(1, 0, cores=3, mb=80)],
        9: [Resize(Lease.on(0, [1], [1], [4], [100]))],
    }
    result = simulate(FOUR, work(J(0, 12, cores=4, mb=100), J(0, 4, cores=3, mb=80)), Scripted(plan))
    rows = result.placements.select(
        "job", "span", "start_s", "end_s", "first_node", "cores_per_node", "memory_mb_per_node"
    )
    assert rows.rows() == [
        (1, 1, 0, 5, 0, 4, 100), (1, 2, 5, 9, 0, 1, 20), (2, 1, 5, 9, 0, 3, 80), (1, 3, 9, 12, 1, 4, 100),
    ]  # fmt: skip
    areas = integrals(result.usage, 0, 12)
    assert (areas["cores_held"], areas["memory_mb_held"]) == (36 + 12, 880 + 320)


def test_without_below_the_run_ends_with_a_refusal_that_names_the_job() -> None:
    plan: dict[int, list[Decision]] = {0: [start_on(0, 0, cores=4)], 5: [Resize(Lease.on(0, [0], [1], [1], [0]))]}
    with pytest.raises(RefusedError, match="resize job 0: its lease holds fewer cores"):
        simulate(FOUR, work(J(0, 12, cores=4)), Scripted(plan))


@pytest.mark.long
@pytest.mark.parametrize("contended", [False, True])
def test_the_example_gives_memory_back_half_way_and_speeds_follow(contended: bool) -> None:
    cluster = unrack.memory_system(nodes=8, large_share=0.25)
    keys = {"model": "cirne", "nodes": 8, "cores_per_node": 32, "jobs": 30, "load": 1.2, "memory": "profiles",
            "profiles": "synthetic", "large_share": 0.7, "normal_node": "32 GB"}  # fmt: skip
    jobs = unrack.generate(keys, seed=3).jobs
    policy = load_policy(f"{EXAMPLE}:GIVES_BACK")
    contention = make_contention("synthetic") if contended else None
    kernel = prepared(cluster, jobs, policy, 0, World(contention=contention))

    def speeds_are_as_if_computed_anew(_: int) -> None:
        assert isinstance(contention, MemoryContention)
        view, running = kernel.core.view, sorted(kernel.running)
        fresh = MemorySpeeds(contention, cluster, jobs)
        for job in running:
            fresh.touched(view, view.lease(job))
        wanted = fresh.speeds(view, np.array(running, np.int64)).tolist()
        assert [kernel.works._speed[job] for job in running] == pytest.approx(wanted, rel=1e-12)

    log = kernel.run(after_round=speeds_are_as_if_computed_anew if contended else None)
    assert log.changed
    result = simulate(cluster, unrack.generate(keys, seed=3), policy, world=World(contention=contention))  # audited
    assert result.placements["span"].max() == 2
    held = log.amounts[2]
    for attempt in range(len(log.attempt_job)):
        first, *later = range(log.attempt_spans[attempt], log.attempt_spans[attempt + 1])
        for span in later:
            assert held[span] < held[first]
            own = [local_mb(log, which) for which in (first, span)]
            for borrower in log.loans[log.span_loans[span] : log.span_loans[span + 1], 0].tolist():
                assert own[0][borrower] == own[1][borrower], "own memory went back before borrowed"


def local_mb(log: RunLog, span: int) -> dict[int, int]:
    """Node → MB of its own memory that a span held."""
    rows = log.rows[log.span_rows[span] : log.span_rows[span + 1]].tolist()
    return {node: mb for first, count, _, _, mb in rows for node in range(first, first + count)}


def test_memory_that_is_given_back_is_taken_in_the_same_round() -> None:
    """The policy goes in steps, and the list inside, of which it has its memory, does not."""
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4, "memory": 100}]})
    jobs = table([J(0, 10, mb=150), J(0, 10, mb=80)])
    log = prepared(cluster, jobs, load_policy(f"{EXAMPLE}:GIVES_BACK"), 0, World()).run()
    assert np.diff(log.attempt_start_us).tolist() == [5_000_000]
