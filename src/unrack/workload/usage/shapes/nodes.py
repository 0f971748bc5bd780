"""How the nodes of one job differ: the spread of their peaks, and how alike their levels are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unrack.workload.usage.curves import Ints
from unrack.workload.usage.series import UsageSeries
from unrack.workload.usage.shapes.parameters import KINDS, Nodes

_PLACES = np.linspace(0.0, 1.0, 64, endpoint=False) + 1 / 128
_MOST_PAIRS = 20_000


def nodes_of(series: UsageSeries, kind: Ints) -> Nodes | None:
    """The parameters of nodes, or ``None`` where no job has several series.

    Parameters
    ----------
    series
        Of which each uses something.
    kind : int64[series]
        Of the job of each. Ramps agree by their trend, and do not count for how alike levels are.
    """
    several = series.series > 1
    if not several.any():
        return None
    job = series.job_of_series()
    log = np.log(np.maximum(series.peaks(), 1e-300))
    mean = np.add.reduceat(log, series.first[:-1]) / series.series
    apart = ((log - mean[job]) ** 2)[several[job]].sum()
    spread = float(np.sqrt(apart / (series.series[several] - 1).sum()))
    pairs = np.flatnonzero((np.diff(job) == 0) & (kind[1:] != KINDS.index("ramp")))[:_MOST_PAIRS]
    found = [one for pair in pairs.tolist() if (one := _correlation(series, pair)) is not None]
    return Nodes(spread=round(min(spread, 10.0), 4), alike=_alike(found))


def _alike(found: Sequence[tuple[float, int]]) -> float:
    """The correlation of normal scores whose ranks, in series of so many levels, correlate as these do on average.

    Ranks of few correlate less: their expected correlation is that of Moran 1948 (Kendall and Gibbons, section 9.10).
    """
    if not found:
        return 1.0
    wanted = float(np.mean([one for one, _ in found]))
    levels = np.array([count for _, count in found], np.float64)
    least, most = 0.0, 1.0
    for _ in range(30):
        middle = (least + most) / 2
        ranks = 6 / (np.pi * (levels + 1)) * (np.arcsin(middle) + (levels - 2) * np.arcsin(middle / 2))
        least, most = (least, middle) if ranks.mean() > wanted else (middle, most)
    return round((least + most) / 2, 3)


def _correlation(series: UsageSeries, pair: int) -> tuple[float, int] | None:
    """Of the ranks of two neighbouring series at equal progress, and how many levels they have.

    ``None`` where one of them never changes.
    """
    values = []
    for one in (pair, pair + 1):
        here = slice(int(series.point[one]), int(series.point[one + 1]))
        found = series.amount[here][np.searchsorted(series.at[here], _PLACES, side="right") - 1]
        values.append(np.unique(found, return_inverse=True)[1].astype(np.float64))
    levels = int(min(values[0].max(), values[1].max())) + 1
    return (float(np.corrcoef(values[0], values[1])[0, 1]), levels) if levels > 1 else None
