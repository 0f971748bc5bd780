"""Integrals of step functions: tables whose rows each hold until the next."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl


def areas_of(steps: pl.DataFrame, columns: Iterable[str], start_s: float, end_s: float) -> dict[str, float]:
    """The integral over time of columns of a step function, in the column's unit times s.

    Parameters
    ----------
    steps
        ``time_s``, rising, and columns of numbers; before its first row all are 0, and its last row holds for ever.
    columns
        Which of them.
    start_s, end_s
        From when to when.

    Examples
    --------
    >>> areas_of(pl.DataFrame({"time_s": [0.0, 2.0], "mb": [10, 1]}), ["mb"], 1.0, 5.0)
    {'mb': 13.0}
    """
    if steps.height == 0 or end_s <= start_s:
        return dict.fromkeys(columns, 0.0)
    lengths = np.diff(np.clip(np.append(steps["time_s"].to_numpy(), np.inf), start_s, end_s))
    return {name: float(np.dot(lengths, steps[name].to_numpy().astype(np.float64))) for name in columns}


def largest(steps: pl.DataFrame, column: str, start_s: float, end_s: float) -> float:
    """The largest value that a column of a step function has between two times, both included; 0 before its first row.

    Examples
    --------
    >>> largest(pl.DataFrame({"time_s": [0.0, 2.0, 9.0], "mb": [10, 1, 50]}), "mb", 3.0, 5.0)
    1.0
    """
    before = steps.filter(pl.col("time_s") < start_s).tail(1)
    inside = steps.filter(pl.col("time_s").is_between(start_s, end_s))
    found = pl.concat([before, inside])[column].max()
    return float(found) if isinstance(found, int | float) else 0.0
