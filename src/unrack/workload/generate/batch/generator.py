"""Workloads drawn from models of batch systems: jobs, their memory and applications, and when they arrive.

Here is the model of rigid batch jobs by Lublin and Feitelson. Sizes are two-stage uniform in log2, with shares of
serial jobs and of powers of two; the logarithm of the run time is hyper-gamma, and the larger the job, the likelier it
is of the long kind; the logarithm of the gap between arrivals in the rush hours is gamma, and a gamma curve over the
day says how busy the other half-hours are.

References
----------
U. Lublin, D. G. Feitelson: The workload on parallel supercomputers: modeling the characteristics of rigid jobs. Journal
of Parallel and Distributed Computing 63(11), 2003. The defaults are the fit for batch jobs as it is commonly quoted
from the paper's tables of sizes, run times and arrivals; they were not checked against a copy of it. Least certain are
``upper_gap``, ``log_run_max``, ``log_gap_max``, ``rush_to_all``, and the half-hour at which a day begins. The load or
rate of a study replaces the overall rate, so that the arrival constants only shape the day and the bursts. The model
has no requested times: they are run time × ``request_factor``, 1 by default.
"""

from __future__ import annotations

import json
import math
import os
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field, FiniteFloat

from unrack.errors import InputError
from unrack.kernels.arrays import Floats, Ints
from unrack.resources.checked import Strict
from unrack.workload.formats.quantities import MOST_MB
from unrack.workload.formats.rules import Intake
from unrack.workload.formats.source import parameters_of, parameters_text
from unrack.workload.generate.batch.model import COMPLETED, BatchModel, BatchSpec, Draw, MeasuredApplication
from unrack.workload.generate.distributions import DAY_S, Distribution, Positive, as_us, numbers_from
from unrack.workload.generate.memory import chosen_for_share, match, memory_by_size_mb, read_profiles, scaled_memory_mb
from unrack.workload.job import Workload, job_table

_SLOTS = 48
_SLOT_S = DAY_S / _SLOTS
Share = Annotated[FiniteFloat, Field(ge=0, le=1)]


