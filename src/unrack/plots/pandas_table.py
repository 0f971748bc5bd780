"""A Polars table as a pandas table, without PyArrow, which Polars' own ``to_pandas`` wants."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from unrack.extras import extra


def to_pandas(frame: pl.DataFrame) -> Any:
    """The same columns in the same order, as a pandas.DataFrame; an InputError if pandas is not installed.

    Numbers, truth values and times become NumPy columns (whole numbers with gaps: floats with NaN, as Polars has it);
    text and lists become columns of Python objects, in which a gap is ``None``.
    """
    pandas = extra("pandas")
    columns = {name: _column(frame[name]) for name in frame.columns}
    return pandas.DataFrame(columns, columns=frame.columns, index=pandas.RangeIndex(frame.height))


def _column(column: pl.Series) -> Any:
    if column.dtype.is_numeric() or column.dtype.is_temporal():
        return column.to_numpy()
    if column.dtype == pl.Boolean and column.null_count() == 0:
        return column.to_numpy()
    return np.fromiter(column.to_list(), object, len(column))
