"""Memory per node of a job by its size, as measured on a contemporary supercomputer.

References
----------
The thesis on disaggregated memory, Table 5.5, which gives shares of bands. Within a band memory is drawn uniformly:
that agrees with the quartiles of the demand so drawn there (Table 5.6: 4.0, 8.1 and 15.3 GB of jobs below 64 GB; small
jobs give 4.2, 8.4 and 14.3, all jobs 4.6, 9.2 and 17.8).
"""

from __future__ import annotations

import numpy as np

from unrack.workload.generate.distributions import Floats
from unrack.workload.job import Ints

BAND_GB = (0, 12, 24, 48, 96, 128)
"""Edges of the bands, GB a node."""

LARGEST_SMALL = 32
"""The most nodes of a job that counts as small."""

SMALL_SHARES = (69.5, 19.4, 7.7, 3.0, 0.4)
LARGE_SHARES = (53.0, 16.9, 14.8, 11.2, 4.2)
"""Per cent of the jobs in each band; rounding in the table makes the latter 100.1."""


def memory_by_size_mb(rng: np.random.Generator, nodes: Ints) -> Ints:
    """``int64[jobs]``: MB per node, 1 or more and below 128 GB, drawn by Table 5.5.

    Parameters
    ----------
    rng
        Draws bands, then places in them.
    nodes : int64[jobs]
        Sizes.
    """
    chance = rng.random(len(nodes))
    within = rng.random(len(nodes))
    band = np.where(nodes <= LARGEST_SMALL, _bands(SMALL_SHARES, chance), _bands(LARGE_SHARES, chance))
    edges = np.array(BAND_GB, np.float64) * 1024
    mb = np.ceil(edges[band] + within * (edges[band + 1] - edges[band])).astype(np.int64)
    found: Ints = np.clip(mb, 1, BAND_GB[-1] * 1024 - 1)
    return found


def _bands(shares: tuple[float, ...], chance: Floats) -> Ints:
    edges: Floats = np.cumsum(shares) / sum(shares)
    found: Ints = np.searchsorted(edges, chance, side="right").astype(np.int64)
    return np.minimum(found, len(shares) - 1)
