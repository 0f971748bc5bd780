"""Tables that were published in one layout of their own: read as any table, with the options that fit."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import polars as pl

from unrack.errors import InputError
from unrack.units import memory_mb
from unrack.workload.formats.intake import EXTRA, OVERRUN, Tally, workload
from unrack.workload.formats.quantities import (
    amounts,
    choice,
    count,
    memory_unit_mb,
    numbers,
    time_unit_us,
    times_us,
    whole,
)
from unrack.workload.formats.source import Source, load
from unrack.workload.formats.table.read import read_table
from unrack.workload.formats.table.text import csv_frame
from unrack.workload.job import Workload

PERLMUTTER = ("jobid", "submit", "start", "end", "nnodes", "duration", "memory")
"""Its header."""

ALIBABA = re.compile(r"\d+,j_\d+,[^,]*,[\d.]+,[\d.]*,[\d.]*,\d+")
"""Its lines: arrival, job, task, duration, planned CPU, planned memory, instances."""
_TASK = re.compile(r"[A-Za-z]+(\d+)((?:_\d+)*)(?=_[^\d]|$)")
"""The name of a task of a graph, such as ``R5_4_1``: its number, and those that it follows."""


def read_perlmutter(
    path: str | os.PathLike[str] | Source,
    *,
    cores_per_node: int = 128,
    time_unit: str | float = 10,
    memory_unit: str = "GB",
    overrun: str = "truncate",
) -> Workload:
    """Read jobs of the Perlmutter supercomputer: whole nodes, and the most memory used on any of them.

    There is no requested time, and jobs are submitted when they start.

    Parameters
    ----------
    cores_per_node
        Cores of each task; a task is a node. 128 in the system's CPU nodes.
    time_unit, memory_unit
        As in :func:`unrack.workload.formats.table.read.read_table`. The published times are in units of 10 s.
    overrun
        As in :func:`unrack.workload.formats.swf.read_swf`.
    """
    cores = count("cores_per_node", cores_per_node)
    made = read_table(
        path,
        columns={"id": "jobid", "run": "duration", "tasks": "nnodes"},
        defaults={"cores": cores},
        time_unit=time_unit,
        memory_unit=memory_unit,
        overrun=overrun,
    )
    header = {**made.intake.header, "Columns": f"nnodes = tasks, {cores} cores a node"}
    return replace(made, intake=replace(made.intake, format="perlmutter", header=header))


def read_alibaba(
    path: str | os.PathLike[str] | Source, *, machine_memory: str = "128 GB", overrun: str = "truncate"
) -> Workload:
    """Read batch tasks of the Alibaba 2018 cluster: each line becomes a job, its instances the tasks.

    A job of many tasks becomes as many jobs, called JOB.TASK; ``R5_4_1`` waits for the tasks 4 and 1 of its job.

    Parameters
    ----------
    path
        The file, without a header: arrival in s, job, task, duration in s, planned CPU (100 = 1 core), planned memory
        (% of a machine), instances.
    machine_memory
        Memory of a machine, which the trace does not tell.
    overrun
        As in :func:`unrack.workload.formats.swf.read_swf`.
    """
    choice("overrun", overrun, OVERRUN)
    try:
        machine_mb = memory_mb(machine_memory)
        if not 1 <= machine_mb < 2**40:
            raise ValueError
    except (ValueError, TypeError):
        raise InputError("option machine_memory", repr(machine_memory), "an amount, such as '128 GB'") from None
    source = load(path)
    frame, at = csv_frame(source, False, ",")
    if frame.width != 7:
        raise source.fault(1, "", f"{frame.width} fields", "7: arrival, job, task, duration, CPU, memory, instances")
    columns = dict(zip(("submit", "job", "task", "duration", "cpu", "memory", "instances"), frame, strict=True))
    job, task = columns["job"], columns["task"]
    second, unit = time_unit_us("s"), memory_unit_mb("MB")
    read = {name: numbers(columns[name], name, at) for name in ("submit", "duration", "cpu", "memory", "instances")}
    ours = pl.DataFrame([
        (job + pl.Series(["."]).new_from_index(0, len(job)) + task).alias("id"),
        times_us(read["submit"], "submit", at, second).alias("submit_us"),
        times_us(read["duration"], "duration", at, second).alias("work_us"),
        whole(read["instances"], "instances", at).alias("tasks"),
        amounts(read["cpu"], "cpu", at, unit / 100).alias("cores"),
        amounts(read["memory"], "memory", at, unit * machine_mb / 100).alias("memory_mb"),
        job.alias(f"{EXTRA}job_of"),
        pl.Series(f"{EXTRA}dependency", _after(job.to_list(), task.to_list()), pl.String),
    ])  # fmt: skip
    header = {"Columns": f"planned CPU in whole cores, rounded up; a machine has {machine_memory}"}
    return workload(source, "alibaba2018", frame.height, ours, Tally(), overrun, header)


def _after(jobs: list[str], tasks: list[str]) -> list[str | None]:
    """Of each task, the tasks of its job that it is to follow, which its name has by their numbers."""
    named = [_TASK.match(task or "") for task in tasks]
    numbered = {(job, match[1]): f"{job}.{task}" for job, task, match in zip(jobs, tasks, named, strict=True) if match}
    return [
        " ".join(numbered.get((job, number), f"{job}.{number}") for number in match[2].split("_")[1:]) or None
        if match else None
        for job, match in zip(jobs, named, strict=True)
    ]  # fmt: skip
