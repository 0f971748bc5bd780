"""When jobs arrive: the kinds of arrivals that a specification of a synthetic workload may name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, FiniteFloat, model_validator

from unrack.errors import InputError
from unrack.kernels.arrays import Floats
from unrack.units import quantity
from unrack.workload.generate.distributions import Positive, Strict

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
    # the resources whose load counts, the largest of them where there are several; all are in ``fat_node``
    load_of: Annotated[list[ResourceKey], Field(min_length=1)] = Field(default=["cores"])
    # ``"offered"``: mean demand × run time of the jobs drawn, over the mean gap, is the load × what there is.
    # ``"fat-node"``: the mean load measured on the ideal fat node (:mod:`unrack.workload.generate.calibration`) is.
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
        """``float64[jobs]``: arrivals in s, ascending.

        Parameters
        ----------
        units : float64[jobs]
            What ``units`` drew: gaps whose mean is 1.
        gap_s
            The mean gap.
        seed
            Of what is drawn besides, from a stream of its own: the same at every ``gap_s``.
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


class Poisson(_Rated):
    """Independent arrivals: give ``rate_per_h``, or ``mean_gap_s``, or a ``load`` on a number of ``cores``."""

    kind: Literal["poisson"] = "poisson"

    def units(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``: gaps, of mean 1."""
        return rng.exponential(1.0, count)


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

    def units(self, rng: np.random.Generator, count: int) -> Floats:
        """``float64[count]``: gaps of mean 1, on a clock that runs faster in a burst."""
        return rng.exponential(1.0, count)

    def times_s(self, units: Floats, gap_s: float, seed: int) -> Floats:
        """As in the base class: the arrivals of a Poisson process of rate 1, on the clock of the two states."""
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
