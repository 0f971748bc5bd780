"""What a synthetic workload is drawn from: classes of jobs, arrivals, and which jobs are urgent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from unrack.resources.checked import Strict
from unrack.workload.formats.quantities import DEVICE_KEY
from unrack.workload.generate.arrivals import Arrivals
from unrack.workload.generate.distributions import Distribution, Positive

_DeviceKey = Annotated[str, Field(pattern=DEVICE_KEY)]
Priority = Annotated[int, Field(ge=-(2**31), le=2**31)]


class JobClass(Strict):
    """A kind of job."""

    name: str = "job"  # becomes the job's app
    weight: Positive = 1  # how frequent it is, relative to the other classes
    run_s: Distribution  # run time in s
    # tasks, cores, memory_mb: tasks, and per task cores and MB; rounded up, tasks and cores to 1 or more
    tasks: Distribution = Field(default=1, validate_default=True)
    cores: Distribution = Field(default=1, validate_default=True)
    memory_mb: Distribution = Field(default=0, validate_default=True)
    # requested time over run time; below 1 counts as 1
    request_factor: Distribution = Field(default=1, validate_default=True)
    priority: Priority = 0  # of all jobs of the class
    deadline_factor: Distribution | None = None  # (Deadline - submission) / run time; without it there is no deadline
    # ``KIND.QUANTITY`` → amount per task, rounded up
    devices: dict[_DeviceKey, Distribution] = Field(default_factory=dict)


class Urgent(Strict):
    """Jobs that are in a hurry, whichever class they are of."""

    # of all jobs, 0 to 1: exactly round(share × jobs) jobs, chosen at random
    share: Annotated[float, Field(ge=0, le=1)] = 0.2
    priority: Priority = 1  # they get this priority …
    # … and this (deadline - submission) / run time, in place of their class's
    deadline_factor: Distribution = Field(default=1.2, validate_default=True)


class GeneratorSpec(Strict):
    """A synthetic workload."""

    jobs: Annotated[int, Field(ge=1, le=100_000_000)]  # how many
    # when they arrive (:mod:`unrack.workload.generate.arrivals`); the first job arrives after the first gap
    arrivals: Arrivals
    classes: Annotated[list[JobClass], Field(min_length=1)]  # one or more kinds of job
    # each job belongs to one of so many users, all alike; 0 = none
    users: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    urgent: Urgent | None = None  # some of the jobs have another priority and deadline

    @model_validator(mode="before")
    @classmethod
    def _poisson_by_default(cls, value: Any) -> Any:
        arrivals = value.get("arrivals") if isinstance(value, Mapping) else None
        if isinstance(arrivals, Mapping) and "kind" not in arrivals:
            kind = "fixed" if "gap_s" in arrivals else "poisson"
            return {**value, "arrivals": {"kind": kind, **arrivals}}
        return value
