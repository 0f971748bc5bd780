"""Pods of a cluster with shared GPUs, as Alibaba published them in 2023.

References
----------
Weng et al.: Beware of fragmentation: scheduling GPU-sharing workloads with fragmentation gradient descent. USENIX ATC
2023.
"""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import polars as pl

from unrack import Workload
from unrack.errors import InputError
from unrack.resources.gpus import WHOLE
from unrack.workload.formats import (
    EXTRA,
    Source,
    Tally,
    amounts,
    choice,
    load,
    make_format,
    refuse,
    time_option_us,
    time_unit_us,
    times_us,
    unheeded,
    workload,
)
from unrack_papers.workloads.fields import Fields, asked

GIVEAWAY = ("cpu_milli", "num_gpu")
"""Columns that give the format of Alibaba's lists of pods of 2023 away."""

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
    count, milli = fields.count("num_gpu", 0), fields.count("gpu_milli", 0, WHOLE)
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
        milli.replace({WHOLE: 0}).alias(asked("milli")),
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


FORMAT = make_format(read_openb, "CSV of pods that share GPUs (Alibaba 2023)", "memory counted", giveaway=GIVEAWAY)
"""What unrack finds under the name ``openb``."""
