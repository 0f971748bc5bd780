"""The filter ``resample``: jobs drawn from a list with replacement until they ask for so much.

References
----------
Weng et al.: Beware of fragmentation: scheduling GPU-sharing workloads with fragmentation gradient descent. USENIX ATC
2023, section 6: pods are drawn until they ask for 130 % of the cluster's GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from unrack.errors import InputError
from unrack.kernels.arrays import Ints
from unrack.resources.checked import Strict
from unrack.resources.gpus.columns import GPUS, WHOLE
from unrack.units import SECOND_US
from unrack.workload.generate.distributions import Positive
from unrack.workload.job import JobTable, Workload

DRAWN_FROM = "drawn_from"
"""The column, carried along, with the id of the job of the list."""

_OF_THE_LIST = (DRAWN_FROM, "dependency", "preceding", "think_s", "het")
"""Columns that only make sense among the jobs of the list."""
_SEED = 0x7265  # beside the seed, so that these draws are no other filter's
_MOST_JOBS = 10_000_000
_MOST_ASKED = 2**52  # of which a thousand can be added up


class ResampleTable(Strict):
    """The value of ``resample``."""

    # what is added up, over all tasks: ``"gpus"`` (whole GPUs and parts of them), ``"cores"``, ``"memory_mb"``, or
    # ``"NAME.QUANTITY"``
    amount: str = GPUS
    of: Positive  # how much of it there is
    share: Positive = 1.3  # jobs are drawn until they ask for this × ``of``, or more
    # True: each job is submitted when it was in the list. False: one a second, in the order drawn.
    keep_times: bool = False
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None  # of the draws; default: the study's


def draw_again(workload: Workload, value: Any, seed: int = 0) -> Workload:
    """Draw jobs with replacement until they first ask for a share of what there is; all are as likely.

    Parameters
    ----------
    workload
        The list.
    value
        A :class:`ResampleTable`, or a mapping of its keys.
    seed
        Of the draws.

    Returns
    -------
    Workload
        Jobs called 0, 1, 2 … in the order drawn. Deadlines move with submissions. They wait for no other jobs.

    Raises
    ------
    InputError
        The value is wrong, the jobs ask for nothing of the amount or for too little to get there with ten million jobs,
        or there are replicas, which cannot be drawn one by one.
    """
    table = ResampleTable.read(value, "filter resample.", "")
    jobs = workload.jobs
    if jobs.slo is not None and bool((jobs.slo.group >= 0).any()):
        raise InputError("filter resample", "servers that are replicas of each other", "jobs that stand for themselves")
    if jobs.under_way is not None:
        raise InputError("filter resample", "jobs that run when the run begins", "jobs of which all are still to start")
    if len(jobs) == 0:
        return recorded(workload, jobs, "drawn from no job: none")
    asks, unit = _asks(jobs, table.amount)
    target = Fraction(str(table.share)) * Fraction(str(table.of)) * unit
    mean = float(asks.mean())
    if mean * _MOST_JOBS < target:
        got = f"{table.share:g} × {table.of:g} {table.amount}, of which a job asks for {mean / unit:g} on average"
        raise InputError("filter resample", got, f"what at most {_MOST_JOBS} jobs ask for")
    rows = _rows(asks, math.ceil(target), np.random.default_rng([_SEED, seed if table.seed is None else table.seed]))
    drawn = _renamed(jobs.take(rows), jobs.ids.gather(rows), table.keep_times)
    words = f"drawn until {table.amount} reach {table.share:g} × {table.of:g}: {len(rows)} jobs of {len(jobs)}"
    return recorded(workload, drawn, words, changed={"drawn again": len(rows)})


def _asks(jobs: JobTable, amount: str) -> tuple[Ints, int]:
    """int64[jobs] of what each job asks for, and how much of that is 1 of the amount."""
    known = {"cores": (jobs.cores, 1), "memory_mb": (jobs.memory_mb, 1)}
    known |= {f"{kind}.{what}": (each, 1) for (kind, what), each in sorted(jobs.devices.items())}
    count, milli = (jobs.devices.get((GPUS, name)) for name in ("count", "milli"))
    if milli is not None:
        known[GPUS] = np.maximum(0 if count is None else count, milli > 0) * np.where(milli == 0, WHOLE, milli), WHOLE
    elif count is not None:
        known[GPUS] = count * WHOLE, WHOLE
    if amount not in known:
        raise InputError("filter resample.amount", repr(amount), f"what jobs ask for: {', '.join(known)}")
    each, unit = known[amount]
    most = (jobs.tasks.astype(np.float64) * each).max()
    if most > _MOST_ASKED:
        raise InputError("filter resample", f"a job that asks for {most:g} {amount}", f"at most {_MOST_ASKED:g}")
    return jobs.tasks * each, unit


def _rows(asks: Ints, target: int, rng: np.random.Generator) -> Ints:
    """int64: rows drawn until what they ask for is the target or more."""
    drawn: list[Ints] = []
    total = 0
    while total < target:
        rows = rng.integers(0, len(asks), 1024)
        reached = total + np.cumsum(asks[rows])
        count = int(np.searchsorted(reached, target)) + 1  # the job that reaches it is the last
        drawn.append(rows[:count])
        total = int(reached[min(count, len(rows)) - 1])
    return np.concatenate(drawn)


def _renamed(jobs: JobTable, origin: pl.Series, keep_times: bool) -> JobTable:
    count = len(jobs)
    submit_us = jobs.submit_us if keep_times else np.arange(count, dtype=np.int64) * SECOND_US
    deadline_us = np.where(jobs.deadline_us < 0, -1, jobs.deadline_us + submit_us - jobs.submit_us)
    moved = begins_moved(jobs, submit_us)
    rest = [moved[name] for name in moved.columns if name not in _OF_THE_LIST]
    made = replace(
        jobs,
        ids=pl.Series("job", np.arange(count, dtype=np.int64)),
        submit_us=submit_us,
        deadline_us=deadline_us,
        extra=pl.DataFrame([*rest, origin.alias(DRAWN_FROM)]),
    )
    return made.take(np.argsort(submit_us, kind="stable"))


def begins_moved(jobs: JobTable, submit_us: Ints) -> pl.DataFrame:
    """The further columns of jobs that are submitted at other times, to which their ``begin_s`` moves along."""
    if "begin_s" not in jobs.extra.columns:
        return jobs.extra
    moved = jobs.extra["begin_s"] + (submit_us - jobs.submit_us) / SECOND_US
    return jobs.extra.with_columns(moved.alias("begin_s"))


def recorded(
    workload: Workload,
    jobs: JobTable,
    words: str,
    *,
    dropped: Mapping[str, int] | None = None,
    changed: Mapping[str, int] | None = None,
) -> Workload:
    """The workload with other jobs, and one more line under ``Filters`` in the header of its intake: what was done.

    ``dropped``, ``changed``: rule → how many jobs more were dropped or changed by it.
    """
    intake = workload.intake
    before = intake.header.get("Filters")
    header = {**intake.header, "Filters": words if before is None else f"{before}\n{words}"}
    intake = replace(
        intake,
        kept=len(jobs),
        header=header,
        dropped=_more(intake.dropped, dropped or {}),
        changed=_more(intake.changed, changed or {}),
    )
    return replace(workload, jobs=jobs, intake=intake)


def _more(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {**counts, **{rule: counts.get(rule, 0) + jobs for rule, jobs in more.items() if jobs}}
