"""What is in a file of used memory: series, samples, shapes, and what was dropped or changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.kernels.arrays import Floats
from unrack.workload.usage.curves import UsageSeries
from unrack.workload.usage.read import RULES
from unrack.workload.usage.shapes.fit import highest, in_use
from unrack.workload.usage.shapes.parameters import KINDS
from unrack.workload.usage.shapes.properties import properties
from unrack.workload.usage.thin import thinned

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


def describe_usage(series: UsageSeries) -> dict[str, Any]:
    """A record of plain numbers, ready for JSON.

    Parameters
    ----------
    series
        As read.

    Returns
    -------
    dict
        ``source``, ``unit`` (``"MB"`` or ``"share of a limit"``), ``rows``, ``jobs``, ``series``, ``idle`` (jobs that
        never use anything); ``interval_s``; smallest, quartiles and largest of ``samples`` a series, ``run_s``,
        ``peak``, ``mean_over_peak``, ``progress_near_peak``; ``kinds`` → jobs; ``thinned`` → points and the error made
        by default; ``dropped`` and ``changed`` by rule.
    """
    busy = np.flatnonzero(series.job_peaks() > 0)
    found: dict[str, Any] = {
        "source": series.source,
        "unit": "share of a limit" if series.shares else "MB",
        "rows": series.read,
        "jobs": len(series),
        "series": len(series.point) - 1,
        "idle": len(series) - len(busy),
        "interval_s": None if np.isnan(series.interval_s) else round(series.interval_s, 6),
        "samples": _quantiles(np.diff(series.point).astype(np.float64)),
        "run_s": _quantiles(series.run_s[~np.isnan(series.run_s)]),
        "peak": _quantiles(series.job_peaks()),
    }
    if len(busy):
        shapes = in_use(series.take(busy).over_peak())
        seen = properties(shapes)
        kinds = np.bincount(seen.kind[highest(shapes)], minlength=len(KINDS))
        made = thinned(shapes)
        found |= {
            "mean_over_peak": _quantiles(seen.ratio),
            "progress_near_peak": _quantiles(seen.near),
            "kinds": {name: int(count) for name, count in zip(KINDS, kinds, strict=True)},
            "thinned": {
                "points": made.points,
                "largest_error": round(float((made.largest_error / shapes.peaks()).max()), 6),
                "mean_error": round(float((made.mean_error / shapes.peaks()).mean()), 6),
            },
        }
    return found | {"dropped": dict(series.dropped), "changed": dict(series.changed)}


def sentence(rule: str) -> str:
    """What a rule does."""
    return RULES[rule]


def _quantiles(values: Floats) -> list[float] | None:
    if not len(values):
        return None
    return [round(float(part), 6) for part in np.quantile(values, QUANTILES, method="inverted_cdf")]
