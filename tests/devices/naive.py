"""The pooled policies once more, in plain Python over dictionaries: each job of the queue in order, once.

Written from the papers' algorithms and the documentation, without the engine's kernels: what the engine does in batches
and compiled must come out the same. Only what is held, and what running jobs have left, is read from the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import ceil, inf
from typing import Any, ClassVar

import numpy as np
from ledger import speeds_of

from unrack.ledger.devices.columns import LEFT, PACE, READY_US, SINCE_US
from unrack.ledger.lease import Lease, Share
from unrack.policy.contract import Decision, Estimates, Start
from unrack.reasons import Code, Reason
from unrack.units import SECOND_US
from unrack.view import View

QUEUED, RUNNING = 1, 2
FREE = -1


def whole(us: int) -> int:
    """The first whole second at or after a moment."""
    return -(-us // SECOND_US) * SECOND_US


@dataclass
class Group:
    """A composition or split device in use; ``node`` None: attached to several."""

    devices: list[int]
    node: int | None
    parts: int
    model: int | None
    ready: int
    jobs: list[tuple[int, int]] = field(default_factory=list)
    held: list[int] = field(default_factory=list)


@dataclass
class Choice:
    """A group to join, or free devices to make one of."""

    devices: list[int]
    parts: int


class Now:
    """The state of affairs at one moment, as dictionaries."""

    def __init__(self, view: View, models: Sequence[Mapping[str, Any]], now: int) -> None:
        state = view.columns
        assert state.devices is not None
        c = state.devices.columns
        self.view, self.now = view, now
        self.devices = view.cluster.devices
        self.models = models
        self.patient = -1
        self.authors = False
        self.tables = [speeds_of(model) for model in models]
        self.cores, self.mb = view.free[0].tolist(), view.free[1].tolist()
        self.total = view.total[0].tolist()
        self.free = {p: [d for d in range(pool.first, pool.first + pool.count) if c.device[2, d] == FREE]
                     for p, pool in enumerate(self.devices.pools)}  # fmt: skip
        self.groups: dict[int, Group] = {}
        self.progress: dict[int, tuple[float, int, float]] = {}
        for job in sorted(view.running[1, : view.running_count].tolist()):
            self.progress[job] = (
                float(c.progress[LEFT, job]),
                int(c.clock[SINCE_US, job]),
                float(c.progress[PACE, job]),
            )
            for share in view.lease(job).shares:
                leader = share.devices[0]
                if leader not in self.groups:
                    node = share.node if self.pool(leader).single else None
                    model = self.model(job, self.kind(leader))
                    ready = int(c.group[READY_US, leader])
                    self.groups[leader] = Group(list(share.devices), node, share.parts, model, ready, [], [0] * 9)
                self.join(leader, job, share.node, share.amounts)

    def at(self, now: int) -> Now:
        """The same later, if nothing happens."""
        self.now = now
        return self

    def join(self, leader: int, job: int, node: int, amounts: Sequence[int]) -> None:
        group = self.groups[leader]
        group.jobs.append((job, node))
        for q, amount in enumerate(amounts):
            group.held[q] += amount

    def kind(self, device: int) -> int:
        return int(self.devices.kind[device])

    def pool(self, device: int) -> Any:
        return self.devices.pools[int(self.devices.pool[device])]

    def reaches(self, node: int, pool: int) -> bool:
        return bool(self.devices.reach[pool, node])

    def wants(self, job: int, kind: int) -> list[int]:
        asked = self.view.job(job).demand.devices.get(self.devices.kinds[kind], {})
        return [asked.get(name, 0) for name in self.devices.quantities[kind]]

    def kinds(self, job: int) -> list[int]:
        return [k for k in range(len(self.devices.kinds)) if any(self.wants(job, k))]

    def model(self, job: int, kind: int) -> int | None:
        if not any(self.wants(job, kind)):
            return None
        name, app = self.devices.kinds[kind], self.view.job(job).app
        for m, model in enumerate(self.models):
            if model.get("kind", "nvme") == name and app in model.get("apps", [model["model"]]):
                return m
        return None

    def governs(self, model: int | None, kind: int, q: int) -> bool:
        if model is None:
            return False
        return self.devices.quantities[kind][q] in self.models[model].get("governs", ["bandwidth_mb_s"])

    def speed(self, model: int | None, size: int, jobs: int) -> float:
        return 1.0 if model is None else self.tables[model](size, jobs)

    def slowed(self, devices: Sequence[int], node: int) -> float:
        away = any(int(self.devices.home[d]) != node for d in devices)
        return 1.0 / (1.0 + self.pool(devices[0]).overhead) if away else 1.0

    def left(self, job: int) -> float:
        work, since, pace = self.progress[job]
        return max(0.0, work - max(0, self.now - since) * pace)

    def ends(self, job: int, pace: float) -> int:
        """When a running job ends at a pace."""
        return max(self.now, self.progress[job][1]) + ceil(self.left(job) / pace)


@dataclass(frozen=True)
class Naive:
    """A policy: a rule and an order, job by job."""

    rule: str
    order: str = "edf"
    tables: Sequence[Mapping[str, Any]] = ()
    low: float = 0.5
    high: float = 0.7
    name: str = "naive"
    estimates: Estimates = Estimates.REQUESTED
    authors: bool = False

    needs: ClassVar[frozenset[Any]] = frozenset()
    devices: ClassVar[bool] = True
    stepwise: ClassVar[bool] = True

    def begin(self, view: View) -> dict[str, Any]:
        return {"todo": None, "rule": self.rule, "started": None}

    def decide(self, view: View, memory: dict[str, Any], now: int) -> tuple[list[Decision], dict[str, Any]]:
        if memory["todo"] is None:
            memory["todo"] = sorted(view.queue.tolist(), key=lambda job: (self.key(view, job), job))
            memory["rule"] = self.rule if self.rule != "disaggregation-aware" else self.by_load(view)
        elif self.authors and self.rule == "disaggregation-aware":
            memory["rule"] = self.by_load(view)
        world = self.world(view, now)
        while memory["todo"]:
            job = memory["todo"].pop(0)
            lease = self.lease(world, job, memory["rule"])
            if view.job(job).demand.tasks > 1:  # some of its tasks may have been placed there
                if lease is None and view.running_count == 0:
                    world = self.world(view, now)
                    world.patient = job
                    lease = self.lease(world, job, memory["rule"])
                world = self.world(view, now)
            if lease is not None:
                memory["started"] = now
                return [Start(lease, memory["rule"])], memory
        memory["todo"] = None
        return [], memory

    def next_round(self, view: View, memory: dict[str, Any], now: int) -> int | None:
        """The first moment at which somebody has a place by time alone, of those at which a group opens or closes."""
        if memory["rule"] in ("first-fit", "best-fit"):
            return None
        found = None
        if self.authors and memory["started"] == now and view.queue.size:
            found = whole(now + 1)
        for job in view.queue.tolist():
            for moment in sorted(self.moments(view, job, now)):
                if found is not None and moment >= found:
                    break
                if self.lease(self.world(view, moment), job, memory["rule"]) is not None:
                    found = moment
        return found

    def world(self, view: View, now: int) -> Now:
        world = Now(view, self.tables, now)
        world.authors = self.authors
        return world

    def moments(self, view: View, job: int, now: int) -> set[int]:
        """When groups open to a job and more tasks of it, and when its own deadline counts no more."""
        world, found = self.world(view, now), set()
        one = view.job(job)
        for leader, group in world.groups.items():
            turns = {now, now + 1}
            for other, _ in group.jobs:
                work, since, pace = world.progress[other]
                turns |= {since, since + ceil(work / pace)}
                turns |= {turn for turn in [view.job(other).deadline_us] if turn is not None}
            ordered = sorted(turn for turn in turns if turn >= now)
            for more in range(1, one.demand.tasks + 1):
                if (
                    group.model is not None
                    and world.speed(group.model, len(group.devices), len(group.jobs) + more) == 0
                ):
                    break
                for low, high in pairwise(ordered):
                    closed, opened = (harmed(world.at(end), job, leader, more) for end in (low, high))
                    while closed and not opened and high - low > 1:
                        middle = (low + high) // 2
                        low, high = (middle, high) if harmed(world.at(middle), job, leader, more) else (low, middle)
                    if closed and not opened:
                        found.add(high)
        if self.authors:
            found = {whole(moment) for moment in found if moment > now}
            found |= set() if one.deadline_us is None else {whole(one.deadline_us + 1)}
        return {moment for moment in found if moment > now}

    def why(self, view: View, memory: dict[str, Any], job: int, now: int) -> Reason:
        return Reason(Code.NOT_YET)

    def key(self, view: View, job: int) -> tuple[float, ...]:
        one = view.job(job)
        due = inf if one.deadline_us is None else one.deadline_us
        return {
            "edf": (due,), "fcfs": (0,), "sjf": (int(view.estimate_us[job]),), "priority-edf": (-one.priority, due)
        }[self.order]  # fmt: skip

    def by_load(self, view: View) -> str:
        """Equation 4.4, with the demand of all jobs that were submitted and have not ended, or that run."""
        devices = view.cluster.devices
        if "nvme" not in devices.kinds:
            return "max-composition"
        bandwidth, capacity = (
            sum(
                view.job(job).demand.tasks * view.job(job).demand.devices.get("nvme", {}).get(name, 0)
                for job in np.flatnonzero(
                    ((view.status == QUEUED) & (not self.authors)) | (view.status == RUNNING)
                ).tolist()
            )
            / devices.installed("nvme", name)
            for name in ("bandwidth_mb_s", "capacity_mb")
        )
        relaxed = bandwidth <= self.low and capacity <= self.low
        fast = bandwidth >= self.high and (capacity < self.high if self.authors else capacity <= self.high)
        return "max-composition" if relaxed or fast else "min-fragmentation"

    def lease(self, world: Now, job: int, rule: str) -> Lease | None:
        """All tasks, one after the other."""
        demand = world.view.job(job).demand
        nodes: list[int] = []
        shares: list[Share] = []
        for _ in range(demand.tasks):
            place = simple(world, job, rule) if rule in ("first-fit", "best-fit") else aware(world, job, rule)
            if place is None:
                return None
            node, choices = place
            nodes.append(node)
            world.cores[node] -= demand.cores
            world.mb[node] -= demand.memory_mb
            for kind in world.kinds(job):
                choice, amounts = choices[kind], world.wants(job, kind)
                shares.append(Share(node, tuple(choice.devices), tuple(amounts), choice.parts))
                leader = choice.devices[0]
                if leader not in world.groups:
                    pool = int(world.devices.pool[leader])
                    single = world.devices.pools[pool].single
                    attach = world.devices.pools[pool].attach_us
                    away = any(int(world.devices.home[d]) != node for d in choice.devices)
                    world.groups[leader] = Group(
                        choice.devices, node if single else None, choice.parts, world.model(job, kind),
                        world.now + (attach if away else 0), [], [0] * 9,
                    )  # fmt: skip
                    world.free[pool] = [d for d in world.free[pool] if d not in choice.devices]
                world.join(leader, job, node, amounts)
        on = sorted(set(nodes))
        count = [nodes.count(node) for node in on]
        lease = Lease.on(job, on, count, [n * demand.cores for n in count], [n * demand.memory_mb for n in count])
        return lease._replace(shares=tuple(shares))


Place = tuple[int, dict[int, Choice]]


def fits(world: Now, job: int) -> list[int]:
    """The nodes with the cores and memory of a task."""
    demand = world.view.job(job).demand
    return [n for n in range(len(world.cores)) if world.cores[n] >= demand.cores and world.mb[n] >= demand.memory_mb]


def least(world: Now, job: int, kind: int, pool: int, hard: bool) -> int | None:
    """Fewest devices of a pool that meet the demand and that the model admits."""
    p, model = world.devices.pools[pool], world.model(job, kind)
    for size in range(1, p.compose + 1):
        met = all(
            want <= size * int(world.devices.capacity[q, p.first]) or (world.governs(model, kind, q) and not hard)
            for q, want in enumerate(world.wants(job, kind))
        )
        if met and world.speed(model, size, 1) > 0:
            return size
    return None


def parts_of(world: Now, job: int, kind: int, pool: int) -> int:
    """Algorithm 3; 0 where the pool is not split."""
    p = world.devices.pools[pool]
    if p.split == 1:
        return 0
    fitting = [int(world.devices.capacity[q, p.first]) // want for q, want in enumerate(world.wants(job, kind)) if want]
    return min([p.split, *fitting])


def offer(world: Now, job: int, kind: int, node: int, hard: bool, grow: bool) -> Choice | None:
    """Free devices for the job at a node: of the first pool in reach that has enough."""
    for pool, p in enumerate(world.devices.pools):
        if p.kind != world.devices.kinds[kind] or not world.reaches(node, pool):
            continue
        size = least(world, job, kind, pool, hard)
        if size is None:
            continue
        model = world.model(job, kind)
        while grow and model is not None and size < p.compose:
            if world.speed(model, size + 1, 1) <= world.speed(model, size, 1):
                break
            size += 1
        parts = parts_of(world, job, kind, pool)
        if size <= len(world.free[pool]) and (p.split == 1 or parts > 0):
            return Choice(world.free[pool][:size], parts)
    return None


def roomy(world: Now, job: int, kind: int, leader: int, hard: bool) -> bool:
    """Whether the job could be the next on a group, nodes and deadlines apart."""
    group, pool, model = world.groups[leader], world.pool(leader), world.model(job, kind)
    count = len(group.jobs) + 1
    if world.kind(leader) != kind or group.model != model or count > pool.share:
        return False
    for q, want in enumerate(world.wants(job, kind)):
        there = sum(int(world.devices.capacity[q, d]) for d in group.devices)
        if group.parts:
            if want > there // group.parts:
                return False
        elif (hard or not world.governs(model, kind, q)) and group.held[q] + want > there:
            return False
    return (not group.parts or count <= group.parts) and world.speed(model, len(group.devices), count) > 0


def spare(world: Now, job: int, leader: int) -> float:
    """Equation 4.1: what would be left, bandwidth in MB/s and sizes in GB."""
    group, kind, total = world.groups[leader], world.kind(leader), 0.0
    for q, want in enumerate(world.wants(job, kind)):
        there = sum(int(world.devices.capacity[q, d]) for d in group.devices)
        unit = 1024.0 if world.devices.quantities[kind][q].endswith("_mb") else 1.0
        total += (there - group.held[q] - want) / unit
    return total


def alpha(world: Now, job: int, leader: int, node: int) -> float:
    """Equation 4.2."""
    group, used = world.groups[leader], 0.0
    for q, want in enumerate(world.wants(job, world.kind(leader))):
        used += want / max(sum(int(world.devices.capacity[q, d]) for d in group.devices) - group.held[q], 1)
    return (1.0 - used) / (world.view.job(job).demand.cores / world.cores[node])


def whole_alpha(world: Now, job: int, leader: int, node: int) -> float:
    """Equation 4.2 as the authors' program divides."""
    group, used = world.groups[leader], 0
    for q, want in enumerate(world.wants(job, world.kind(leader))):
        free = sum(int(world.devices.capacity[q, d]) for d in group.devices) - group.held[q]
        used += int(Fraction(want, free or 1))
    return 1.0 - used