class LublinModel(Strict):
    """Parameters of the model, with the published ones for batch jobs as defaults."""

    # serial_share, power_share: jobs of one node; jobs, serial ones aside, with the log2 of the size rounded to a
    # whole number
    serial_share: Share = 0.2927
    power_share: Share = 0.6686
    # low, upper_gap, low_share: log2 of the size is uniform from ``low`` to log2(nodes) - ``upper_gap`` with
    # probability ``low_share``, else from there to log2(nodes)
    low: Annotated[FiniteFloat, Field(ge=0, le=30)] = 1.2
    upper_gap: Annotated[FiniteFloat, Field(ge=0, le=30)] = 2.5
    low_share: Share = 0.7875
    # short_shape, short_scale, long_shape, long_scale: gamma distributions of ln(run time in s)
    short_shape: Positive = 6.57
    short_scale: Positive = 0.823
    long_shape: Positive = 639.1
    long_scale: Positive = 0.0156
    # short_slope, short_base: probability of the short one: slope × nodes of the job + base, within 0 and 1
    short_slope: FiniteFloat = -0.003
    short_base: FiniteFloat = 0.6986
    # log_run_max, log_gap_max: larger logarithms are drawn again
    log_run_max: Annotated[FiniteFloat, Field(ge=9, le=20)] = 12.0
    log_gap_max: Annotated[FiniteFloat, Field(ge=9, le=20)] = 13.0
    # gap_shape, gap_scale: gamma distribution of ln(gap in s) in the rush hours
    gap_shape: Positive = 6.0415
    gap_scale: Positive = 0.8531
    # day_shape, day_scale, day_begins: gamma curve of the busyness of the half-hours of a day that begins at the
    # half-hour ``day_begins``
    day_shape: Positive = 6.1271
    day_scale: Positive = 5.2740
    day_begins: Annotated[int, Field(ge=0, lt=_SLOTS)] = 11
    rush_to_all: Positive = 1.0519  # arrival rate of the rush hours over that of the whole day
    # requested time over run time; below 1 counts as 1
    request_factor: Distribution = Field(default=1, validate_default=True)

    def draw(self, rng: np.random.Generator, count: int, nodes: int, never_ran: bool = False) -> Draw:
        """Draw jobs for a system without their arrivals: sizes, then run times in whole seconds, then request factors.

        ``never_ran`` changes nothing: the model has no cancelled jobs.
        """
        highest = math.log2(nodes)
        middle = min(max(highest - self.upper_gap, self.low), highest)
        lowest = min(self.low, middle)
        serial, power, below = (rng.random(count) < share for share in (
            self.serial_share, self.power_share, self.low_share))  # fmt: skip
        exponent = np.where(below, rng.uniform(lowest, middle, count), rng.uniform(middle, highest, count))
        exponent = np.where(power, np.rint(exponent), exponent)
        size = np.where(serial, 1, np.rint(np.exp2(exponent)).astype(np.int64))
        size = np.clip(size, 1, nodes)
        short = rng.random(count) < self.short_slope * size + self.short_base
        shape = np.where(short, self.short_shape, self.long_shape)
        scale = np.where(short, self.short_scale, self.long_scale)
        run_s = np.maximum(np.rint(np.exp(_below(rng, shape, scale, self.log_run_max))), 1.0)
        request_s = np.maximum(np.ceil(run_s * self.request_factor.draw(rng, count)), run_s)
        return Draw(size, run_s, request_s, np.full(count, COMPLETED, np.int64))

    @property
    def arrivals(self) -> LublinModel:
        """When jobs arrive: the model says it itself."""
        return self

    def units(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``: gaps of mean 1 on the clock of the rate (their own mean, not that of the model)."""
        shape, scale = np.full(count, self.gap_shape), np.full(count, self.gap_scale)
        gaps = np.exp(_below(rng, shape, scale, self.log_gap_max))
        return np.asarray(gaps / self._mean_gap_s(), np.float64)

    @property
    def jobs_per_day(self) -> float:
        """What the model says: from the mean gap in the rush hours and their rate over that of the day."""
        return DAY_S / (self._mean_gap_s() * self.rush_to_all)

    def times_s(self, units: Floats, gap_s: float) -> Floats:
        """``float64[count]``: arrivals in s since a midnight, at a mean gap of ``gap_s`` over whole days."""
        paced = np.concatenate([[0.0], np.cumsum(self.day_weights())]) * _SLOT_S
        days, rest = np.divmod(np.cumsum(units) * gap_s, DAY_S)
        found: Floats = days * DAY_S + np.interp(rest, paced * (DAY_S / paced[-1]), np.arange(_SLOTS + 1) * _SLOT_S)
        return found

    def day_weights(self) -> Floats:
        """float64[48]: busyness of the half-hours from midnight on, of mean 1."""
        fine = self.day_begins - 0.5 + np.arange(_SLOTS * 64) / 64 + 1 / 128
        density = np.exp((self.day_shape - 1) * np.log(np.maximum(fine, 1e-9)) - fine / self.day_scale)
        weights = density.reshape(_SLOTS, 64).mean(axis=1)
        return np.asarray(np.roll(weights / weights.mean(), self.day_begins), np.float64)

    def _mean_gap_s(self) -> float:
        """The mean of exp(x), x gamma below the limit, by the midpoint rule."""
        x = (np.arange(20_000) + 0.5) * (self.log_gap_max / 20_000)
        log_density = (self.gap_shape - 1) * np.log(x) - x / self.gap_scale
        density = np.exp(log_density - log_density.max())
        return float((density * np.exp(x)).sum() / density.sum())


def _below(rng: np.random.Generator, shape: Floats, scale: Floats, most: float) -> Floats:
    """Gamma numbers; those of ``most`` or more are drawn again, and after a hundred times are ``most``."""
    found: Floats = rng.gamma(shape, scale)
    for _ in range(100):
        again = np.flatnonzero(found >= most)
        if not len(again):
            break
        found[again] = rng.gamma(shape[again], scale[again])
    return np.asarray(np.minimum(found, most), np.float64)


DEFAULT = "llnl-atlas"

PARAMETERS = {
    "llnl-atlas": "LLNL Atlas 2006-11, 1 152 nodes of 8 cores (Parallel Workloads Archive, 2.1-cln)",
    "kth-sp2": "KTH SP2 1996-97, 100 nodes (Parallel Workloads Archive, 2.1-cln)",
    "cirne-anl": "1 838 jobs on 1 024 nodes that the original generator drew, half of their node-hours by large jobs",
}
"""Name → what the parameters were fitted to; ``docs/generators.md`` has the commands."""
MOST_JOBS = 10_000_000
_POOLS = (1, 4, 16, 64, 256)
"""Jobs drawn for one that is chosen: tried until there are enough of either kind."""
A_MONDAY = 946_857_600
"""Seconds since 1970 of Monday 2000-01-03, UTC: where the clock of a workload drawn begins."""


def generate_batch(
    spec: BatchSpec | Mapping[str, Any], seed: int = 0, name: str | None = None, folder: Path | None = None
) -> Workload:
    """Draw a workload from a model of batch systems: a :class:`BatchSpec`, or a mapping of its keys.

    The draws of ``seed`` are, in order: what the model draws of the jobs, their memory, which of them are in the mix,
    gaps. The clock begins on a Monday at midnight; ``status`` is carried along as in logs. Files that the specification
    names are looked for in ``folder`` first.

    Examples
    --------
    >>> made = generate_batch({"model": "cirne", "nodes": 64, "jobs": 200, "load": 0.7, "memory": "table-5.5"}, seed=1)
    >>> len(made), int(made.jobs.tasks.max()) <= 64
    (200, True)
    """
    spec = _beside(BatchSpec.read(spec, "generate, "), folder)
    rng = numbers_from(seed)
    model = _model(spec)
    profiles = read_profiles(spec.profiles) if isinstance(spec.profiles, str) else spec.profiles
    if spec.large_share is not None:
        jobs = _mixed_jobs(spec, model, profiles, rng)
    else:
        jobs = drawn_jobs(spec, model, profiles, rng, _count(spec, model, rng))
    count = len(jobs.draw.nodes)
    gap_s = _gap_s(spec, model, jobs.draw)
    times_s = model.arrivals.times_s(model.arrivals.units(rng, count), gap_s)
    app = None
    if profiles is not None and jobs.profile is not None:
        app = pl.Series([one.id for one in profiles]).gather(jobs.profile)
    table = job_table(
        submit_us=as_us(times_s, "arrivals"),
        work_us=as_us(jobs.draw.run_s, "run times"),
        request_us=as_us(jobs.draw.request_s, "requests"),
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
    return LublinModel.read(spec.parameters or {}, "generate, parameters.")


def _words(spec: BatchSpec, model: BatchModel | LublinModel) -> str:
    if isinstance(model, LublinModel):
        return "Lublin and Feitelson 2003, batch jobs"
    return f"after Cirne and Berman 2001, fitted to {model.source or 'a log'}"


def _count(spec: BatchSpec, model: BatchModel | LublinModel, rng: np.random.Generator) -> int:
    """How many jobs: as said; or so many days at the rate, or until their node-seconds make the load."""
    if spec.jobs is not None:
        return spec.jobs
    assert spec.days is not None
    expected = (spec.jobs_per_day or model.arrivals.jobs_per_day) * spec.days
    if spec.load is not None:
        sample = model.draw(np.random.Generator(np.random.PCG64(0)), 20_000, spec.nodes, spec.cancelled == "zero-run")
        mean = float((sample.nodes * sample.run_s).mean())
        expected = spec.load * spec.nodes * spec.days * DAY_S / mean if mean > 0 else 0.0
    if not 0.5 <= expected <= MOST_JOBS:
        raise InputError("generate, days", f"{spec.days:g} ({expected:g} jobs)", f"1 to {MOST_JOBS} jobs")
    return max(round(expected), 1)


def _gap_s(spec: BatchSpec, model: BatchModel | LublinModel, draw: Draw) -> float:
    if spec.load is None:
        return DAY_S / (spec.jobs_per_day or model.arrivals.jobs_per_day)
    mean = float((draw.nodes * draw.run_s).mean())
    if mean == 0:
        raise InputError("generate, load", f"{spec.load:g}", "jobs that run")
    return mean / (spec.load * spec.nodes)


class BatchJobs(NamedTuple):
    """Jobs without arrivals: what the model drew, MB per node, and rows of the profiles (or none)."""

    draw: Draw
    memory_mb: Ints
    profile: Ints | None


def drawn_jobs(
    spec: BatchSpec,
    model: BatchModel | LublinModel,
    profiles: list[MeasuredApplication] | None,
    rng: np.random.Generator,
    count: int,
) -> BatchJobs:
    """Draw jobs, match them with profiles, if there are any, and give them memory; in this order of draws."""
    draw = model.draw(rng, count, spec.nodes, spec.cancelled == "zero-run")
    rows = None
    memory = np.zeros(count, np.int64)
    if profiles is not None:
        nodes = np.array([one.nodes for one in profiles], np.int64)
        rows = match(draw.nodes, draw.run_s, nodes, np.array([one.run_s for one in profiles]))
    if spec.memory == "table-5.5":
        memory = memory_by_size_mb(rng, draw.nodes)
    elif spec.memory == "profiles":
        assert profiles is not None
        assert rows is not None
        measured = np.array([one.memory_mb for one in profiles])
        if (measured == 0).any():
            bad = int((measured == 0).argmax())
            raise InputError(f"generate, profiles.{bad}.memory_mb", "0", "MB per node, for memory = 'profiles'")
        memory = scaled_memory_mb(measured, spec.cores_per_node, spec.measured_on)[rows]
    elif spec.memory is not None:
        amounts = spec.memory.draw(rng, count)
        if amounts.max() >= MOST_MB:
            raise InputError("generate, memory", f"{amounts.max():g} MB", f"less than {MOST_MB}")
        memory = np.ceil(np.round(amounts, 6)).astype(np.int64)
    return BatchJobs(draw, memory, rows)


def _mixed_jobs(
    spec: BatchSpec,
    model: BatchModel | LublinModel,
    profiles: list[MeasuredApplication] | None,
    rng: np.random.Generator,
) -> BatchJobs:
    """Jobs chosen from as many as it takes, up to 256 times, to have enough of either kind; in an order of chance."""
    assert spec.large_share is not None
    assert spec.normal_node is not None
    assert spec.jobs is not None
    for times in _POOLS:
        if times * spec.jobs > MOST_JOBS:
            break
        pool = drawn_jobs(spec, model, profiles, rng, times * spec.jobs)
        hours = pool.draw.nodes * pool.draw.run_s / 3600
        large = pool.memory_mb > spec.normal_node
        if _enough(hours, large, spec.large_share, spec.jobs):
            rows = rng.permutation(chosen_for_share(rng, hours, large, spec.large_share, spec.jobs))
            draw = Draw._make(column[rows] for column in pool.draw)
            return BatchJobs(draw, pool.memory_mb[rows], None if pool.profile is None else pool.profile[rows])
    raise InputError("generate, large_share", f"{spec.large_share:g}", "a share that the memory of the jobs allows")


def _enough(node_hours: Floats, large: np.ndarray, share: float, jobs: int) -> bool:
    """Whether there are twice as many of either kind as jobs of mean node-hours would need (all, at 0 and 1)."""
    if share in (0, 1):
        return int((large == bool(share)).sum()) >= jobs
    if not large.any() or large.all():
        return False
    means = node_hours[large].mean(), node_hours[~large].mean()
    if min(means) <= 0:
        return False
    needed = share / means[0], (1 - share) / means[1]
    parts = [one / sum(needed) * jobs for one in needed]
    there = int(large.sum()), int((~large).sum())
    return all(have >= min(1.2 * part + 20, jobs) for have, part in zip(there, parts, strict=True))


def batch_parameters(which: str | os.PathLike[str] | Mapping[str, Any] | None = None) -> BatchModel:
    """The parameters of a name in :data:`PARAMETERS`, of a TOML file, or in a table of the keys of :class:`BatchModel`.

    Examples
    --------
    >>> batch_parameters("kth-sp2").sizes.nodes
    100
    """
    if isinstance(which, Mapping):
        return BatchModel.read(which, "parameters, ")
    name = DEFAULT if which is None else os.fspath(which)
    return BatchModel.read(parameters_of(name, "parameters", PARAMETERS, "unrack.workload.fitted"), f"{name}, ")


def written(model: BatchModel, made_by: str = "") -> str:
    """The text of a TOML file with the parameters; ``made_by`` is a comment for its first line."""
    return parameters_text(model.model_dump(mode="json", exclude_none=True), _value, made_by)


def _value(value: Any) -> str:
    if isinstance(value, list) and isinstance(value[0], list):
        rows = "".join(f"    {json.dumps(row)},\n" for row in value)
        return f"[\n{rows}]"
    if isinstance(value, list):
        numbers = textwrap.fill(", ".join(map(str, value)), 112, initial_indent="    ", subsequent_indent="    ")
        return f"[\n{numbers},\n]"
    return json.dumps(value)
