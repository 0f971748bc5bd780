"""A comprehensive model of a batch workload, in the shape of Cirne and Berman's (``model = "cirne"``).

Arrivals follow the hour and the weekday; sizes are uniform-log piece by piece, with a share of powers of two; users ask
for a time, and the run is the time asked for × the accuracy of the request. Jobs complete, fail or are cancelled, and
those that do not complete end sooner: so poor accuracy goes with short runs. Requests depend on sizes, and accuracies
on both, by ranks (below).

The constants of the original are not published in what this was made from. Parameters are fitted to a log
(:mod:`unrack.workload.generate.batch.fit`); those of three logs come with the package.

References
----------
W. Cirne, F. Berman: A comprehensive model of the supercomputer workload. IEEE Workshop on Workload Characterization,
2001. F. Zacarias: the thesis on disaggregated memory, sections 2.3.2 and 5.2.1. What differs: the original's families
of distributions are replaced by quantile curves, and its links by normal scores that differ from class to class.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field, FiniteFloat, field_validator, model_validator

from unrack.kernels.arrays import Floats, Ints
from unrack.resources.checked import Strict
from unrack.units import memory_mb
from unrack.workload.formats.quantities import MOST, MOST_MB
from unrack.workload.generate.batch.curve import along, normal_ranks, normal_scores
from unrack.workload.generate.distributions import Distribution, Positive, WeekCycle, ascending

SIZES = 6
"""Classes of sizes: 1, 2 to 4, 5 to 16, 17 to 64, 65 to 256, and more nodes."""

REQUEST_EDGES_S = (600.0, 3600.0, 14_400.0, 43_200.0)
"""Classes of requested times: up to 10 min, 1 h, 4 h, 12 h, and more."""

REQUESTS = len(REQUEST_EDGES_S) + 1
LEAST_SPREAD = 0.05
_HEAVY = 20
"""A class of so many jobs is halfway believed: its mean and spread are drawn to those of all jobs."""

_Score = Annotated[FiniteFloat, Field(ge=-6, le=6)]
_Spread = Annotated[FiniteFloat, Field(ge=LEAST_SPREAD, le=6)]
_Part = Annotated[FiniteFloat, Field(ge=0, le=1)]
_Row = Annotated[tuple[_Score, ...], Field(min_length=REQUESTS, max_length=REQUESTS)]
_Spreads = Annotated[tuple[_Spread, ...], Field(min_length=REQUESTS, max_length=REQUESTS)]
_Parts = Annotated[tuple[_Part, ...], Field(min_length=REQUESTS, max_length=REQUESTS)]
COMPLETED, FAILED, CANCELLED = 1, 0, 5
"""Status codes of the Standard Workload Format."""

Share = Annotated[FiniteFloat, Field(ge=0, le=1)]
Curve = Annotated[tuple[Positive, ...], Field(min_length=2)]


class Links(Strict):
    """Means and spreads of normal scores."""

    # share of the jobs in each class of sizes (rows) and requested times (columns)
    jobs: Annotated[tuple[_Parts, ...], Field(min_length=SIZES, max_length=SIZES)]
    # request_mean, request_spread: of the request's score, by class of sizes
    request_mean: Annotated[tuple[_Score, ...], Field(min_length=SIZES, max_length=SIZES)]
    request_spread: Annotated[tuple[_Spread, ...], Field(min_length=SIZES, max_length=SIZES)]
    # accuracy_mean, accuracy_spread: of the accuracy's score, by class of sizes and of requested times
    accuracy_mean: Annotated[tuple[_Row, ...], Field(min_length=SIZES, max_length=SIZES)]
    accuracy_spread: Annotated[tuple[_Spreads, ...], Field(min_length=SIZES, max_length=SIZES)]

    def request_rank(self, normal: Floats, size_class: Ints) -> Floats:
        """``float64[jobs]``: ranks of requested times, 0 to 1, from normal numbers."""
        weight = np.array(self.jobs).sum(axis=1)
        means, spreads = np.array(self.request_mean), np.array(self.request_spread)
        return _ranks(normal, size_class, weight, means, spreads)

    def accuracy_rank(self, normal: Floats, size_class: Ints, request_class: Ints) -> Floats:
        """``float64[jobs]``: ranks of accuracies, 0 to 1, from normal numbers."""
        cell = size_class * REQUESTS + request_class
        means, spreads = np.array(self.accuracy_mean).ravel(), np.array(self.accuracy_spread).ravel()
        return _ranks(normal, cell, np.array(self.jobs).ravel(), means, spreads)


def size_class(nodes: Ints | Floats) -> Ints:
    """``int64[jobs]``: 0 to 5, in powers of four.

    Examples
    --------
    >>> size_class(np.array([1, 2, 4, 5, 16, 256, 257])).tolist()
    [0, 1, 1, 2, 2, 4, 5]
    """
    return np.clip(np.ceil(np.log2(np.maximum(nodes, 1)) / 2 - 1e-9), 0, SIZES - 1).astype(np.int64)


def request_class(request_s: Floats) -> Ints:
    """``int64[jobs]``: 0 to 4, by :data:`REQUEST_EDGES_S`."""
    return np.searchsorted(REQUEST_EDGES_S, request_s, side="left").astype(np.int64)


def links_of(nodes: Ints, request_s: Floats, accuracy: Floats) -> Links:
    """The links of jobs of so many nodes (int64[jobs]), requested times in s and accuracies (float64[jobs])."""
    by_size, cell = size_class(nodes), size_class(nodes) * REQUESTS + request_class(request_s)
    shape = (SIZES, REQUESTS)
    jobs = np.bincount(cell, minlength=SIZES * REQUESTS) / len(cell)
    request = _moments(normal_scores(request_s), by_size, SIZES)
    ended = _moments(normal_scores(accuracy), cell, SIZES * REQUESTS)
    return Links(
        jobs=_rounded(jobs.reshape(shape)),
        request_mean=tuple(request[0].round(4).tolist()),
        request_spread=tuple(request[1].round(4).tolist()),
        accuracy_mean=_rounded(ended[0].reshape(shape)),
        accuracy_spread=_rounded(ended[1].reshape(shape)),
    )


def _moments(scores: Floats, which: Ints, classes: int) -> tuple[Floats, Floats]:
    """Mean and spread of the scores in each class; of a class of few jobs, in part those of all jobs."""
    count = np.bincount(which, minlength=classes)
    trust = count / (count + _HEAVY)
    mean = np.bincount(which, scores, classes) / np.maximum(count, 1)
    square = np.bincount(which, (scores - mean[which]) ** 2, classes) / np.maximum(count, 1)
    spread = np.sqrt(trust * square + (1 - trust) * scores.var())
    return trust * mean + (1 - trust) * scores.mean(), np.maximum(spread, LEAST_SPREAD)


def _rounded(table: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in table.round(4).tolist())


def _ranks(normal: Floats, which: Ints, weight: Floats, means: Floats, spreads: Floats) -> Floats:
    return normal_ranks(means[which] + spreads[which] * normal, weight, means, spreads)


class Sizes(Strict):
    """How many nodes jobs take."""

    # of the system that the curves are for; on another system they are stretched, as a uniform-log size would be
    nodes: Annotated[int, Field(ge=1, le=MOST)]
    serial_share: Share  # jobs of one node
    power_share: Share  # of the others, those with a power of two as their size
    # power, other: Curves of the sizes that are powers of two and of those that are not. Two values, ``[2, 128]``,
    # are the plain uniform-log distribution.
    power: Curve
    other: Curve

    @field_validator("power", "other")
    @classmethod
    def _in_order(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        ascending(value)
        if value[0] < 1:
            raise ValueError("sizes of 1 or more")
        return value

    def draw(self, rng: np.random.Generator, part: Floats, nodes: int) -> Ints:
        """``int64[jobs]``: sizes at the ranks ``part``, for a system of ``nodes``."""
        serial = part < self.serial_share
        beyond = np.clip((part - self.serial_share) / max(1.0 - self.serial_share, 1e-12), 0.0, 1.0)
        power = rng.random(len(part)) < self.power_share
        stretch = self.stretch(nodes)
        powers = np.exp2(np.clip(np.rint(np.log2(along(self.power, beyond)) * stretch), 1.0, None))
        powers = np.where(powers > nodes, powers / 2.0, powers)
        others = np.rint(along(self.other, beyond) ** stretch).astype(np.int64)
        others += (others & (others - 1)) == 0  # on a power of two by rounding: the next size is none, from 3 on
        others += others == 2
        size = np.where(serial, 1, np.where(power, powers.astype(np.int64), others))
        return np.clip(size, 1, nodes)

    def stretch(self, nodes: int) -> float:
        """By what the logarithm of a size is multiplied on a system of ``nodes``."""
        return math.log(nodes) / math.log(self.nodes) if self.nodes > 1 else 0.0


class Ending(Strict):
    """Jobs that end in one way."""

    share: Share  # of all jobs that were submitted and ran
    no_run: Share = 0.0  # of these, jobs that ended at once
    at_limit: Share = 0.0  # of these, jobs that ran as long as they had asked for
    # curve of run / request of the others
    accuracy: Annotated[tuple[Annotated[FiniteFloat, Field(gt=0, le=1)], ...], Field(min_length=2)]

    _in_order = field_validator("accuracy")(ascending)

    @model_validator(mode="after")
    def _parts(self) -> Ending:
        if self.no_run + self.at_limit > 1 + 1e-9:
            raise ValueError("no_run and at_limit together at most 1")
        return self

    def draw(self, part: Floats) -> Floats:
        """``float64[n]``: accuracies at the ranks ``part``."""
        middle = max(1.0 - self.no_run - self.at_limit, 1e-12)
        found = along(self.accuracy, np.clip((part - self.no_run) / middle, 0.0, 1.0))
        found[part < self.no_run] = 0.0
        found[part >= 1.0 - self.at_limit] = 1.0
        return found


class Draw(NamedTuple):
    """What a batch model draws, a row a job: nodes, run and requested time in s, status of the log format."""

    nodes: Ints
    run_s: Floats
    request_s: Floats
    status: Ints


class BatchModel(Strict):
    """Parameters of the model; a TOML file has these as its keys."""

    source: str = ""  # what they were fitted to
    arrivals: WeekCycle  # when jobs arrive
    sizes: Sizes  # how many nodes they take
    request_s: Curve  # curve of requested times, in s
    # completed, failed, cancelled: how they end
    completed: Ending
    failed: Ending | None = None
    cancelled: Ending | None = None
    # share of the jobs that are cancelled before they start; the shares above are of the rest
    never_ran: Annotated[FiniteFloat, Field(ge=0, lt=1)] = 0.0
    links: Links | None = None  # how requested times depend on sizes, and accuracies on both; without it they do not

    _in_order = field_validator("request_s")(ascending)

    @model_validator(mode="after")
    def _whole(self) -> BatchModel:
        total = sum(ending.share for ending in self.endings.values())
        if abs(total - 1) > 1e-3:
            raise ValueError(f"shares of completed, failed and cancelled that sum to 1, not to {total:g}")
        return self

    @property
    def endings(self) -> dict[int, Ending]:
        """Status → how such jobs end; without those that there are none of."""
        every = {COMPLETED: self.completed, FAILED: self.failed, CANCELLED: self.cancelled}
        return {status: ending for status, ending in every.items() if ending is not None and ending.share > 0}

    def draw(self, rng: np.random.Generator, count: int, nodes: int, never_ran: bool = False) -> Draw:
        """Draw jobs without their arrivals; times are whole seconds, as in logs, and requests 1 s or more.

        The draws are, in order: ranks of size, request and accuracy; kinds of sizes; normal scores; statuses.
        ``never_ran``: whether jobs that are cancelled before they start are among them, as jobs without a run.
        """
        size_part, request_part, accuracy_part = rng.random((3, count))
        sizes = self.sizes.draw(rng, size_part, nodes)
        normal = rng.standard_normal((2, count))
        stretch = self.sizes.stretch(nodes)
        kind = size_class(sizes.astype(np.float64) ** (1.0 / stretch if stretch > 0 else 1.0))
        if self.links is not None:
            request_part = self.links.request_rank(normal[0], kind)
        request_s = np.maximum(np.rint(along(self.request_s, request_part)), 1.0)
        if self.links is not None:
            accuracy_part = self.links.accuracy_rank(normal[1], kind, request_class(request_s))
        codes = list(self.endings)
        shares = np.array([self.endings[code].share for code in codes])
        edges = np.cumsum(shares) / shares.sum()
        edges[-1] = 1.0  # whatever the rounding
        edges *= 1.0 - self.never_ran if never_ran else 1.0
        which = np.searchsorted(edges, rng.random(count), side="right")
        accuracy = np.zeros(count)
        status = np.full(count, CANCELLED, np.int64)
        for place, code in enumerate(codes):
            rows = which == place
            accuracy[rows] = self.endings[code].draw(accuracy_part[rows])
            status[rows] = code
        run_s = np.rint(accuracy * request_s)
        short = (accuracy < 1.0) & (run_s == request_s)  # only by rounding
        return Draw(sizes, run_s - short, request_s, status)


MODELS = {
    "cirne": "arrivals by hour and weekday, sizes, requested times, accuracy and cancellations, fitted to a log "
    "(after Cirne and Berman 2001)",
    "lublin": "rigid batch jobs with the published constants (Lublin and Feitelson 2003)",
}
"""Model → one line of words."""

Count = Annotated[int, Field(ge=1, le=MOST)]


def _megabytes(value: Any) -> Any:
    try:
        return memory_mb(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError("an amount in MB, or text such as '64 GB'") from None


class MeasuredApplication(Strict):
    """An application that was measured at one size."""

    # becomes the job's application
    id: Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)]
    # nodes, run_s: its size and run time: what jobs are matched by
    nodes: Count
    run_s: Annotated[float, Field(ge=0, le=1e12)]
    memory_mb: Annotated[float, Field(ge=0, lt=MOST_MB)] = 0.0  # MB per node as measured; 0 = not known


SYNTHETIC = "synthetic"
SYNTHETIC_CORES = 32
"""The profiles that come with unrack, and the cores of the nodes that their memory is of."""


class BatchSpec(Strict):
    """A workload of jobs that take whole nodes."""

    model: Literal["cirne", "lublin"]  # a key of :data:`MODELS`
    # nodes, cores_per_node: the system: a job of n nodes is n tasks of all cores of a node
    nodes: Count
    cores_per_node: Count = 1
    # jobs, days: how many jobs, or for how many days they arrive
    jobs: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    days: Annotated[float, Field(gt=0, le=36_500)] | None = None
    # load, jobs_per_day: How close together: node-seconds asked for over those there are; or a rate. By default what
    # the parameters say.
    load: Positive | None = None
    jobs_per_day: Positive | None = None
    # ``cirne``: a name in ``PARAMETERS``, the path of a TOML file that ``unrack trace fit`` wrote, or a table of its
    # keys. ``lublin``: a table of constants in place of the published ones.
    parameters: str | dict[str, Any] | None = None
    # what becomes of jobs that are cancelled before they start: left out, or jobs without a run
    cancelled: Literal["leave-out", "zero-run"] = "leave-out"
    # MB per node: ``"table-5.5"`` by size, ``"profiles"`` as the application that matches, scaled to the cores of a
    # node, or a distribution
    memory: Literal["table-5.5", "profiles"] | Distribution | None = None
    # applications that jobs are matched with: a table each, or the path of a CSV file
    profiles: str | Annotated[list[MeasuredApplication], Field(min_length=1)] | None = None
    # cores of the nodes on which the memory of ``profiles`` was measured; ``None``: 4, of unrack's own profiles 32
    profile_cores: Count | None = None
    large_share: Annotated[float, Field(ge=0, le=1)] | None = None  # node-hours of large jobs over those of all jobs …
    # … where a job is large that needs more memory per node than this, in MB or as text
    normal_node: Annotated[int, Field(ge=1, lt=MOST_MB), BeforeValidator(_megabytes)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> BatchSpec:
        if (self.jobs is None) == (self.days is None):
            raise ValueError("either jobs or days")
        if self.load is not None and self.jobs_per_day is not None:
            raise ValueError("load or jobs_per_day, not both")
        if (self.large_share is None) != (self.normal_node is None):
            raise ValueError("large_share and normal_node go together")
        if self.large_share is not None and self.memory is None:
            raise ValueError("memory beside large_share")
        if self.large_share is not None and self.jobs is None:
            raise ValueError("jobs beside large_share")
        if self.memory == "profiles" and self.profiles is None:
            raise ValueError("profiles beside memory = 'profiles'")
        if self.model == "lublin" and isinstance(self.parameters, str):
            raise ValueError("parameters of lublin as a table")
        return self

    @property
    def measured_on(self) -> int:
        """Cores of the nodes on which the memory of the profiles was measured."""
        return self.profile_cores or (SYNTHETIC_CORES if self.profiles == SYNTHETIC else 4)
