"""Who held which nodes from when until when, as a table for people: one row a span and run of equal nodes."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES, TASKS
from unrack.sim.log import RunLog
from unrack.sim.recorder import OUTCOME_NAMES
from unrack.units import SECOND_US

Ints = NDArray[np.int64]


def attempt_numbers(log: RunLog) -> NDArray[np.int32]:
    """int32[attempts]: which attempt of its job each is, from 1."""
    number = np.ones(len(log.attempt_job), np.int32)
    if log.attempt_outcome.any():
        seen: dict[int, int] = {}
        for i, job in enumerate(log.attempt_job.tolist()):
            number[i] = seen[job] = seen.get(job, 0) + 1
    return number


def span_order(log: RunLog) -> Ints:
    """int64[spans]: the spans in order of (start, job, attempt, span)."""
    number = attempt_numbers(log)[log.span_attempt]
    order: Ints = np.lexsort((np.arange(len(number)), number, log.span_job, log.span_start_us))
    return order


def rows_of(first: Ints, spans: Ints) -> tuple[Ints, Ints]:
    """int64[rows], twice: the rows of these spans, one span after the other, and of which span each is.

    Parameters
    ----------
    first : int64[spans + 1]
        ``RunLog.span_rows`` or ``RunLog.span_loans``.
    spans
        Which spans.
    """
    count = np.diff(first)[spans]
    of = np.repeat(spans, count)
    within = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    return first[of] + within, of


def span_columns(log: RunLog, spans: Ints) -> dict[str, object]:
    """The columns that every table of spans begins with: job, attempt and span (both from 1), start_s, end_s."""
    attempt = log.span_attempt[spans]
    return {
        "job": log.jobs.ids.gather(log.attempt_job[attempt]),
        "attempt": attempt_numbers(log)[attempt],
        "span": (spans - log.attempt_spans[attempt] + 1).astype(np.int32),
        "start_s": log.span_start_us[spans] / SECOND_US,
        "end_s": log.span_end_us[spans] / SECOND_US,
    }


def placements_frame(log: RunLog) -> pl.DataFrame:
    """One row for every run of equal consecutive nodes of every span, in order of (start, job).

    Columns: job, attempt, span, start_s, end_s, first_node, nodes; on each of these nodes tasks_per_node,
    cores_per_node and memory_mb_per_node (of its own memory); and outcome (of the attempt).
    """
    at, span = rows_of(log.span_rows, span_order(log))
    rows = log.rows[at]
    outcomes = pl.Series(OUTCOME_NAMES, dtype=pl.String)
    return pl.DataFrame(
        {
            **span_columns(log, span),
            "first_node": rows[:, FIRST].astype(np.int32),
            "nodes": rows[:, NODES].astype(np.int32),
            "tasks_per_node": rows[:, TASKS].astype(np.int32),
            "cores_per_node": rows[:, CORES].astype(np.int32),
            "memory_mb_per_node": rows[:, LOCAL_MB].astype(np.int64),
            "outcome": outcomes.gather(log.attempt_outcome[log.span_attempt[span]]),
        }
    )
