"""Rows of a map of memory, unpacked again: what the page does with the same bytes, for charts outside the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.report.charts.packed import unpacked


def map_rows(packed: str, share: bool) -> list[dict[str, Any]]:
    """A row a cell that is not empty.

    Parameters
    ----------
    packed
        What :func:`unrack.report.memory.map.pack_map` made.
    share
        Whether cells tell the share of the memory installed there, not GB.
    """
    head, take = unpacked(packed)
    places, bounds = head["places"], head["nodes"]
    lanes = len(bounds) - 1
    columns = head.get("columns", lanes)
    mb = take("<u4", lanes * columns).reshape(lanes, columns).astype(np.float64)
    found = []
    for lane, column in zip(*(own.tolist() for own in np.nonzero(mb)), strict=True):
        amount = float(mb[lane, column])
        row = {"y": places[lane], "y2": places[lane + 1]}
        if "columns" in head:
            x = head["from"] + column * head["step"]
            installed, nodes = head["installed"][lane], bounds[lane + 1] - bounds[lane]
            row |= {"x": x, "x2": x + head["step"], "value": amount / installed if share else amount / nodes / 1024}
        else:
            row |= {"x": places[column], "x2": places[column + 1], "value": amount / 1024}
        found.append(row)
    return found
