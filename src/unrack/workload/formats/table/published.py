"""Tables that were published in one layout of their own: read as any table, with the options that fit."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl

from unrack.errors import InputError
from unrack.units import memory_mb
from unrack.workload.formats.intake import EXTRA, OVERRUN, Tally, unheeded, workload
from unrack.workload.formats.quantities import (
    amounts,
    choice,
    count,
    memory_unit_mb,
    numbers,
    refuse,
    time_option_us,
    time_unit_us,
    times_us,
    whole,
)
from unrack.workload.formats.source import Source, load
from unrack.workload.formats.table.read import read_table
from unrack.workload.formats.table.text import WHOLE_MILLI, Fields, asked, csv_frame
from unrack.workload.job import Workload

PERLMUTTER = ("jobid", "submit", "start", "end", "nnodes", "duration", "memory")
"""Its header."""

ALIBABA = re.compile(r"\d+,j_\d+,[^,]*,[\d.]+,[\d.]*,[\d.]*,\d+")
"""Its lines: arrival, job, task, duration, planned CPU, planned memory, instances."""
_TASK = re.compile(r"[A-Za-z]+(\d+)((?:_\d+)*)(?=_[^\d]|$)")
"""The name of a task of a graph, such as ``R5_4_1``: its number, and those that it follows."""

OPENB = ("cpu_milli", "num_gpu")
"""Columns that give the format of Alibaba's lists of pods of 2023 away."""


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


_NEEDED = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TIMES = ("creation_time", "deletion_time", "scheduled_time")
_MODELS = "gpu_spec"


def read_openb(
    path: str | os.PathLike[str] | Source, *, cpu: str = "whole", run: float | str | None = None
) -> Workload:
    """Read pods of a cluster with shared GPUs, as Alibaba published them in 2023; each becomes a job of one task.

    The header is ``name,cpu_milli,memory_mib,num_gpu,gpu_milli``, with or without
    ``gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time``.

    Parameters
    ----------
    path
        The file.
    cpu
        ``"whole"``: cores, rounded up; ``"milli"``: thousandths of a core, for a cluster of cores counted so.
    run
        The run time of every pod, s or text such as ``"1 h"``, in place of what the file says. Needed for a list
        without times; its pods are submitted one a second.

    Raises
    ------
    TraceError
        The file cannot be read, lacks a column, or has a value that cannot be.
    InputError
        An option has a value it cannot have, or the list has no run times and ``run`` does not give them.

    References
    ----------
    Weng et al.: Beware of fragmentation: scheduling GPU-sharing workloads with fragmentation gradient descent. USENIX
    ATC 2023.
    """
    choice("cpu", cpu, ("whole", "milli"))
    run_us = None if run is None else time_option_us("run", run, "a time such as '1 h'")
    source = load(path)
    fields = Fields.of(source, _NEEDED)
    timed = all(name in fields.frame.columns for name in _TIMES[:2])
    if not timed and run_us is None:
        raise InputError(
            f"{source.path}: run times", "none", f"the columns {' and '.join(_TIMES[:2])}, or the option run = '1 h'"
        )
    count, milli = fields.count("num_gpu", 0), fields.count("gpu_milli", 0, WHOLE_MILLI)
    refuse((count > 0) & (milli == 0), milli, "gpu_milli", fields.at, "1 to 1000 of each GPU asked for")
    refuse((count == 0) & (milli > 0), milli, "gpu_milli", fields.at, "0, as num_gpu is 0")
    cores = amounts(fields.number("cpu_milli"), "cpu_milli", fields.at, Fraction(1, 1 if cpu == "milli" else 1000))
    rows = fields.frame.height
    columns = [
        fields.text("name").alias("id"),
        *_times(fields, rows, timed, run_us),
        pl.Series("tasks", np.ones(rows, np.int64)),
        cores.clip(lower_bound=1).alias("cores"),
        amounts(fields.number("memory_mib"), "memory_mib", fields.at, Fraction(1)).alias("memory_mb"),
        count.alias(asked("count")),
        milli.replace({WHOLE_MILLI: 0}).alias(asked("milli")),
    ]
    if _MODELS in fields.frame.columns:
        columns += [fields.frame[_MODELS].alias(f"{EXTRA}gpu_models"), *unheeded([fields.frame[_MODELS]])]
    columns += fields.rest((*_NEEDED, *_TIMES, _MODELS))
    header = {"Columns": "cores in thousandths" if cpu == "milli" else "cores rounded up"}
    return workload(source, "openb", rows, pl.DataFrame(columns), Tally(), "truncate", header)


def _times(fields: Fields, rows: int, timed: bool, run_us: int | None) -> list[pl.Series]:
    """``submit_us`` and ``work_us``; a pod runs from its start, or else its creation, to its deletion."""
    second = time_unit_us("s")
    read = {
        name: times_us(fields.number(name, gaps=name != _TIMES[0]), name, fields.at, second)
        for name in _TIMES
        if name in fields.frame.columns
    }
    created = read.get(_TIMES[0], pl.Series(np.arange(rows, dtype=np.int64) * int(second)))
    if run_us is not None or not timed:
        assert run_us is not None
        all_alike = pl.Series(np.full(rows, run_us, np.int64))
        return [created.alias("submit_us"), all_alike.alias("work_us"), all_alike.alias("request_us")]
    deleted = read[_TIMES[1]]
    begun = pl.select(pl.max_horizontal(read.get(_TIMES[2], created).fill_null(created), created)).to_series()
    early = (deleted < begun).fill_null(False)
    refuse(early, fields.frame[_TIMES[1]], _TIMES[1], fields.at, "a time after the pod was created and scheduled")
    return [created.alias("submit_us"), (deleted - begun).alias("work_us")]
