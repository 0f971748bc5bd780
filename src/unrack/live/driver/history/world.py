"""A simulated world with as much of what really happened around it as one asks for, one class of facts at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from unrack.errors import RefusedError
from unrack.events import (
    ACKNOWLEDGE,
    FAIL,
    Adopted,
    Drained,
    Expected,
    Finished,
    Opened,
    Repaired,
    Started,
    StartFailed,
    Withdrawn,
)
from unrack.kernels.arrays import Ints
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, Lease
from unrack.ledger.state import QUEUED
from unrack.live.driver.history.past import Past
from unrack.live.driver.history.runs import spec_of, table_of
from unrack.live.driver.history.stay import Became, Stay
from unrack.live.driver.history.told import EndMoved, NodesMoved
from unrack.live.records import job_of_record
from unrack.reasons import Code, Reason
from unrack.resources.places import NO_CLAIMS
from unrack.sim.kernel import Entry, Kernel
from unrack.sim.log import RunLog
from unrack.sim.recorder import Outcome
from unrack.sim.simulate import prepared
from unrack.sim.world import PolicyAtWork, World
from unrack.units import NEVER_US
from unrack.workload.job import Job

OUTSIDE = FAIL
"""The rank of what others do: these worlds have no faults, and this is a fault's."""


class Fact(StrEnum):
    """A class of things that a journal tells, and that a simulation has only if it is told of them."""

    PARTS = "parts of jobs ended before the others"
    LATE = "starts were acknowledged late"
    FOREIGN = "jobs of others held nodes meanwhile"
    LEFT = "jobs waited that left without having run"
    NODES = "nodes were out of service"
    FAILED = "starts failed, or jobs were queued again"
    ENDS = "limits changed, or jobs ran beyond them"
    ANEW = "the driver began anew"
    AWAY = "the driver was away for a time"
    LOOKS = "the driver looked only now and then"


class HistoryFate(NamedTuple):
    """What becomes of a job in such a world."""

    stay: Stay  # the job
    work_us: int  # for how long it holds its place once it is started; -1: until it leaves
    late_us: int = -1  # how long after its start the core is told that it runs; -1: it is not told
    # of each of its first starts: how long it holds its place until it is undone, and ``late_us`` of it
    undone_us: tuple[tuple[int, int], ...] = ()
    leaves_us: int = -1  # when it leaves, by the driver's clock, whatever has become of it; -1: it does not


class Outside(NamedTuple):
    """Something that others do: with a row of the table, with nodes, or with an expected end."""

    what: str
    row: int = -1
    version: int = -1
    nodes: NodesMoved | None = None
    end: EndMoved | None = None


class Played(NamedTuple):
    """What came of playing a past."""

    log: RunLog  # the run; the ids of its jobs are places in ``stays``
    stays: list[Stay]  # the jobs in it, in order
    cut: int  # how many jobs of others found less free than they really held: others were there first

    def starts_us(self, jobs: Sequence[Stay]) -> Ints:
        """int64[jobs]: when each of these started for the last time, by the driver's clock; -1: it did not."""
        starts = np.full(len(self.stays) + 1, -1, np.int64)
        starts[self.log.attempt_job] = self.log.attempt_start_us  # in the order of their ends
        place = {id(stay): place for place, stay in enumerate(self.stays)}
        return starts[[place.get(id(stay), -1) for stay in jobs]]


