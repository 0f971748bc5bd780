"""Who held which nodes from when until when, as a table for people: one row a span and run of equal nodes."""

from __future__ import annotations

from typing import Any

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
    """int64[rows], int64[spans]: the rows of these spans, one span after the other, and how many each has.

    Parameters
    ----------
    first : int64[spans + 1]
        ``RunLog.span_rows`` or ``RunLog.span_loans``.
    spans
        Which spans.
    """
    count = np.diff(first)[spans]
    at = np.arange(count.sum(), dtype=np.int64)
    at += np.repeat(first[:-1][spans] - np.cumsum(count) + count, count)
    return at, count


def span_columns(log: RunLog, spans: Ints, count: Ints | None = None) -> dict[str, pl.Series]:
    """The columns that every table of spans begins with: job, attempt and span (both from 1), start_s, end_s.

    Parameters
    ----------
    spans : int64[k]
        Which spans.
    count : int64[k]
        How many rows each has; default: one.
    """
    attempt = log.span_attempt[spans]

    def column(values: NDArray[Any]) -> pl.Series:
        return pl.Series(values if count is None else np.repeat(values, count))

    return {
        "job": log.jobs.ids.gather(column(log.attempt_job[attempt])),
        "attempt": column(attempt_numbers(log)[attempt]),
        "span": column((spans - log.attempt_spans[attempt] + 1).astype(np.int32)),
        "start_s": column(log.span_start_us[spans] / SECOND_US),
        "end_s": column(log.span_end_us[spans] / SECOND_US),
    }


def placements_frame(log: RunLog) -> pl.DataFrame:
    """One row for every run of equal consecutive nodes of every span, in order of (start, job).

    Columns: job, attempt, span, start_s, end_s, first_node, nodes; on each of these nodes tasks_per_node,
    cores_per_node and memory_mb_per_node (of its own memory); and outcome (of the attempt).
    """
    spans = span_order(log)
    at, count = rows_of(log.span_rows, spans)

    rows = log.rows.take(at, axis=0)
    del at

    def column(which: int, number: type[np.integer[Any]] = np.int32) -> pl.Series:
        return pl.Series(rows[:, which].astype(number))

    outcome, names = log.attempt_outcome[log.span_attempt[spans]], pl.Series(OUTCOME_NAMES, dtype=pl.String)
    if outcome.any():
        outcomes = names.gather(pl.Series(np.repeat(outcome, count)))
    else:
        outcomes = names.new_from_index(0, len(rows))
    return pl.DataFrame(
        {
            **span_columns(log, spans, count),
            "first_node": column(FIRST),
            "nodes": column(NODES),
            "tasks_per_node": column(TASKS),
            "cores_per_node": column(CORES),
            "memory_mb_per_node": column(LOCAL_MB, np.int64),
            "outcome": outcomes,
        }
    )
