"""Workloads of Rodinia jobs: one GPU each, at hand or in another machine, after others have filled some machines.

What a study says of a workload of Rodinia jobs: ``generate = { rodinia_jobs = 512, ... }``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from unrack import Workload
from unrack.units import bandwidth_mb_s
from unrack.workload import Intake, job_table
from unrack.workload.formats import MOST, MOST_MB
from unrack.workload.generate import Arrivals, Distribution, Strict, as_us, gap_s, numbers_from, upward
from unrack_papers.workloads.training import poisson_by_default

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


WARM_UP = "warm-up"
"""What jobs that warm up are called, as an application."""


def generate_rodinia(spec: RodiniaSpec | Mapping[str, Any], seed: int = 0, name: str | None = None) -> Workload:
    """Draw a workload of Rodinia jobs.

    Parameters
    ----------
    spec
        What to draw; a mapping is validated.
    seed
        Of ``numpy.random.Generator(PCG64(seed))``, the only source of chance. The draws are, in order: gaps,
        applications, cores, memory, run times, those of single applications in their order, then memory and run times
        of the jobs that warm up.
    name
        The workload's name; default: "rodinia".

    Returns
    -------
    Workload
        Jobs of one task; those that warm up come first.

    Raises
    ------
    InputError
        The mapping is not a valid specification, or what is drawn is out of range.

    Examples
    --------
    >>> jobs = generate_rodinia({"rodinia_jobs": 2, "apps": {"nw": 0.17}, "run_s": 60}).jobs
    >>> jobs.cores.tolist(), jobs.devices["links", "remote_mb_s"].tolist()
    ([20, 20, 18, 1, 1], [0, 0, 0, 213, 213])
    """
    spec = RodiniaSpec.read(spec, "generate, ")
    rng = numbers_from(seed)
    count, warm = spec.rodinia_jobs, spec.warm_up
    units = spec.arrivals.units(rng, count)
    apps = list(spec.apps)
    app = rng.integers(0, len(apps), count)
    cores = upward(spec.cores.draw(rng, count), 1, MOST, "cores")
    memory_mb = upward(spec.memory_mb.draw(rng, count), 0, MOST_MB - 1, "memory_mb")
    run_us = as_us(spec.run_s.draw(rng, count), "run_s")
    for place, own in enumerate(apps):
        if own in spec.run_of:
            rows = np.flatnonzero(app == place)
            run_us[rows] = as_us(spec.run_of[own].draw(rng, len(rows)), f"run_of.{own}")
    warm_mb = upward(spec.warm_up_memory_mb.draw(rng, warm), 0, MOST_MB - 1, "warm_up_memory_mb")
    warm_us = as_us(spec.warm_up_s.draw(rng, warm), "warm_up_s")
    link_mb_s = upward(np.array([spec.apps[own] * spec.link for own in apps]), 0, MOST_MB - 1, "link")[app]
    tasks, gpus = np.ones(count, np.int64), ("gpu", "devices") if spec.gpus == "pool" else ("gpus", "count")
    drawn = {"cores": cores, "memory_mb": memory_mb, ".".join(gpus): tasks}
    mean_gap_s = gap_s(spec.arrivals, units, seed, run_us, tasks, drawn)
    submit_us = as_us(spec.arrivals.times_s(units, mean_gap_s, seed), "arrivals")
    none = np.zeros(warm, np.int64)
    devices: dict[tuple[str, str], NDArray[np.int64]] = {}
    if "gpus" not in spec.leave_out:
        devices[gpus] = np.concatenate([none, tasks])
    if "links" not in spec.leave_out:
        devices["links", "remote_mb_s"] = np.concatenate([none, link_mb_s])
    jobs = job_table(
        submit_us=np.concatenate([none, submit_us]),
        work_us=np.concatenate([warm_us, run_us]),
        tasks=np.ones(warm + count, np.int64),
        cores=np.concatenate([np.resize(np.array(spec.warm_up_cores, np.int64), warm), cores]),
        memory_mb=np.concatenate([warm_mb, memory_mb]),
        app=pl.concat([pl.Series([WARM_UP] * warm, dtype=pl.String), pl.Series(apps).gather(app)]),
        devices=devices,
    )
    header = {"Model": "Rodinia jobs on one GPU each, after Amaral 2019, section 5.6"}
    if not {"run_s", "apps"} & spec.model_fields_set:
        header["Note"] = "not published, and chosen here: run times, and hotspot's share of time in the network"
    return Workload(
        name or "rodinia", jobs, Intake(f"generated, seed {seed}", "generated", len(jobs), len(jobs), header=header)
    )
