"""What a study says of a workload of training jobs: ``generate = { training_jobs = 1000, ... }``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from unrack.workload.generate import Arrivals, Distribution, Strict

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
