"""What is held of places over time, from rows of the table of claims."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray


def held_steps(claims: pl.DataFrame, start_s: float, end_s: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """What is held of a place, as times and the level from each on; from the start of the window to its end."""
    start, end = (np.clip(claims[name].to_numpy(), start_s, max(start_s, end_s)) for name in ("start_s", "end_s"))
    amount = claims["amount"].to_numpy()
    lasts = end > start
    when = np.concatenate([[start_s], start[lasts], end[lasts], [max(start_s, end_s)]])
    change = np.concatenate([[0], amount[lasts], -amount[lasts], [0]]).astype(np.int64)
    times, of = np.unique(when, return_inverse=True)
    level = np.zeros(len(times), np.int64)
    np.add.at(level, of.ravel(), change)
    return times, np.cumsum(level)
