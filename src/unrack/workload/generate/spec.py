"""What a synthetic workload is drawn from: classes of jobs, arrivals, and how many of them are urgent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from unrack.workload.generate.arrivals import Arrivals
from unrack.workload.generate.distributions import Distribution, Positive, Strict

_DeviceKey = Annotated[str, Field(pattern=r"^[A-Za-z][\w-]*\.[A-Za-z]\w*$")]
Priority = Annotated[int, Field(ge=-(2**31), le=2**31)]


class JobClass(Strict):
    """A kind of job.

    Attributes
    ----------
    name
        Becomes the job's app.
    weight
        How frequent it is, relative to the other classes.
    run_s
        Run time in s.
    tasks, cores, memory_mb
        Tasks, and per task cores and MB; rounded up, tasks and cores to 1 or more.
    request_factor
        Requested time over run time; below 1 counts as 1.
    priority
        Of all jobs of the class.
    deadline_factor
        (Deadline - submission) / run time; without it there is no deadline.
    devices
        ``KIND.QUANTITY`` → amount per task, rounded up.
    """

    name: str = "job"
    weight: Positive = 1
    run_s: Distribution
    tasks: Distribution = Field(default=1, validate_default=True)
    cores: Distribution = Field(default=1, validate_default=True)
    memory_mb: Distribution = Field(default=0, validate_default=True)
    request_factor: Distribution = Field(default=1, validate_default=True)
    priority: Priority = 0
    deadline_factor: Distribution | None = None
    devices: dict[_DeviceKey, Distribution] = Field(default_factory=dict)


class Urgent(Strict):
    """Jobs that are in a hurry, whichever class they are of.

    Attributes
    ----------
    share
        Of all jobs, 0 to 1: exactly round(share × jobs) jobs, chosen at random.
    priority
        They get this priority …
    deadline_factor
        … and this (deadline - submission) / run time, in place of their class's.
    """

    share: Annotated[float, Field(ge=0, le=1)] = 0.2
    priority: Priority = 1
    deadline_factor: Distribution = Field(default=1.2, validate_default=True)


class GeneratorSpec(Strict):
    """A synthetic workload.

    Attributes
    ----------
    jobs
        How many.
    arrivals
        When they arrive (:mod:`unrack.workload.generate.arrivals`); the first job arrives after the first gap.
    classes
        One or more kinds of job.
    users
        Each job belongs to one of so many users, all alike; 0 = none.
    urgent
        Some of the jobs have another priority and deadline.
    """

    jobs: Annotated[int, Field(ge=1, le=100_000_000)]
    arrivals: Arrivals
    classes: Annotated[list[JobClass], Field(min_length=1)]
    users: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    urgent: Urgent | None = None

    @model_validator(mode="before")
    @classmethod
    def _poisson_by_default(cls, value: Any) -> Any:
        arrivals = value.get("arrivals") if isinstance(value, Mapping) else None
        if isinstance(arrivals, Mapping) and "kind" not in arrivals:
            kind = "fixed" if "gap_s" in arrivals else "poisson"
            return {**value, "arrivals": {"kind": kind, **arrivals}}
        return value
