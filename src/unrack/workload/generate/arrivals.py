"""When jobs arrive: the kinds of arrivals that a specification may name, and the mean gap that makes its load."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, FiniteFloat, model_validator

from unrack.errors import InputError
from unrack.kernels.arrays import Floats, Ints
from unrack.resources.checked import Strict
from unrack.units import LONGEST_US, SECOND_US, quantity
from unrack.workload.generate.distributions import Positive

ResourceKey = Annotated[str, Field(pattern=r"^(cores|memory_mb|[A-Za-z][\w-]*\.[A-Za-z]\w*)$")]
"""``cores``, ``memory_mb`` or ``KIND.QUANTITY``."""

_MOST_STATES = 10_000_000


def _amounts(value: Any) -> Any:
    """Amounts in text, such as ``"20 GB/s"``, as numbers."""
    if not isinstance(value, Mapping):
        return value
    try:
        return {key: quantity(str(key), n, "down") if isinstance(n, str) else n for key, n in value.items()}
    except ValueError:
        raise ValueError("amounts, such as 125 or '20 GB/s'") from None


Capacities = Annotated[dict[ResourceKey, Annotated[int, Field(ge=1, le=2**53, strict=True)]], BeforeValidator(_amounts)]
"""Resource → all there is of it: a number, or text with a unit."""


class _Loaded(Strict):
    """Arrivals that may be told how much load to make."""

    # what is asked for per unit of time, over what there is: 1.0 asks for all of it all the time
    load: Positive | None = None
    # of the system that is loaded; the same as ``fat_node = {cores = …}``
    cores: Annotated[int, Field(ge=1, le=10**12)] | None = None
    # :data:`Capacities` of the system that is loaded. What is not named is not limited.
    fat_node: Capacities = Field(default_factory=dict)
    # the resources that the load is of, the largest of them where there are several; all are in ``fat_node``
    load_of: Annotated[list[ResourceKey], Field(min_length=1)] = Field(default=["cores"])
    # ``"offered"``: mean demand × run time of the jobs drawn, over the mean gap, is the load × what there is.
    # ``"fat-node"``: the mean load measured on the ideal fat node is.
    load_on: Literal["offered", "fat-node"] = "offered"
    whole_seconds: bool = False  # whether arrivals are cut to whole seconds

    @model_validator(mode="after")
    def _whole(self) -> _Loaded:
        if self.load is None:
            if self.cores is not None:
                raise ValueError("load and cores go together")
            if beside := self.model_fields_set & {"fat_node", "load_of", "load_on"}:
                raise ValueError(f"{min(beside)} only beside load")
            return self
        if self.cores is not None and "cores" in self.fat_node:
            raise ValueError("cores either by itself or in fat_node")
        for resource in self.load_of:
            if resource not in self.capacity:
                words = "load and cores go together" if resource == "cores" else f"fat_node with {resource}"
                raise ValueError(words)
        return self

    @property
    def capacity(self) -> dict[str, int]:
        """All there is of each resource that was named."""
        return self.fat_node if self.cores is None else {"cores": self.cores, **self.fat_node}

    def times_s(self, units: Floats, gap_s: float, seed: int) -> Floats:
        """``float64[jobs]``: arrivals in s, ascending, of gaps of mean 1 (``units``: float64[jobs]) and the mean gap.

        What is drawn besides comes from a stream of its own: the same at every ``gap_s``.
        """
        return np.cumsum(units) * gap_s


class _Rated(_Loaded):
    rate_per_h: Positive | None = None
    mean_gap_s: Positive | None = None

    @model_validator(mode="after")
    def _one_rate(self) -> _Rated:
        given = [name for name in ("rate_per_h", "mean_gap_s", "load") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give one of rate_per_h, mean_gap_s, or load with cores")
        return self

    @property
    def given_gap_s(self) -> float | None:
        """The mean gap, unless it follows from the load."""
        return self.mean_gap_s if self.rate_per_h is None else 3600 / self.rate_per_h

    def units(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``: gaps, of mean 1: exponential unless the kind is another."""
        return rng.exponential(1.0, count)


class Poisson(_Rated):
    """Independent arrivals: give ``rate_per_h``, or ``mean_gap_s``, or a ``load`` on a number of ``cores``."""

    kind: Literal["poisson"] = "poisson"


