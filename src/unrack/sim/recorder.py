"""Attempts and what they held, collected while a run goes on.

A *span* is a stretch of an attempt in which its lease did not change: an attempt has one, and one more for every time
that its lease was exchanged for another.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import NO_LOANS, NODES, Lease, Share, loans_of
from unrack.reasons import Reason
from unrack.resources.places import NO_CLAIMS
from unrack.sim.faults import Failure

Rows = NDArray[np.int32] | Ints


class Outcome(IntEnum):
    """How an attempt ended."""

    FINISHED = 0
    NODE_FAILED = 1
    PREEMPTED = 2
    CUT = 3  # the run ended first
    OUT_OF_MEMORY = 4


OUTCOME_NAMES = ("finished", "node-failed", "preempted", "cut", "out-of-memory")


class Span(NamedTuple):
    """What a job held, from when until when (µs)."""

    start_us: int
    end_us: int
    lease: Lease


@dataclass(frozen=True)
class MemoryStop:
    """Why an attempt ended for lack of memory."""

    reason: Reason  # what the scheduler said
    # the id of the job that needed more memory than it held: this one, or another that it had to make room for
    grower: str
    lacks_mb: int  # how much more, on all its nodes together
    lost_us: int  # work of the stopped job, at speed 1, that no checkpoint has kept


class Suspension(NamedTuple):
    """A time for which a job was suspended, µs."""

    at_us: int
    until_us: int  # -1: it still is
    reason: Reason  # what the scheduler said: for which job


class Extension(NamedTuple):
    """More time for a job that had used up its limit."""

    # at_us, until_us: when, and until when it may run
    at_us: int
    until_us: int


class Preemption(NamedTuple):
    """Why an attempt was preempted."""

    reason: Reason  # what the scheduler said: for which job
    lost_us: int  # work of the stopped job, at speed 1, that is not kept


CHUNK = 16_384
"""The rows of so many spans are kept one by one before they are packed."""


class Recorder:
    """Collects attempts while a run goes on: compact, and O(1) each."""

    def __init__(self) -> None:
        self.job = array("q")
        self.start_us = array("q")
        self.end_us = array("q")
        self.outcome = array("q")
        self.rows: list[Rows] = []
        self.recent: list[Ints] = []
        self.row_count = array("q")
        self.loans: list[Ints] = []
        self.loan_count = array("q")
        self.several: list[tuple[int, Sequence[Span]]] = []
        self.share_span = array("q")
        self.share_group = array("q")
        self.shares: list[Share] = []
        self.claim_span = array("q")
        self.claims: list[Ints] = []
        self.rules: dict[int, str] = {}
        self.failures: list[Failure] = []
        self.stopped: list[tuple[int, int]] = []
        self.memory_stops: dict[int, MemoryStop] = {}
        self.preempted: dict[int, Preemption] = {}
        self.suspended: dict[int, list[Suspension]] = {}
        self.limits: dict[int, int] = {}
        self.cut: set[int] = set()
        self.extensions: dict[int, list[Extension]] | None = None
        self.held_since: dict[int, int] = {}
        self.held_node_us: dict[int, int] = {}
        self.deadlocks: list[int] = []

    def attempt(
        self, job: int, start_us: int, end_us: int, outcome: Outcome, rows: Ints, loans: Ints = NO_LOANS
    ) -> None:
        """Note an attempt that has ended, and held one lease."""
        self.job.append(job)
        self.start_us.append(start_us)
        self.end_us.append(end_us)
        self.outcome.append(outcome)
        self.held(rows, loans)

    def ended(self, lease: Lease, start_us: int, end_us: int, outcome: Outcome, groups: tuple[int, ...]) -> None:
        """Note an attempt that has ended, and held one lease: one of each component of a heterogeneous job.

        ``groups``: the numbers of the compositions of its shares.
        """
        for part in lease.parts or (lease,):
            self.attempt(part.job, start_us, end_us, outcome, part.rows, loans_of(part.borrowed))
            if part.shares:
                self.share(part.shares, groups[: len(part.shares)])
                groups = groups[len(part.shares) :]
            if part.claims is not NO_CLAIMS:
                self.claim(part.claims)

    def finished(self, attempts: Ints, counts: Ints, rows: Ints, claims: Ints) -> None:
        """Note attempts that have finished, in order, and held one lease each, without loans or shares.

        ``attempts``: int64[3, attempts], job, start and end (µs); ``counts``: int64[2, attempts], how many rows and
        claims each held; ``rows``, ``claims``: int64[rows, 5], int64[claims, 2], those, one after the other.
        """
        for column, values in zip((self.job, self.start_us, self.end_us), attempts, strict=True):
            column.frombytes(values.tobytes())
        none = np.zeros(len(counts[0]), np.int64).tobytes()
        self.outcome.frombytes(none)
        self.loan_count.frombytes(none)
        if len(claims):
            first = len(self.row_count)
            self.claim_span.extend(np.repeat(np.arange(first, first + len(counts[1])), counts[1]).tolist())
            self.claims.append(claims.copy())
        self.row_count.frombytes(counts[0].tobytes())
        self.pack()
        self.keep(rows.copy())

    def changed_attempt(
        self, job: int, end_us: int, outcome: Outcome, spans: Sequence[Span], groups: tuple[int, ...] = ()
    ) -> None:
        """Note an attempt with a lease that changed, when it has ended: its spans, in order, and its shares' groups."""
        for place, part in enumerate(spans[0].lease.parts):
            own = [span._replace(lease=span.lease.parts[place]) for span in spans]
            self.changed_attempt(part.job, end_us, outcome, own, groups[: len(part.shares)])
            groups = groups[len(part.shares) :]
        if spans[0].lease.parts:
            return
        self.job.append(job)
        self.start_us.append(spans[0].start_us)
        self.end_us.append(end_us)
        self.outcome.append(outcome)
        self.several.append((len(self.job) - 1, spans))
        for span in spans:
            self.held(span.lease.rows, loans_of(span.lease.borrowed))
            self.share(span.lease.shares, groups)
            self.claim(span.lease.claims)

    def held(self, rows: Ints, loans: Ints) -> None:
        """Note what was held in a span."""
        self.row_count.append(rows.shape[0])
        self.recent.append(rows)
        self.loan_count.append(len(loans))
        if len(loans):
            self.loans.append(loans)
        if len(self.recent) == CHUNK:
            self.pack()

    def share(self, shares: tuple[Share, ...], groups: tuple[int, ...]) -> None:
        """Note the shares of the span noted last, and the numbers of their compositions."""
        for share, group in zip(shares, groups, strict=True):
            self.share_span.append(len(self.row_count) - 1)
            self.share_group.append(group)
            self.shares.append(share)

    def claim(self, claims: Ints) -> None:
        """Note what the span noted last claims of the places of resources."""
        if len(claims):
            self.claim_span.extend([len(self.row_count) - 1] * len(claims))
            self.claims.append(claims)

    def stood_still(self, job: int, now: int, lease: Lease) -> None:
        """Note that a job has stood still until now, for lack of memory, with a lease."""
        nodes = int(lease.rows[:, NODES].sum())
        self.held_node_us[job] = self.held_node_us.get(job, 0) + nodes * (now - self.held_since.pop(job))

    def placed(self, job: int, rule: str) -> None:
        """Note by which rule a job was placed."""
        self.rules[job] = rule

    def failure(self, failure: Failure, stopped: int) -> None:
        """Note a failure that stopped the attempts noted last, so many."""
        self.failures.append(failure)
        self.stopped.append((len(self.job) - stopped, len(self.job)))

    def preemption(self, reason: Reason, lost_us: int, components: int) -> None:
        """Note why the attempt, of so many components, that is noted next was preempted, and the work lost with it."""
        for attempt in range(len(self.job), len(self.job) + max(components, 1)):
            self.preempted[attempt] = Preemption(reason, lost_us)

    def went_on(self, job: int, now: int) -> None:
        """Note that a job is suspended no more."""
        own = self.suspended[job]
        own[-1] = own[-1]._replace(until_us=now)

    def attempt_failures(self) -> Ints:
        """int64[attempts]: which failure stopped each; -1: none."""
        found = np.full(len(self.job), -1, np.int64)
        for i, (first, end) in enumerate(self.stopped):
            found[first:end] = i
        return found

    def spans(self) -> tuple[Ints, Ints, Ints]:
        """int64[spans] each: of which attempt every span is, when it started and when it ended."""
        start_us, end_us = np.array(self.start_us, np.int64), np.array(self.end_us, np.int64)
        if not self.several:
            return np.arange(len(start_us)), start_us, end_us
        count = np.ones(len(start_us), np.int64)
        count[[attempt for attempt, _ in self.several]] = [len(spans) for _, spans in self.several]
        of, first = np.repeat(np.arange(len(count)), count), np.cumsum(count) - count
        start_us, end_us = start_us[of], end_us[of]
        for attempt, spans in self.several:
            here = slice(int(first[attempt]), int(first[attempt]) + len(spans))
            start_us[here] = [span.start_us for span in spans]
            end_us[here] = [span.end_us for span in spans]
        return of, start_us, end_us

    def pack(self) -> None:
        """Put the rows kept one by one into one array, in half the space where no number is too large for it."""
        if self.recent:
            self.keep(np.concatenate(self.recent))
            self.recent.clear()

    def keep(self, rows: Ints) -> None:
        """Add rows of their own to those that are packed."""
        if len(rows):
            self.rows.append(rows.astype(np.int32) if rows.max() < 2**31 else rows)

    def take_rows(self) -> Rows:
        """The rows of all attempts, in order; the recorder has none afterwards."""
        self.pack()
        wide = any(rows.dtype == np.int64 for rows in self.rows)
        taken = np.empty((sum(len(rows) for rows in self.rows), 5), np.int64 if wide else np.int32)
        at = 0
        self.rows.reverse()
        while self.rows:  # each chunk goes when it is copied: never two of everything
            rows = self.rows.pop()
            taken[at : at + len(rows)] = rows
            at += len(rows)
        return taken
