"""How much of the links was claimed: the metrics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.resources.contract import Told
from unrack.resources.links.links import LINK, UPLINK

Floats = NDArray[np.float64]
MEASURES = (
    Told("used_links", "", "", "share of what the links of nodes carry that jobs claimed",
         "∫ claimed dt / (carried x window)"),
    Told("peak_links", "", "low", "share of what a node's link carries that was claimed at most, of the fullest",
         "max claimed / carried"),
    Told("used_uplinks", "", "", "the same of the uplinks of racks", "∫ claimed dt / (carried x window)"),
    Told("peak_uplinks", "", "low", "the same of the uplinks of racks", "max claimed / carried"),
)  # fmt: skip


def measures(
    quantities: Sequence[str], capacity: Sequence[int], claims: pl.DataFrame, start_s: float, end_s: float
) -> dict[str, float | None]:
    """Every metric; ``None`` over a window that lasts no time, or where there are no uplinks.

    Parameters
    ----------
    quantities, capacity
        Of every place: its quantity, and what it carries.

    Examples
    --------
    >>> claims = pl.DataFrame({"place": ["a", "b"], "quantity": ["mb_s"] * 2, "start_s": [0.0, 0.0],
    ...                        "end_s": [4.0, 8.0], "amount": [50, 100]})
    >>> measures(["mb_s", "mb_s"], [100, 100], claims, 0.0, 8.0)
    {'used_links': 0.625, 'peak_links': 1.0, 'used_uplinks': None, 'peak_uplinks': None}
    """
    values: dict[str, float | None] = {}
    length = end_s - start_s
    for quantity, stem in ((LINK, "links"), (UPLINK, "uplinks")):
        carried = [each for name, each in zip(quantities, capacity, strict=True) if name == quantity]
        own = claims.filter(pl.col("quantity") == quantity)
        known = length > 0 and bool(carried)
        spent = peak = 0.0
        for (_,), rows in own.group_by("place", maintain_order=True) if known else ():
            times, level = levels(rows, start_s, end_s)
            spent += float((np.diff(times) * level[:-1]).sum())
            peak = max(peak, float(level.max()))
        values[f"used_{stem}"] = spent / (sum(carried) * length) if known else None
        values[f"peak_{stem}"] = peak / carried[0] if known else None
    return values


def levels(claims: pl.DataFrame, start_s: float, end_s: float) -> tuple[Floats, Floats]:
    """What is claimed in all, as times and the level from each on; from the start of the window to its end."""
    start, end = (np.clip(claims[name].to_numpy(), start_s, end_s) for name in ("start_s", "end_s"))
    lasts, amount = end > start, claims["amount"].to_numpy()
    when = np.concatenate([[start_s], start[lasts], end[lasts], [end_s]])
    change = np.concatenate([[0], amount[lasts], -amount[lasts], [0]]).astype(np.float64)
    times, of = np.unique(when, return_inverse=True)
    level = np.zeros(len(times))
    np.add.at(level, of.ravel(), change)
    return times, np.cumsum(level)