class UniformGaps(_Rated):
    """Gaps between 0 and twice their mean, all alike; the rate is given as for :class:`Poisson`."""

    kind: Literal["uniform"]

    def units(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``: gaps, of mean 1."""
        return rng.uniform(0.0, 2.0, count)


class Mmpp(_Rated):
    """A Markov-modulated Poisson process of two states, quiet and burst; the rate is given as for :class:`Poisson`.

    The state stays for exponential times. The two rates are such that their mean over time is the rate wanted. The
    process starts in its stationary state.

    References
    ----------
    W. Fischer, K. Meier-Hellstern: The Markov-modulated Poisson process (MMPP) cookbook. Performance Evaluation 18,
    1993.
    """

    kind: Literal["mmpp"]
    burst_ratio: Annotated[FiniteFloat, Field(ge=1, le=1e9)]  # rate in a burst over the rate between bursts, 1 or more
    # mean_burst_s, mean_quiet_s: how long a burst, and the time between two, lasts on average
    mean_burst_s: Positive
    mean_quiet_s: Positive

    def times_s(self, units: Floats, gap_s: float, seed: int) -> Floats:
        """As in the base class: the arrivals of a Poisson process of rate 1, on a clock that runs faster in a burst."""
        ends_s = np.cumsum(units) * gap_s
        burst_part = self.mean_burst_s / (self.mean_burst_s + self.mean_quiet_s)
        quiet_rate = 1 / (1 - burst_part + self.burst_ratio * burst_part)  # over the mean rate
        chunk = 2 * int(ends_s[-1] / (self.mean_burst_s + self.mean_quiet_s)) + 64
        if chunk > _MOST_STATES:
            raise InputError("generate, arrivals", f"some {chunk} bursts", "longer bursts or a shorter workload")
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(0,))))
        bursting = rng.random() < burst_part
        real_s, inner_s = np.zeros(1), np.zeros(1)  # the two clocks at each change of state
        while inner_s[-1] < ends_s[-1]:
            burst = (np.arange(chunk) % 2 == 0) == bursting  # chunks are even: each starts in the same state
            stay_s = rng.exponential(1.0, chunk) * np.where(burst, self.mean_burst_s, self.mean_quiet_s)
            pace = np.where(burst, self.burst_ratio * quiet_rate, quiet_rate)
            real_s = np.append(real_s, real_s[-1] + np.cumsum(stay_s))
            inner_s = np.append(inner_s, inner_s[-1] + np.cumsum(stay_s * pace))
        return np.interp(ends_s, inner_s, real_s)


class Fixed(_Loaded):
    """An arrival every ``gap_s`` seconds, 0 = all at once; or at the even gaps that make a ``load``."""

    kind: Literal["fixed"]
    gap_s: Annotated[FiniteFloat, Field(ge=0, le=1e9)] | None = None

    @model_validator(mode="after")
    def _one_gap(self) -> Fixed:
        if (self.gap_s is None) == (self.load is None):
            raise ValueError("give one of gap_s, or load with cores")
        return self

    @property
    def given_gap_s(self) -> float | None:
        """The gap, unless it follows from the load."""
        return self.gap_s

    def units(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``: ones; draws nothing from the generator."""
        return np.ones(count)


Arrivals = Annotated[Poisson | UniformGaps | Mmpp | Fixed, Field(discriminator="kind")]
"""Any of the kinds."""


_STEP = 1.05
_SLOWER = 60
_FASTER = 9
"""Steps tried towards faster arrivals: to half again the offered load. Beyond that the system is flooded so soon that
what is measured is an accident of the first jobs."""
_HALVINGS = 60


def gap_s(arrivals: Arrivals, units: Floats, seed: int, work_us: Ints, tasks: Ints, asked: Mapping[str, Ints]) -> float:
    """The mean gap, in s.

    Parameters
    ----------
    arrivals
        Which arrivals, and how much load.
    units : float64[jobs]
        The gaps that were drawn, in units of their mean.
    seed
        Of the workload.
    work_us, tasks : int64[jobs]
        Run times; tasks.
    asked
        Resource → int64[jobs], for each task.

    Raises
    ------
    InputError
        No job asks for what the load is of, or the fat node saturates below it.
    """
    if arrivals.given_gap_s is not None:
        return arrivals.given_gap_s
    assert arrivals.load is not None
    offered = 0.0
    for resource in arrivals.load_of:
        if resource not in asked:
            raise InputError(
                "generate, arrivals.load_of", repr(resource), f"one of {', '.join(asked)}: jobs ask for it"
            )
        mean = float((work_us / SECOND_US * tasks * asked[resource]).mean())
        offered = max(offered, mean / (arrivals.load * arrivals.capacity[resource]))
    if arrivals.load_on == "offered" or offered == 0:
        return offered
    return _measured_gap_s(arrivals, offered, units, seed, work_us, tasks, asked)


def _measured_gap_s(
    arrivals: Arrivals, offered: float, units: Floats, seed: int, work_us: Ints, tasks: Ints, asked: Mapping[str, Ints]
) -> float:
    """The gap at which the fat node runs at the load: the same draws at other rates, bisected."""
    from unrack.workload.ideal import mean_held, run_fat_node  # compiled kernels: loaded only where needed

    target, capacity = arrivals.load, arrivals.capacity
    assert target is not None

    def measured(gap_s: float) -> float:
        times_us = arrivals.times_s(units, gap_s, seed) * SECOND_US
        if times_us[-1] > LONGEST_US:
            raise InputError("generator, arrivals", f"{times_us[-1] / SECOND_US:g} s", "times within 285 years")
        submit = np.rint(times_us).astype(np.int64)
        start, end = run_fat_node(capacity, submit, work_us, tasks, asked)
        ran = end >= 0
        loads = [
            mean_held(start[ran], end[ran], (asked[resource] * tasks)[ran], submit) / capacity[resource]
            for resource in arrivals.load_of
        ]
        return max(loads)

    slow, fast = _bracket(measured, offered, target)
    for _ in range(_HALVINGS):
        middle = (slow + fast) / 2
        if measured(middle) < target:
            slow = middle
        else:
            fast = middle
    return fast


def _bracket(measured: Callable[[float], float], offered: float, target: float) -> tuple[float, float]:
    """A gap at which the load is below the target, and a smaller one at which it is not."""
    slow = offered
    if measured(offered) >= target:
        for _ in range(_SLOWER):
            slow *= _STEP
            if measured(slow) < target:
                break
        return slow, offered
    first = math.ceil(math.log(offered, _STEP)) - 1  # powers of the step: the same gaps whatever the target is
    for power in range(first, first - _FASTER, -1):
        fast = _STEP**power
        if measured(fast) >= target:
            return slow, fast
        slow = fast
    most = 0.0
    for power in range(first - _FASTER, first + _SLOWER):
        load = measured(_STEP**power)
        if load * _STEP ** (_FASTER - 2) >= target * offered / _STEP**power:  # within reach of the search
            most = max(most, load)
    want = f"at most {math.floor(most * 1000) / 1000:g}: there the fat node saturates"
    raise InputError("generate, arrivals.load", f"{target:g} on the fat node", want)
