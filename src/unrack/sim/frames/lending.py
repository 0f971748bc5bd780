"""Lent memory in a run: what each job borrowed, and how many nodes lend over time."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.jit import compiled
from unrack.ledger.lease import CORES, FIRST, LENDER, NODES
from unrack.sim.log import RunLog
from unrack.sim.recorder import Outcome, Rows

Ints = NDArray[np.int64]


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

    A node lends while tasks of another node use its memory, and computes while a job holds cores of it. O(attempts
    log attempts + rows and loans, node by node).

    Parameters
    ----------
    times_us : int64[times]
        Rising, different, among them every start and every end of a span.
    """
    found = np.zeros((2, len(times_us)), np.int64)
    when = np.concatenate([log.span_start_us, log.span_end_us])
    order = np.argsort(when, kind="stable")
    at = np.searchsorted(times_us, when[order])
    _sweep(order, at, log.span_rows, log.rows, log.span_loans, log.loans, len(log.cluster), found)
    return found


@compiled
def _sweep(
    order: Ints, at: Ints, span_rows: Ints, rows: Rows, span_loans: Ints, loans: Ints, nodes: int, found: Ints
) -> None:
    """Go through starts (numbers below the spans) and ends (the others) in order of time."""
    lends, computes = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    spans = len(span_rows) - 1
    lending, only, known = 0, 0, 0
    for i in range(len(order)):
        while known < at[i]:
            found[0, known], found[1, known] = lending, only
            known += 1
        span = order[i] % spans
        step = 1 if order[i] < spans else -1
        for r in range(span_rows[span], span_rows[span + 1]):
            if rows[r, CORES] > 0:
                for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                    if lends[node] > 0 and computes[node] == 0:
                        only -= 1
                    computes[node] += step
                    if lends[node] > 0 and computes[node] == 0:
                        only += 1
        for k in range(span_loans[span], span_loans[span + 1]):
            node = loans[k, LENDER]
            if lends[node] > 0:
                lending -= 1
                only -= 1 if computes[node] == 0 else 0
            lends[node] += step
            if lends[node] > 0:
                lending += 1
                only += 1 if computes[node] == 0 else 0
    while known < found.shape[1]:
        found[0, known], found[1, known] = lending, only
        known += 1