class ToldWorld(Kernel):
    """The simulated world, where others act as they really did. Made by :func:`play`."""

    def tell_of(self, past: Past, fates: Sequence[HistoryFate], facts: Collection[Fact]) -> None:
        """Say what will happen."""
        told = past.told
        self.names, self.fates = past.names, fates
        self.slowdown = None  # the times are those that were, with all that slowed jobs down
        self.failing = {row: list(fate.undone_us) for row, fate in enumerate(fates) if fate.undone_us}
        self.row_of = {fate.stay.key: row for row, fate in enumerate(fates) if not fate.stay.rest}
        self.outside: list[Outside] = []
        self.anew, self.cut = False, 0
        self.looks = told.rounds_us if Fact.LOOKS in facts else []
        self.away = [
            (one.at_us - one.gap_us, one.at_us)
            for one in told.begun if Fact.AWAY in facts and one.gap_us and one.why == "the driver started"
        ]  # fmt: skip
        for row, fate in enumerate(fates):
            if fate.leaves_us >= 0:
                self.later(fate.leaves_us, Outside("leave", row))
        for nodes in told.nodes if Fact.NODES in facts else ():
            self.later(nodes.at_us, Outside("nodes", nodes=nodes))
        for end in told.ends if Fact.ENDS in facts else ():
            self.later(end.at_us, Outside("end", end=end))
        for begun in told.begun[1:] if Fact.ANEW in facts else ():
            self.later(begun.at_us, Outside("anew"))

    def later(self, at_us: int, what: Outside) -> None:
        """Let something happen."""
        self.outside.append(what)
        self.push(at_us, OUTSIDE, len(self.outside) - 1, 0)

    # --- the loop ---------------------------------------------------------------------------------------------------

    def round(self, now: int) -> int:
        """Ask the policy, unless the driver did not look then."""
        for since, until in self.away:
            if since < now < until:
                return until
        if self.looks and now <= self.looks[-1]:
            at = bisect_right(self.looks, now)
            if at == 0 or self.looks[at - 1] != now:
                return self.looks[at] if at < len(self.looks) else NEVER_US
        if self.anew:
            self.anew = False
            self.core.begin_anew()
        return super().round(now)

    def happen(self, entry: Entry, now: int) -> bool:
        """Let an event happen."""
        _, rank, _, what, version = entry
        if rank == ACKNOWLEDGE:
            if self.version[what] == version:
                self.core.handle(Started(what), now)
                return True
            return False
        return self.act(self.outside[what], now) if rank == OUTSIDE else super().happen(entry, now)

    def act(self, one: Outside, now: int) -> bool:
        """Let others do something; False if it changes nothing."""
        if one.what == "anew":
            self.anew = True
        elif one.what == "leave":
            return self.leave(one.row, now)
        elif one.what == "undo":
            return self.undo(one.row, one.version, now)
        elif one.nodes is not None:
            return self.move(one.nodes, now)
        elif one.end is not None:
            return self.expect(one.end, now)
        return True

    # --- jobs -------------------------------------------------------------------------------------------------------

    def arrive(self, job: int, now: int) -> None:
        """A job is submitted, or runs already."""
        stay = self.fates[job].stay
        if not stay.adopted:
            super().arrive(job, now)
            return
        assert stay.last is not None
        lease = self.free_part(self.names.lease(stay.last.lease, job))
        try:
            self.core.handle(Adopted(job, lease, stay.expected_us), now)
        except RefusedError:
            self.cut += 1
            return
        self.begin(lease, now)

    def free_part(self, lease: Lease) -> Lease:
        """As much of the cores and memory of a lease as is free."""
        free, rows = self.core.state.free, lease.rows.copy()
        rows[:, CORES] = rows[:, CORES].clip(max=free[0, rows[:, FIRST]])
        rows[:, LOCAL_MB] = rows[:, LOCAL_MB].clip(max=free[1, rows[:, FIRST]])
        if (rows == lease.rows).all():
            return lease
        self.cut += 1
        return lease._replace(rows=rows, claims=NO_CLAIMS, shares=())

    def begin(self, lease: Lease, now: int) -> None:
        """A job starts; it will be acknowledged, or its start will be undone."""
        super().begin(lease, now)
        job = lease.job
        late_us, version = self.fates[job].late_us, self.version[job]
        if self.failing.get(job):
            after_us, late_us = self.failing[job].pop(0)
            self.outside.append(Outside("undo", job, version))
            self.push(now + after_us, OUTSIDE, len(self.outside) - 1, 0)
        if late_us >= 0:
            self.push(now + late_us, ACKNOWLEDGE, job, version)

    def plan_end(self, job: int, time: int, now: int) -> None:
        """Plan the end of a job, if it is one that ends by itself."""
        if self.fates[job].work_us >= 0 and not self.failing.get(job):
            super().plan_end(job, time, now)

    def undo(self, job: int, version: int, now: int) -> bool:
        """A start did not come about, or the job was queued again."""
        if self.version[job] != version or job not in self.running:
            return False
        lease = self.end(job, now, Outcome.PREEMPTED)
        self.core.handle(StartFailed(job, Reason(Code.START_FAILED, "as it was")), now)
        if lease.shares:
            self.detach()
        return True

    def leave(self, job: int, now: int) -> bool:
        """A job leaves the queue, or the nodes that it never really had."""
        if job in self.running:
            lease = self.end(job, now, Outcome.FINISHED)
            self.core.handle(Finished(job), now)
            if lease.shares:
                self.detach()
            return True
        if self.core.state.conditions[job] != QUEUED:
            return False
        self.core.handle(Withdrawn(job, Reason(Code.WITHDRAWN, "as it was")), now)
        return True

    def expect(self, moved: EndMoved, now: int) -> bool:
        """The end of a running job is expected at another time: as long after its start as it really was."""
        row = self.row_of.get(moved.key, -1)
        if row not in self.running:
            return False
        fate, last = self.fates[row], self.fates[row].stay.last
        assert last is not None
        seen = self.running[row][0] + max(fate.late_us, 0)
        self.core.handle(Expected(row, max(now, seen + moved.end_us - last.started_us)), now)
        return True

    # --- nodes ------------------------------------------------------------------------------------------------------

    def move(self, moved: NodesMoved, now: int) -> bool:
        """Nodes go out of service, or are back."""
        state = self.core.state
        nodes = [self.names.node_of[name] for name in moved.nodes if name in self.names.node_of]
        out = [node for node in nodes if not state.online[node] or node in state.withheld]
        if moved.back:
            self.core.handle(Repaired(tuple(out)) if out else Opened(foreseen=False), now)
        else:
            self.core.handle(Drained(tuple(node for node in nodes if node not in out)), now)
        return True


