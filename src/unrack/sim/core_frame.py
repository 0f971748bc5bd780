"""Which cores of its nodes each attempt had, chosen by a rule of :mod:`unrack.policy.core_tiles`.

What the cores are changes neither who runs where nor for how long; so they are chosen after the run, start by start.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.policy.core_tiles import CoreSet, CoreTiles
from unrack.sim.frame import attempt_numbers
from unrack.sim.log import Outcome, RunLog
from unrack.units import SECOND_US

Ints = NDArray[np.int64]

SUMS = {"distance": "core_distance", "least": "core_distance_least", "apart": "cores_apart"}
"""Columns of the cores frame that are summed over the nodes of a job, and what the jobs frame calls the sums."""


def cores_frame(log: RunLog, rule: str) -> pl.DataFrame:
    """One row for every node of every attempt, in order of (start, job); nodes of unknown layout are left out.

    Columns: job, attempt, start_s, end_s, node, cores (how many), core_ids (text, such as ``"0-3,7"``), dies, distance,
    least, apart; the last four as of :class:`unrack.policy.core_tiles.CoreSet`.

    Raises
    ------
    InputError
        There is no such rule, or no node's layout is known.
    """
    tiles = CoreTiles(log.cluster, rule)
    number = attempt_numbers(log)
    order = np.lexsort((number, log.attempt_job, log.attempt_start_us))
    running: list[tuple[int, int]] = []
    held: dict[int, list[tuple[int, CoreSet]]] = {}
    which: list[int] = []
    at: list[int] = []
    sets: list[CoreSet] = []
    for attempt in order.tolist():
        start_us = int(log.attempt_start_us[attempt])
        while running and running[0][0] <= start_us:
            for node, cores in held.pop(heapq.heappop(running)[1]):
                tiles.give(node, cores.ids)
        mine = [(node, tiles.take(node, count)) for node, count in _nodes(log, attempt) if tiles.knows(node)]
        held[attempt] = mine
        heapq.heappush(running, (int(log.attempt_end_us[attempt]), attempt))
        which += [attempt] * len(mine)
        at += [node for node, _ in mine]
        sets += [cores for _, cores in mine]
    attempts = np.array(which, np.int64)
    return pl.DataFrame(
        {
            "job": log.jobs.ids.gather(log.attempt_job[attempts]),
            "attempt": number[attempts],
            "start_s": log.attempt_start_us[attempts] / SECOND_US,
            "end_s": log.attempt_end_us[attempts] / SECOND_US,
            "node": np.array(at, np.int32),
            "cores": np.array([len(cores.ids) for cores in sets], np.int32),
            "core_ids": pl.Series([ranges(cores.ids.tolist()) for cores in sets], dtype=pl.String),
            **{name: np.array([getattr(cores, name) for cores in sets], np.int64) for name in ("dies", *SUMS)},
        }
    )


def _nodes(log: RunLog, attempt: int) -> list[tuple[int, int]]:
    """The nodes of an attempt, and the cores that it held of each."""
    rows = log.rows[log.attempt_rows[attempt] : log.attempt_rows[attempt + 1]].tolist()
    return [(node, cores) for first, count, _, cores, _ in rows for node in range(first, first + count)]


def ranges(ids: Sequence[int]) -> str:
    """Ascending numbers as text.

    Examples
    --------
    >>> ranges([0, 1, 2, 3, 7])
    '0-3,7'
    """
    parts: list[list[int]] = []
    for core in ids:
        if parts and core == parts[-1][1] + 1:
            parts[-1][1] = core
        else:
            parts.append([core, core])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def core_columns(log: RunLog, cores: pl.DataFrame) -> list[pl.Series]:
    """Sums over the nodes of each job that finished, of the attempt that did: how close together its cores were.

    Parameters
    ----------
    log
        A finished run.
    cores
        What :func:`cores_frame` says of it.
    """
    done = log.attempt_outcome == Outcome.FINISHED
    ended = pl.DataFrame(
        {"job": log.jobs.ids.gather(log.attempt_job[done]), "attempt": attempt_numbers(log)[done]},
    )
    sums = cores.group_by("job", "attempt").agg(pl.col(list(SUMS)).sum())
    of_job = ended.join(sums, on=["job", "attempt"], how="left")
    frame = pl.DataFrame({"job": log.jobs.ids}).join(of_job, on="job", how="left", maintain_order="left")
    return [frame[name].alias(called) for name, called in SUMS.items()]
