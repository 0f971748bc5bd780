"""An audit of finished runs on pooled devices that trusts nothing but the log, and works every end out again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import inf
from typing import Any

from device_worlds import World
from small_worlds import nodes_held

from unrack.ledger.lease import Share
from unrack.sim.log import RunLog

FINISHED = 0
SLACK_US = 2.5
"""How far an end worked out in floats may be from the run's whole µs."""


@dataclass(frozen=True)
class Held:
    """One share of one attempt: half-open in time, µs."""

    attempt: int
    job: int
    start: int
    end: int
    share: Share
    group: int
    model: int | None
    """Which model governs the job on this kind."""


class Ledger:
    """A finished run, indexed."""

    def __init__(self, log: RunLog, world: World) -> None:
        self.log, self.world = log, world
        self.devices = log.cluster.devices
        self.models: Sequence[Mapping[str, Any]] = world.models
        self.tables = [speeds_of(model) for model in self.models]
        self.held: list[Held] = []
        for at, group, share in zip(log.share_attempt.tolist(), log.share_group.tolist(), log.shares, strict=True):
            job = int(log.attempt_job[at])
            start, end = int(log.attempt_start_us[at]), int(log.attempt_end_us[at])
            self.held.append(Held(at, job, start, end, share, group, self.model_of(job, self.kind(share.devices[0]))))
        self.of_attempt: dict[int, list[Held]] = defaultdict(list)
        self.of_group: dict[int, list[Held]] = defaultdict(list)
        for held in self.held:
            self.of_attempt[held.attempt].append(held)
            self.of_group[held.group].append(held)

    def kind(self, device: int) -> str:
        return self.devices.kinds[int(self.devices.kind[device])]

    def pool(self, device: int) -> Any:
        return self.devices.pools[int(self.devices.pool[device])]

    def asks(self, job: int, kind: str) -> tuple[int, ...]:
        """What a task asks of the quantities of a kind, in the cluster's order of them."""
        names = self.devices.quantities[self.devices.kinds.index(kind)] if kind in self.devices.kinds else ()
        return tuple(
            int(self.log.jobs.devices[kind, n][job]) if (kind, n) in self.log.jobs.devices else 0 for n in names
        )

    def model_of(self, job: int, kind: str) -> int | None:
        app = self.log.jobs.app_names[self.log.jobs.app[job]] if self.log.jobs.app[job] >= 0 else None
        if not any(self.asks(job, kind)):
            return None
        found = [
            m
            for m, model in enumerate(self.models)
            if model.get("kind", "nvme") == kind and app in model.get("apps", [model["model"]])
        ]
        return found[0] if found else None

    def installed(self, devices: Sequence[int], q: int) -> int:
        return sum(int(self.devices.capacity[q, device]) for device in devices)

    def remote(self, share: Share) -> bool:
        """Whether a device of a share is not at home where it is used."""
        return any(int(self.devices.home[device]) != share.node for device in share.devices)

    def speed(self, held: Held, sharers: int) -> float:
        """Speed that a share allows its job beside so many in all."""
        one = 1.0 if held.model is None else self.tables[held.model](len(held.share.devices), sharers)
        return one / (1 + self.pool(held.share.devices[0]).overhead) if self.remote(held.share) else one


def speeds_of(model: Mapping[str, Any]) -> Any:
    """(devices, sharers) → speed of a model's table, read plainly; 0: not admitted."""
    times = model.get("times_s")
    if times is None:
        return lambda d, k: min(d, model.get("most_devices", inf)) / k if k <= model.get("most_sharers", 64) else 0.0
    base = model.get("base_s") or next(time for time in times[0] if time)

    def speed(devices: int, sharers: int) -> float:
        row = times[min(devices, len(times)) - 1]
        return base / row[sharers - 1] if sharers <= len(row) and row[sharers - 1] else 0.0

    return speed


def audit(log: RunLog, world: World) -> None:
    """Assert every promise about devices, nodes and times."""
    ledger = Ledger(log, world)
    _demands(ledger)
    _nodes(ledger)
    for group in ledger.of_group.values():
        _group(ledger, group)
    _exclusive(ledger)
    _faults(ledger)
    for attempt in range(len(log.attempt_job)):
        _time(ledger, attempt)


