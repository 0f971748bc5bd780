"""How speeds from several causes combine: shared devices and contended memory in one run.

Each cause gives every running job a speed; 1 = as fast as alone on what it asked for. A unit of work takes 1 / speed,
and what that is above 1 is the cause's delay. Without a cause no job slows another down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.lease import Lease, Sizes
from unrack.ledger.state import RUNNING
from unrack.plugins.table import Table
from unrack.resources.contract import Slowdown
from unrack.resources.table import resource_of
from unrack.view import View
from unrack.workload.job import TASKS, JobTable


class Together(StrEnum):
    """How speeds combine."""

    ADD = "add"  # delays add up, as of phases one after another
    MIN = "min"  # the slowest counts, as of phases that overlap perfectly
    PRODUCT = "product"  # each slows down what the others leave


WORDS = {
    Together.ADD: "the delays by devices and by memory add up",
    Together.MIN: "the slower of devices and memory counts",
    Together.PRODUCT: "the speeds by devices and by memory multiply",
}
"""How they combine, as a sentence."""


def make_together(value: str | None) -> Together:
    """A way to combine speeds from what a study says; ``None``: delays add. An InputError if there is no such way."""
    if value is None:
        return Together.ADD
    if value not in tuple(Together):
        raise InputError("slowdowns", repr(value), f"one of {', '.join(map(repr, map(str, Together)))}")
    return Together(value)


def combined(speeds: Sequence[Floats], how: Together) -> Floats:
    """float64[jobs]: one speed from those by each cause.

    Where one cause alone changes a job's speed and delays add or speeds multiply, that speed is the result, to the bit.
    Delays add as 1/s = 1 + sum (1/s_i - 1). Where several causes make a job faster than 1, their speeds multiply, and
    the delays of the others add to that: the sum might fall below 0. ``speeds``: a column of each cause; all above 0.

    Examples
    --------
    >>> devices, memory = np.array([0.5, 1.25, 1.0]), np.array([0.8, 0.8, 0.8])
    >>> [combined([devices, memory], how).round(4).tolist() for how in Together]
    [[0.4444, 0.9524, 0.8], [0.5, 0.8, 0.8], [0.4, 1.0, 0.8]]
    """
    table = np.stack(speeds)
    if how == Together.MIN:
        least: Floats = table.min(axis=0)
        return least
    multiplied: Floats = table.prod(axis=0)
    if how == Together.PRODUCT:
        return multiplied
    times = 1.0 / table
    added = np.minimum(times, 1.0).prod(axis=0) + (np.maximum(times, 1.0) - 1.0).sum(axis=0)
    several = (table != 1.0).sum(axis=0) > 1
    return np.where(several, 1.0 / added, multiplied)


class CombinedSpeeds:
    """Several slowdowns at work in one run.

    ``parts``: one or more; each is told of every change; ``how``: how their speeds combine.
    """

    def __init__(self, parts: Sequence[Slowdown], how: Together) -> None:
        self.parts = tuple(parts)
        self.how = how

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: the jobs that any part touches, those of the first part first."""
        found: dict[int, None] = {}
        for part in self.parts:
            found.update(dict.fromkeys(part.touched(view, lease).tolist()))
        return np.array(list(found), np.int64)

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now."""
        return combined([part.speeds(view, jobs) for part in self.parts], self.how)

    def feels(self, before: Lease, after: Lease) -> bool:
        """Whether any part does."""
        return any(part.feels(before, after) for part in self.parts)


def together(parts: Sequence[Slowdown], how: Together) -> Slowdown | None:
    """The slowdown of a run: none, the only part as it is, or all combined."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return CombinedSpeeds(parts, how)


class Undisturbed:
    """Every job runs as fast as alone."""

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: the lease's own job, if it runs."""
        runs = view.status[lease.job] == RUNNING
        return np.array([lease.job] if runs else [], np.int64)

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: 1."""
        return np.ones(len(jobs))

    def feels(self, before: Lease, after: Lease) -> bool:
        """False."""
        return False


Maker = Callable[[Cluster, JobTable], Slowdown | None]


def _of_others(name: str, found: Any) -> Maker:
    if not callable(found):
        raise InputError(f"the slowdown {name}", f"{found!r:.100}", "a function: (cluster, jobs) -> Slowdown | None")
    made: Maker = found
    return made


SLOWDOWNS: Table[Maker] = Table("slowdowns", {}, _of_others)
"""Name → what makes the slowdown of a cluster and its jobs, or none where it can change nothing."""


def by_resource(cluster: Cluster, jobs: JobTable) -> list[Slowdown]:
    """The slowdowns by what the cluster has, then those of the plug-ins in use."""
    made: list[Slowdown | None] = [resource_of(name).slowdown(cluster, jobs) for name in cluster.places.installed]
    made += [make(cluster, jobs) for make in SLOWDOWNS.taking_part().values()]
    return [found for found in made if found is not None]


class SizedSpeeds:
    """The speeds that others give, times that of each job's size: what slows a job down does so at any size."""

    def __init__(self, others: Slowdown, sizes: Mapping[int, Sizes]) -> None:
        self.others, self.sizes = others, sizes

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: those that others touch, and the lease's own job."""
        found = self.others.touched(view, lease)
        own = lease.job in self.sizes and view.status[lease.job] == RUNNING and lease.job not in found
        return np.append(found, lease.job) if own else found

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now."""
        tasks, sizes = view.columns.asks[TASKS], self.sizes
        own = [sizes[job].speed_at(int(tasks[job])) if job in sizes else 1.0 for job in jobs.tolist()]
        return self.others.speeds(view, jobs) * np.array(own, np.float64)

    def feels(self, before: Lease, after: Lease) -> bool:
        """True: a job may have another size."""
        return True
