"""Workloads of training jobs: networks, batch sizes and GPUs drawn, run times as measured.

What a study says of a workload of training jobs: ``generate = { training_jobs = 1000, ... }``.

Lists of training jobs for machines with four GPUs, as generated for the thesis on topology-aware placement.

The header is ``id,arrival_s,application,batch_size,gpus,tasks,memory_gb,minimal_utility``.

References
----------
M. Amaral: Improving resource efficiency in virtualized datacenters, 2019, chapter 4.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, model_validator

from unrack import Workload
from unrack.errors import InputError
from unrack.resources.gpus import GPUS, UTILITY_PARTS, app_name
from unrack.workload import Intake, job_table
from unrack.workload.formats import (
    MOST,
    MOST_MB,
    Source,
    Tally,
    amounts,
    load,
    make_format,
    memory_unit_mb,
    time_unit_us,
    times_us,
    typed,
    workload,
)
from unrack.workload.generate import Arrivals, Distribution, Strict, as_us, gap_s, numbers_from, upward
from unrack_papers.workloads.measured_times import TOGETHER, Fields, MeasuredTimes, app_names, asked, read_times

GIVEAWAY = ("application", "batch_size", "minimal_utility")
"""Columns that give the format away."""
NEAREST = "time of the nearest size"
"""The rule about numbers of GPUs that were not measured."""

_NEEDED = ("id", "arrival_s", "application", "batch_size", "gpus", "tasks", "memory_gb", "minimal_utility")


def read_minsky(path: str | os.PathLike[str] | Source, *, profiles: str | None = None) -> Workload:
    """Read training jobs, each on GPUs of one machine.

    Such a list has no run times, as they depend on where a job is placed. The work of a job is its measured time alone
    at its best placement; its application is called ``alexnet/4``, with the batch size.

    Parameters
    ----------
    path
        The file.
    profiles
        A file of measured times (:func:`unrack_papers.workloads.measured_times.read_times`); needed.

    Raises
    ------
    TraceError
        A file cannot be read, lacks a column, has a value that cannot be, or an application that was not measured.
    InputError
        There are no ``profiles``.
    """
    source = load(path)
    if profiles is None:
        raise InputError(
            f"{source.path}: run times",
            "none: they depend on application, batch size, GPUs and placement",
            "the option profiles = 'FILE', with measured times of each application",
        )
    if not isinstance(profiles, str):
        raise InputError("option profiles", repr(profiles), "the path of a file of measured times")
    fields = Fields.of(source, _NEEDED)
    apps, gpus, tasks = app_names(fields), fields.count("gpus", 1), fields.count("tasks", 1)
    tally = Tally()
    times_s = _solo_times_s(fields, apps, (gpus * tasks).to_list(), read_times(profiles), tally)
    utility = fields.number("minimal_utility", 0, 1)
    second = time_unit_us("s")
    ours = pl.DataFrame([
        typed(fields.text("id")).alias("id"),
        times_us(fields.number("arrival_s"), "arrival_s", fields.at, second).alias("submit_us"),
        times_us(times_s, "time_s", fields.at, second).alias("work_us"),
        tasks.alias("tasks"),
        amounts(fields.number("memory_gb"), "memory_gb", fields.at, memory_unit_mb("GB")).alias("memory_mb"),
        pl.Series("app", apps, dtype=pl.String),
        gpus.alias(asked("count")),
        amounts(utility, "minimal_utility", fields.at, Fraction(UTILITY_PARTS)).alias(asked("min_utility")),
        pl.Series(asked("together"), np.full(len(gpus), TOGETHER, np.int64)),
        *fields.rest(_NEEDED),
    ])  # fmt: skip
    words = f"run = the best time alone in {Path(profiles).name}; all GPUs of a job on one machine"
    return workload(source, "minsky", fields.frame.height, ours, tally, "truncate", {"Columns": words})


def _solo_times_s(
    fields: Fields, apps: Sequence[str], gpus: Sequence[int], times: MeasuredTimes, tally: Tally
) -> pl.Series:
    """Float64[jobs]: the time alone of each job."""
    found, elsewhere = [], 0
    for row, (app, count) in enumerate(zip(apps, gpus, strict=True)):
        solo = times.best(app, count)
        if solo is None:
            want = f"one that {times.path} has times of: {times.known()}"
            raise fields.at.fault(row, "application", f"{app} (with its batch size)", want)
        found.append(solo.time_s)
        elsewhere += solo.gpus != count
    tally.change(NEAREST, elsewhere)
    return pl.Series(found, dtype=pl.Float64)


FORMAT = make_format(
    read_minsky, "CSV of training jobs on GPUs, without run times", "memory app counted", giveaway=GIVEAWAY
)
"""What unrack finds under the name ``minsky``."""


_Name = Annotated[str, Field(pattern=r"^[A-Za-z][\w-]*$")]
_Chance = Annotated[float, Field(ge=0, le=1)]

BATCH_SIZES = (1, 4, 64, 128)
"""Tiny, small, medium and big batches (section 3.2)."""
NETWORKS = ("alexnet", "cafferef", "googlenet")
PER_HOUR = 600
"""Ten jobs a minute."""


def poisson_by_default(value: Any) -> Any:
    """The keys of a workload, with the kind of arrivals where it is not said: fixed if there is a gap, else Poisson."""
    arrivals = value.get("arrivals") if isinstance(value, Mapping) else None
    if isinstance(arrivals, Mapping) and "kind" not in arrivals:
        return {**value, "arrivals": {"kind": "fixed" if "gap_s" in arrivals else "poisson", **arrivals}}
    return value


class TrainingSpec(Strict):
    """A workload of training jobs, each on GPUs of one machine.

    Attributes
    ----------
    training_jobs
        How many.
    arrivals
        When they arrive (:mod:`unrack.workload.generate.arrivals`); default: Poisson, ten a minute.
    batch_sizes, batch_p
        The size of a job's batches is the k-th of these, counted from 0, with k binomial over their places.
    networks, network_p
        The same for its network. The application is called NETWORK/BATCH.
    gpus
        GPUs of a job, all on one machine; rounded up to 1 or more.
    min_utility
        The least utility of a placement that it accepts, 0 to 1.
    cores, memory_mb
        Of a job; rounded up, cores to 1 or more.
    profiles
        A file of measured times (:func:`unrack_papers.workloads.measured_times.read_times`): the run time of a job is
        the best time alone of its application and number of GPUs.
    times_of
        Network → the one whose times it has where ``profiles`` has none of its own.
    run_s
        In place of ``profiles``: the run time in s.

    References
    ----------
    M. Amaral: Improving resource efficiency in virtualized datacenters, 2019, section 4.4. The text gives no parameter
    of the binomial distributions, no shares of the numbers of GPUs and no bounds of the utilities: those are unrack's.
    """

    training_jobs: Annotated[int, Field(ge=1, le=10_000_000)]
    arrivals: Arrivals = Field(default={"kind": "poisson", "rate_per_h": PER_HOUR}, validate_default=True)
    batch_sizes: Annotated[tuple[Annotated[int, Field(ge=1, le=10**9)], ...], Field(min_length=1)] = BATCH_SIZES
    batch_p: _Chance = 0.5
    networks: Annotated[tuple[_Name, ...], Field(min_length=1)] = NETWORKS
    network_p: _Chance = 0.5
    gpus: Distribution = Field(default={"kind": "choice", "values": [1, 2, 4]}, validate_default=True)
    min_utility: Distribution = Field(default={"kind": "uniform", "min": 0.3, "max": 0.5}, validate_default=True)
    cores: Distribution = Field(default=1, validate_default=True)
    memory_mb: Distribution = Field(default=0, validate_default=True)
    profiles: Annotated[str, Field(min_length=1)] | None = None
    times_of: dict[_Name, _Name] = Field(default={"cafferef": "alexnet"})
    run_s: Distribution | None = None

    @model_validator(mode="before")
    @classmethod
    def _poisson_by_default(cls, value: Any) -> Any:
        return poisson_by_default(value)

    @model_validator(mode="after")
    def _one_run_time(self) -> TrainingSpec:
        if (self.profiles is None) == (self.run_s is None):
            raise ValueError("either profiles, a file of measured times, or run_s")
        if self.profiles is None and "times_of" in self.model_fields_set:
            raise ValueError("times_of only beside profiles")
        return self


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def generate_training(
    spec: TrainingSpec | Mapping[str, Any], seed: int = 0, name: str | None = None, folder: Path | None = None
) -> Workload:
    """Draw a workload of training jobs.

    Parameters
    ----------
    spec
        What to draw; a mapping is validated.
    seed
        Of ``numpy.random.Generator(PCG64(seed))``, the only source of chance. The draws are, in order: gaps, batch
        sizes, networks, GPUs, utilities, cores, memory, run times.
    name
        The workload's name; default: "training".
    folder
        Where the file of measured times is looked for first.

    Returns
    -------
    Workload
        A job of one task each; its requested time is its run time.

    Raises
    ------
    InputError
        The mapping is not a valid specification, what is drawn is out of range, or an application was not measured.

    Examples
    --------
    >>> jobs = generate_training({"training_jobs": 3, "run_s": 60, "networks": ["alexnet"], "batch_p": 0}).jobs
    >>> jobs.app_names, jobs.devices["gpus", "together"].tolist()
    (('alexnet/1',), [1, 1, 1])
    """
    spec = TrainingSpec.read(spec, "generate, ")
    rng = numbers_from(seed)
    count = spec.training_jobs
    units = spec.arrivals.units(rng, count)
    batch = rng.binomial(len(spec.batch_sizes) - 1, spec.batch_p, count)
    network = rng.binomial(len(spec.networks) - 1, spec.network_p, count)
    gpus = upward(spec.gpus.draw(rng, count), 1, MOST, "gpus")
    utility = spec.min_utility.draw(rng, count)
    if utility.max() > 1:
        raise InputError("generate, min_utility", f"{utility.max():g}", "a utility from 0 to 1")
    cores = upward(spec.cores.draw(rng, count), 1, MOST, "cores")
    memory_mb = upward(spec.memory_mb.draw(rng, count), 0, MOST_MB - 1, "memory_mb")
    changed: dict[str, int] = {}
    header = {"Model": "training jobs after Amaral 2019, section 4.4"}
    if spec.run_s is not None:
        run_us = as_us(spec.run_s.draw(rng, count), "run_s")
    else:
        times_s, elsewhere = _measured_s(spec, folder, batch, network, gpus, header)
        run_us = as_us(times_s, "profiles")
        changed = {NEAREST: elsewhere} if elsewhere else {}
    drawn = {"cores": cores, "memory_mb": memory_mb, f"{GPUS}.count": gpus}
    tasks = np.ones(count, np.int64)
    mean_gap_s = gap_s(spec.arrivals, units, seed, run_us, tasks, drawn)
    kinds = len(spec.batch_sizes)
    apps = pl.Series([app_name(one, size) for one in spec.networks for size in spec.batch_sizes])
    jobs = job_table(
        submit_us=as_us(spec.arrivals.times_s(units, mean_gap_s, seed), "arrivals"),
        work_us=run_us,
        tasks=tasks,
        cores=cores,
        memory_mb=memory_mb,
        app=apps.gather(network * kinds + batch),
        devices={
            (GPUS, "count"): gpus,
            (GPUS, "together"): np.full(count, TOGETHER, np.int64),
            (GPUS, "min_utility"): upward(utility * UTILITY_PARTS, 0, UTILITY_PARTS, "min_utility"),
        },
    )
    intake = Intake(f"generated, seed {seed}", "generated", count, count, changed=changed, header=header)
    return Workload(name or "training", jobs, intake)


def _measured_s(
    spec: TrainingSpec, folder: Path | None, batch: Ints, network: Ints, gpus: Ints, header: dict[str, str]
) -> tuple[Floats, int]:
    """float64[jobs] of times alone, and how many were measured on another number of GPUs; borrowed ones are noted."""
    assert spec.profiles is not None
    beside = folder is not None and (folder / spec.profiles).is_file()
    times = read_times(str(folder / spec.profiles) if folder is not None and beside else spec.profiles)
    kinds = np.stack([network, batch, gpus])
    combinations, which, jobs = np.unique(kinds, axis=1, return_inverse=True, return_counts=True)
    found = np.zeros(combinations.shape[1])
    elsewhere, borrowed = 0, set[str]()
    for place, (of_network, of_batch, count) in enumerate(combinations.T.tolist()):
        name, size = spec.networks[of_network], spec.batch_sizes[of_batch]
        solo = times.best(app_name(name, size), count)
        if solo is None and name in spec.times_of:
            borrowed.add(name)
            solo = times.best(app_name(spec.times_of[name], size), count)
        if solo is None:
            want = f"networks and batch sizes that {times.path} has times of: {times.known()}"
            raise InputError("generate, profiles", app_name(name, size), want)
        found[place] = solo.time_s
        elsewhere += int(jobs[place]) if solo.gpus != count else 0
    if borrowed:
        words = ", ".join(f"{name} takes as long as {spec.times_of[name]}" for name in sorted(borrowed))
        header["Note"] = f"not measured: {words}"
    return found[which.reshape(-1)], elsewhere
