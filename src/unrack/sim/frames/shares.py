"""The shares of devices of a run as a table for people. Times in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import polars as pl

from unrack.sim.frames.spans import span_columns, span_order
from unrack.sim.log import RunLog


def shares_frame(log: RunLog) -> pl.DataFrame:
    """One row for every share of every span, in order of (start, job).

    Columns: job, attempt, span, start_s, end_s, kind, pool, node, devices (their ids), composition (a number for one
    life of a composition or split device, from when it is made until its last job leaves), size (devices in it), parts
    (0: not split; n: one of n equal parts), amounts (what is held of each quantity of the kind, in its order).
    """
    devices = log.cluster.devices
    first = np.array([share.devices[0] for share in log.shares], np.int64)
    rank = np.empty(len(log.span_attempt), np.int64)
    rank[span_order(log)] = np.arange(len(rank))
    order = np.argsort(rank[log.share_span], kind="stable")
    span, first = log.share_span[order], first[order]
    shares = [log.shares[i] for i in order.tolist()]
    kinds, pools = (
        pl.Series(devices.kinds, dtype=pl.String),
        pl.Series([p.name for p in devices.pools], dtype=pl.String),
    )
    return pl.DataFrame(
        {
            **span_columns(log, span),
            "kind": kinds.gather(devices.kind[first]),
            "pool": pools.gather(devices.pool[first]),
            "node": pl.Series([share.node for share in shares], dtype=pl.Int32),
            "devices": _lists([share.devices for share in shares], pl.Int32),
            "composition": log.share_group[order].astype(np.int32),
            "size": pl.Series([len(share.devices) for share in shares], dtype=pl.Int32),
            "parts": pl.Series([share.parts for share in shares], dtype=pl.Int32),
            "amounts": _lists([share.amounts for share in shares], pl.Int64),
        }
    )


def _lists(rows: Sequence[Sequence[int]], number: type[pl.DataType]) -> pl.Series:
    """A column of lists, none of them empty; ten times as fast as ``pl.Series`` of Python's lists."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    flat = pl.Series(np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum())), dtype=number)
    numbered = pl.DataFrame({"row": np.repeat(np.arange(len(rows)), lengths), "list": flat})
    return numbered.group_by("row", maintain_order=True).agg("list")["list"]