def at(world: Now, job: int, kind: int, node: int, hard: bool) -> list[int]:
    """The groups in use that the job could join at a node, ascending."""
    return [
        leader
        for leader, group in sorted(world.groups.items())
        if group.node in (None, node)
        and world.reaches(node, int(world.devices.pool[leader]))
        and roomy(world, job, kind, leader, hard)
    ]


def first(world: Now, job: int, kind: int, node: int, hard: bool, tight: bool) -> Choice | None:
    """First fit: the lowest device, in use or free; ``tight``: a group with least to spare before a free device."""
    groups, new = at(world, job, kind, node, hard), offer(world, job, kind, node, hard, False)
    if tight and groups:
        groups = [min(groups, key=lambda leader: spare(world, job, leader))]
    if groups and (tight or new is None or groups[0] < new.devices[0]):
        return Choice(world.groups[groups[0]].devices, world.groups[groups[0]].parts)
    return new


def simple(world: Now, job: int, rule: str) -> Place | None:
    """First or best fit over nodes, and on each over devices."""
    nodes = fits(world, job)
    if rule == "best-fit":
        nodes.sort(key=lambda node: world.cores[node])
    for node in nodes:
        choices = {kind: first(world, job, kind, node, True, rule == "best-fit") for kind in world.kinds(job)}
        if all(choice is not None for choice in choices.values()):
            return node, choices  # type: ignore[return-value]
    return None


