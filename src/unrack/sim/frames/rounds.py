"""The rounds of a policy that tells them, as a table for people. Times in seconds."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.policy.rounds import UNIT, RoundCount
from unrack.units import SECOND_US


def rounds_frame(counts: NDArray[np.int64] | None) -> pl.DataFrame:
    """One row a round, in order; ``counts`` (int64[rounds, 7]) as of :class:`unrack.policy.rounds.RoundCount`.

    Columns: time_s, jobs, tried, placed, left, networks, cost_placed, cost_waiting.
    """
    assert counts is not None
    columns = dict(zip(RoundCount._fields, counts.T, strict=True))
    return pl.DataFrame(
        {
            "time_s": columns["at_us"] / SECOND_US,
            **{name: columns[name].copy() for name in ("jobs", "tried", "placed")},
            "left": columns["jobs"] - columns["placed"],
            "networks": columns["networks"].copy(),
            **{name: columns[name] / UNIT for name in ("cost_placed", "cost_waiting")},
        }
    )
