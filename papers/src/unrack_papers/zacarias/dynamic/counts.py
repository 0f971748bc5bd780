"""Counts of a run of jobs that use less than they hold: throughput, responses, and how many nodes lend over time."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack import Result
from unrack.study import Run
from unrack_papers.reproduction import Numbers
from unrack_papers.zacarias.counts import RESPONSES_S

LEVELS = tuple(range(5, 100, 5))
"""Per cent of the time: quantiles of the share of nodes that lend."""


def jobs_with_use(run: Run, result: Result, took_s: float) -> Numbers:
    """Throughput, the distribution of response times, and quantiles over time of the share of nodes that lend.

    Returns
    -------
    dict
        The metrics; ``jobs_per_h``: jobs finished over the makespan; ``response.median``, ``response.mean``, in s;
        ``within.3600`` …: share of the jobs whose response took at most 3600 s; ``lending.50`` …: at least so large was
        the share of nodes that lend in half of the time; ``None`` where nothing is lent.
    """
    makespan, finished = result.metrics["makespan_s"], result.metrics["jobs_finished"] or 0.0
    values: Numbers = {**result.metrics, "jobs_per_h": 3600 * finished / makespan if makespan else None}
    responses = result.jobs["response_s"].drop_nulls().sort().to_numpy()
    within = np.searchsorted(responses, RESPONSES_S, side="right")
    values |= {
        f"within.{time_s}": count / result.jobs.height if result.jobs.height else None
        for time_s, count in zip(RESPONSES_S, within.tolist(), strict=True)
    }
    values["response.median"] = float(np.median(responses)) if len(responses) else None
    values["response.mean"] = float(responses.mean()) if len(responses) else None
    lending = lending_over_time(result.usage, len(run.cluster))
    return values | {f"lending.{level}": share for level, share in zip(LEVELS, lending, strict=True)}


def lending_over_time(usage: pl.DataFrame, nodes: int) -> list[float | None]:
    """Quantiles of the share of nodes that lend, at ``LEVELS``, each moment of the run counting alike.

    Parameters
    ----------
    usage
        The usage frame of a run: ``time_s`` and, where memory is lent, ``nodes_lending``.
    nodes
        How many there are.

    Examples
    --------
    >>> found = lending_over_time(pl.DataFrame({"time_s": [0.0, 6.0, 10.0], "nodes_lending": [1, 3, 0]}), 4)
    >>> found[LEVELS.index(50)], found[LEVELS.index(60)], found[LEVELS.index(65)]
    (0.25, 0.25, 0.75)
    """
    if "nodes_lending" not in usage.columns or usage.height < 2 or not nodes:
        return [None] * len(LEVELS)
    lengths = np.diff(usage["time_s"].to_numpy())
    lending = usage["nodes_lending"].to_numpy()[:-1]
    order = np.argsort(lending, kind="stable")
    passed = np.cumsum(lengths[order])
    at = np.searchsorted(passed, np.array(LEVELS) / 100 * passed[-1] * (1 - 1e-12))
    shares = lending[order][np.minimum(at, len(lending) - 1)] / nodes
    return [float(share) for share in shares]
