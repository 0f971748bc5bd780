"""Jobs on GPUs of Microsoft's Philly clusters: ``timestamp,duration,num_gpus,gpu_time,cluster``.

References
----------
Jeon et al.: Analysis of large-scale multi-tenant GPU clusters for DNN training workloads. USENIX ATC 2019.
"""

from __future__ import annotations

import os

import numpy as np
import polars as pl

from unrack import Workload
from unrack.errors import InputError
from unrack.workload.formats import (
    EXTRA,
    Source,
    Tally,
    count,
    load,
    make_format,
    refuse,
    time_unit_us,
    times_us,
    unheeded,
    workload,
)
from unrack_papers.workloads.measured_times import Fields, asked

GIVEAWAY = ("timestamp", "num_gpus", "gpu_time")
"""Columns that give the format away."""

_NEEDED = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
_CLOCK = "%Y-%m-%d %H:%M:%S"


def read_philly(
    path: str | os.PathLike[str] | Source, *, cluster: str | None = None, gpus_per_node: int = 8, cores_per_gpu: int = 1
) -> Workload:
    """Read jobs; the first is submitted at 0.

    A job of at most ``gpus_per_node`` GPUs is one task. A larger one has as many tasks as make full nodes, or, where
    they do not come out even, tasks of the largest number of GPUs that divides its own.

    Parameters
    ----------
    path
        The file.
    cluster
        Keep the jobs of this virtual cluster alone.
    gpus_per_node
        The most GPUs of a task.
    cores_per_gpu
        Cores that a task asks for with each GPU; the list does not tell.

    Raises
    ------
    TraceError
        The file cannot be read, lacks a column, or has a value that cannot be.
    InputError
        An option has a value it cannot have.
    """
    most, cores = count("gpus_per_node", gpus_per_node), count("cores_per_gpu", cores_per_gpu)
    source = load(path)
    fields = Fields.of(source, _NEEDED)
    stamp, clusters = fields.text("timestamp"), fields.text("cluster")
    clock = stamp.str.to_datetime(_CLOCK, strict=False, time_unit="us")
    refuse(clock.is_null(), stamp, "timestamp", fields.at, "a timestamp such as 2017-10-09 07:01:55")
    gpus = fields.count("num_gpus", 1)
    each = gpus.replace_strict({size: per_task(size, most) for size in gpus.unique().to_list()}, return_dtype=pl.Int64)
    rows = fields.frame.height
    frame = pl.DataFrame([
        pl.Series("id", np.arange(1, rows + 1)),
        clock.dt.epoch("us").alias("submit_us"),
        times_us(fields.number("duration"), "duration", fields.at, time_unit_us("s")).alias("work_us"),
        (gpus // each).alias("tasks"),
        (each * cores).alias("cores"),
        each.alias(asked("count")),
        fields.number("gpu_time").alias(f"{EXTRA}gpu_time"),
        clusters.alias(f"{EXTRA}cluster"),
        *unheeded([clusters.alias("virtual cluster")]),
        *fields.rest(_NEEDED),
    ])  # fmt: skip
    tally = Tally()
    if cluster is not None:
        if str(cluster) not in (known := sorted(clusters.unique().to_list())):
            raise InputError("option cluster", repr(cluster), f"one of {', '.join(known)}")
        frame = tally.drop(frame, "other clusters", pl.col(f"{EXTRA}cluster") != str(cluster))
    start_us = int(frame.select(pl.col("submit_us").min()).item() or 0)
    frame = frame.with_columns(pl.col("submit_us") - start_us)
    words = f"{cores} core{'s' * (cores > 1)} a GPU, up to {most} GPUs a task"
    header = {"Columns": words, "UnixStartTime": str(start_us // 1_000_000)}
    return workload(source, "philly", rows, frame, tally, "truncate", header)


def per_task(gpus: int, most: int) -> int:
    """GPUs of each task of a job: all, or the largest number up to ``most`` that divides them.

    Examples
    --------
    >>> [per_task(gpus, 8) for gpus in (1, 8, 16, 12, 24, 11)]
    [1, 8, 8, 6, 8, 1]
    """
    return next(each for each in range(min(gpus, most), 0, -1) if gpus % each == 0)


FORMAT = make_format(read_philly, "CSV of jobs on GPUs (Microsoft Philly)", "counted", giveaway=GIVEAWAY)
"""What unrack finds under the name ``philly``."""
