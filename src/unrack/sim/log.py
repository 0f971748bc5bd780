"""What happened in a run: one line a submission, one line an attempt, and the rows of nodes each attempt held."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.lease import LOAN_MB, NO_LOANS, Share
from unrack.cluster.spec import Cluster
from unrack.reasons import Reason
from unrack.sim.failure import Failure
from unrack.workload.job import JobTable

Ints = NDArray[np.int64]
Rows = NDArray[np.int32] | NDArray[np.int64]


class Outcome(IntEnum):
    """How an attempt ended."""

    FINISHED = 0
    NODE_FAILED = 1
    PREEMPTED = 2
    CUT = 3  # the run ended first


OUTCOME_NAMES = ("finished", "node-failed", "preempted", "cut")


CHUNK = 16_384
"""Attempts whose rows are kept one by one before they are packed."""


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
        self.share_attempt = array("q")
        self.share_group = array("q")
        self.shares: list[Share] = []
        self.rules: dict[int, str] = {}
        self.failures: list[Failure] = []
        self.stopped: list[tuple[int, int]] = []

    def attempt(
        self, job: int, start_us: int, end_us: int, outcome: Outcome, rows: Ints, loans: Ints = NO_LOANS
    ) -> None:
        """Note an attempt that has ended."""
        self.job.append(job)
        self.start_us.append(start_us)
        self.end_us.append(end_us)
        self.outcome.append(outcome)
        self.row_count.append(rows.shape[0])
        self.recent.append(rows)
        self.loan_count.append(len(loans))
        if len(loans):
            self.loans.append(loans)
        if len(self.recent) == CHUNK:
            self.pack()

    def share(self, shares: tuple[Share, ...], groups: tuple[int, ...]) -> None:
        """Note the shares of the attempt noted last, and the numbers of their compositions."""
        for share, group in zip(shares, groups, strict=True):
            self.share_attempt.append(len(self.job) - 1)
            self.share_group.append(group)
            self.shares.append(share)

    def placed(self, job: int, rule: str) -> None:
        """Note by which rule a job was placed."""
        self.rules[job] = rule

    def failure(self, failure: Failure, stopped: int) -> None:
        """Note a failure that stopped the attempts noted last, so many."""
        self.failures.append(failure)
        self.stopped.append((len(self.job) - stopped, len(self.job)))

    def attempt_failures(self) -> Ints:
        """int64[attempts]: which failure stopped each; -1: none."""
        found = np.full(len(self.job), -1, np.int64)
        for i, (first, end) in enumerate(self.stopped):
            found[first:end] = i
        return found

    def pack(self) -> None:
        """Put the rows kept one by one into one array, in half the space where no number is too large for it."""
        if self.recent:
            rows = np.concatenate(self.recent)
            self.rows.append(rows.astype(np.int32) if rows.max() < 2**31 else rows)
            self.recent.clear()

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


@dataclass(frozen=True, eq=False)
class RunLog:
    """A finished run.

    Attributes
    ----------
    cluster, jobs
        What there was and what was asked.
    state : int8[jobs]
        A ``Status`` each.
    reasons
        Job → why it was rejected, or is still queued.
    attempt_job, attempt_start_us, attempt_end_us, attempt_outcome : int64[attempts]
        In the order in which attempts ended.
    attempt_rows : int64[attempts + 1]
        The rows of attempt i are ``rows[attempt_rows[i]:attempt_rows[i + 1]]``.
    rows : int32[rows, 5] or int64[rows, 5]
        As in :class:`unrack.cluster.lease.Lease`.
    capacity : int64[changes, 2]
        When nodes went down or came back (µs), and the cores online since.
    loans, attempt_loans : int64[loans, 3], int64[attempts + 1]
        What attempt i had borrowed: ``loans[attempt_loans[i]:attempt_loans[i + 1]]``, as in ``Lease.borrowed``.
    end_us
        The last event.
    shares
        The shares of devices of all attempts, in the order of the attempts.
    share_attempt, share_group : int64[shares]
        Of which attempt each is, and the number of the composition or split device it is of.
    rules
        Job → by which rule its policy placed it, where it says so.
    failures
        The failures that happened, in order.
    attempt_failure : int64[attempts]
        Which of them stopped each attempt; -1: none.
    """

    cluster: Cluster
    jobs: JobTable
    state: NDArray[np.int8]
    reasons: dict[int, Reason]
    attempt_job: Ints
    attempt_start_us: Ints
    attempt_end_us: Ints
    attempt_outcome: Ints
    attempt_rows: Ints
    rows: Rows
    loans: Ints
    attempt_loans: Ints
    capacity: Ints
    end_us: int
    shares: list[Share]
    share_attempt: Ints
    share_group: Ints
    rules: dict[int, str]
    failures: tuple[Failure, ...]
    attempt_failure: Ints

    @classmethod
    def of(
        cls,
        recorder: Recorder,
        cluster: Cluster,
        jobs: JobTable,
        state: NDArray[np.int8],
        reasons: dict[int, Reason],
        capacity: list[tuple[int, int]],
        end_us: int,
    ) -> RunLog:
        """Freeze what was recorded."""
        return cls(
            cluster=cluster,
            jobs=jobs,
            state=state.copy(),
            reasons=dict(reasons),
            attempt_job=np.array(recorder.job, np.int64),
            attempt_start_us=np.array(recorder.start_us, np.int64),
            attempt_end_us=np.array(recorder.end_us, np.int64),
            attempt_outcome=np.array(recorder.outcome, np.int64),
            attempt_rows=np.concatenate([[0], np.cumsum(np.array(recorder.row_count, np.int64))]),
            rows=recorder.take_rows(),
            loans=np.concatenate([NO_LOANS, *recorder.loans]),
            attempt_loans=np.concatenate([[0], np.cumsum(np.array(recorder.loan_count, np.int64))]),
            capacity=np.array(capacity, np.int64).reshape(-1, 2),
            end_us=end_us,
            shares=recorder.shares,
            share_attempt=np.array(recorder.share_attempt, np.int64),
            share_group=np.array(recorder.share_group, np.int64),
            rules=recorder.rules,
            failures=tuple(recorder.failures),
            attempt_failure=recorder.attempt_failures(),
        )

    def borrowed(self) -> Ints:
        """int64[attempts]: MB of other nodes."""
        total = np.concatenate([[0], np.cumsum(self.loans[:, LOAN_MB])])
        mb: Ints = total[self.attempt_loans[1:]] - total[self.attempt_loans[:-1]]
        return mb

    def amounts(self) -> tuple[Ints, Ints, Ints]:
        """int64[attempts] each: nodes, cores and MB held, borrowed ones included."""
        if len(self.attempt_job) == 0:
            empty = np.zeros(0, np.int64)
            return empty, empty, empty
        first = self.attempt_rows[:-1]
        count = self.rows[:, 1].astype(np.int64)
        nodes, cores, mb = (
            np.add.reduceat(amounts, first) for amounts in (count, count * self.rows[:, 3], count * self.rows[:, 4])
        )
        return nodes, cores, mb + self.borrowed()
