"""Response times predicted from how much too high a request is, apart for jobs that respond alike when none is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST = 0.95
"""The part of the jobs that the bands are laid over."""


class Band(NamedTuple):
    """Jobs whose responses were alike when no request was too high, and a straight line through what they became.

    Attributes
    ----------
    jobs
        How many.
    base_s
        Their mean response when no request was too high, s.
    exact_s
        By the line: the response of a job that asks for what it uses, s.
    slope_s
        What asking for twice that adds, s.
    """

    jobs: int
    base_s: float
    exact_s: float
    slope_s: float

    def at(self, share: float) -> float:
        """The response of a job that asks for so much more than it uses, s; 1 = twice.

        Examples
        --------
        >>> Band(10, 100.0, 150.0, 30.0).at(0.5)
        165.0
        """
        return self.exact_s + self.slope_s * share


def by_band(base_s: Floats, share: Floats, response_s: Floats, bands: int) -> list[Band | None]:
    """Regressions of responses on overestimates, in bands of responses of equal length.

    Parameters
    ----------
    base_s, share, response_s : float64[jobs]
        Of each job: its response when no request was too high, how much too high its own is, and its response then.
    bands
        How many. They are as long as each other from 0 s to the response that 95 % of the jobs stay below; longer ones
        are in the last.

    Returns
    -------
    list of Band
        By least squares; ``None`` where no job is. Where no shares differ the line is level.

    References
    ----------
    Vieira Zacarias 2023, section 7.1.2, Fig. 7.1.

    Examples
    --------
    >>> base_s, share = np.array([1.0, 1.0, 9.0, 9.0]), np.array([0.0, 1.0, 0.0, 1.0])
    >>> found = by_band(base_s, share, np.array([2.0, 3.0, 9.0, 9.0]), 3)
    >>> [band and (band.exact_s, band.slope_s) for band in found]
    [(2.0, 1.0), None, (9.0, 0.0)]
    """
    found: list[Band | None] = []
    length = float(np.quantile(base_s, MOST)) / bands if len(base_s) else 0.0
    own = np.minimum(base_s / length, bands - 1).astype(np.int64) if length > 0 else np.zeros(len(base_s), np.int64)
    for band in range(bands):
        x, y = share[own == band], response_s[own == band]
        if not len(x):
            found.append(None)
            continue
        spread = float(((x - x.mean()) ** 2).sum())
        slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 0 else 0.0
        found.append(Band(len(x), float(base_s[own == band].mean()), float(y.mean() - slope * x.mean()), slope))
    return found


def ahead(bands: list[Band], share: float) -> float | None:
    """By how much longer a job takes that alone asks for so much more, over all jobs; ``None`` where there are none.

    Examples
    --------
    >>> round(ahead([Band(1, 1.0, 10.0, 1.0), Band(3, 1.0, 20.0, 1.0)], 0.5), 4)
    0.0286
    """
    exact = sum(band.jobs * band.at(0.0) for band in bands)
    return sum(band.jobs * band.at(share) for band in bands) / exact - 1 if exact else None
