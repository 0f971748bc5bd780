"""What sizes jobs had, where policies choose or change them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from unrack.kernels.arrays import Ints
from unrack.ledger.changing.sizes import Sizes
from unrack.ledger.lease import NODES, TASKS
from unrack.sim.log import RunLog
from unrack.sim.recorder import Outcome
from unrack.units import SECOND_US


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
