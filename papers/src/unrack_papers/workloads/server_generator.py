"""Workloads of servers that ask for tiers of memory, drawn from histograms such as those of a public cloud.

What is published of such servers (1 000 of them) has the shares of Table 2 exactly, in random order, and alpha in
hundredths from 1 to 1.99; what is drawn here has them on average, and alpha anywhere between 1 and 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from unrack import Workload
from unrack.errors import InputError
from unrack.jit import Floats, Ints
from unrack.units import SECOND_US
from unrack.workload import Intake, job_table
from unrack.workload.formats import MOST, MOST_MB
from unrack.workload.generate import (
    NO_CEILING,
    Arrivals,
    Constant,
    Distribution,
    Hours,
    Positive,
    Strict,
    TierAsks,
    WeekCycle,
    Weekdays,
    as_us,
    gap_s,
    numbers_from,
    pick,
    upward,
)

FOREVER = "forever"
"""Instead of a lifetime: the server does not leave."""

FOREVER_S = 36_525 * 86_400
"""How long that is, in s: a hundred years, longer than any study."""

_GB = 1024
AZURE_CORES = {2: 58.2, 4: 22.9, 8: 12.0, 12: 0.1, 24: 5.6, 30: 1.2}
"""Cores → % of servers, Table 2."""

AZURE_MEMORY_MB = {2 * _GB: 12.1, 4 * _GB: 16.5, 8 * _GB: 32.8, 32 * _GB: 28.7, 64 * _GB: 6.4, 70 * _GB: 3.6}
"""MB → % of servers, Table 2: 100.1 in all, so that each counts as its part of that."""

CLOUD = {"kind": "lognormal", "median": 3600, "sigma": 2.5, "max": 365 * 86_400}
"""Lifetimes where nothing else is said: half of them over within an hour, nine in ten within a day, and a mean of
some 20 hours, most of it by the few that stay for weeks. Cortez et al. (2017) found that clouds are so; the numbers are
unrack's own.

