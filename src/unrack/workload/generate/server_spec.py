"""What a study says of a workload of servers: ``generate = { servers = 1000, ... }``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from unrack.workload.generate.arrivals import Arrivals
from unrack.workload.generate.distributions import CLOUD, FOREVER, FOREVER_S, Constant, Distribution, Positive, Strict
from unrack.workload.generate.week_cycle import Hours, Weekdays

_GB = 1024
AZURE_CORES = {2: 58.2, 4: 22.9, 8: 12.0, 12: 0.1, 24: 5.6, 30: 1.2}
"""Cores → % of servers, Table 2."""

AZURE_MEMORY_MB = {2 * _GB: 12.1, 4 * _GB: 16.5, 8 * _GB: 32.8, 32 * _GB: 28.7, 64 * _GB: 6.4, 70 * _GB: 3.6}
"""MB → % of servers, Table 2: 100.1 in all, so that each counts as its part of that."""

_RATES = ("rate_per_h", "mean_gap_s", "gap_s", "load")


def _choice(shares: Mapping[int, float]) -> dict[str, Any]:
    return {"kind": "choice", "values": list(shares), "weights": list(shares.values())}


def _forever(value: Any) -> Any:
    return FOREVER_S if value == FOREVER else value


def _none(value: Any) -> Any:
    return None if value == "none" else value


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
    # :data:`unrack.workload.generate.distributions.CLOUD`.
    lifetime_s: Annotated[Distribution, BeforeValidator(_forever)] = Field(default=FOREVER, validate_default=True)
    # cores, memory_mb: of a server, independent of each other; by default as in Table 2
    cores: Distribution = Field(default=_choice(AZURE_CORES), validate_default=True)
    memory_mb: Distribution = Field(default=_choice(AZURE_MEMORY_MB), validate_default=True)
    # the least part of the memory that must be local, 0 to 1; floors are rounded down to MB, as the published are
    local_share: Distribution = Field(default=0.1, validate_default=True)
    # The ceiling is alpha × (memory - floor), rounded down: equation 6. ``"none"``: no ceilings.
    alpha: Annotated[Distribution | None, BeforeValidator(_none)] = Field(
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
