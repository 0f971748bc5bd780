"""Metrics of how close together the cores of jobs were, for runs that chose them."""

from __future__ import annotations

import polars as pl

from unrack.metric.metric import Metric

CORE_METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in [
        Metric(
            "core_distance_over_least", "", "low",
            "hops between the cores of finished jobs on one die, over the least that empty dies allow",
            "Σ core_distance / Σ core_distance_least",
        ),
        Metric(
            "core_pairs_apart", "", "low", "pairs of cores of one job and node that were on different dies",
            "Σ cores_apart",
        ),
    ]
}  # fmt: skip
"""Metrics of the cores that jobs had, in runs that chose them."""


def core_metrics(jobs: pl.DataFrame) -> dict[str, float | None]:
    """The metrics of ``CORE_METRICS``, in its order; a ratio is ``None`` where nothing is below the bar.

    Parameters
    ----------
    jobs
        Finished jobs, as the jobs frame of a run with ``core_tiles`` has them.

    Examples
    --------
    >>> core_metrics(pl.DataFrame({"core_distance": [5, 4], "core_distance_least": [4, 4], "cores_apart": [0, 3]}))
    {'core_distance_over_least': 1.125, 'core_pairs_apart': 3.0}
    """
    distance, least, apart = (
        float(jobs[name].sum()) for name in ("core_distance", "core_distance_least", "cores_apart")
    )
    return {"core_distance_over_least": distance / least if least else None, "core_pairs_apart": apart}