References
----------
E. Cortez, A. Bonde, A. Muzio, M. Russinovich, M. Fontoura, R. Bianchini: Resource Central: understanding and predicting
workloads for improved resource management in large cloud platforms. SOSP 2017.
"""

_RATES = ("rate_per_h", "mean_gap_s", "gap_s", "load")


def _choice(shares: Mapping[int, float]) -> dict[str, Any]:
    return {"kind": "choice", "values": list(shares), "weights": list(shares.values())}


class Replicas(Strict):
    """Some servers are replicas of each other."""

    # of all servers, 0 to 1: round(share × servers / size) groups, as many as there is room for
    share: Annotated[float, Field(ge=0, le=1)] = 0.2
    # Servers of a group. They are alike in everything, and arrive and leave together.
    size: Annotated[int, Field(ge=2, le=1_000_000)] = 3
    # the level of failure domains of which no two of a group may share one
    spread: Annotated[str, Field(min_length=1)] = "rack"


class ServerSpec(Strict):
    """A workload of servers that ask for tiers of memory.

    References
    ----------
    Farshin et al. (2021), as in :mod:`unrack.workload.tier_asks`: section 5.1, Table 2.
    """

    servers: Annotated[int, Field(ge=1, le=100_000_000)]  # how many
    # when they arrive (:mod:`unrack.workload.generate.arrivals`); by default all at time 0
    arrivals: Arrivals = Field(default={"kind": "fixed", "gap_s": 0}, validate_default=True)
    # in place of a rate in ``arrivals``: how many are there at a time on average, in the long run (the rate × the
    # mean lifetime of those drawn)
    alive: Positive | None = None
    # True: that many are there at time 0, with as much of their life before them as in the long run. False: none is.
    steady: bool = False
    # hours, weekdays: 24 and 7 weights of the rate of arrivals, from a Monday at midnight on, when the clock begins
    hours: Hours | None = None
    weekdays: Weekdays | None = None
    # In s, or ``"forever"``. By default forever where all arrive at time 0, as in the paper, else
    # :data:`CLOUD`.
    lifetime_s: Annotated[Distribution, BeforeValidator(lambda value: FOREVER_S if value == FOREVER else value)] = (
        Field(default=FOREVER, validate_default=True)
    )
    # cores, memory_mb: of a server, independent of each other; by default as in Table 2
    cores: Distribution = Field(default=_choice(AZURE_CORES), validate_default=True)
    memory_mb: Distribution = Field(default=_choice(AZURE_MEMORY_MB), validate_default=True)
    # the least part of the memory that must be local, 0 to 1; floors are rounded down to MB, as the published are
    local_share: Distribution = Field(default=0.1, validate_default=True)
    # The ceiling is alpha × (memory - floor), rounded down: equation 6. ``"none"``: no ceilings.
    alpha: Annotated[Distribution | None, BeforeValidator(lambda value: None if value == "none" else value)] = Field(
        default={"kind": "uniform", "min": 1, "max": 2}, validate_default=True
    )
    replicas: Replicas | None = None  # groups of servers that must not fail together; by default there are none

    @model_validator(mode="before")
    @classmethod
    def _rates_and_lifetimes(cls, value: Any) -> Any:
        """Poisson arrivals unless a kind is said; a rate that follows from ``alive`` counts as 1 until it is known."""
        if not isinstance(value, Mapping):
            return value
        made = dict(value)
        arrivals = made.get("arrivals", {} if made.get("alive") is not None else None)
        if isinstance(arrivals, Mapping):
            if made.get("alive") is not None:
                if any(key in arrivals for key in _RATES):
                    raise ValueError("alive, or a rate in arrivals, not both")
                arrivals = {**arrivals, "gap_s" if arrivals.get("kind") == "fixed" else "mean_gap_s": 1}
            made["arrivals"] = {"kind": "fixed" if "gap_s" in arrivals else "poisson", **arrivals}
        if arrivals is not None:
            made.setdefault("lifetime_s", CLOUD)
        return made

    @model_validator(mode="after")
    def _ends(self) -> ServerSpec:
        if self.lifetime_s == Constant(kind="constant", value=FOREVER_S) and (
            self.alive is not None or self.arrivals.load is not None
        ):
            raise ValueError("lifetimes that end, beside alive or a load")
        if self.steady and self.alive is None:
            raise ValueError("alive beside steady")
        return self


def servers(count: int = 1000, *, seed: int = 0, name: str | None = None, **options: Any) -> Workload:
    """Draw servers; by default as in the paper: the histograms of Table 2, all there at time 0, none ever leaves.

    Parameters
    ----------
    count
        How many.
    seed, name
        As for :func:`generate_servers`.
    options
        The other keys of :class:`ServerSpec`.

    Raises
    ------
    InputError
        An option does not exist, or has a value it cannot have.

    Examples
    --------
    >>> jobs = servers(3, seed=1, cores=4, memory_mb=8192, alpha=1.5).jobs
    >>> jobs.slo.floor_mb.tolist(), jobs.slo.ceiling_mb.tolist()
    ([819, 819, 819], [11059, 11059, 11059])
    """
    return generate_servers({"servers": count, **options}, seed, name)


def generate_servers(spec: ServerSpec | Mapping[str, Any], seed: int = 0, name: str | None = None) -> Workload:
    """Draw a workload of servers: of a :class:`ServerSpec`, or a mapping of its keys.

    Each is a job of one task with its lifetime as its run time and requested time. The draws of ``seed`` are, in order:
    gaps, which servers are replicas, lifetimes, cores, memory, local shares, alphas, those that are there at the
    beginning. What belongs to replicas is drawn once a group.
    """
    spec = ServerSpec.read(spec, "generate, ")
    rng = numbers_from(seed)
    sizes = _sizes(spec)
    gaps = spec.arrivals.units(rng, len(sizes)) * (spec.servers / len(sizes))
    if spec.replicas is not None:
        sizes = rng.permutation(sizes)
    asked = _drawn(spec, rng, len(sizes))
    lives_us = asked.pop("lives_us")
    first = np.cumsum(sizes) - sizes  # int64[groups]: the first server of each group; a server by itself is one, too
    mean_s = float((lives_us * sizes).sum(dtype=np.float64)) / SECOND_US / spec.servers
    if spec.steady:
        there = _there(spec, sizes)
        lives_us[:there] = _rest_of_life(rng, lives_us, there)
        gaps[:there] = 0.0
    units = np.zeros(spec.servers)
    units[first] = gaps
    table = {column: np.repeat(values, sizes) for column, values in asked.items()}
    lives_us = np.repeat(lives_us, sizes)
    jobs = job_table(
        submit_us=as_us(_times_s(spec, units, mean_s, seed, lives_us, table), "arrivals"),
        work_us=lives_us,
        tasks=np.ones(spec.servers, np.int64),
        cores=table["cores"],
        memory_mb=table["memory_mb"],
        slo=_asks(spec.replicas, sizes, table),
    )
    header = {"Model": "servers after Farshin et al. 2021"}
    intake = Intake(f"generated, seed {seed}", "generated", spec.servers, spec.servers, header=header)
    return Workload(name or "servers", jobs, intake)


def _sizes(spec: ServerSpec) -> Ints:
    """int64[groups]: groups of replicas, then servers by themselves."""
    if spec.replicas is None:
        return np.ones(spec.servers, np.int64)
    size = spec.replicas.size
    groups = min(round(spec.replicas.share * spec.servers / size), spec.servers // size)
    return np.repeat(np.array([size, 1], np.int64), [groups, spec.servers - groups * size])


def _drawn(spec: ServerSpec, rng: np.random.Generator, count: int) -> dict[str, Ints]:
    """int64[groups] of what each of their servers asks for, and how long they live."""
    lives_us = as_us(spec.lifetime_s.draw(rng, count), "lifetime_s")
    cores = upward(spec.cores.draw(rng, count), 1, MOST, "cores")
    memory_mb = upward(spec.memory_mb.draw(rng, count), 0, MOST_MB - 1, "memory_mb")
    share = spec.local_share.draw(rng, count)
    if share.max() > 1:
        raise InputError("generate, local_share", f"{share.max():g}", "a share of the memory, 0 to 1")
    floor_mb = _downward(share * memory_mb)
    ceiling_mb = np.full(count, NO_CEILING, np.int64)
    if spec.alpha is not None:
        ceiling_mb = _downward(np.minimum(spec.alpha.draw(rng, count) * (memory_mb - floor_mb), float(NO_CEILING)))
    return {"lives_us": lives_us, "cores": cores, "memory_mb": memory_mb, "floor": floor_mb, "ceiling": ceiling_mb}


def _downward(values: Floats) -> Ints:
    return np.floor(np.round(values, 6)).astype(np.int64)


def _there(spec: ServerSpec, sizes: Ints) -> int:
    """How many groups are there at the beginning."""
    assert spec.alive is not None
    if round(spec.alive) >= spec.servers:
        raise InputError("generate, servers", str(spec.servers), f"more than the {spec.alive:g} alive at the beginning")
    return int(np.searchsorted(np.cumsum(sizes), round(spec.alive), side="right"))


def _rest_of_life(rng: np.random.Generator, lives_us: Ints, count: int) -> Ints:
    """What is left to those found alive in the long run: a life drawn by its length, cut anywhere."""
    found = lives_us[pick(rng, lives_us.astype(np.float64), count)]
    return np.rint(found * rng.random(count)).astype(np.int64)


def _times_s(
    spec: ServerSpec, units: Floats, mean_s: float, seed: int, lives_us: Ints, table: Mapping[str, Ints]
) -> Floats:
    """float64[servers]: arrivals."""
    if spec.alive is not None:
        mean_gap_s = mean_s / spec.alive
    else:
        resources = {"cores": table["cores"], "memory_mb": table["memory_mb"]}
        mean_gap_s = gap_s(spec.arrivals, units, seed, lives_us, np.ones(len(units), np.int64), resources)
    times_s = spec.arrivals.times_s(units, mean_gap_s, seed)
    if spec.hours is None and spec.weekdays is None:
        return times_s
    cycle = WeekCycle(jobs_per_day=1, hour=spec.hours or (1.0,) * 24, weekday=spec.weekdays or (1.0,) * 7)
    return cycle.clock_s(times_s)


def _asks(replicas: Replicas | None, sizes: Ints, table: Mapping[str, Ints]) -> TierAsks:
    count = len(table["floor"])
    several = sizes > 1
    group = np.repeat(np.where(several, np.cumsum(several) - 1, -1), sizes)
    return TierAsks(
        table["floor"],
        table["ceiling"],
        group,
        np.where(group >= 0, 0, -1),
        np.zeros((count, 0), np.bool_),
        tuple(f"group{number}" for number in range(1, int(several.sum()) + 1)),
        () if replicas is None else (replicas.spread,),
    )
