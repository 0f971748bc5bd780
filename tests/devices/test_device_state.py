"""Shares of devices beside a model in plain dictionaries: whatever is asked, the state agrees, or refuses whole."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from device_worlds import D, cluster, pool, table
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tries import draws

from unrack.errors import RefusedError
from unrack.ledger.devices.columns import FREE, FREE_COUNT, GROUP
from unrack.ledger.lease import Lease, Share
from unrack.ledger.state import FINISHED, QUEUED, RUNNING, UNKNOWN, ClusterState
from unrack.slowdown.model import make_models, pace_of

CLUSTER = cluster(
    [6, 6, 4],
    pool("nvme", 3, 2000, 600, compose=2, share=3, detach_latency=5, home=["0", "1"]),
    pool("nvme", 1, 2000, 600, reach=["1"]),
    pool("gpu", 1, 4000, 16, attach="multi", split=4, detach_latency=2),
    pool("gpu", 1, 4000, 16, attach="multi", share=2, reach=["0", "1"]),
)
MODELS = make_models(
    [{"model": "m", "times_s": [[5.0, 7.0], [4.0, 5.0]]}, {"model": "g", "kind": "gpu", "times_s": [[5.0, 6.0, 7.0]]}]
)
JOBS = [
    D(0, 9, 2, nvme=(1000, 100)), D(0, 9, 2, nvme=(1000, 200)), D(0, 9, 2, nvme=(10, 700)), D(0, 9, 1),
    D(0, 9, 1, app="m", nvme=(1800, 50)), D(0, 9, 1, app="m", nvme=(1800, 60)), D(0, 9, 1, app="m", nvme=(1800, 300)),
    D(0, 9, 1, app="m", nvme=(900, 600)), D(0, 9, 1, app="g", gpu=(1000, 2)), D(0, 9, 1, app="g", gpu=(900, 2)),
    D(0, 9, 1, gpu=(800, 1)), D(0, 9, 1, gpu=(800, 9)), D(0, 9, 1, tasks=2, nvme=(500, 100)),
    D(0, 9, 1, app="g", tasks=2, gpu=(400, 1)), D(0, 9, 1, nvme=(100, 10), gpu=(100, 1)),
]  # fmt: skip
ADMITTED = {("nvme", "m"): 2, ("gpu", "g"): 3}
"""Model → most sharers; its bandwidth (the first quantity) does not count."""
POOL_OF = [0, 0, 0, 1, 2, 3]
HOME = [0, 0, 1, 1, -1, -1]
KIND_OF = ["nvme"] * 4 + ["gpu"] * 2
CAPACITY = {"nvme": (2000, 600), "gpu": (4000, 16)}
COMPOSE, SHARE, SPLIT, SINGLE = (2, 1, 1, 1), (3, 99, 99, 2), (1, 1, 4, 1), (True, True, False, False)
REACH = [(0, 1, 2), (1,), (0, 1, 2), (0, 1)]


def new_state() -> ClusterState:
    jobs = table(JOBS)
    return ClusterState(
        CLUSTER, jobs.asks, CLUSTER.devices.wanted(jobs.devices, len(jobs)), pace_of(MODELS, CLUSTER.devices, jobs)
    )


def snapshot(state: ClusterState) -> tuple[object, ...]:
    """All that anybody can see of a state and its devices."""
    running = state.running[:, : state.running_count]
    jobs = running[1].tolist()
    leases = [state.lease(job) for job in jobs]
    d = state.devices
    assert d is not None
    c = d.columns
    return (
        state.free.tobytes(), state.online.tobytes(), bytes(state.conditions), running.tobytes(), state.free_cores,
        state.queue[state.queue_start : state.queue_end].tobytes(), state.version, state.releases,
        [(lease.job, lease.rows.tolist(), lease.shares) for lease in leases], list(d.leaving),
        [column.tobytes() for column in (c.device, c.pool, c.group, c.installed, c.held, c.asked, c.counter)],
        [d.reader.sharers(group).tolist() for group in range(len(d.devices))],
        [(c.job_group[:, job].max(), c.job_node[:, job].max()) for job in range(len(JOBS))],
        c.progress[:, jobs].tobytes(), c.clock[:, jobs].tobytes(),
    )  # fmt: skip


@dataclass
class Group:
    """A composition or split device in use."""

    devices: tuple[int, ...]
    node: int
    parts: int
    model: str | None
    jobs: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)


def model_of(job: int, kind: str) -> str | None:
    return JOBS[job].app if (kind, JOBS[job].app) in ADMITTED and any(wants(job, kind)) else None


def wants(job: int, kind: str) -> tuple[int, ...]:
    return tuple(getattr(JOBS[job], kind)) or (0, 0)


class Plain:
    """What the state should hold, and whether it should take a lease."""

    def __init__(self) -> None:
        self.cores = [6, 6, 4]
        self.online = [True] * 3
        self.device = ["free"] * 6
        self.groups: dict[int, Group] = {}

    def joins(self, job: int, share: Share, groups: dict[int, Group], free: list[bool]) -> bool:
        """Take one share if it may be."""
        devices = share.devices
        if not devices or any(not 0 <= d < 6 for d in devices) or list(devices) != sorted(set(devices)):
            return False
        p, kind = POOL_OF[devices[0]], KIND_OF[devices[0]]
        if any(POOL_OF[d] != p for d in devices) or share.node not in REACH[p]:
            return False
        if len(share.amounts) != 2 or min(share.amounts) < 0:
            return False
        model = model_of(job, kind)
        group = groups.get(devices[0])
        if group is None:
            if not all(free[d] for d in devices) or len(devices) > COMPOSE[p]:
                return False
            if not 0 <= share.parts <= SPLIT[p] or (share.parts == 0 and SPLIT[p] > 1):
                return False
            group = Group(devices, share.node, share.parts, model)
        elif (
            group.devices != devices
            or group.parts != share.parts
            or group.model != model
            or (SINGLE[p] and group.node != share.node)
        ):
            return False
        count = len(group.jobs) + 1
        if count > SHARE[p] or (group.parts and count > group.parts):
            return False
        if model is not None and count > ADMITTED[kind, model]:
            return False
        for q, capacity in enumerate(CAPACITY[kind]):
            if group.parts:
                if share.amounts[q] > capacity * len(devices) // group.parts:
                    return False
                continue
            held = sum(amounts[q] for _, amounts in group.jobs)
            if not (model is not None and q == 0) and held + share.amounts[q] > capacity * len(devices):
                return False
        groups[devices[0]] = Group(devices, group.node, group.parts, model, [*group.jobs, (job, share.amounts)])
        for d in devices:
            free[d] = False
        return True

    def takes(self, lease: Lease) -> dict[int, Group] | None:
        """The groups after a lease; ``None``: it must be refused."""
        job = JOBS[lease.job]
        tasks: dict[int, int] = {}
        cores: dict[int, int] = {}
        for node, nodes, count, held, _ in lease.rows.tolist():
            if nodes != 1 or not 0 <= node < 3 or held < count * job.cores or count < 1:
                return None
            tasks[node] = tasks.get(node, 0) + count
            cores[node] = cores.get(node, 0) + held
        if sum(tasks.values()) != job.tasks or any(cores[node] > self.cores[node] for node in cores):
            return None
        if any(not self.online[node] for node in tasks):
            return None
        groups, free = dict(self.groups), [state == "free" for state in self.device]
        held: dict[tuple[str, int], list[int]] = {}
        for share in lease.shares:
            if share.node not in tasks or not self.joins(lease.job, share, groups, free):
                return None
            total = held.setdefault((KIND_OF[share.devices[0]], share.node), [0, 0])
            total[0] += share.amounts[0]
            total[1] += share.amounts[1]
        for kind in CAPACITY:
            for node, count in tasks.items():
                for q in range(2):
                    if held.get((kind, node), [0, 0])[q] < count * wants(lease.job, kind)[q]:
                        return None
        return groups


class Devices(RuleBasedStateMachine):
    """Any leases in any order, good, slightly wrong and absurd."""

    @initialize()
    def begin(self) -> None:
        self.state, self.plain, self.now = new_state(), Plain(), 0
        self.leases: dict[int, Lease] = {}
        for job in range(len(JOBS)):
            self.state.submit(job)

    def invent(self, job: int, rng: random.Random) -> Lease:
        """A lease that is likely to be good, most often."""
        rows, shares = [], []
        for _ in range(JOBS[job].tasks):
            node = rng.choice([n for n in range(3) if self.plain.cores[n] >= JOBS[job].cores] or [0])
            rows.append([node, 1, 1, JOBS[job].cores, 0])
            for kind in CAPACITY:
                if not any(wants(job, kind)) and rng.random() < 0.97:
                    continue
                near = [g for g in self.plain.groups.values() if KIND_OF[g.devices[0]] == kind]
                near = [g for g in near if g.node == node or not SINGLE[POOL_OF[g.devices[0]]]]
                if near and rng.random() < 0.7:
                    group = rng.choice(near)
                    devices, parts = group.devices, group.parts
                else:
                    size = rng.choice([1, 1, 2]) if kind == "nvme" else 1
                    pools = [p for p in range(4) if node in REACH[p]] if rng.random() < 0.9 else [0, 1, 2, 3]
                    which = [d for d in range(6) if KIND_OF[d] == kind and POOL_OF[d] in pools]
                    free = [d for d in which if self.plain.device[d] == "free"] or which or [0]
                    devices = tuple(sorted(rng.sample(free, min(size, len(free)))))
                    parts = rng.choice([1, 2, 4, 4]) if POOL_OF[devices[0]] == 2 else 0
                shares.append(Share(node, devices, wants(job, kind), parts))
        if shares and rng.random() < 0.25:
            i = rng.randrange(len(shares))
            shares[i] = rng.choice(
                [
                    shares[i]._replace(devices=tuple(rng.choices(range(-1, 8), k=rng.choice([0, 1, 2, 3])))),
                    shares[i]._replace(node=rng.randrange(-1, 4)),
                    shares[i]._replace(
                        amounts=tuple(rng.choice([-1, 0, 300, 700, 5000]) for _ in range(rng.choice([1, 2, 2, 3])))
                    ),
                    shares[i]._replace(parts=rng.randrange(-1, 6)),
                    shares[i]._replace(devices=tuple(sorted({*shares[i].devices, rng.randrange(6)}))),
                ]
            )
        if shares and rng.random() < 0.05:
            shares.pop()
        if shares and rng.random() < 0.05:
            shares.append(rng.choice(shares))
        return Lease(job, np.array(rows, np.int64), (), tuple(shares))

    @rule(seed=st.integers(0, 2**32))
    def start(self, seed: int) -> None:
        rng = random.Random(seed)
        job = rng.choice([job for job in range(len(JOBS)) if job not in self.leases] or [0])
        lease = self.invent(job, rng)
        if job in self.leases:  # what a running job holds of devices is not exchanged
            lease = lease._replace(shares=(*lease.shares, Share(0, (0,), (0, 0))))
        self.now += rng.choice([0, 0, 1, 3])
        groups = self.plain.takes(lease) if self.state.condition(job) == QUEUED else None
        before = snapshot(self.state)
        if groups is None:
            with pytest.raises(RefusedError, match=str(job)):
                self.state.start(lease, 9, self.now)
            assert snapshot(self.state) == before
            return
        self.state.start(lease, 9, self.now)
        self.plain.groups = groups
        for group in groups.values():
            for d in group.devices:
                self.plain.device[d] = "used"
        for node, _, _, cores, _ in lease.rows.tolist():
            self.plain.cores[node] -= cores
        self.leases[job] = lease

    @rule(seed=st.integers(0, 2**32), again=st.booleans())
    def end(self, seed: int, again: bool) -> None:
        if not self.leases:
            return
        job = random.Random(seed).choice(sorted(self.leases))
        lease = self.leases.pop(job)
        self.now += 1
        self.state.release(job, self.now, UNKNOWN if again else FINISHED)
        if again:
            self.state.submit(job)
        for node, _, _, cores, _ in lease.rows.tolist():
            self.plain.cores[node] += cores
        for share in reversed(lease.shares):
            leader = share.devices[0]
            group = self.plain.groups[leader]
            group.jobs.remove((job, share.amounts))
            if not group.jobs:
                del self.plain.groups[leader]
                slow = POOL_OF[leader] in (0, 2) and any(HOME[d] != share.node for d in share.devices)
                for d in share.devices:
                    self.plain.device[d] = "leaving" if slow else "free"

    @rule()
    def detach(self) -> None:
        assert self.state.devices is not None
        for leaving in self.state.devices.leaving:
            self.state.detached(leaving.devices)
            for d in leaving.devices:
                self.plain.device[d] = {"leaving": "free", "leaving-off": "off"}[self.plain.device[d]]
        self.state.devices.leaving.clear()

    @rule(node=st.integers(0, 2))
    def fail_or_repair(self, node: int) -> None:
        up = self.plain.online[node]
        own = [d for d in range(6) if HOME[d] == node]
        full = self.plain.cores[node] == [6, 6, 4][node] or not up
        if up and (not full or any(self.plain.device[d] == "used" for d in own)):
            before = snapshot(self.state)
            with pytest.raises(RefusedError, match=f"node {node}"):
                self.state.set_online(node, False)
            assert snapshot(self.state) == before
            return
        self.state.set_online(node, not up)
        self.plain.online[node] = not up
        self.plain.cores[node] = 0 if up else [6, 6, 4][node]
        swap = {"free": "off", "off": "free", "leaving": "leaving-off", "leaving-off": "leaving"}
        for d in own:
            self.plain.device[d] = swap[self.plain.device[d]]

    @rule(device=st.integers(0, 5))
    def detach_what_is_not_leaving(self, device: int) -> None:
        if self.plain.device[device].startswith("leaving"):
            return
        before = snapshot(self.state)
        with pytest.raises(RefusedError, match=f"device {device}"):
            self.state.detached((device,))
        assert snapshot(self.state) == before

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "state"):
            return
        devices = self.state.devices
        assert devices is not None
        c = devices.columns
        assert self.state.free[0].tolist() == self.plain.cores
        for d, expected in enumerate(self.plain.device):
            assert (int(c.device[GROUP, d]) == FREE) == (expected == "free")
            assert (devices.reader.group_of(d) >= 0) == (expected == "used")
        for p in range(4):
            assert c.pool[FREE_COUNT, p] == sum(
                POOL_OF[d] == p and s == "free" for d, s in enumerate(self.plain.device)
            )
        for leader, group in self.plain.groups.items():
            assert {devices.reader.group_of(d) for d in group.devices} == {leader}
            assert sorted(devices.reader.sharers(leader).tolist()) == sorted(job for job, _ in group.jobs)
            assert c.held[:, leader].tolist() == [sum(a[q] for _, a in group.jobs) for q in range(2)]
        for job in range(len(JOBS)):
            assert (self.state.condition(job) == RUNNING) == (job in self.leases)


TestDevices = draws(40, stateful_step_count=30)(Devices).TestCase


def test_a_refused_lease_leaves_no_trace_though_its_first_shares_were_taken() -> None:
    state = new_state()
    for job in (0, 1, 12):
        state.submit(job)
    state.start(Lease.on(0, [0], [1], [2], [0])._replace(shares=(Share(0, (2,), (1000, 100)),)), 9, 0)
    before = snapshot(state)
    shares = (Share(0, (0,), (500, 100)), Share(1, (2,), (500, 100)))
    with pytest.raises(RefusedError, match="attached to another node"):
        state.start(Lease.on(12, [0, 1], [1, 1], [1, 1], [0, 0])._replace(shares=shares), 9, 0)
    assert snapshot(state) == before
    with pytest.raises(RefusedError, match="cores"):  # the devices would do, the cores would not
        state.start(Lease.on(1, [0], [1], [7], [0])._replace(shares=(Share(0, (0,), (1000, 200)),)), 9, 0)
    assert snapshot(state) == before


def test_a_lease_that_names_a_node_twice_must_hold_devices_for_the_tasks_of_both() -> None:
    state = new_state()
    state.submit(12)
    rows = np.array([[0, 1, 1, 1, 0], [0, 1, 1, 1, 0]], np.int64)
    before = snapshot(state)
    with pytest.raises(RefusedError, match="less of a device"):
        state.start(Lease(12, rows, (), (Share(0, (0,), (500, 100)),)), 9, 0)
    assert snapshot(state) == before
    state.start(Lease(12, rows, (), (Share(0, (0,), (1000, 200)),)), 9, 0)


def test_a_device_that_serves_two_jobs_takes_no_third() -> None:
    state = new_state()
    for job in (10, 11, 14):
        state.submit(job)
    for job, gb in ((10, 1), (11, 9)):
        state.start(Lease.on(job, [1], [1], [1], [0])._replace(shares=(Share(1, (5,), (800, gb)),)), 9, 0)
    before = snapshot(state)
    shares = (Share(1, (0,), (100, 10)), Share(1, (5,), (100, 1)))
    with pytest.raises(RefusedError, match="more jobs on a device"):
        state.start(Lease.on(14, [1], [1], [1], [0])._replace(shares=shares), 9, 0)
    assert snapshot(state) == before