def _demands(ledger: Ledger) -> None:
    """Every task holds, on its node, what it asks of every kind, and nothing elsewhere."""
    log = ledger.log
    for attempt, job in enumerate(log.attempt_job.tolist()):
        assert log.attempt_start_us[attempt] >= log.jobs.submit_us[job]
        tasks = {node: held[0] for node, held in nodes_held(log, attempt).items()}
        assert sum(tasks.values()) == log.jobs.tasks[job], "a gang did not start whole"
        for kind in ledger.devices.kinds:
            wants = ledger.asks(job, kind)
            own = [held for held in ledger.of_attempt[attempt] if ledger.kind(held.share.devices[0]) == kind]
            assert bool(own) == any(wants), "devices without asking, or asking without devices"
            for held in own:
                assert held.share.node in tasks, "attached to a node where the job is not"
                assert len(held.share.amounts) == len(wants)
            for node, count in tasks.items():
                for q, want in enumerate(wants):
                    assert sum(h.share.amounts[q] for h in own if h.share.node == node) == count * want
    for job, asked in enumerate(zip(*log.jobs.devices.values(), strict=True)):
        if log.state[job] == 3:
            for (kind, name), amount in zip(log.jobs.devices, asked, strict=True):
                assert not amount or kind in ledger.devices.kinds, f"ran without the {kind}.{name} that it asked"


def _nodes(ledger: Ledger) -> None:
    """No node gives more cores than it has."""
    log = ledger.log
    spells = []
    for attempt, job in enumerate(log.attempt_job.tolist()):
        start, end = int(log.attempt_start_us[attempt]), int(log.attempt_end_us[attempt])
        for node, (tasks, cores, _) in nodes_held(log, attempt).items():
            assert cores == tasks * int(log.jobs.cores[job])
            spells.append((node, start, end, cores))
    for node, now, _, _ in spells:
        there = sum(cores for n, start, end, cores in spells if n == node and start <= now < end)
        assert there <= int(log.cluster.cores[node]), "more cores held than a node has"


def _group(ledger: Ledger, group: list[Held]) -> None:
    """One life of a composition or split device."""
    one = group[0].share
    pool = ledger.pool(one.devices[0])
    reach = ledger.devices.reach[ledger.devices.pools.index(pool)]
    assert list(one.devices) == sorted(set(one.devices))
    assert {ledger.pool(device) for device in one.devices} == {pool}, "devices of different pools composed"
    assert len(one.devices) <= pool.compose
    assert one.parts <= pool.split
    assert (one.parts > 0) == (pool.split > 1)
    for held in group:
        assert held.share.devices == one.devices, "a composition changed while it lived"
        assert held.share.parts == one.parts
        assert reach[held.share.node], "attached out of reach"
    if pool.single:
        assert len({held.share.node for held in group}) == 1, "attached to two nodes"
    assert len({held.model for held in group}) == 1, "jobs of different models share"
    names = ledger.devices.quantities[ledger.devices.kinds.index(pool.kind)]
    model = group[0].model
    governs = () if model is None else ledger.models[model].get("governs", ["bandwidth_mb_s"])
    for held in group:
        there = [other for other in group if other.start <= held.start < other.end]
        if held.start == held.end:  # what began at the same time may have begun after this one was over
            there = [held, *(other for other in there if other.start < held.start)]
        assert len(there) <= pool.share
        assert one.parts == 0 or len(there) <= one.parts
        assert model is None or ledger.tables[model](len(one.devices), len(there)) > 0, (
            "the model does not admit so many"
        )
        for q, name in enumerate(names):
            room = ledger.installed(one.devices, q)
            if one.parts:
                assert all(other.share.amounts[q] <= room // one.parts for other in there), (
                    "a part too small for its job"
                )
            elif name not in governs:
                assert sum(other.share.amounts[q] for other in there) <= room, f"{name} oversubscribed"
    lasting = sorted((held.start, held.end) for held in group)
    reached = lasting[0][1]
    for start, end in lasting[1:]:
        assert start <= reached, "a composition that nobody held went on"
        reached = max(reached, end)