def play(past: Past, facts: Collection[Fact]) -> Played:
    """The submissions of a past simulated under its policy with the run times that were, and with some of the facts.

    Raises
    ------
    UnrackError
        The simulation fails.
    """
    fates = sorted(_fates(past, facts), key=lambda fate: fate.stay.came_us)  # of one time: as they were told
    jobs = [_asks(past, fate.stay) for fate in fates]
    table = table_of(jobs, [fate.stay.came_us for fate in fates], [max(fate.work_us, 0) for fate in fates])
    policy = spec_of(past).make()
    with PolicyAtWork(policy):
        models, seed = past.beginning.models, past.beginning.seed
        world = prepared(past.names.cluster, table, policy, seed, World(models=models), make=ToldWorld)
        assert isinstance(world, ToldWorld)
        world.tell_of(past, fates, facts)
        log = world.run()
    return Played(log, [fate.stay for fate in fates], world.cut)


def _fates(past: Past, facts: Collection[Fact]) -> list[HistoryFate]:
    found = []
    for stay in past.told.stays:
        last, end = stay.last, stay.left_us if stay.left_us >= 0 else past.told.end_us
        undone = tuple(
            (max(one.freed_us - one.decided_us, 1), one.started_us - one.decided_us if one.started_us >= 0 else -1)
            for one in stay.attempts if one.became in (Became.FAILED, Became.AGAIN) and one.freed_us >= 0
        )  # fmt: skip
        if stay.adopted:
            if (Fact.PARTS if stay.rest else Fact.FOREIGN) in facts and last is not None:
                found.append(HistoryFate(stay, max(end - stay.came_us, 1)))
        elif stay.ours and stay.ran and last is not None:
            late = Fact.LATE in facts
            run = last.freed_us - last.decided_us if late else last.ended_us - last.started_us
            seen = last.started_us - last.decided_us if late else -1
            found.append(HistoryFate(stay, max(run, 1), seen, undone if Fact.FAILED in facts else ()))
        elif last is not None and last.became == Became.OPEN:
            if Fact.LEFT in facts:  # it had a place when the journal ended
                found.append(HistoryFate(stay, max(end - last.decided_us, 1)))
        elif Fact.FAILED in facts or (Fact.LEFT in facts and not stay.attempts):
            found.append(HistoryFate(stay, -1, -1, undone if Fact.FAILED in facts else (), end))
    return found


def _asks(past: Past, stay: Stay) -> Job:
    """What a job asks; of one that was adopted it does not matter, as it is placed already."""
    at_us = stay.came_us if stay.last is None else stay.last.decided_us
    key = f"{stay.key}~{stay.came_us}" if stay.rest else stay.key
    return replace(past.windows.asks(job_of_record(stay.job), at_us), id=key)
