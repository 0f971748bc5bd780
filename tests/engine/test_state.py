"""The one mutable state: it refuses whole, and what is free plus what is held or lent is always what there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from small_worlds import J, lease_on, table
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.core.answers import struck
from unrack.errors import RefusedError
from unrack.ledger.lease import NO_LOANS, Lease, Loan, Share, loans_of
from unrack.ledger.memory_use import COUNT, NEXT_AT, NEXT_OF, MemoryUse
from unrack.ledger.state import FINISHED, QUEUED, RUNNING, UNKNOWN, ClusterState

CLUSTER = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4, "memory": 8}, {"count": 2, "cores": 2, "memory": 20}]})
JOBS = table(
    [J(0, 9, 1), J(0, 9, 2, cores=2), J(0, 9, 3, mb=2), J(0, 9, 1, cores=2, mb=12), J(0, 9, 2), J(0, 9, 1, mb=3)]
)


def snapshot(state: ClusterState) -> tuple[object, ...]:
    """All that anybody can see of a state, as bytes and plain values."""
    count = state.running_count
    running = state.running[:, :count]
    leases = [state.lease(job) for job in running[1].tolist()]
    return (
        state.free.tobytes(), state.total.tobytes(), state.online.tobytes(), bytes(state.conditions), running.tobytes(),
        state.queue[state.queue_start : state.queue_end].tobytes(), state.free_cores,
        [(lease.job, lease.rows.tobytes(), lease.borrowed.tobytes(), lease.shares) for lease in leases],
        [(job, extra.borrowed.tobytes(), extra.shares) for job, extra in sorted(state.extra.items())],
        state.version, state.releases, state.capacity_version,
    )  # fmt: skip


def busy_state() -> ClusterState:
    """Job 0 runs on node 0; job 3 on node 1 with 4 MB of node 2; 1, 2 and 4 wait; 5 is unknown; node 3 is down."""
    state = ClusterState(CLUSTER, JOBS.asks)
    for job in (0, 1, 2, 3, 4):
        state.submit(job)
    state.start(lease_on(0, 0), 9, 0)
    state.start(Lease(3, np.array([[1, 1, 1, 2, 8]]), loans_of([Loan(1, 2, 4)])), 5, 0)
    state.set_online(3, False)
    return state


def rows(*rows: list[int]) -> np.ndarray:
    return np.array(rows, np.int64)


REFUSALS: dict[str, tuple[Callable[[ClusterState], None], str]] = {
    "submitting a queued job": (lambda s: s.submit(1), "job 1"),
    "submitting a running job": (lambda s: s.submit(0), "job 0"),
    "submitting a job that does not exist": (lambda s: s.submit(6), "job 6"),
    "submitting a negative job": (lambda s: s.submit(-1), "job -1"),
    "starting an unknown job": (lambda s: s.start(lease_on(5, 0, mb=3), 9, 0), "job 5"),
    "starting a job that does not exist": (lambda s: s.start(lease_on(99, 0), 9, 0), "job 99"),
    "starting a negative job": (lambda s: s.start(lease_on(-5, 0), 9, 0), "job -5"),
    "starting part of a gang": (lambda s: s.start(lease_on(4, 0), 9, 0), "job 4"),
    "starting more than the gang": (lambda s: s.start(lease_on(4, 0, 3, 3), 9, 0), "job 4"),
    "starting on too few cores": (lambda s: s.start(lease_on(4, 0, 2, 1), 9, 0), "job 4"),
    "starting on too little memory": (lambda s: s.start(lease_on(2, 0, 3, 3, 5), 9, 0), "job 2"),
    "starting on cores that are held": (lambda s: s.start(lease_on(1, 0, 2, 4), 9, 0), "job 1"),
    "starting on memory that is held": (
        lambda s: s.start(Lease(2, rows([1, 1, 1, 1, 2], [2, 1, 2, 2, 4])), 9, 0),
        "job 2",
    ),
    "starting on a node that is down": (lambda s: s.start(lease_on(4, 3, 2, 2), 9, 0), "job 4"),
    "starting on a node past the end": (lambda s: s.start(lease_on(4, 4, 2, 2), 9, 0), "job 4"),
    "starting on a node before the start": (lambda s: s.start(lease_on(4, -1, 2, 2), 9, 0), "job 4"),
    "starting on a row that runs past the end": (lambda s: s.start(Lease(4, rows([3, 2, 1, 1, 0])), 9, 0), "job 4"),
    "starting on a row of no nodes": (lambda s: s.start(Lease(4, rows([0, 0, 2, 2, 0])), 9, 0), "job 4"),
    "starting with negative cores": (lambda s: s.start(Lease(4, rows([0, 1, 2, -2, 0])), 9, 0), "job 4"),
    "starting with negative memory": (lambda s: s.start(Lease(4, rows([0, 1, 2, 2, -1])), 9, 0), "job 4"),
    "starting on no rows": (lambda s: s.start(Lease(4, np.empty((0, 5), np.int64)), 9, 0), "job 4"),
    "starting twice on one node, together too much": (
        lambda s: s.start(Lease(1, rows([0, 1, 1, 2, 0], [0, 1, 1, 2, 0])), 9, 0),
        "job 1",
    ),
    "borrowing more than is free": (
        lambda s: s.start(Lease(2, rows([0, 1, 3, 3, 0]), loans_of([Loan(0, 2, 1), Loan(0, 2, 16)])), 9, 0),
        "job 2",
    ),
    "borrowing from nobody": (
        lambda s: s.start(Lease(2, rows([0, 1, 3, 3, 0]), loans_of([Loan(0, 7, 6)])), 9, 0),
        "job 2",
    ),
    "borrowing nothing": (lambda s: s.start(Lease(2, rows([0, 1, 3, 3, 6]), loans_of([Loan(0, 2, 0)])), 9, 0), "job 2"),
    "borrowing but starting on cores that are held": (
        lambda s: s.start(Lease(2, rows([2, 1, 3, 3, 0]), loans_of([Loan(2, 2, 6)])), 9, 0),
        "job 2",
    ),
    "borrowing too little": (
        lambda s: s.start(Lease(2, rows([0, 1, 3, 3, 0]), loans_of([Loan(0, 2, 5)])), 9, 0),
        "job 2",
    ),
    "borrowing enough in all, and too little on one node": (
        lambda s: s.start(Lease(2, rows([0, 1, 2, 2, 0], [2, 1, 1, 1, 3]), loans_of([Loan(0, 2, 3)])), 9, 0),
        "job 2",
    ),
    "holding devices": (
        lambda s: s.start(Lease(4, rows([0, 1, 2, 2, 0]), NO_LOANS, (Share(0, (1,), (1,)),)), 9, 0),
        "job 4",
    ),
    "resizing a lender-backed job to too little": (lambda s: s.exchange([lease_on(3, 1, 1, 2, 8)], False), "job 3"),
    "resizing onto cores that are held": (lambda s: s.exchange([Lease(0, rows([1, 1, 1, 3, 0]))], False), "job 0"),
    "resizing onto a node that is down": (lambda s: s.exchange([lease_on(0, 3)], False), "job 0"),
    "releasing a queued job": (lambda s: s.release(1, 0), "job 1"),
    "releasing a job that does not exist": (lambda s: s.release(6, 0), "job 6"),
    "rejecting a running job": (lambda s: s.reject(0), "job 0"),
    "rejecting a job that does not exist": (lambda s: s.reject(-1), "job -1"),
    "taking a node down that holds a job": (lambda s: s.set_online(0, False), "node 0"),
    "taking a node down that lends memory": (lambda s: s.set_online(2, False), "node 2"),
    "taking a node down twice": (lambda s: s.set_online(3, False), "node 3"),
    "bringing a node up that is up": (lambda s: s.set_online(0, True), "node 0"),
    "taking down a node that does not exist": (lambda s: s.set_online(4, False), "node 4"),
    "taking down a negative node": (lambda s: s.set_online(-1, True), "node -1"),
    "asking for the lease of a waiting job": (lambda s: s.lease(1) and None, "job 1"),
}


@pytest.mark.whole
@pytest.mark.parametrize("what", REFUSALS)
def test_a_refusal_names_the_culprit_and_leaves_the_state_as_it_was(what: str) -> None:
    act, culprit = REFUSALS[what]
    state = busy_state()
    before = snapshot(state)
    with pytest.raises(RefusedError, match=culprit):
        act(state)
    assert snapshot(state) == before


def test_memory_is_borrowed_in_the_own_group_alone() -> None:
    cluster = Cluster.from_dict({"nodes": [{"count": 4, "cores": 4, "memory": 8}], "lending": 2})
    state = ClusterState(cluster, table([J(0, 9, 1, mb=12)]).asks)
    state.submit(0)
    of_others, own = (Lease(0, rows([0, 1, 1, 1, 8]), loans_of([Loan(0, lender, 4)])) for lender in (2, 1))
    with pytest.raises(RefusedError, match="another lending group"):
        state.start(of_others, 9, 0)
    state.start(own, 9, 0)
    assert state.free[1].tolist() == [0, 4, 8, 8]


def test_the_booked_end_of_a_job_survives_a_resize_and_its_loans_do_not_survive_its_end() -> None:
    state = busy_state()
    state.exchange([lease_on(3, 2, 1, 2, 12)], False)
    assert state.free[1].tolist() == [8, 8, 8, 0]
    assert state.booked_end(3) == 5
    state.release(3, 0, UNKNOWN)
    assert 3 not in state.extra


def test_jobs_on_a_node_include_those_that_borrow_from_it() -> None:
    state = busy_state()
    assert [struck(state, [node]).get(node, []) for node in range(4)] == [[0], [3], [3], []]


class StateMachine(RuleBasedStateMachine):
    """Any calls in any order, beside a model in plain dictionaries."""

    @initialize()
    def begin(self) -> None:
        jobs = [
            J(0, 1, 1 + i % 3, cores=1 + i % 2, mb=(0, 2, 5)[i % 3]) for i in range(12)
        ]  # fmt: skip
        self.asks = table(jobs).asks
        self.state = ClusterState(CLUSTER, self.asks, lends=True)
        self.model = dict.fromkeys(range(12), UNKNOWN)
        self.held: dict[int, tuple[Lease, int]] = {}
        self.down: set[int] = set()

    def expect(self, allowed: bool, act: Callable[[], None]) -> bool:
        before = snapshot(self.state)
        try:
            act()
        except RefusedError:
            assert not allowed
            assert snapshot(self.state) == before
            return False
        assert allowed
        return True

    def fits(self, lease: Lease) -> bool:
        """Whether a lease could be held beside all others, from the model alone."""
        tasks, cores, mb = self.asks[:3, lease.job].tolist()
        need: Counter[tuple[int, int]] = Counter()
        lacks: Counter[int] = Counter()
        for first, count, here, held, local in lease.rows.tolist():
            if held < here * cores:
                return False
            for node in range(first, first + count):
                need[0, node] += held
                need[1, node] += local
                lacks[node] += here * mb - local
        for node, lender, lent in lease.borrowed.tolist():
            if node == lender or node not in lacks:
                return False
            need[1, lender] += lent
            lacks[node] -= lent
        if (lease.rows[:, 1] * lease.rows[:, 2]).sum() != tasks or max(lacks.values()) > 0:
            return False
        free = self.free_without(lease.job)
        return all(amount <= free[kind, node] for (kind, node), amount in need.items())

    def free_without(self, job: int) -> np.ndarray:
        free = np.stack([CLUSTER.cores, CLUSTER.memory_mb])
        free[:, sorted(self.down)] = 0
        for other, (lease, _) in self.held.items():
            if other == job:
                continue
            for first, count, _, cores, mb in lease.rows.tolist():
                free[0, first : first + count] -= cores
                free[1, first : first + count] -= mb
            for _, lender, lent in lease.borrowed.tolist():
                free[1, lender] -= lent
        return free

    @rule(job=st.integers(0, 11))
    def submit(self, job: int) -> None:
        if self.expect(self.model[job] == UNKNOWN, lambda: self.state.submit(job)):
            self.model[job] = QUEUED

    @rule(
        job=st.integers(0, 11), first=st.integers(0, 3), spread=st.booleans(), spare=st.integers(0, 1),
        lender=st.none() | st.integers(0, 3), end=st.integers(0, 20),
    )  # fmt: skip
    def hold(self, job: int, first: int, spread: bool, spare: int, lender: int | None, end: int) -> None:
        tasks, cores, mb = self.asks[:3, job].tolist()
        borrowed = NO_LOANS
        local = mb
        if lender is not None and mb:
            local, borrowed = mb - 1, loans_of([Loan(first, lender, tasks)])
        if spread and first + tasks <= 4:
            made = rows([first, tasks, 1, cores + spare, local])
        else:
            made = rows([first, 1, tasks, tasks * cores + spare, tasks * local])
        lease = Lease(job, made, borrowed)
        allowed = self.model[job] in (QUEUED, RUNNING) and self.fits(lease)
        before, state = self.held.get(job), self.state
        gives = partial(state.start, lease, end, 0) if before is None else partial(state.exchange, [lease], False)
        if self.expect(allowed, gives):
            self.model[job] = RUNNING
            self.held[job] = (lease, end if before is None else before[1])

    @rule(job=st.integers(0, 11), again=st.booleans())
    def release(self, job: int, again: bool) -> None:
        status = UNKNOWN if again else FINISHED
        if self.expect(self.model[job] == RUNNING, lambda: self.state.release(job, 0, status)):
            self.model[job] = status
            del self.held[job]

    @rule(job=st.integers(9, 11))
    def reject(self, job: int) -> None:
        if self.expect(self.model[job] in (QUEUED, UNKNOWN), lambda: self.state.reject(job)):
            self.model[job] = 4

    @rule(node=st.integers(0, 3), online=st.booleans())
    def set_online(self, node: int, online: bool) -> None:
        full = np.stack([CLUSTER.cores, CLUSTER.memory_mb])[:, node]
        idle = (self.free_without(-1)[:, node] == full).all()
        allowed = node in self.down if online else node not in self.down and bool(idle)
        if self.expect(allowed, lambda: self.state.set_online(node, online)):
            self.down = self.down - {node} if online else self.down | {node}

    @invariant()
    def free_and_held_and_lent_make_the_total(self) -> None:
        assert (self.state.free == self.free_without(-1)).all()
        assert self.state.free_cores == self.state.free[0].sum()
        assert list(self.state.conditions) == [self.model[job] for job in range(12)]

    @invariant()
    def the_queue_is_in_order_and_the_running_by_booked_end(self) -> None:
        state = self.state
        queue = state.queue[state.queue_start : state.queue_end].tolist()
        assert queue == [job for job in range(12) if self.model[job] == QUEUED]
        running = [tuple(pair) for pair in state.running[:, : state.running_count].T.tolist()]
        assert running == sorted((end, job) for job, (_, end) in self.held.items())
        for job, (lease, _) in self.held.items():
            held = state.lease(job)
            assert (held.rows == lease.rows).all()
            assert held.borrowed.tolist() == lease.borrowed.tolist()

    @invariant()
    def every_use_of_memory_is_noted_once(self) -> None:
        memory = self.state.memory
        assert memory is not None
        wanted: Counter[tuple[int, int, int, int]] = Counter()
        lent, borrowed = np.zeros(4, np.int64), np.zeros(4, np.int64)
        for job, (lease, _) in self.held.items():
            for first, count, _, _, mb in lease.rows.tolist():
                wanted.update((job, node, node, mb) for node in range(first, first + count) if mb)
            for node, lender, mb in lease.borrowed.tolist():
                wanted[job, lender, node, mb] += 1
                lent[lender] += mb
                borrowed[node] += mb
        assert uses(memory, memory.first_at, NEXT_AT) == uses(memory, memory.first_of, NEXT_OF) == wanted
        assert memory.counter[COUNT] == wanted.total()
        assert memory.lent.tolist() == lent.tolist()
        assert memory.borrowed.tolist() == borrowed.tolist()


def uses(memory: MemoryUse, first: np.ndarray, following: int) -> Counter[tuple[int, int, int, int]]:
    """The entries (job, at, for, MB) on all chains."""
    found: Counter[tuple[int, int, int, int]] = Counter()
    for entry in first.tolist():
        while entry >= 0:
            job, at, user, mb = memory.use[:4, entry].tolist()
            found[job, at, user, mb] += 1
            entry = int(memory.use[following, entry])
    return found


TestStateMachine = draws(60, stateful_step_count=40)(StateMachine).TestCase


def test_leases_survive_when_the_room_for_their_rows_is_made_again_and_again() -> None:
    jobs = table([J(0, 1)] * 4000)
    state = ClusterState(Cluster.homogeneous(nodes=600, cores=1), jobs.asks)
    for job in range(4000):
        state.submit(job)
        if job >= 500:
            state.release(job - 500, job)
        state.start(lease_on(job, job % 600), 0, job)
        assert state.pool.shape[0] <= 4096
    assert [int(state.lease(job).rows[0, 0]) for job in range(3500, 4000)] == [job % 600 for job in range(3500, 4000)]
    assert state.free_cores == 100