def by_node(world: Now, rule: str) -> Callable[[int], float | Fraction]:
    """Which node is preferred, the least first: by number, the emptiest (4.3), or most cores left (5.1)."""
    return {
        "max-composition": lambda node: 0,
        "min-fragmentation": lambda node: 1 - Fraction(world.cores[node], world.total[node]),
        "resource-aware": lambda node: -world.cores[node],
    }[rule]


def harmed(world: Now, job: int, leader: int, more: int = 1) -> bool:
    """Whether one more, or so many, would make somebody on a group late."""
    group = world.groups[leader]
    for other, _ in group.jobs:
        deadline = world.view.job(other).deadline_us
        if other == job or deadline is None:
            continue
        node = next(node for one, node in group.jobs if one == other)
        pace = world.progress[other][2]
        if group.model is not None:
            pace = world.speed(group.model, len(group.devices), len(group.jobs) + more)
            pace *= world.slowed(group.devices, node)
        if world.ends(other, pace) > deadline + world.authors:  # a microsecond of rounding
            return True
    return False


def others(world: Now, job: int, primary: int, node: int) -> dict[int, Choice] | None:
    """What the job asks of other kinds, by first fit at a node."""
    found = {k: first(world, job, k, node, False, False) for k in world.kinds(job) if k != primary}
    return None if None in found.values() else found  # type: ignore[return-value]