def _exclusive(ledger: Ledger) -> None:
    """No device in two groups at a time; what was attached is detached before it is used again."""
    lives: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for number, group in ledger.of_group.items():
        start, end = min(held.start for held in group), max(held.end for held in group)
        pool = ledger.pool(group[0].share.devices[0])
        last = [ledger.remote(held.share) for held in group if held.end == end]
        for device in group[0].share.devices:
            lives[device].append((start, end + (pool.detach_us if all(last) else 0), number))
    for device, spells in lives.items():
        spells.sort(key=lambda spell: (spell[0], spell[1], spell[2]))
        for before, after in pairwise(spells):
            assert before[1] <= after[0], f"device {device} in two groups at a time, or before it was detached"


def _faults(ledger: Ledger) -> None:
    """Nothing runs on a node that is down, nor on a device that sits in one."""
    log = ledger.log
    for fault in ledger.world.faults:
        down = (fault.at_us, fault.at_us + fault.repair_us)
        for node in log.cluster.domain(fault.domain):
            for attempt in range(len(log.attempt_job)):
                start, end = int(log.attempt_start_us[attempt]), int(log.attempt_end_us[attempt])
                if start < down[1] and down[0] < end:
                    assert node not in nodes_held(log, attempt), "ran on a node that was down"
                    used = [d for held in ledger.of_attempt[attempt] for d in held.share.devices]
                    assert all(int(ledger.devices.home[d]) != node for d in used), (
                        "used a device of a node that was down"
                    )


def _time(ledger: Ledger, attempt: int) -> None:
    """The end follows from the work and from who shared what with whom."""
    log, own = ledger.log, ledger.of_attempt[attempt]
    job, start, end = (
        int(log.attempt_job[attempt]),
        int(log.attempt_start_us[attempt]),
        int(log.attempt_end_us[attempt]),
    )
    if start == end:
        assert log.attempt_outcome[attempt] != FINISHED or log.jobs.work_us[job] == 0
        return
    begin = start
    for held in own:
        first = min(ledger.of_group[held.group], key=lambda h: (h.start, h.attempt))
        if ledger.remote(first.share):
            begin = max(begin, first.start + ledger.pool(first.share.devices[0]).attach_us)
    if begin >= end and log.attempt_outcome[attempt] != FINISHED:
        return  # stopped while its device was being attached
    work = float(log.jobs.work_us[job])
    ends = [_end(ledger, own, paces, begin, work) for paces in _frozen_paces(ledger, own)]
    if log.attempt_outcome[attempt] == FINISHED:
        assert any(abs(want - end) <= SLACK_US for want in ends), f"job {job} ended at {end} µs, wanted one of {ends}"
    else:
        assert max(ends) >= end - SLACK_US, "stopped after it should have ended"


def _frozen_paces(ledger: Ledger, own: list[Held]) -> Iterator[tuple[float | None, ...]]:
    """What the frozen shares of an attempt may run at; more than one where the order at one instant decides."""
    choices: list[list[float | None]] = []
    for held in own:
        if held.model is None or not ledger.models[held.model].get("frozen"):
            choices.append([None])
            continue
        others = [other for other in ledger.of_group[held.group] if other.attempt != held.attempt]
        mine = sum(other.attempt == held.attempt for other in ledger.of_group[held.group])
        sure = mine + sum(other.start < held.start < other.end for other in others)
        most = mine + sum(other.start <= held.start <= other.end for other in others)
        choices.append([ledger.speed(held, k) for k in range(sure, most + 1) if ledger.speed(held, k) > 0])
    yield from set(product(*choices))


def _end(ledger: Ledger, own: list[Held], frozen: tuple[float | None, ...], begin: int, work: float) -> float:
    """Integrate the speed over every interval between changes."""
    if work == 0:
        return float(begin)
    moments = sorted(
        {t for held in own for other in ledger.of_group[held.group] for t in (other.start, other.end) if t > begin}
    )
    left, now = work, float(begin)
    for until in [*moments, inf]:
        paces = [1.0]
        if own:
            paces = [
                pace
                if pace is not None
                else ledger.speed(held, sum(o.start <= now < o.end or o is held for o in ledger.of_group[held.group]))
                for held, pace in zip(own, frozen, strict=True)
            ]
        pace = min(paces)
        if pace <= 0:
            return -inf
        if now + left / pace <= until:
            return now + left / pace
        left -= (until - now) * pace
        now = float(until)
    raise AssertionError("the last interval has no end")
