"""Synthetic workloads, drawn from a seed: weighted classes of jobs, arrivals, and which jobs are urgent."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from unrack.errors import InputError
from unrack.kernels.arrays import Ints
from unrack.plugins.code import blamed
from unrack.plugins.table import Table
from unrack.resources.checked import Strict
from unrack.units import SECOND_US
from unrack.workload.formats.quantities import DEVICE_KEY, MOST, MOST_MB
from unrack.workload.formats.readers import as_workload
from unrack.workload.formats.rules import Intake
from unrack.workload.generate.arrivals import Arrivals, gap_s
from unrack.workload.generate.batch.generator import generate_batch
from unrack.workload.generate.batch.model import BatchSpec
from unrack.workload.generate.distributions import Distribution, Positive, as_us, numbers_from, pick, upward
from unrack.workload.job import Workload, job_table

_DeviceKey = Annotated[str, Field(pattern=DEVICE_KEY)]
Priority = Annotated[int, Field(ge=-(2**31), le=2**31)]


class JobClass(Strict):
    """A kind of job."""

    name: str = "job"  # becomes the job's app
    weight: Positive = 1  # how frequent it is, relative to the other classes
    run_s: Distribution  # run time in s
    # tasks, cores, memory_mb: tasks, and per task cores and MB; rounded up, tasks and cores to 1 or more
    tasks: Distribution = Field(default=1, validate_default=True)
    cores: Distribution = Field(default=1, validate_default=True)
    memory_mb: Distribution = Field(default=0, validate_default=True)
    # requested time over run time; below 1 counts as 1
    request_factor: Distribution = Field(default=1, validate_default=True)
    priority: Priority = 0  # of all jobs of the class
    deadline_factor: Distribution | None = None  # (Deadline - submission) / run time; without it there is no deadline
    # ``KIND.QUANTITY`` → amount per task, rounded up
    devices: dict[_DeviceKey, Distribution] = Field(default_factory=dict)


class Urgent(Strict):
    """Jobs that are in a hurry, whichever class they are of."""

    # of all jobs, 0 to 1: exactly round(share × jobs) jobs, chosen at random
    share: Annotated[float, Field(ge=0, le=1)] = 0.2
    priority: Priority = 1  # they get this priority …
    # … and this (deadline - submission) / run time, in place of their class's
    deadline_factor: Distribution = Field(default=1.2, validate_default=True)


class GeneratorSpec(Strict):
    """A synthetic workload."""

    jobs: Annotated[int, Field(ge=1, le=100_000_000)]  # how many
    # when they arrive (:mod:`unrack.workload.generate.arrivals`); the first job arrives after the first gap
    arrivals: Arrivals
    classes: Annotated[list[JobClass], Field(min_length=1)]  # one or more kinds of job
    # each job belongs to one of so many users, all alike; 0 = none
    users: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    urgent: Urgent | None = None  # some of the jobs have another priority and deadline

    @model_validator(mode="before")
    @classmethod
    def _poisson_by_default(cls, value: Any) -> Any:
        arrivals = value.get("arrivals") if isinstance(value, Mapping) else None
        if isinstance(arrivals, Mapping) and "kind" not in arrivals:
            kind = "fixed" if "gap_s" in arrivals else "poisson"
            return {**value, "arrivals": {"kind": kind, **arrivals}}
        return value


class Generator(Protocol):
    """Draws a workload from the table ``generate`` of a study."""

    def __call__(self, spec: Mapping[str, Any], *, seed: int, name: str | None, folder: Path | None) -> Workload:
        """Draw; ``folder``: where files that the table names are looked for first."""


def _of_others(name: str, found: Any) -> Generator:
    """The generator of a plug-in: a function of the table and what it takes of seed, name and folder."""
    if not callable(found):
        raise InputError(f"the generator {name}", f"{found!r:.100}", "a function: draw(spec, seed, …) -> Workload")
    takes = inspect.signature(found).parameters

    def draw(spec: Mapping[str, Any], **how: Any) -> Workload:
        with blamed(f"the generator {name}"):
            made = found(spec, **{key: value for key, value in how.items() if key in takes})
        return as_workload(made, how["name"] or name, "generated", f"the generator {name}")

    return draw


GENERATORS: Table[Generator] = Table("generators", {"model": generate_batch}, _of_others)
"""The key of a table ``generate`` that tells what draws it → the generator."""


def generate(
    spec: GeneratorSpec | BatchSpec | Mapping[str, Any],
    seed: int = 0,
    name: str | None = None,
    folder: Path | None = None,
) -> Workload:
    """Draw a workload.

    Parameters
    ----------
    spec
        What to draw; a mapping is validated. With the key ``model`` it is a
        :class:`unrack.workload.generate.batch.model.BatchSpec`, drawn by
        :func:`unrack.workload.generate.batch.generator.generate_batch`; with a key that a plug-in has a generator of
        (:data:`GENERATORS`), such as ``scenario`` of ``unrack-papers``, it is drawn by that.
    seed
        Of ``numpy.random.Generator(PCG64(seed))``, the only source of chance. The draws are, in order: gaps, classes,
        users, then class by class run time, tasks, cores, memory, request factor, deadline factor, devices by name;
        then which jobs are urgent, and their deadline factors. The states of ``mmpp`` arrivals come from the stream
        that ``SeedSequence(seed)`` spawns first.
    name
        The workload's name; default: that of the model or generator, or "synthetic".
    folder
        Where files that the specification names are looked for first, before the working folder.

    Raises
    ------
    InputError
        The mapping is not a valid specification, the jobs drawn are out of range, or the load cannot be reached.

    Examples
    --------
    An M/M/1 queue at 80 % load:

    >>> service = {"run_s": {"kind": "exponential", "mean": 10}}
    >>> jobs = generate({"jobs": 3, "arrivals": {"load": 0.8, "cores": 1}, "classes": [service]}).jobs
    >>> len(jobs), jobs.tasks.tolist()
    (3, [1, 1, 1])
    """
    if isinstance(spec, BatchSpec):
        return generate_batch(spec, seed, name, folder)
    if isinstance(spec, Mapping):
        for key in (*GENERATORS.own, *GENERATORS.added()):
            if key in spec:
                return GENERATORS[key](spec, seed=seed, name=name, folder=folder)
        for key in spec:
            if missing := GENERATORS.missing(key):
                raise InputError(f"generate, {key}", "a generator that is not installed", missing)
    spec = GeneratorSpec.read(spec, "generate, ")
    rng = numbers_from(seed)
    units = spec.arrivals.units(rng, spec.jobs)
    which = pick(rng, np.array([kind.weight for kind in spec.classes]), spec.jobs)
    user = rng.integers(1, spec.users + 1, spec.jobs) if spec.users else None
    drawn = _draw(rng, spec, which)
    priority = np.array([kind.priority for kind in spec.classes], np.int64)[which]
    _hurry(rng, spec, drawn, priority)
    run_us, tasks, request_us, lasts_us = (drawn.pop(column) for column in ("run", "tasks", "request", "lasts"))
    mean_gap_s = gap_s(spec.arrivals, units, seed, run_us, tasks, drawn)
    submit_us = as_us(spec.arrivals.times_s(units, mean_gap_s, seed), "arrivals")
    if spec.arrivals.whole_seconds:
        submit_us -= submit_us % SECOND_US
    names = pl.Series([kind.name for kind in spec.classes])
    jobs = job_table(
        submit_us=submit_us,
        work_us=run_us,
        request_us=request_us,
        tasks=tasks,
        cores=drawn.pop("cores"),
        memory_mb=drawn.pop("memory_mb"),
        priority=priority,
        deadline_us=np.where(lasts_us < 0, -1, submit_us + lasts_us),
        user=None if user is None else pl.Series(user),
        app=names.gather(which),
        devices={(kind, what): amounts for column, amounts in drawn.items() for kind, what in (column.split(".", 1),)},
    )
    intake = Intake(f"generated, seed {seed}", "generated", spec.jobs, spec.jobs)
    return Workload("synthetic" if name is None else name, jobs, intake)


_COLUMNS = ("run", "tasks", "cores", "memory_mb", "request", "lasts")


def _draw(rng: np.random.Generator, spec: GeneratorSpec, which: Ints) -> dict[str, Ints]:
    """int64[jobs] of _COLUMNS and of every device quantity; ``lasts`` is the time to the deadline, -1 = none."""
    columns = {column: np.zeros(spec.jobs, np.int64) for column in _COLUMNS}
    columns |= {key: np.zeros(spec.jobs, np.int64) for kind in spec.classes for key in sorted(kind.devices)}
    for place, kind in enumerate(spec.classes):
        at = f"classes.{place}"
        rows = np.flatnonzero(which == place)
        count = len(rows)
        run_s = kind.run_s.draw(rng, count)
        columns["run"][rows] = run_us = as_us(run_s, f"{at}.run_s")
        columns["tasks"][rows] = upward(kind.tasks.draw(rng, count), 1, MOST, f"{at}.tasks")
        columns["cores"][rows] = upward(kind.cores.draw(rng, count), 1, MOST, f"{at}.cores")
        columns["memory_mb"][rows] = upward(kind.memory_mb.draw(rng, count), 0, MOST_MB - 1, f"{at}.memory_mb")
        factor = np.maximum(kind.request_factor.draw(rng, count), 1.0)
        columns["request"][rows] = np.maximum(as_us(run_s * factor, f"{at}.request_factor"), run_us)
        columns["lasts"][rows] = -1
        if kind.deadline_factor is not None:
            lasts_s = run_s * kind.deadline_factor.draw(rng, count)
            columns["lasts"][rows] = as_us(lasts_s, f"{at}.deadline_factor")
        for key in sorted(kind.devices):
            amounts = kind.devices[key].draw(rng, count)
            columns[key][rows] = upward(amounts, 0, MOST_MB - 1, f"{at}.devices.{key}")
    return columns


def _hurry(rng: np.random.Generator, spec: GeneratorSpec, columns: dict[str, Ints], priority: Ints) -> None:
    """Give the urgent jobs their priority and deadline, in place."""
    if spec.urgent is None:
        return
    rows = np.sort(rng.permutation(spec.jobs)[: round(spec.urgent.share * spec.jobs)])
    priority[rows] = spec.urgent.priority
    factor = spec.urgent.deadline_factor.draw(rng, len(rows))
    columns["lasts"][rows] = as_us(columns["run"][rows] / SECOND_US * factor, "urgent.deadline_factor")
