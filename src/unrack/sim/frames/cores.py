"""Which cores of its nodes each attempt had, chosen by a rule of :mod:`unrack.policy.placement.core_tiles`.

What the cores are changes neither who runs where nor for how long; so they are chosen after the run, start by start.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

import numpy as np
import polars as pl

from unrack.kernels.arrays import Ints
from unrack.ledger.changing.sizes import Sizes
from unrack.ledger.lease import NODES, TASKS
from unrack.policy.placement.core_tiles import CoreSet, CoreTiles
from unrack.resources.gpus.machines.machine import text_of as ranges
from unrack.sim.frames.held import attempt_numbers, span_columns, span_order
from unrack.sim.log import RunLog
from unrack.sim.recorder import Outcome
from unrack.units import SECOND_US

SUMS = {"distance": "core_distance", "least": "core_distance_least", "apart": "cores_apart"}
"""Columns of the cores frame that are summed over the nodes of a job, and what the jobs frame calls the sums."""


def cores_frame(log: RunLog, rule: str) -> pl.DataFrame:
    """One row for every node of every span, in order of (start, job); nodes of unknown layout are left out.

    A job whose lease changes gives its cores back, and cores are chosen anew for what it holds then. An InputError if
    there is no such rule, or no node's layout is known.

    Columns: job, attempt, span, start_s, end_s, node, cores (how many), core_ids (text, such as ``"0-3,7"``), dies,
    distance, least, apart; the last four as of :class:`unrack.policy.placement.core_tiles.CoreSet`.
    """
    tiles = CoreTiles(log.cluster, rule)
    running: list[tuple[int, int]] = []
    held: dict[int, list[tuple[int, CoreSet]]] = {}
    which: list[int] = []
    at: list[int] = []
    sets: list[CoreSet] = []
    for span in span_order(log).tolist():
        start_us = int(log.span_start_us[span])
        while running and running[0][0] <= start_us:
            for node, cores in held.pop(heapq.heappop(running)[1]):
                tiles.give(node, cores.ids)
        mine = [(node, tiles.take(node, count)) for node, count in _nodes(log, span) if tiles.knows(node)]
        held[span] = mine
        heapq.heappush(running, (int(log.span_end_us[span]), span))
        which += [span] * len(mine)
        at += [node for node, _ in mine]
        sets += [cores for _, cores in mine]
    return pl.DataFrame(
        {
            **span_columns(log, np.array(which, np.int64)),
            "node": np.array(at, np.int32),
            "cores": np.array([len(cores.ids) for cores in sets], np.int32),
            "core_ids": pl.Series([ranges(cores.ids.tolist()) for cores in sets], dtype=pl.String),
            **{name: np.array([getattr(cores, name) for cores in sets], np.int64) for name in ("dies", *SUMS)},
        }
    )


def _nodes(log: RunLog, span: int) -> list[tuple[int, int]]:
    """The nodes of a span, and the cores that it held of each."""
    rows = log.rows[log.span_rows[span] : log.span_rows[span + 1]].tolist()
    return [(node, cores) for first, count, _, cores, _ in rows for node in range(first, first + count)]


def core_columns(log: RunLog, cores: pl.DataFrame) -> list[pl.Series]:
    """Sums over the nodes of each job that finished, of the attempt that did: how close together its cores were.

    Of a job whose lease changed while it ran, those that it held last. ``cores``: what :func:`cores_frame` says of the
    run.
    """
    done = log.attempt_outcome == Outcome.FINISHED
    ended = pl.DataFrame(
        {"job": log.jobs.ids.gather(log.attempt_job[done]), "attempt": attempt_numbers(log)[done]},
    )
    last = cores.filter(pl.col("span") == pl.col("span").max().over("job", "attempt"))
    sums = last.group_by("job", "attempt").agg(pl.col(list(SUMS)).sum())
    of_job = ended.join(sums, on=["job", "attempt"], how="left")
    frame = pl.DataFrame({"job": log.jobs.ids}).join(of_job, on="job", how="left", maintain_order="left")
    return [frame[name].alias(called) for name, called in SUMS.items()]


def tasks_held(log: RunLog) -> Ints:
    """int64[spans]: how many tasks ran."""
    rows = log.rows.astype(np.int64)
    return np.add.reduceat(rows[:, NODES] * rows[:, TASKS], log.span_rows[:-1]) if len(rows) else rows[:, 0]


def size_columns(log: RunLog, sizes: Mapping[int, Sizes]) -> list[pl.Series]:
    """Further columns of jobs.

    Columns: least_tasks and most_tasks (its smallest and its largest size), mean_tasks (of the attempt that finished,
    over its time; of one that took no time, those it began with), size_changes (while it ran), change_s_lost and
    core_s_lost_changing (for how long it stood still for these, and the cores that it then held times that).
    """
    count, held = len(log.jobs), tasks_held(log)
    least, most = log.jobs.tasks.copy(), log.jobs.tasks.copy()
    cost = np.zeros(count, np.int64)
    for job, own in sizes.items():
        least[job], most[job], cost[job] = own.tasks[0], own.tasks[-1], own.change_us
    mean = np.full(count, np.nan)
    done = np.flatnonzero(log.attempt_outcome == Outcome.FINISHED)
    length = (log.attempt_end_us - log.attempt_start_us)[done]
    whole, first = log.over_time(held)[done], held[log.attempt_spans[:-1]][done]
    mean[log.attempt_job[done]] = np.where(length > 0, whole / np.maximum(length, 1), first)
    changes, core_us = np.zeros(count, np.int64), np.zeros(count)
    later = np.flatnonzero((np.diff(log.span_attempt) == 0) & (np.diff(held) != 0)) + 1
    np.add.at(changes, log.span_job[later], 1)
    np.add.at(core_us, log.span_job[later], log.amounts[1][later] * cost[log.span_job[later]].astype(np.float64))
    return [
        pl.Series("least_tasks", least), pl.Series("most_tasks", most), pl.Series("mean_tasks", mean, nan_to_null=True),
        pl.Series("size_changes", changes), pl.Series("change_s_lost", changes * cost / SECOND_US),
        pl.Series("core_s_lost_changing", core_us / SECOND_US),
    ]  # fmt: skip
