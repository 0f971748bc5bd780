"""The same service without disaggregation: what ran on CPU nodes goes where the GPUs are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.workload.formats.intake import DEVICE, EXTRA, Tally

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_ROLE = f"{EXTRA}queue"
_AMOUNTS = ("cores", "memory_mb")


class Folded(NamedTuple):
    """The instances that are left, and what part of the core-seconds on CPU nodes nobody could take over."""

    frame: pl.DataFrame
    alone: float


def folded(frame: pl.DataFrame, server_cores: int | None, tally: Tally, cpu_role: str, gpu_role: str) -> Folded:
    """Instances with GPUs take over their app's instances without; apps that have only one sort stay as they are.

    At any time an app's instances without GPUs are spread evenly over those with that run at that time. A job asks
    all along for the mean of its share over its run, rounded up to whole cores and MB, beside what it asks itself. What
    ran while the app had no instance with a GPU is taken over by nobody.

    Parameters
    ----------
    frame
        Instances as the readers' frames have them, with a role and a begin each.
    server_cores
        The most cores of a server: a job that needs more becomes as many as are needed, each with the GPUs of the
        instance and an equal part of cores, memory and disk, rounded up. ``None``: however many it needs.
    tally
        Joined and split instances are counted.
    cpu_role, gpu_role
        The two roles.
    """
    begin, end = frame["begin_us"].to_numpy(), (frame["begin_us"] + frame["work_us"]).to_numpy()
    of_gpu = (frame[_ROLE] == gpu_role).to_numpy()
    app = frame["app"].rank("dense").to_numpy().astype(np.int64)
    amounts = {name: frame[name].to_numpy() for name in _AMOUNTS}
    joined, more = np.zeros(frame.height, np.bool_), {name: np.zeros(frame.height) for name in _AMOUNTS}
    spent = served = 0.0
    for own in np.split(np.argsort(app, kind="stable"), np.cumsum(np.bincount(app)[1:])[:-1]):
        cpu, gpu = own[~of_gpu[own]], own[of_gpu[own]]
        if not cpu.size or not gpu.size:
            continue
        joined[cpu] = True
        shares = _Shares(begin[gpu], end[gpu])
        for name, every in amounts.items():
            more[name][gpu] = shares.of(begin[cpu], end[cpu], every[cpu])
        spent += float((amounts["cores"][cpu] * (end - begin)[cpu].astype(np.float64)).sum())
        served += float((more["cores"][gpu] * (end - begin)[gpu]).sum())
    frame = frame.with_columns(
        (pl.col(name) + pl.Series(np.ceil(np.round(more[name], 6)).astype(np.int64))).alias(name) for name in _AMOUNTS
    )
    frame = tally.drop(frame, "joined to instances with GPUs", pl.lit(pl.Series(joined)))
    alone = max(0.0, 1 - served / spent) if spent else 0.0
    return Folded(frame if server_cores is None else _split(frame, server_cores, tally, gpu_role), alone)


class _Shares:
    """What each of an app's instances with GPUs (int64[instances]: begin, end) takes over."""

    def __init__(self, begin: Ints, end: Ints) -> None:
        self._begin, self._end = begin, end

    def of(self, begin: Ints, end: Ints, amount: Ints) -> Floats:
        """float64[instances]: the mean, over the run of each, of the amounts that run then over the instances then."""
        times = np.unique(np.concatenate([begin, end, self._begin, self._end]))
        held = _level(times, begin, end, amount)
        beside = _level(times, self._begin, self._end, np.ones_like(self._begin))
        each = np.divide(held, beside, out=np.zeros(len(times)), where=beside > 0)
        spent = np.concatenate([[0.0], np.cumsum(each[:-1] * np.diff(times))])
        first, last = np.searchsorted(times, self._begin), np.searchsorted(times, self._end)
        lasts = (self._end - self._begin).astype(np.float64)
        mean: Floats = np.divide(spent[last] - spent[first], lasts, out=each[first].copy(), where=lasts > 0)
        return mean


def _level(times: Ints, begin: Ints, end: Ints, amount: Ints) -> Ints:
    """int64[times]: what runs from each time on."""
    change = np.zeros(len(times), np.int64)
    np.add.at(change, np.searchsorted(times, begin), amount)
    np.add.at(change, np.searchsorted(times, end), -amount)
    return np.cumsum(change)


def _split(frame: pl.DataFrame, server_cores: int, tally: Tally, gpu_role: str) -> pl.DataFrame:
    pieces = -(-pl.col("cores") // server_cores)
    frame = frame.with_columns(pieces=pl.when(pl.col(_ROLE) == gpu_role).then(pieces).otherwise(1))
    split = pl.col("pieces") > 1
    tally.change_where(frame, "split over servers", split)
    frame = frame.with_columns(piece=pl.int_ranges(1, pl.col("pieces") + 1)).explode("piece")
    return frame.with_columns(
        *(-(-pl.col(name) // pl.col("pieces")) for name in (*_AMOUNTS, f"{DEVICE}disk.capacity_mb")),
        id=pl.when(split).then(pl.format("{}.{}", "id", "piece")).otherwise(pl.col("id")),
    ).drop("pieces", "piece")
