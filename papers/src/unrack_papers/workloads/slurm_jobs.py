"""Jobs of the Slurm simulator on whole nodes: ``job_id,submit,duration,wclimit,min_cpus,mem_mb`` and more."""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import polars as pl

from unrack import Workload
from unrack.workload.formats import (
    OVERRUN,
    Locator,
    Source,
    Tally,
    amounts,
    carried,
    choice,
    count,
    csv_frame,
    load,
    make_format,
    numbers,
    refuse,
    time_unit_us,
    times_us,
    typed,
    whole,
    workload,
)

NEEDED = ("job_id", "submit", "duration", "wclimit", "min_cpus", "mem_mb")
"""Columns that give the format away."""

_SIZES = ("tasks", "cpus_per_task", "min_nodes", "min_cpus")
_READ = (*NEEDED, *_SIZES[:3], "mem_is_per_cpu", "sim_executable")
_UNGIVEN = (0, -2)


def read_slurm_jobs(
    path: str | os.PathLike[str] | Source, *, cores_per_node: int = 32, overrun: str = "truncate"
) -> Workload:
    """Read jobs that take whole nodes.

    A job has ``min_nodes`` nodes where that is given, else as many as hold ``min_cpus``, else ``tasks`` ×
    ``cpus_per_task`` cores. It becomes that many tasks of all cores of a node. ``sim_executable`` becomes the app, and
    ``wclimit`` the requested time.

    Parameters
    ----------
    cores_per_node
        Of the system.
    overrun
        As in :func:`unrack.workload.formats.swf.read_swf`.
    """
    choice("overrun", overrun, OVERRUN)
    cores = count("cores_per_node", cores_per_node)
    source = load(path)
    frame, at = csv_frame(source, True, None)
    if lacking := [name for name in NEEDED if name not in frame.columns]:
        raise source.fault(None, f"column {lacking[0]}", "no such column", f"the columns {', '.join(NEEDED)}")
    tally = Tally()

    def column(name: str) -> pl.Series:
        if name not in frame.columns:
            return pl.Series(name, [None], pl.Int64).new_from_index(0, frame.height)
        return numbers(frame[name].str.strip_chars().replace({"": None}), name, at)

    sizes = {name: whole(column(name), name, at).set(column(name).is_in(_UNGIVEN), None) for name in _SIZES}
    for name, values in sizes.items():
        refuse(values < 1, values, name, at, "a number of 1 or more, or 0 or -2 where it is not given")
    total = sizes["min_cpus"].fill_null(sizes["tasks"] * sizes["cpus_per_task"].fill_null(1))
    nodes = sizes["min_nodes"].fill_null((total + cores - 1) // cores)
    uneven = sizes["min_nodes"].is_null() & (total % cores > 0)
    tally.change("size in whole nodes", int(uneven.fill_null(False).sum()))
    second = time_unit_us("s")
    ours = [
        typed(frame["job_id"]).alias("id"),
        times_us(column("submit"), "submit", at, second).alias("submit_us"),
        times_us(column("duration"), "duration", at, second).alias("work_us"),
        times_us(column("wclimit"), "wclimit", at, second).alias("request_us"),
        nodes.alias("tasks"),
        pl.Series("cores", np.full(frame.height, cores, np.int64)),
        _memory_mb(column("mem_mb"), column("mem_is_per_cpu"), cores, at).alias("memory_mb"),
    ]
    if "sim_executable" in frame.columns:
        apps = typed(frame["sim_executable"])
        ours.append(apps.set((apps.cast(pl.String) == "-2").fill_null(False), None).alias("app"))
    ours += carried([frame[name] for name in frame.columns if name not in _READ])
    header = {"Columns": f"{cores} cores a node; requested time = wclimit, app = sim_executable"}
    return workload(source, "slurm", frame.height, pl.DataFrame(ours), tally, overrun, header)


def _memory_mb(memory: pl.Series, per_cpu: pl.Series, cores: int, at: Locator) -> pl.Series:
    """MB per node; not given: 0."""
    given = memory.set((memory <= 0).fill_null(True), 0)
    each = pl.select(pl.when(per_cpu == 1).then(given * cores).otherwise(given)).to_series()
    return amounts(each, "mem_mb", at, Fraction(1))


FORMAT = make_format(
    read_slurm_jobs, "CSV of the Slurm simulator: jobs on whole nodes", "memory request app", giveaway=NEEDED
)
"""``format = "slurm"``."""
