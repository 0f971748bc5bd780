"""What a study says of a workload of Rodinia jobs: ``generate = { rodinia_jobs = 512, ... }``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from unrack.units import bandwidth_mb_s
from unrack.workload.generate import Arrivals, Distribution, Strict
from unrack_papers.workloads.training_spec import poisson_by_default

NETWORK_SHARES: Mapping[str, float] = {
    "b+tree": 0.002, "backprop": 0.05, "gaussian": 0.01, "hotspot": 0.02, "lavamd": 0.02, "nw": 0.17,
    "pathfinder": 0.02, "srad": 0.03,
}  # fmt: skip
"""Application → share of its time in the network when its GPU is remote and nothing else uses the link.

Section 3.3.3 of the thesis. It has none for hotspot: that is the median of the others.
"""
PER_HOUR = 16 * 3600
"""Sixteen jobs a second (section 5.6.1)."""
RUN_S = 68.0
"""The mean run time, s: 16 GPUs that are busy for 2191 s with 512 jobs give each 68.5 s (section 5.6.2).

Run times are not published, and the other figures do not agree on one. 64 jobs on the same machines take 262 s: at most
65.4 s each. Without disaggregation 512 jobs take 2486 s; with 6 GPUs for 800 s and 16 from then on that is 62 s, and
64 jobs in 413 s on 6 GPUs would be 39 s, so that some 10 GPUs must have been in use there. 4096 jobs on 512 GPUs take
972 s: at most 121 s each, and 16 jobs a second of 68 s would have been done after some 580 s.
"""
WARM_UP_CORES = (20, 20, 18)
"""Cores of the jobs that fill three of four machines with 20 cores each.

Jobs of one core then find 22 free cores in all, but only 6 GPUs beside a free core: 4 on the empty machine and 2 on the
third, as in section 5.6.2.
"""


def _link(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return bandwidth_mb_s(value, "down")
    except ValueError:
        raise ValueError("a bandwidth, such as 1250 or '10 Gb/s'") from None


_Share = Annotated[float, Field(ge=0, le=1)]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z][\w+-]*$")]


class RodiniaSpec(Strict):
    """A workload of jobs with one GPU each, after others have filled some machines.

    Attributes
    ----------
    rodinia_jobs
        How many, without those that warm up.
    arrivals
        When they arrive (:mod:`unrack.workload.generate.arrivals`); default: Poisson, 16 a second.
    apps
        Application → share of its time in the network (:data:`NETWORK_SHARES`), one as likely as another.
    run_s
        The run time in s; default: 20 % around :data:`RUN_S`, as applications were set to take alike.
    run_of
        Application → run time of its own.
    cores, memory_mb
        Of a job; rounded up, cores to 1 or more.
    gpus
        ``"pool"``: a job asks for 1 of ``gpu.devices``; ``"topology"``: for 1 of ``gpus.count``.
    link
        MB/s, or text: a job asks for its share of this as ``links.remote_mb_s``; default: 10 Gb/s (Table 6).
    warm_up
        Jobs without GPUs, submitted at 0: three for every four machines.
    warm_up_cores
        Their cores, in turn.
    warm_up_memory_mb, warm_up_s
        Their memory, and how long they run.
    leave_out
        Columns that jobs do not have: ``"gpus"``, ``"links"``.

    References
    ----------
    M. Amaral: Improving resource efficiency in virtualized datacenters, 2019, sections 3.3 and 5.6.
    """

    rodinia_jobs: Annotated[int, Field(ge=1, le=10_000_000)]
    arrivals: Arrivals = Field(default={"kind": "poisson", "rate_per_h": PER_HOUR}, validate_default=True)
    apps: Annotated[dict[_Name, _Share], Field(min_length=1)] = Field(default=dict(NETWORK_SHARES))
    run_s: Distribution = Field(
        default={"kind": "uniform", "min": 0.8 * RUN_S, "max": 1.2 * RUN_S}, validate_default=True
    )
    run_of: dict[_Name, Distribution] = Field(default_factory=dict)
    cores: Distribution = Field(default=1, validate_default=True)
    memory_mb: Distribution = Field(default=16_384, validate_default=True)
    gpus: Literal["pool", "topology"] = "pool"
    link: Annotated[Annotated[int, Field(ge=1, lt=2**42)], BeforeValidator(_link)] = 1250
    warm_up: Annotated[int, Field(ge=0, le=1_000_000)] = 3
    warm_up_cores: Annotated[tuple[Annotated[int, Field(ge=1, le=10**9)], ...], Field(min_length=1)] = WARM_UP_CORES
    warm_up_memory_mb: Distribution = Field(default=131_072, validate_default=True)
    warm_up_s: Distribution = Field(default=800, validate_default=True)
    leave_out: tuple[Literal["gpus", "links"], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _poisson_by_default(cls, value: Any) -> Any:
        return poisson_by_default(value)

    @model_validator(mode="after")
    def _known_apps(self) -> RodiniaSpec:
        for name in self.run_of:
            if name not in self.apps:
                raise ValueError(f"run_of of one of {', '.join(self.apps)}, not {name!r}")
        return self
