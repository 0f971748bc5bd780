"""Slurm's multifactor priority: a weighted sum of factors, each 0 to 1, less what the user is nice.

::

    priority = age + fair share + size + partition + QOS + association + sum over kinds of resources - nice
    age = waited / longest age, at most 1
    size = mean of nodes / all nodes and cores / all cores; favor_small: 1 - that
    small_relative_to_time: size = cores / minutes of the time limit / all cores; favor_small: 1 - that
    partition, QOS, association = its priority / the highest
    resources = what the job asks / what there is

Each times its weight; the sum is rounded towards 0, and is at least 1, as 0 means held. That the size is the mean of
both, and the least, are of Slurm's program: its documents speak of nodes or CPUs, and say that a job of one node has
1.0 with favor_small, where this is a little less. O(jobs).

References
----------
Slurm, priority_multifactor.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from unrack.errors import InputError
from unrack.kernels.arrays import Floats, Ints
from unrack.policy.priority.usage import DAY_US

MINUTE_US = 60_000_000
HIGHEST = 2**32 - 1
"""The highest priority that Slurm has."""


@dataclass(frozen=True)
class Multifactor:
    """Weights, each 0 to 2^32 - 1, and how factors are computed.

    An InputError if a weight is negative or too large, or the longest age is not above 0.
    """

    age: int = 0
    fair_share: int = 0
    job_size: int = 0
    partition: int = 0
    qos: int = 0
    association: int = 0
    tres: Mapping[str, float] = field(default_factory=dict)  # kind of resource -> weight
    max_age_us: int = 7 * DAY_US  # at which age the factor is 1, µs
    favor_small: bool = False
    small_relative_to_time: bool = False

    def __post_init__(self) -> None:
        single = {name: getattr(self, name) for name in WEIGHTS}
        for name, weight in {**single, **{f"tres.{kind}": weight for kind, weight in self.tres.items()}}.items():
            if not 0 <= weight <= HIGHEST:
                raise InputError(f"multifactor, {name}", str(weight), f"a weight from 0 to {HIGHEST}")
        if self.max_age_us < 1:
            raise InputError("multifactor, max_age_us", str(self.max_age_us), "a time above 0")


WEIGHTS = ("age", "fair_share", "job_size", "partition", "qos", "association")
"""Names of the weights that are one number."""


class Jobs(NamedTuple):
    """What is asked of jobs, a column each; ``tres``: kind of resource to amounts, int64[jobs]."""

    waited_us: Ints  # int64[jobs]: since it could have started, µs
    fair_share: Floats  # float64[jobs]: the factor of its user
    nodes: Ints  # int64[jobs]
    cores: Ints  # int64[jobs]
    limit_us: Ints  # int64[jobs]: the time that it asks for, µs
    partition: Ints  # int64[jobs]: the priority of its partition
    qos: Ints  # int64[jobs]: of its QOS
    association: Ints  # int64[jobs]: of its user's row
    nice: Ints  # int64[jobs]: taken off
    tres: Mapping[str, Ints]


class Whole(NamedTuple):
    """What makes a factor 1: what the cluster has, and the highest priorities that there are; 0: the factor is 0."""

    nodes: int
    cores: int
    partition: int
    qos: int
    association: int
    tres: Mapping[str, int]


def _part(amount: Ints | Floats, whole: float) -> Floats:
    """The share of a whole, 0 to 1; 0 of nothing."""
    if not whole > 0:
        return np.zeros(len(amount))
    part: Floats = amount / whole
    return np.minimum(np.maximum(part, 0.0, out=part), 1.0, out=part)


def size_factors(weights: Multifactor, jobs: Jobs, whole: Whole) -> Floats:
    """float64[jobs]: the size of jobs, 0 to 1."""
    if weights.small_relative_to_time:
        size = _part(jobs.cores / np.maximum(jobs.limit_us / MINUTE_US, 1.0), whole.cores)
    else:
        size = (_part(jobs.nodes, whole.nodes) + _part(jobs.cores, whole.cores)) / 2
    return 1.0 - size if weights.favor_small else size


def factors(weights: Multifactor, jobs: Jobs, whole: Whole) -> dict[str, Floats]:
    """Name of a weight to the factors of jobs, float64[jobs], 0 to 1; without those of kinds of resources."""
    return {
        "age": _part(jobs.waited_us, weights.max_age_us),
        "fair_share": jobs.fair_share,
        "job_size": size_factors(weights, jobs, whole),
        "partition": _part(jobs.partition, whole.partition),
        "qos": _part(jobs.qos, whole.qos),
        "association": _part(jobs.association, whole.association),
    }


def priorities(weights: Multifactor, jobs: Jobs, whole: Whole) -> Ints:
    """int64[jobs]: the priorities of jobs, 1 to 2^32 - 1, the highest first.

    An InputError if a kind of resource has a weight, and jobs or the cluster have no amounts of it.
    """
    for kind in weights.tres:
        if kind not in jobs.tres or kind not in whole.tres:
            have = ", ".join(k for k in jobs.tres if k in whole.tres)
            raise InputError("multifactor, tres", repr(kind), f"one of {have}" if have else "no kind of resource")
    total = np.zeros(len(jobs.nice))
    for name, factor in factors(weights, jobs, whole).items():
        total += getattr(weights, name) * factor
    for kind, weight in weights.tres.items():
        total += weight * _part(jobs.tres[kind], whole.tres[kind])
    return np.minimum(np.maximum(total - jobs.nice, 1.0), HIGHEST).astype(np.int64)
