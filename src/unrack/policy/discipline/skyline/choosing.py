"""Choices of a placement in a plan: where a job would go if nothing but the least of the levels were free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ENDS_US, OF_JOB
from unrack.ledger.lease import Lease
from unrack.policy.placement.alone import Alone
from unrack.policy.placement.claiming import lacking_of
from unrack.policy.placement.contract import Placement
from unrack.reasons import Code
from unrack.sealed import sealed
from unrack.view import Assumed, AssumedRun, DeviceLine, View, device_line
from unrack.workload.job import ESTIMATE

if TYPE_CHECKING:
    from unrack.policy.discipline.skyline.reserved import Reserved

NONE = np.empty(0, np.int64)


class Chosen(NamedTuple):
    """A lease, and what follows from it."""

    lease: Lease
    length_us: int  # for how long the job would hold it
    # others that would end at another time, as they share: job to before and after, µs
    moved: dict[int, tuple[int, int]]


class Choices:
    """Where jobs would go, in one round.

    Parameters
    ----------
    placement, notes
        Says where.
    view, now
        Of the ledger, and the time, µs.
    trust
        As of the round.
    kept
        From round to round.

    Attributes
    ----------
    slow
        Whether jobs on shared devices slow each other down, and plans are for later too.
    ends
        When jobs that hold devices, or are to hold some, end, µs, where they do.
    """

    def __init__(self, placement: Placement, notes: Any, view: View, now: int, trust: bool, kept: Reserved) -> None:
        self.booked = False  # whether what windows keep is not free in what is asked about
        self.slow, self.ends, self._after = False, dict[int, int](), dict[int, int]()
        self.placement, self.notes, self.view = placement, notes, view
        # what was chosen for which job, of those that hold devices or have components
        self.made: dict[int, Lease] = {}
        self.now, self._trust, self._kept = now, trust, kept
        self._job, self._looked_at = -1, view
        self._last: tuple[int, Lease | None] = -1, None
        self._old: tuple[int, int] | None = None  # what was reserved for the job
        self._starting = False

    @cached_property
    def alone(self) -> Alone:
        """The choices that are made in kernels."""
        return self.placement.alone(self.view, self.notes)

    @cached_property
    def _assumed(self) -> Assumed:
        return Assumed(self.view, self._trust)

    @cached_property
    def timeline(self) -> DeviceLine | None:
        """The pooled devices over time; ``None`` on a cluster without any."""
        self._kept.line = device_line(self.view, self.now, self._trust, self._kept.line)
        return self._kept.line

    def expect(self, held: Iterable[tuple[int, int, Lease]]) -> tuple[Ints, Ints]:
        """Take over reservations of devices: start (µs), job and lease.

        Returns
        -------
        jobs, lengths : int64[k]
            The jobs that have them, and how long each lasts, µs; -1: it cannot start so.
        """
        turns = sorted(one for one in held if one[2].shares)
        timeline = self.timeline if turns or self.slow else None
        if timeline is None:
            return NONE, NONE
        expected_us = self.view.asks[ESTIMATE, [job for _, job, _ in turns]].tolist()
        waits = zip(turns, expected_us, strict=True)
        timeline.add(*[(job, begins, us, lease.shares) for (begins, job, lease), us in waits])
        jobs, lasts = timeline.lengths_us()
        if self.slow:
            ends = timeline.ends_us()
            assert ends is not None
            self.ends, begins_us = ends, {job: begins for begins, job, _ in turns}
            for i, job in zip(*(found[lasts >= 0].tolist() for found in (np.arange(len(jobs)), jobs)), strict=True):
                lasts[i] = ends[job] - begins_us[job]
        return jobs, lasts

    def find(
        self, job: int, start_us: int, free: Ints, places: Ints, left: Ints, beside: Mapping[int, AssumedRun],
        lendable: Ints | None = None,
    ) -> Chosen | None:  # fmt: skip
        """A lease from a time on, µs; ``None``: the job has no place.

        Parameters
        ----------
        free : int64[2, nodes]
            Free cores and MB, as long as it is expected to run.
        places, left
            int64[k] each: places of resources, and how much is free of each; of others it is what is free now.
        beside
            Which others run then, where that matters.
        lendable
            int64[nodes]: how many MB each node may lend; ``None``: all that is free.
        """
        length, timeline = max(1, self._expected_us(job)), self.timeline
        if job != self._job:
            self._job, self._old = job, None if timeline is None else timeline.remove(job)
        if timeline is not None:
            timeline.least(start_us, start_us + length)
        view = self._assumed.at(start_us, free, places, left, timeline, beside)
        view.lendable, view.knows_windows = lendable, self.booked
        return self._found(view, job, start_us, length)

    def find_now(self, job: int) -> Chosen | None:
        """As :meth:`find`, now, when nothing has started or is reserved."""
        self._job, self._old = job, None
        return self._found(self.view, job, self.now, max(1, self._expected_us(job)))

    def _found(self, view: View, job: int, start_us: int, length: int) -> Chosen | None:
        self._looked_at, lease = view, self.placement.find(view, self.notes, job, start_us)
        self._last = start_us, lease
        if lease is None:
            return None
        timeline = self.timeline if lease.shares else None
        if timeline is None:
            return Chosen(lease, length, {})
        (number,) = timeline.numbers_of([(job, start_us, length, lease.shares)]).tolist()
        if self.slow:
            after = timeline.ends_us(number)
            end = -1 if after is None else after[job]
            self._after = after or {}
        else:
            end = timeline.end_us(number)
        if end < 0:
            self.refuse()
            return None
        others = ((one, self.ends.get(one, at), at) for one, at in self._after.items() if one != job)
        return Chosen(lease, end - start_us, {one: (before, at) for one, before, at in others if before != at})

    def has_place(
        self, job: int, time: int, free: Ints, places: Ints, left: Ints, beside: Mapping[int, AssumedRun]
    ) -> bool:
        """Whether a job has a place at a time, µs; parameters as of :meth:`find`."""
        if self.timeline is not None:
            self.timeline.least(time, time + 1)
        view = self._assumed.at(time, free, places, left, self.timeline, beside)
        return self.placement.find(view, self.notes, job, time) is not None

    @contextmanager
    def trying(self, job: int, lease: Lease) -> Iterator[None]:
        """A job starts now, for a while."""
        timeline = self.timeline
        if timeline is None or not lease.shares:
            yield
            return
        timeline.add((job, self.now, self._expected_us(job), lease.shares))
        yield
        timeline.remove(job)

    def limited(self, job: int) -> bool:
        """Whether a limit leaves the job that was asked about last too little, wherever it runs."""
        lacks = lacking_of(self._looked_at, job)
        return lacks is not None and lacks.code == Code.LIMIT

    def rule(self) -> str:
        """By which rule the last place was found."""
        return self.placement.rule(self.notes)

    def moments(self) -> Ints:
        """int64[k]: when devices come free, µs, if nothing else starts than what has."""
        return np.array([] if self.timeline is None else self.timeline.moments(), np.int64)

    def believe(self) -> None:
        """Jobs that share with what was found last end as it makes them end."""
        self.ends = self._after
        self._assumed.running = self.running()

    def running(self) -> Ints:
        """int64[2, running]: as of the ledger, with the ends that are believed."""
        running = self.view.running[:, : self.view.running_count].copy()
        for i, job in enumerate(running[OF_JOB].tolist()):
            running[ENDS_US, i] = self.ends.get(job, running[ENDS_US, i])
        return sealed(np.ascontiguousarray(running[:, np.lexsort((running[OF_JOB], running[ENDS_US]))]))

    def refuse(self) -> None:
        """What was found last will not do."""
        self._last = self._last[0], None

    def settle(self, start_us: int) -> None:
        """The last job for which something was chosen has this reserved start now, µs; -1: none, or it starts now."""
        (chosen_us, lease), job = self._last, self._job
        if job < 0:
            return
        if lease is not None and (chosen_us == start_us or (start_us < 0 and chosen_us == self.now)):
            if lease.shares or lease.parts:
                self.made[job] = lease
            if lease.shares and self.timeline is not None:
                self.timeline.add((job, chosen_us, self._expected_us(job), lease.shares))
        elif self._old is not None and self.timeline is not None:
            self.timeline.restore(*self._old)
        self._job, self._old = -1, None

    def may_start(self, lease: Lease) -> bool:
        """Whether the devices of a lease are free now, beside those of leases that were asked about before."""
        timeline = self.timeline if lease.shares else None
        if timeline is None:
            return True
        if not self._starting:
            self._starting = True
            timeline.begin_starts()
        booking = (lease.job, self.now, self._expected_us(lease.job), lease.shares)
        return timeline.starts(int(timeline.numbers_of([booking])[0]))

    def _expected_us(self, job: int) -> int:
        return int(self.view.asks[ESTIMATE, job])