def aware(world: Now, job: int, rule: str) -> Place | None:
    """Algorithms 1, 2 and 4."""
    kinds, prefer = world.kinds(job), by_node(world, rule)
    nodes = fits(world, job)
    if not kinds:
        return (min(nodes, key=prefer), {}) if nodes else None
    primary = kinds[0]
    nodes = [node for node in nodes if others(world, job, primary, node) is not None]
    one = world.view.job(job)
    expected = int(world.view.estimate_us[job])
    due = None if job == world.patient else one.deadline_us
    whenever = due is None or (world.authors and due < world.now)
    candidates: list[tuple[tuple[float, ...], int, int]] = []
    for leader, group in sorted(world.groups.items()):
        reached = [n for n in nodes if group.node in (None, n) and world.reaches(n, int(world.devices.pool[leader]))]
        if not reached or not roomy(world, job, primary, leader, False):
            continue
        node = min(reached, key=prefer)
        if not (rule == "resource-aware" and group.parts) and harmed(world, job, leader):
            continue
        sharers = len(group.jobs) + (not world.authors)
        pace = world.speed(group.model, len(group.devices), sharers) * world.slowed(group.devices, node)
        ends = max(world.now, group.ready) + ceil(expected / pace)
        if world.authors and rule == "min-fragmentation":
            ends = world.now + expected
        if not whenever and due is not None and ends > due:
            continue
        fitness: tuple[float, ...] = ()
        if rule == "max-composition":
            lives = max((world.ends(o, world.progress[o][2]) - world.now for o, _ in group.jobs if o != job), default=0)
            fitness = (ends - world.now - lives, spare(world, job, leader))
        elif rule == "min-fragmentation":
            fitness = ((whole_alpha if world.authors else alpha)(world, job, leader, node),)
        candidates.append((fitness, leader, node))
    if candidates:
        _, leader, node = min(candidates)
        group = world.groups[leader]
        return node, {primary: Choice(group.devices, group.parts), **(others(world, job, primary, node) or {})}
    few = rule == "min-fragmentation" or (world.authors and whenever)
    for grow in (not few,) if few or world.authors else (True, False):
        new = {node: offer(world, job, primary, node, False, grow) for node in nodes}
        able = [node for node in nodes if new[node] is not None]
        if not able:
            continue
        if rule == "resource-aware":  # what may be composed goes by first fit and takes no place from another
            whole = [n for n in able if world.pool(new[n].devices[0]).compose == 1]  # type: ignore[union-attr]
            able = [able[0], *[node for node in whole if node != able[0]]]
        node = min(able, key=prefer)
        choice = new[node]
        assert choice is not None
        return node, {primary: choice, **(others(world, job, primary, node) or {})}
    return None
