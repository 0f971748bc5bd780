"""The shares of devices of a run as a table for people. Times in seconds."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack.sim.frame import attempt_numbers
from unrack.sim.log import RunLog
from unrack.units import SECOND_US


def shares_frame(log: RunLog) -> pl.DataFrame:
    """One row for every share of every attempt, in order of (start, job).

    Columns: job, attempt, start_s, end_s, kind, pool, node, devices (their ids), composition (a number for one life of
    a composition or split device, from when it is made until its last job leaves), size (devices in it), parts (0: not
    split; n: one of n equal parts).
    """
    devices = log.cluster.devices
    attempt = log.share_attempt
    first = np.array([share.devices[0] for share in log.shares], np.int64)
    order = np.lexsort((np.arange(len(attempt)), log.attempt_job[attempt], log.attempt_start_us[attempt]))
    attempt, first = attempt[order], first[order]
    shares = [log.shares[i] for i in order.tolist()]
    kinds, pools = (
        pl.Series(devices.kinds, dtype=pl.String),
        pl.Series([p.name for p in devices.pools], dtype=pl.String),
    )
    held = pl.Series([list(share.devices) for share in shares], dtype=pl.List(pl.Int32))
    return pl.DataFrame(
        {
            "job": log.jobs.ids.gather(log.attempt_job[attempt]),
            "attempt": attempt_numbers(log)[attempt],
            "start_s": log.attempt_start_us[attempt] / SECOND_US,
            "end_s": log.attempt_end_us[attempt] / SECOND_US,
            "kind": kinds.gather(devices.kind[first]),
            "pool": pools.gather(devices.pool[first]),
            "node": pl.Series([share.node for share in shares], dtype=pl.Int32),
            "devices": held,
            "composition": log.share_group[order].astype(np.int32),
            "size": pl.Series([len(share.devices) for share in shares], dtype=pl.Int32),
            "parts": pl.Series([share.parts for share in shares], dtype=pl.Int32),
        }
    )
