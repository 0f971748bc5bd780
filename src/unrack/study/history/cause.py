"""Why a job started at another time than in a simulation, as far as two tables of starts can tell.

The first rule that applies decides; each looks at the time between the two starts. Of a job that really started later:
what it waits for by its own word really came later; its nodes really had room for half of that time, so that a job
ahead, which waited too and was not passed by any, kept it back, or something else held it; a job submitted later went
first in reality and not in the simulation; its nodes really had no room; they had at first, and then not. Of one that
really started earlier: what it waits for came later in the simulation; more cores were really in use than the cluster
has; a limit was full in the simulation; a reservation kept its nodes there, by how long the job asks to run; they had
room, and it was kept back for a job ahead; it really went before a job submitted earlier; its nodes had no room in the
simulation; they had at first, and then not.

A log seldom says on which nodes jobs ran. What is held on the nodes of a partition is at least what jobs hold that can
be nowhere else, and at most what all hold that may be there: there was room, or none, only if both say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import polars as pl

from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.resources.site.told.limits import short_s
from unrack.steps import held_between

PART = 0.5
"""The part of the time between two starts from which on it counts that there was room, or that a limit was full."""


class Cause(StrEnum):
    """The causes that are told apart."""

    OWN_WORD = "the jobs or the time that it waits for came at another time"
    HELD = "waited though its nodes had room: held, down, or by a limit that the file does not have"
    KEPT_REALLY = "waited though its nodes had room, for a job ahead: no backfill, other estimates, or priorities"
    LATER_FIRST = "a job submitted later went first in reality: priorities, or backfill by other estimates"
    NO_ROOM_REALLY = "its nodes really had no room: other jobs were there"
    TOO_MUCH = "more cores were really in use than the cluster has"
    LIMIT = "a limit of the file was full in the simulation, and did not hold it back in reality"
    RESERVED = "a reservation of the file kept its nodes in the simulation, and did not hold it back in reality"
    KEPT_BACK = "kept back in the simulation for a job ahead: backfill by estimates, or priorities"
    WENT_FIRST = "went before a job submitted earlier: priorities, or backfill by other estimates"
    NO_ROOM_HERE = "its nodes had no room in the simulation: other jobs were there"
    NO_ROOM_PERHAPS = "its nodes may have had no room: other partitions share them"
    UNKNOWN = "not known"


class Reserved(NamedTuple):
    """A time, s, for which a reservation keeps nodes from the jobs of others."""

    name: str
    start: float
    end: float
    amount: Ints  # int64[measures, partitions]: what these nodes have of each partition


@dataclass(frozen=True, eq=False)
class Starts:
    """Two histories of the same jobs, a row each; times in s, NaN: not known."""

    ids: list[str]  # of the jobs
    # submit, real, told, run: float64[jobs]: when each was submitted, really started, started in the simulation; how
    # long it runs
    submit: Floats
    real: Floats
    told: Floats
    run: Floats
    # float64[2, jobs]: when what each waits for by its own word had come, really and in the simulation
    own_word: Floats
    asks: Ints  # int64[measures, jobs]: what each holds: cores, and MB where memory is counted
    partition: Ints  # int64[jobs]: where it runs
    # meets, within: bool[partitions, partitions]: which have nodes in common; of which all nodes are those of another,
    # which comes first
    meets: Bools
    within: Bools
    capacity: Ints  # int64[measures, partitions]: their cores, and MB
    # claims, limits: what jobs held of limits in the simulation, by ``job`` (its row) and ``place``; place → the most
    # of it
    claims: pl.DataFrame
    limits: Mapping[str, int]
    request: Floats  # float64[jobs]: how long each asks to run, s
    own: Sequence[str]  # the reservation of each; ``""``: none
    reserved: Sequence[Reserved]
    _steps: dict[str | tuple[int, bool, bool], tuple[Floats, Ints]] = field(default_factory=dict, repr=False)

    def cause(self, job: int, tolerance_s: float) -> tuple[Cause, str]:
        """The cause of a difference, and what was found, in words."""
        return self._later(job, tolerance_s) if self.real[job] > self.told[job] else self._earlier(job, tolerance_s)

    def _later(self, job: int, tolerance_s: float) -> tuple[Cause, str]:
        told, real = self.told[job], self.real[job]
        if self.own_word[0, job] > told + tolerance_s:
            return Cause.OWN_WORD, f"really at {self.own_word[0, job]:,.0f} s"
        room, free = self._room(job, told, real, really=True)
        if room >= PART:
            return self._waited(job), f"room for it in {room:.0%} of the time"
        there = self._beside(job)
        first = there & (self.submit > self.submit[job]) & (self.real < real) & (self.told > told)
        if first.any():
            return Cause.LATER_FIRST, f"job {self.ids[int(np.argmax(first))]}"
        return self._full(job, told, Cause.NO_ROOM_REALLY, free, self._waited(job), room)

    def _waited(self, job: int) -> Cause:
        """Why a job really waited though there was room: for one ahead that waited, too, unless one went past both."""
        told, real, there = self.told[job], self.real[job], self._beside(job)
        ahead = there & (self.submit < self.submit[job]) & (self.real > told)
        past = there & (self.submit > self.submit[job]) & (self.real > told) & (self.real < real)
        return Cause.KEPT_REALLY if ahead.any() and not past.any() else Cause.HELD

    def _earlier(self, job: int, tolerance_s: float) -> tuple[Cause, str]:
        told, real = self.told[job], self.real[job]
        if self.own_word[1, job] > real + tolerance_s:
            return Cause.OWN_WORD, f"in the simulation at {self.own_word[1, job]:,.0f} s"
        free = self._most_free(job, real, really=True)
        if free < 0:
            most = int(self.capacity[0, self.partition[job]])
            return Cause.TOO_MUCH, f"{most - free:,} cores of {most:,}"
        for place, short in self._limited(job, real, told):
            if short >= PART * (told - real):
                return Cause.LIMIT, place
        for name, lost in self._reserved(job, real, told).items():
            if lost >= PART * (told - real):
                return Cause.RESERVED, name
        room, free = self._room(job, real, told, really=False)
        if room >= PART:
            return Cause.KEPT_BACK, f"room for it in {room:.0%} of the time"
        passed = self._beside(job) & (self.submit < self.submit[job]) & (self.real > real) & (self.told < told)
        if passed.any():
            return Cause.WENT_FIRST, f"job {self.ids[int(np.argmax(passed))]}"
        return self._full(job, real, Cause.NO_ROOM_HERE, free, Cause.KEPT_BACK, room)

    def _full(self, job: int, at: float, cause: Cause, least: int, other: Cause, room: float) -> tuple[Cause, str]:
        """A cause by which there was no room at a time, when so many cores were free at least.

        ``other``: that of a job for which there was room, as there was in part of the time.
        """
        cores, most = int(self.asks[0, job]), self._most_free(job, at, cause == Cause.NO_ROOM_REALLY)
        if most < cores:
            return cause, f"{max(most, 0):,} cores free, {cores:,} asked"
        if least < cores:
            return Cause.NO_ROOM_PERHAPS, f"{max(least, 0):,} to {most:,} cores free, {cores:,} asked"
        return (other, f"room for it at first, in {room:.0%} of the time") if room > 0 else (Cause.UNKNOWN, "")

    def _most_free(self, job: int, at: float, really: bool) -> int:
        """How many cores of a job's partition were free at most."""
        times, level = self._of_nodes(int(self.partition[job]), really, least=True)
        return int(self.capacity[0, self.partition[job]] - level[0, np.searchsorted(times, at, "right") - 1])

    def _beside(self, job: int) -> Bools:
        found: Bools = self.meets[self.partition[job]][self.partition]
        return found

    def _reserved(self, job: int, start: float, end: float) -> dict[str, float]:
        """For how long each reservation alone left no room for a job in the simulation."""
        found = dict[str, float]()
        for one in self.reserved:
            since, until = max(start, one.start - self.request[job]), min(end, one.end)
            if one.name != self.own[job] and since < until:
                kept = one.amount[:, [self.partition[job]]]
                rooms = [self._room(job, since, until, really=False, kept=less)[0] for less in (0, kept)]
                found[one.name] = found.get(one.name, 0.0) + (rooms[0] - rooms[1]) * (until - since)
        return found

    def _room(self, job: int, start: float, end: float, really: bool, kept: Ints | int = 0) -> tuple[float, int]:
        """In which part of a time there was room for a job in one of the histories; what was free at least.

        ``kept``: what of its partition is none's.
        """
        times, level = self._of_nodes(int(self.partition[job]), really)
        first, last = int(np.searchsorted(times, start, "right")) - 1, int(np.searchsorted(times, end, "left"))
        edges = np.clip(times[max(first, 0) : last + 1], start, end)
        free = self.capacity[:, [self.partition[job]]] - kept - level[:, max(first, 0) : max(first, 0) + len(edges)]
        short = np.any(free < self.asks[:, [job]], axis=0)
        fits = np.diff(edges) * ~np.asarray(short)[: len(edges) - 1]
        return float(fits.sum()) / max(end - start, 1e-9), int(free[0, 0])

    def _limited(self, job: int, start: float, end: float) -> list[tuple[str, float]]:
        """For how long between two times each limit that a job counts for had no room for it."""
        found = []
        for place, amount in self.claims.filter(pl.col("job") == job).select("place", "amount").iter_rows():
            times, level = self._of_limit(place)
            asked = pl.DataFrame({"since_s": [start], "wait_s": [end - start], "amount": [amount]})
            found.append((place, float(short_s(times, level, self.limits[place], asked)[0])))
        return found

    def _of_limit(self, place: str) -> tuple[Floats, Ints]:
        if place not in self._steps:
            own = self.claims.filter(pl.col("place") == place)
            times = own["start_s"].to_list() + own["end_s"].to_list()
            self._steps[place] = held_between(own, min(times), max(times))
        return self._steps[place]

    def _of_nodes(self, partition: int, really: bool, least: bool = False) -> tuple[Floats, Ints]:
        """What is held on the nodes of a partition, at least or at most."""
        key = partition, really, least
        if key not in self._steps:
            begin = self.real if really else self.told
            own = (self.within if least else self.meets)[partition][self.partition] & ~np.isnan(begin)
            last = float(np.nanmax(np.concatenate([self.real, self.told]) + np.tile(self.run, 2)))
            times, held = np.zeros(0), []
            for asked in self.asks:
                rows = {"start_s": begin[own], "end_s": (begin + self.run)[own], "amount": asked[own]}
                times, level = held_between(pl.DataFrame(rows), float(self.submit.min()) - 1.0, last + 1.0)
                held.append(level)
            self._steps[key] = times, np.stack(held)
        return self._steps[key]
