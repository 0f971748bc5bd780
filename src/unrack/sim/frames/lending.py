"""Lent memory in a run: what each job borrowed, and how many nodes lend over time."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import CORES, FIRST, LENDER, NODES
from unrack.sim.log import RunLog
from unrack.sim.recorder import Outcome
from unrack.steps import each_of, levels, summed_at


def loan_columns(log: RunLog) -> list[pl.Series]:
    """What the attempt that finished had borrowed, for the jobs frame: remote_mb, remote_share, lenders, stretch.

    Of a job whose lease changed while it ran, ``remote_mb`` is the most at one time, ``remote_share`` is of all MB x
    time, and ``lenders`` counts all that ever lent to it.

    ``remote_share`` is of all MB held, ``lenders`` counts different nodes, ``stretch`` is the time it ran over the time
    that it runs undisturbed; the shares are null for jobs that did not finish, or where they would be 0 / 0.
    """
    jobs = log.jobs
    done = log.attempt_outcome == Outcome.FINISHED
    which = log.attempt_job[done]
    remote, run = (np.zeros(len(jobs), np.int64) for _ in range(2))
    part, held = np.zeros(len(jobs)), np.zeros(len(jobs))
    finished = np.zeros(len(jobs), np.bool_)
    finished[which] = True
    borrowed, mb = log.borrowed(), log.amounts[2]
    remote[which] = log.most(borrowed)[done]
    own = log.over_time if log.changed else np.asarray
    part[which], held[which] = own(borrowed)[done], own(mb)[done]
    run[which] = (log.attempt_end_us - log.attempt_start_us)[done]
    kept = np.repeat(done, np.diff(log.attempt_loans))
    job = np.repeat(log.attempt_job, np.diff(log.attempt_loans))[kept]
    pairs = np.unique(job * len(log.cluster) + log.loans[kept, LENDER])
    lenders = np.bincount(pairs // len(log.cluster), minlength=len(jobs))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(finished & (held > 0), part / held, np.nan)
        stretch = np.where(finished & (jobs.left_us > 0), run / jobs.left_us, np.nan)
    return [
        pl.Series("remote_mb", remote),
        pl.Series("remote_share", share, nan_to_null=True),
        pl.Series("lenders", lenders.astype(np.int64)),
        pl.Series("stretch", stretch, nan_to_null=True),
    ]


def lending_nodes(log: RunLog, times_us: Ints) -> Ints:
    """int64[2, times]: how many nodes lend at each of these times, and how many of them compute nothing.

    A node lends while tasks of another node use its memory, and computes while a job holds cores of it. O(n log n) in
    the loans and in the placements on nodes that ever lend, node by node. ``times_us``: int64[times], rising,
    different, among them every start and every end of a span.
    """
    lender = log.loans[:, LENDER]
    lenders, busy = np.unique(lender), log.rows[:, CORES] > 0
    first, nodes = (log.rows[:, column].astype(np.int64) for column in (FIRST, NODES))
    low = np.searchsorted(lenders, first)
    row, host = each_of(low, np.where(busy, np.searchsorted(lenders, first + nodes) - low, 0))
    of_loan, of_row = (
        np.repeat(np.arange(len(bound) - 1), np.diff(bound)) for bound in (log.span_loans, log.span_rows)
    )
    span = np.concatenate([of_loan, of_row[row]])
    is_loan = np.repeat([1, 0], [len(lender), len(host)])
    _, when, (lends, computes) = levels(
        np.concatenate([lender, lenders[host]]), log.span_start_us[span], log.span_end_us[span],
        np.stack([is_loan, 1 - is_loan]),
    )  # fmt: skip
    at, sides = np.searchsorted(times_us, when), (lends > 0, (lends > 0) & (computes == 0))
    return np.stack([summed_at(len(times_us), (at, np.diff(is_so.astype(np.int64), prepend=0))) for is_so in sides])
