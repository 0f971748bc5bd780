"""Synthetic workloads: arrivals, and weighted classes of jobs, from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, ValidationError, model_validator

from unrack.errors import InputError, first_fault, got_and_want
from unrack.units import LONGEST_US, SECOND_US
from unrack.workload.distributions import Distribution, Floats, Positive, Strict, pick
from unrack.workload.job import Intake, Ints, Workload, job_table
from unrack.workload.quantities import MOST, MOST_MB

_DeviceKey = Annotated[str, Field(pattern=r"^[A-Za-z][\w-]*\.[A-Za-z]\w*$")]


class Poisson(Strict):
    """Independent arrivals: give ``rate_per_h``, or ``mean_gap_s``, or a ``load`` on a number of ``cores``.

    With ``load`` the rate is such that the mean core-seconds of the jobs drawn, times the rate, is load × cores: 1.0
    asks for all the cores all the time.
    """

    kind: Literal["poisson"] = "poisson"
    rate_per_h: Positive | None = None
    mean_gap_s: Positive | None = None
    load: Positive | None = None
    cores: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _one_rate(self) -> Poisson:
        given = [name for name in ("rate_per_h", "mean_gap_s", "load") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give one of rate_per_h, mean_gap_s, or load with cores")
        if (self.cores is not None) != (self.load is not None):
            raise ValueError("load and cores go together")
        return self


class Fixed(Strict):
    """An arrival every ``gap_s`` seconds; 0 = all at once."""

    kind: Literal["fixed"]
    gap_s: Annotated[FiniteFloat, Field(ge=0, le=1e9)]


class JobClass(Strict):
    """A kind of job.

    Attributes
    ----------
    name
        Becomes the job's app.
    weight
        How frequent it is, relative to the other classes.
    run_s
        Run time in s.
    tasks, cores, memory_mb
        Tasks, and per task cores and MB; rounded up, tasks and cores to 1 or more.
    request_factor
        Requested time over run time; below 1 counts as 1.
    priority
        Of all jobs of the class.
    deadline_factor
        (Deadline - submission) / run time; without it there is no deadline.
    devices
        ``KIND.QUANTITY`` → amount per task, rounded up.
    """

    name: str = "job"
    weight: Positive = 1
    run_s: Distribution
    tasks: Distribution = Field(default=1, validate_default=True)
    cores: Distribution = Field(default=1, validate_default=True)
    memory_mb: Distribution = Field(default=0, validate_default=True)
    request_factor: Distribution = Field(default=1, validate_default=True)
    priority: Annotated[int, Field(ge=-(2**31), le=2**31)] = 0
    deadline_factor: Distribution | None = None
    devices: dict[_DeviceKey, Distribution] = Field(default_factory=dict)


class GeneratorSpec(Strict):
    """A synthetic workload.

    Attributes
    ----------
    jobs
        How many.
    arrivals
        :class:`Poisson` or :class:`Fixed`; the first job arrives after the first gap.
    classes
        One or more kinds of job.
    users
        Each job belongs to one of so many users, all alike; 0 = none.
    """

    jobs: Annotated[int, Field(ge=1, le=100_000_000)]
    arrivals: Annotated[Poisson | Fixed, Field(discriminator="kind")]
    classes: Annotated[list[JobClass], Field(min_length=1)]
    users: Annotated[int, Field(ge=0, le=1_000_000)] = 0

    @model_validator(mode="before")
    @classmethod
    def _poisson_by_default(cls, value: Any) -> Any:
        arrivals = value.get("arrivals") if isinstance(value, Mapping) else None
        if isinstance(arrivals, Mapping) and "kind" not in arrivals:
            kind = "fixed" if "gap_s" in arrivals else "poisson"
            return {**value, "arrivals": {"kind": kind, **arrivals}}
        return value


def generate(spec: GeneratorSpec | Mapping[str, Any], seed: int = 0, name: str = "synthetic") -> Workload:
    """Draw a workload.

    Parameters
    ----------
    spec
        What to draw; a mapping is validated.
    seed
        Of ``numpy.random.Generator(PCG64(seed))``, the only source of chance. The draws are, in order: gaps, classes,
        users, then class by class run time, tasks, cores, memory, request factor, deadline factor, devices by name.
    name
        The workload's name.

    Raises
    ------
    InputError
        The mapping is not a valid specification, or the jobs drawn are out of range.

    Examples
    --------
    An M/M/1 queue at 80 % load:

    >>> service = {"run_s": {"kind": "exponential", "mean": 10}}
    >>> jobs = generate({"jobs": 3, "arrivals": {"load": 0.8, "cores": 1}, "classes": [service]}).jobs
    >>> len(jobs), jobs.tasks.tolist()
    (3, [1, 1, 1])
    """
    spec = parse_spec(spec)
    if not 0 <= seed < 2**64:
        raise InputError("seed", repr(seed), "a number from 0 to 2**64")
    rng = np.random.Generator(np.random.PCG64(seed))
    gaps = rng.exponential(1.0, spec.jobs) if isinstance(spec.arrivals, Poisson) else np.ones(spec.jobs)
    which = pick(rng, np.array([kind.weight for kind in spec.classes]), spec.jobs)
    user = rng.integers(1, spec.users + 1, spec.jobs) if spec.users else None
    drawn = _draw(rng, spec, which)
    run_us, tasks, cores, memory, request_us, lasts_us = (drawn.pop(column) for column in _COLUMNS)
    area = float((run_us / SECOND_US * tasks * cores).mean())
    submit_us = _micro(np.cumsum(gaps) * _gap_s(spec.arrivals, area), "arrivals")
    names = pl.Series([kind.name for kind in spec.classes])
    jobs = job_table(
        submit_us=submit_us,
        work_us=run_us,
        request_us=request_us,
        tasks=tasks,
        cores=cores,
        memory_mb=memory,
        priority=np.array([kind.priority for kind in spec.classes], np.int64)[which],
        deadline_us=np.where(lasts_us < 0, -1, submit_us + lasts_us),
        user=None if user is None else pl.Series(user),
        app=names.gather(which),
        devices={_device(column): amounts for column, amounts in drawn.items()},
    )
    return Workload(name, jobs, Intake(f"generated, seed {seed}", "generated", spec.jobs, spec.jobs))


def parse_spec(spec: GeneratorSpec | Mapping[str, Any]) -> GeneratorSpec:
    """The validated specification.

    Raises
    ------
    InputError
        It is not valid; the error names the first key at fault.
    """
    if isinstance(spec, GeneratorSpec):
        return spec
    try:
        return GeneratorSpec.model_validate(spec)
    except ValidationError as error:
        fault = first_fault(error.errors())
        key = ".".join(map(str, fault["loc"])) or "the whole"
        raise InputError(f"generate, {key}", *got_and_want(fault)) from None


_COLUMNS = ("run", "tasks", "cores", "memory", "request", "lasts")


def _draw(rng: np.random.Generator, spec: GeneratorSpec, which: NDArray[np.int64]) -> dict[str, Ints]:
    """int64[jobs] of _COLUMNS and of every device quantity; ``lasts`` is the time to the deadline, -1 = none."""
    columns = {column: np.zeros(spec.jobs, np.int64) for column in _COLUMNS}
    columns |= {key: np.zeros(spec.jobs, np.int64) for kind in spec.classes for key in sorted(kind.devices)}
    for place, kind in enumerate(spec.classes):
        rows = np.flatnonzero(which == place)
        count = len(rows)
        run_s = kind.run_s.draw(rng, count)
        columns["run"][rows] = run_us = _micro(run_s, f"classes.{place}.run_s")
        columns["tasks"][rows] = _upward(kind.tasks.draw(rng, count), 1, MOST, f"classes.{place}.tasks")
        columns["cores"][rows] = _upward(kind.cores.draw(rng, count), 1, MOST, f"classes.{place}.cores")
        columns["memory"][rows] = _upward(kind.memory_mb.draw(rng, count), 0, MOST_MB - 1, f"classes.{place}.memory_mb")
        factor = np.maximum(kind.request_factor.draw(rng, count), 1.0)
        columns["request"][rows] = np.maximum(_micro(run_s * factor, f"classes.{place}.request_factor"), run_us)
        columns["lasts"][rows] = -1
        if kind.deadline_factor is not None:
            lasts_s = run_s * kind.deadline_factor.draw(rng, count)
            columns["lasts"][rows] = _micro(lasts_s, f"classes.{place}.deadline_factor")
        for key in sorted(kind.devices):
            amounts = kind.devices[key].draw(rng, count)
            columns[key][rows] = _upward(amounts, 0, MOST_MB - 1, f"classes.{place}.devices.{key}")
    return columns


def _gap_s(arrivals: Poisson | Fixed, area_s: float) -> float:
    """The mean gap; ``area_s`` is the mean core-seconds of a job."""
    if isinstance(arrivals, Fixed):
        return arrivals.gap_s
    if arrivals.rate_per_h is not None:
        return 3600 / arrivals.rate_per_h
    if arrivals.mean_gap_s is not None:
        return arrivals.mean_gap_s
    assert arrivals.load is not None
    assert arrivals.cores is not None
    return area_s / (arrivals.load * arrivals.cores)


def _device(key: str) -> tuple[str, str]:
    kind, quantity = key.split(".", 1)
    return kind, quantity


def _micro(seconds: Floats, where: str) -> Ints:
    micro = np.rint(seconds * SECOND_US)
    if len(micro) and micro.max() > LONGEST_US:
        raise InputError(f"generator, {where}", f"{seconds.max():g} s", "times within 285 years")
    return micro.astype(np.int64)


def _upward(values: Floats, fewest: int, most: int, where: str) -> Ints:
    if len(values) and values.max() > most:
        raise InputError(f"generator, {where}", f"{values.max():g}", f"at most {most}")
    return np.maximum(np.ceil(np.round(values, 6)), fewest).astype(np.int64)
