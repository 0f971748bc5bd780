"""Jobs of which a log says both what they asked for and what they used: one number each, so a constant curve."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

from unrack.errors import InputError
from unrack.workload.formats.quantities import amounts, memory_unit_mb, numbers
from unrack.workload.formats.source import Locator, Source, load
from unrack.workload.formats.swf import read_swf
from unrack.workload.job import JobTable
from unrack.workload.usage.attach import constant
from unrack.workload.usage.curves import Ints, UsageCurves
from unrack.workload.usage.series import UsageSeries

_ENOUGH = 20


def used_column(jobs: JobTable, column: str, memory_unit: str = "MB") -> UsageCurves:
    """Constant curves from a column that the trace carries: what a task of each job used.

    Parameters
    ----------
    jobs
        With the column among their ``extra`` ones. Where it is empty or negative the job gets no curve.
    column
        Its name.
    memory_unit
        B, KB, MB, GB or TB; amounts are rounded up to whole MB.

    Raises
    ------
    InputError
        There is no such column, or it is not of numbers.
    """
    if column not in jobs.extra.columns:
        known = ", ".join(jobs.extra.columns) or "none is carried"
        raise InputError("usage, column", repr(column), f"a column that the trace carries: {known}")
    at = Locator(Source(f"column {column}", b""), lambda row: None)
    used = numbers(jobs.extra[column], column, at, nan_is_missing=True)
    mb = amounts(used, column, at, memory_unit_mb(memory_unit)).fill_null(-1).to_numpy().astype(np.int64)
    return constant(jobs, mb, mb >= 0)


def is_swf(path: str | os.PathLike[str]) -> bool:
    """Whether a file is called a log in Standard Workload Format."""
    return re.search(r"\.swf(\.gz)?$", os.fspath(path), re.IGNORECASE) is not None


def used_of_swf(path: str | os.PathLike[str], **options: Any) -> UsageSeries:
    """The used memory (column 7) of the jobs of a log in Standard Workload Format, one sample each.

    Parameters
    ----------
    path
        The log.
    options
        Of :func:`unrack.workload.formats.swf.read_swf`: ``memory_unit``, ``memory_per``, ``procs_per_task``, as for the
        trace that is to get the usage.

    Raises
    ------
    TraceError
        The log cannot be read, or has no used memory; also one that has the same for all of 20 jobs or more, since
        that stands for something that was not measured.
    InputError
        There is no such option.
    """
    known = ("memory_unit", "memory_per", "procs_per_task", "node_spec", "overrun")
    for name in options:
        if name not in known:
            raise InputError("usage, options", repr(name), f"one of {', '.join(known)}")
    source = load(path)
    log = read_swf(source, memory="used", **options)
    mb: Ints = log.jobs.memory_mb
    used = np.flatnonzero(mb > 0)
    if not len(used):
        raise source.fault(None, "used memory", "none in any job", "numbers in column 7")
    if len(used) >= _ENOUGH and len(np.unique(_as_logged(log.jobs)[used])) == 1:
        want = "what was measured (this stands for nothing known)"
        raise source.fault(None, "used memory", f"the same in all {len(used)} jobs", want)
    jobs = log.jobs.take(used)
    ones = np.arange(len(used) + 1)
    return UsageSeries(
        source.path, jobs.ids, ones, ones, np.zeros(len(used)), jobs.memory_mb.astype(np.float64),
        jobs.work_us / 1e6, read=len(log), dropped={"memory missing": len(log) - len(used)},
    )  # fmt: skip


def _as_logged(jobs: JobTable) -> Ints:
    return jobs.memory_mb // np.maximum(jobs.cores, 1)
