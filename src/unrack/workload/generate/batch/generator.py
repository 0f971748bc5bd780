"""Workloads drawn from models of batch systems: jobs, their memory and applications, and when they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pydantic import ValidationError

from unrack.errors import InputError, first_fault, got_and_want
from unrack.units import LONGEST_US, SECOND_US
from unrack.workload.generate.batch.jobs import MOST_JOBS, drawn_jobs, mixed_jobs
from unrack.workload.generate.batch.lublin import LublinModel
from unrack.workload.generate.batch.model import BatchModel, Draw
from unrack.workload.generate.batch.parameters import batch_parameters
from unrack.workload.generate.batch.spec import BatchSpec
from unrack.workload.generate.distributions import Floats
from unrack.workload.generate.memory.profile_list import read_profiles
from unrack.workload.generate.week_cycle import DAY_S
from unrack.workload.job import Intake, Ints, Workload, job_table

A_MONDAY = 946_857_600
"""Seconds since 1970 of Monday 2000-01-03, UTC: where the clock of a workload drawn begins."""


def generate_batch(
    spec: BatchSpec | Mapping[str, Any], seed: int = 0, name: str | None = None, folder: Path | None = None
) -> Workload:
    """Draw a workload from a model of batch systems.

    Parameters
    ----------
    spec
        What to draw; a mapping is validated.
    seed
        Of ``numpy.random.Generator(PCG64(seed))``, the only source of chance. The draws are, in order: what the model
        draws of the jobs, their memory, which of them are in the mix, gaps.
    name
        The workload's name; default: that of the model.
    folder
        Where the files that the specification names are looked for first.

    Returns
    -------
    Workload
        Its clock begins on a Monday at midnight; ``status`` is carried along as in logs.

    Raises
    ------
    InputError
        The mapping is not a valid specification, or it cannot be drawn.

    Examples
    --------
    >>> made = generate_batch({"model": "cirne", "nodes": 64, "jobs": 200, "load": 0.7, "memory": "table-5.5"}, seed=1)
    >>> len(made), int(made.jobs.tasks.max()) <= 64
    (200, True)
    """
    spec = _beside(_parsed(spec), folder)
    if not 0 <= seed < 2**64:
        raise InputError("seed", repr(seed), "a number from 0 to 2**64")
    model = _model(spec)
    profiles = read_profiles(spec.profiles) if isinstance(spec.profiles, str) else spec.profiles
    rng = np.random.Generator(np.random.PCG64(seed))
    if spec.large_share is not None:
        jobs = mixed_jobs(spec, model, profiles, rng)
    else:
        jobs = drawn_jobs(spec, model, profiles, rng, _count(spec, model, rng))
    count = len(jobs.draw.nodes)
    gap_s = _gap_s(spec, model, jobs.draw)
    times_s = model.times_s(model.units(rng, count), gap_s) if isinstance(model, LublinModel) else (
        model.arrivals.times_s(model.arrivals.units(rng, count), gap_s)
    )  # fmt: skip
    app = None
    if profiles is not None and jobs.profile is not None:
        app = pl.Series([one.id for one in profiles]).gather(jobs.profile)
    table = job_table(
        submit_us=_micro(times_s),
        work_us=_micro(jobs.draw.run_s),
        request_us=_micro(jobs.draw.request_s),
        tasks=jobs.draw.nodes,
        cores=np.full(count, spec.cores_per_node, np.int64),
        memory_mb=jobs.memory_mb,
        app=app,
        extra=pl.DataFrame({"status": jobs.draw.status}),
    )
    header = {"Model": _words(spec, model), "UnixStartTime": str(A_MONDAY), "TimeZoneString": "UTC",
              "MaxNodes": str(spec.nodes), "MaxProcs": str(spec.nodes * spec.cores_per_node)}  # fmt: skip
    intake = Intake(f"generated, seed {seed}", "generated", count, count, header=header)
    return Workload(name or spec.model, table, intake)


def _parsed(spec: BatchSpec | Mapping[str, Any]) -> BatchSpec:
    if isinstance(spec, BatchSpec):
        return spec
    try:
        return BatchSpec.model_validate(spec)
    except ValidationError as error:
        fault = first_fault(error.errors())
        key = ".".join(map(str, fault["loc"])) or "the whole"
        raise InputError(f"generate, {key}", *got_and_want(fault, list(BatchSpec.model_fields))) from None


def _beside(spec: BatchSpec, folder: Path | None) -> BatchSpec:
    """The specification with the paths of files that are in the folder."""
    paths = {"parameters": spec.parameters, "profiles": spec.profiles}
    found = {
        key: str(folder / path)
        for key, path in paths.items()
        if folder is not None and isinstance(path, str) and (folder / path).exists()
    }
    return spec.model_copy(update=found) if found else spec


def _model(spec: BatchSpec) -> BatchModel | LublinModel:
    if spec.model == "cirne":
        return batch_parameters(spec.parameters)
    assert not isinstance(spec.parameters, str)
    try:
        return LublinModel.model_validate(spec.parameters or {})
    except ValidationError as error:
        fault = first_fault(error.errors())
        key = ".".join(map(str, fault["loc"])) or "the whole"
        raise InputError(f"generate, parameters.{key}", *got_and_want(fault, list(LublinModel.model_fields))) from None


def _words(spec: BatchSpec, model: BatchModel | LublinModel) -> str:
    if isinstance(model, LublinModel):
        return "Lublin and Feitelson 2003, batch jobs"
    return f"after Cirne and Berman 2001, fitted to {model.source or 'a log'}"


def _per_day(spec: BatchSpec, model: BatchModel | LublinModel) -> float:
    if spec.jobs_per_day is not None:
        return spec.jobs_per_day
    return model.jobs_per_day if isinstance(model, LublinModel) else model.arrivals.jobs_per_day


def _count(spec: BatchSpec, model: BatchModel | LublinModel, rng: np.random.Generator) -> int:
    """How many jobs: as said; or so many days at the rate, or until their node-seconds make the load."""
    if spec.jobs is not None:
        return spec.jobs
    assert spec.days is not None
    expected = _per_day(spec, model) * spec.days
    if spec.load is not None:
        sample = model.draw(np.random.Generator(np.random.PCG64(0)), 20_000, spec.nodes, spec.cancelled == "zero-run")
        mean = float((sample.nodes * sample.run_s).mean())
        expected = spec.load * spec.nodes * spec.days * DAY_S / mean if mean > 0 else 0.0
    if not 0.5 <= expected <= MOST_JOBS:
        raise InputError("generate, days", f"{spec.days:g} ({expected:g} jobs)", f"1 to {MOST_JOBS} jobs")
    return max(round(expected), 1)


def _gap_s(spec: BatchSpec, model: BatchModel | LublinModel, draw: Draw) -> float:
    if spec.load is None:
        return DAY_S / _per_day(spec, model)
    mean = float((draw.nodes * draw.run_s).mean())
    if mean == 0:
        raise InputError("generate, load", f"{spec.load:g}", "jobs that run")
    return mean / (spec.load * spec.nodes)


def _micro(seconds: Floats) -> Ints:
    micro = np.rint(seconds * SECOND_US)
    if len(micro) and micro.max() > LONGEST_US:
        raise InputError("generate", f"{seconds.max():g} s", "times within 285 years")
    return micro.astype(np.int64)
