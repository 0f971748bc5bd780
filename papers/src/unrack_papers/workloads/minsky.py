"""Lists of training jobs for machines with four GPUs, as generated for the thesis on topology-aware placement.

The header is ``id,arrival_s,application,batch_size,gpus,tasks,memory_gb,minimal_utility``.

References
----------
M. Amaral: Improving resource efficiency in virtualized datacenters, 2019, chapter 4.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl

from unrack import Workload
from unrack.errors import InputError
from unrack.resources.gpus import UTILITY_PARTS
from unrack.workload.formats import (
    Source,
    Tally,
    amounts,
    load,
    make_format,
    memory_unit_mb,
    time_unit_us,
    times_us,
    typed,
    workload,
)
from unrack_papers.workloads.fields import TOGETHER, Fields, asked
from unrack_papers.workloads.measured_times import MeasuredTimes, app_names, read_times

GIVEAWAY = ("application", "batch_size", "minimal_utility")
"""Columns that give the format away."""
NEAREST = "time of the nearest size"
"""The rule about numbers of GPUs that were not measured."""

_NEEDED = ("id", "arrival_s", "application", "batch_size", "gpus", "tasks", "memory_gb", "minimal_utility")


def read_minsky(path: str | os.PathLike[str] | Source, *, profiles: str | None = None) -> Workload:
    """Read training jobs, each on GPUs of one machine.

    Such a list has no run times, as they depend on where a job is placed. The work of a job is its measured time alone
    at its best placement; its application is called ``alexnet/4``, with the batch size.

    Parameters
    ----------
    path
        The file.
    profiles
        A file of measured times (:func:`unrack_papers.workloads.measured_times.read_times`); needed.

    Raises
    ------
    TraceError
        A file cannot be read, lacks a column, has a value that cannot be, or an application that was not measured.
    InputError
        There are no ``profiles``.
    """
    source = load(path)
    if profiles is None:
        raise InputError(
            f"{source.path}: run times",
            "none: they depend on application, batch size, GPUs and placement",
            "the option profiles = 'FILE', with measured times of each application",
        )
    if not isinstance(profiles, str):
        raise InputError("option profiles", repr(profiles), "the path of a file of measured times")
    fields = Fields.of(source, _NEEDED)
    apps, gpus, tasks = app_names(fields), fields.count("gpus", 1), fields.count("tasks", 1)
    tally = Tally()
    times_s = _solo_times_s(fields, apps, (gpus * tasks).to_list(), read_times(profiles), tally)
    utility = fields.number("minimal_utility", 0, 1)
    second = time_unit_us("s")
    ours = pl.DataFrame([
        typed(fields.text("id")).alias("id"),
        times_us(fields.number("arrival_s"), "arrival_s", fields.at, second).alias("submit_us"),
        times_us(times_s, "time_s", fields.at, second).alias("work_us"),
        tasks.alias("tasks"),
        amounts(fields.number("memory_gb"), "memory_gb", fields.at, memory_unit_mb("GB")).alias("memory_mb"),
        pl.Series("app", apps, dtype=pl.String),
        gpus.alias(asked("count")),
        amounts(utility, "minimal_utility", fields.at, Fraction(UTILITY_PARTS)).alias(asked("min_utility")),
        pl.Series(asked("together"), np.full(len(gpus), TOGETHER, np.int64)),
        *fields.rest(_NEEDED),
    ])  # fmt: skip
    words = f"run = the best time alone in {Path(profiles).name}; all GPUs of a job on one machine"
    return workload(source, "minsky", fields.frame.height, ours, tally, "truncate", {"Columns": words})


def _solo_times_s(
    fields: Fields, apps: Sequence[str], gpus: Sequence[int], times: MeasuredTimes, tally: Tally
) -> pl.Series:
    """Float64[jobs]: the time alone of each job."""
    found, elsewhere = [], 0
    for row, (app, count) in enumerate(zip(apps, gpus, strict=True)):
        solo = times.best(app, count)
        if solo is None:
            want = f"one that {times.path} has times of: {times.known()}"
            raise fields.at.fault(row, "application", f"{app} (with its batch size)", want)
        found.append(solo.time_s)
        elsewhere += solo.gpus != count
    tally.change(NEAREST, elsewhere)
    return pl.Series(found, dtype=pl.Float64)


FORMAT = make_format(
    read_minsky,
    "CSV of training jobs on GPUs, without run times",
    "memory app counted",
    giveaway=GIVEAWAY,
)
"""What unrack finds under the name ``minsky``."""
