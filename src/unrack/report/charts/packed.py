"""Columns of a drawing, packed for the page: base64 of gzip of a header and columns in planes of bytes."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.kernels.arrays import Floats, Ints


def packed(header: Mapping[str, Any], columns: Sequence[NDArray[Any]]) -> str:
    """Text for the page: uint32 length of the header; the header as JSON; the columns, one after the other.

    A column is stored by planes, little-endian: the lowest bytes of all its values, then their second bytes and so on.
    High bytes are alike, so this takes half the room of whole values.
    """
    text = json.dumps(header, separators=(",", ":")).encode()
    planes = [np.frombuffer(own.tobytes(), np.uint8).reshape(own.size, own.itemsize).T.tobytes() for own in columns]
    whole = b"".join([np.array([len(text)], "<u4").tobytes(), text, *planes])
    return base64.b64encode(gzip.compress(whole, 6, mtime=0)).decode()


def stepped(values: Ints) -> NDArray[np.uint32]:
    """Differences between neighbours (the first from 0), the sign in the lowest bit: 0, −1, 1 and −2 are 0, 1, 2 and 3.

    Examples
    --------
    >>> stepped(np.array([5, 4, 6])).tolist()
    [10, 1, 4]
    """
    whole: Ints = values.astype(np.int64)
    steps = whole - np.concatenate([np.zeros(1, np.int64), whole])[: len(whole)]
    signed: NDArray[np.uint32] = ((steps << 1) ^ (steps >> 63)).astype("<u4")
    return signed


def number_ids(ids: Sequence[str]) -> Ints | None:
    """The ids as whole numbers below 2**30, if all of them are such numbers and written plainly."""
    if not all(
        name.isascii() and name.isdigit() and len(name) < 10 and (name[0] != "0" or name == "0") for name in ids
    ):
        return None
    return np.array(list(map(int, ids)), np.int64)


def ticked(start: Floats, length: Floats) -> tuple[float, NDArray[np.uint32], NDArray[np.uint32]]:
    """Times as whole ticks: the tick (s), the gaps between starts (the first from 0), the lengths.

    ``start``, ``length``: float64[rows], in s, in order of start; starts count from the origin of the axis.
    """
    tick = _tick(start, length)
    # starts and ends are rounded alike, so that what began when another ended does not overlap it
    ticks, ends = (np.rint(np.rint(time * 1e6) / (tick * 1e6)).astype(np.int64) for time in (start, start + length))
    return tick, np.diff(ticks, prepend=0).astype("<u4"), np.maximum(ends - ticks, 0).astype("<u4")


def _tick(start: Floats, length: Floats) -> float:
    """The coarsest of 1, 0.1 … 1e-6 s that keeps every time exact and every count within 32 bits."""
    if len(start) == 0:
        return 1.0
    longest = max(float(start[-1]), float(length.max()), 1.0)
    tick = 1.0
    for power in range(7):
        tick = 10.0**-power
        exact = all(
            np.allclose(column / tick, np.round(column / tick), rtol=0, atol=1e-3) for column in (start, length)
        )
        if exact or longest / (tick / 10) >= 2**32:
            break
    return tick


def coded(frame: pl.DataFrame, column: str) -> tuple[list[str], NDArray[np.uint32]]:
    """The different values of a column as texts, in order of appearance, and each row's place among them.

    A null is ``""``; so is every row where the column is missing.
    """
    if column not in frame.columns:
        return [""], np.zeros(len(frame), "<u4")
    values = frame[column].cast(pl.String).fill_null("")
    names = values.unique(maintain_order=True).to_list()
    codes = (
        values.replace_strict(names, list(range(len(names))), return_dtype=pl.UInt32)
        if names
        else values.cast(pl.UInt32)
    )
    return names, codes.to_numpy().astype("<u4")


def coded_jobs(rows: pl.DataFrame, jobs: pl.DataFrame) -> tuple[list[str], NDArray[np.uint32], pl.DataFrame]:
    """The ids of the jobs of some rows, each row's place among them, and what is known of them, in this order."""
    ids, place = coded(rows, "job")
    known = jobs.with_columns(pl.col("job").cast(pl.String)).unique("job", keep="first", maintain_order=True)
    of = pl.DataFrame({"job": pl.Series(ids, dtype=pl.String)})
    return ids, place, of.join(known, on="job", how="left", maintain_order="left")


def unpacked(text: str) -> tuple[dict[str, Any], Callable[[str, int], NDArray[Any]]]:
    """The header of what :func:`packed` made, and a function that takes its columns one after the other.

    The function is given the type of a column, ``"<u4"`` for example, and how many values it has.

    Examples
    --------
    >>> head, take = unpacked(packed({"rows": 2}, [np.array([1, 70000], "<u4")]))
    >>> head, take("<u4", 2).tolist()
    ({'rows': 2}, [1, 70000])
    """
    whole = gzip.decompress(base64.b64decode(text))
    size = int(np.frombuffer(whole, "<u4", 1)[0])
    head = json.loads(whole[4 : 4 + size])
    at = 4 + size

    def take(kind: str, count: int) -> NDArray[Any]:
        nonlocal at
        wide = np.dtype(kind).itemsize
        planes = np.frombuffer(whole, np.uint8, wide * count, at).reshape(wide, count)
        at += wide * count
        return np.frombuffer(planes.T.tobytes(), kind)

    return head, take
