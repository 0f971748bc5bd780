"""Where a job could go: nodes with room for its tasks, and devices, as values with names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import Lease, Share


class Chosen(NamedTuple):
    """Devices that a candidate would have; what is left of each quantity is an attribute: ``chosen.bandwidth_mb_s``.

    False where the job asks for none of the kind, as ``job.nvme`` is: there are no devices, and 0 is left.
    """

    kind: str  # ``"nvme"``, for example
    share: Share  # what the job would hold
    sharers: tuple[int, ...]  # jobs that have them already, by number; empty: they are free
    # Quantity → what is left for others once the job has its part. Below 0 where a model says how they are shared.
    left: Mapping[str, int]

    @property
    def devices(self) -> tuple[int, ...]:
        """Their numbers: one, or a composition."""
        return self.share.devices

    def __bool__(self) -> bool:
        return bool(self.share.devices)

    def __getattr__(self, name: str) -> int:
        if not name.startswith("__") and name in self.left:
            return self.left[name]
        raise AttributeError(f"{self.kind} of a candidate has no {name!r}; it has {', '.join(sorted(self.left))}")


class TaskAsk(NamedTuple):
    """How many tasks a job has, and what each asks: cores and MB."""

    tasks: int
    cores: int
    mb: int


class Candidate(NamedTuple):
    """A node on which tasks of a job fit now, perhaps with devices; these by their kind: ``candidate.nvme``.

    Attributes
    ----------
    job
        The job that would have the place.
    node
        Which node.
    tasks
        How many of its tasks fit there, at most all of them.
    free_cores, free_mb
        What the node has free.
    cores, memory_mb
        What it has in all.
    asks
        What the job asks.
    chosen
        The devices; empty: the job asks for none.
    kinds
        The kinds of device of the cluster, and the names of their quantities.
    """

    job: int
    node: int
    tasks: int
    free_cores: int
    free_mb: int
    cores: int
    memory_mb: int
    asks: TaskAsk
    chosen: tuple[Chosen, ...] = ()
    kinds: Mapping[str, tuple[str, ...]] = MappingProxyType({})

    @property
    def cores_after(self) -> int:
        """What is left free of its cores with these tasks on it."""
        return self.free_cores - self.tasks * self.asks.cores

    @property
    def mb_after(self) -> int:
        """What is left free of its memory with these tasks on it, MB."""
        return self.free_mb - self.tasks * self.asks.mb

    @property
    def load(self) -> float:
        """The share of its cores that are in use now, 0 to 1."""
        return 1 - self.free_cores / self.cores if self.cores else 0.0

    @property
    def sharers(self) -> tuple[int, ...]:
        """The jobs that it would share devices with, by number."""
        return tuple(dict.fromkeys(job for chosen in self.chosen for job in chosen.sharers))

    @property
    def lease(self) -> Lease | None:
        """The job on this node alone; ``None``: not all of its tasks fit."""
        return lease_on([self])

    def __getattr__(self, name: str) -> Chosen:
        for chosen in self.chosen:
            if chosen.kind == name:
                return chosen
        if name in self.kinds:
            left = dict.fromkeys(self.kinds[name], 0)
            return Chosen(name, Share(self.node, (), tuple(left.values())), (), left)
        kinds = dict.fromkeys([*(chosen.kind for chosen in self.chosen), *self.kinds])
        own = [field for field in self._fields if field != "kinds"]
        there = [*own, "cores_after", "load", "lease", "mb_after", "sharers", *kinds]
        raise AttributeError(f"a candidate has no {name!r}; it has {', '.join(sorted(there))}")


def candidates_on(
    job: int, asks: TaskAsk, free: Ints, total: Ints, kinds: Mapping[str, tuple[str, ...]] = MappingProxyType({})
) -> Iterator[Candidate]:
    """The nodes with room for a task, in order of their number.

    ``free``, ``total``: int64[2, nodes], cores and MB of each node; ``kinds``: as of :class:`Candidate`.

    Examples
    --------
    >>> free, total = np.array([[1, 4], [0, 0]]), np.array([[4, 4], [0, 0]])
    >>> [(one.node, one.tasks, one.cores_after) for one in candidates_on(7, TaskAsk(3, 2, 0), free, total)]
    [(1, 2, 0)]
    """
    fit = np.full(free.shape[1], asks.tasks, np.int64)
    for row, amount in enumerate(asks[1:]):
        if amount:
            fit = np.minimum(fit, free[row] // amount)
    nodes = np.flatnonzero((fit > 0) & (total[0] > 0))
    columns = (nodes, fit[nodes], free[0, nodes], free[1, nodes], total[0, nodes], total[1, nodes])
    for node, tasks, cores, mb, all_cores, all_mb in zip(*(column.tolist() for column in columns), strict=True):
        yield Candidate(job, node, tasks, cores, mb, all_cores, all_mb, asks, (), kinds)


def lease_on(candidates: Iterable[Candidate]) -> Lease | None:
    """A lease for a job on candidates of it: its tasks fill one after the other; ``None``: they have too little room.

    A node that comes twice counts once. A ValueError if they are of several jobs.
    """
    taken: dict[int, tuple[Candidate, int]] = {}
    left, job = 1, -1
    for one in candidates:
        if not taken:
            left, job = one.asks.tasks, one.job
        if one.job != job:
            raise ValueError(f"candidates of job {job} and of job {one.job}: a lease is one job's")
        if one.node not in taken:
            taken[one.node] = one, min(one.tasks, left)
            left -= taken[one.node][1]
        if left == 0:
            break
    if left:
        return None
    tasks = [count for _, count in taken.values()]
    asks = next(iter(taken.values()))[0].asks
    shares = tuple(chosen.share for one, _ in taken.values() for chosen in one.chosen)
    lease = Lease.on(job, list(taken), tasks, [n * asks.cores for n in tasks], [n * asks.mb for n in tasks])
    return lease._replace(shares=shares)
