"""Jobs that are alike: those with equal demands are of one sort."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from unrack.cluster.pools.pool import WHOLE
from unrack.kernels.arrays import Ints
from unrack.ledger.growing import grown, room_for
from unrack.ledger.lease import NO_LOANS
from unrack.view import View
from unrack.workload.job import CORES, MEMORY, TASKS

NOT_KNOWN = -1


@dataclass(frozen=True, eq=False)
class Sort:
    """What jobs of one sort ask."""

    job: int  # the first of them
    # tasks, cores, mb: how many tasks, and of each task its cores and MB
    tasks: int
    cores: int
    mb: int
    wants: Ints  # int64[kinds, quantities]: what a task asks of pooled devices
    claims: Ints  # int64[quantities]: what it asks of resources
    names: tuple[tuple[str, ...], ...]  # kind to its quantities
    app: int  # the number of its application; -1: not known

    @cached_property
    def devices(self) -> dict[int, int] | None:
        """Kind to how many whole devices a task asks; ``None``: it asks for shares or parts of devices."""
        found: dict[int, int] = {}
        for kind, names in enumerate(self.names):
            amounts = dict(zip(names, self.wants[kind].tolist(), strict=False))
            count = amounts.pop(WHOLE, 0)
            if any(amounts.values()):
                return None
            if count:
                found[kind] = count
        return found


@dataclass(slots=True)
class Sorts:
    """The sorts of the jobs seen so far."""

    every: list[Sort] = field(default_factory=list)  # the sorts, in the order in which they were first seen
    of: Ints = field(default_factory=lambda: np.full(64, NOT_KNOWN, np.int64))  # int64[room]: job to sort
    # int64[room]: in how many rounds each job was left waiting
    rounds: Ints = field(default_factory=lambda: np.zeros(64, np.int64))
    # int64[room]: how many jobs behind it have started before it
    passed: Ints = field(default_factory=lambda: np.zeros(64, np.int64))
    _mb: Ints = field(default_factory=lambda: np.zeros(64, np.int64))
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def learn(self, view: View, jobs: Ints, told_apart: Ints) -> None:
        """Number those of the jobs (int64[k]) that are new, or ask for other memory than they did.

        ``told_apart``, int64[n, all jobs], is what costs depend on beside what jobs ask.
        """
        if view.jobs > len(self.of):
            room = room_for(view.jobs, view.jobs)
            self.of = grown(self.of, room, NOT_KNOWN)
            self.rounds, self.passed, self._mb = (grown(one, room) for one in (self.rounds, self.passed, self._mb))
        new = jobs[(self.of[jobs] == NOT_KNOWN) | (self._mb[jobs] != view.asks[MEMORY, jobs])]
        if not len(new):
            return
        rows = np.ascontiguousarray(np.concatenate([asked(view, new), told_apart[:, new]]).T)
        kinds, at, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        ids = np.empty(len(kinds), np.int64)
        for kind in np.argsort(at).tolist():
            key = kinds[kind].tobytes()
            if key not in self._numbers:
                self._numbers[key] = len(self.every)
                self.every.append(sort_of(view, int(new[at[kind]])))
            ids[kind] = self._numbers[key]
        self.of[new], self._mb[new] = ids[number.ravel()], view.asks[MEMORY, new]


def asked(view: View, jobs: Ints) -> Ints:
    """int64[demands, jobs]: all that these jobs ask."""
    rows = [view.asks[[TASKS, CORES, MEMORY]][:, jobs]]
    devices, claimed = view.columns.devices, view.columns.claimed
    if devices is not None:
        wants = devices.columns.wants[:, :, jobs]
        rows += [wants.reshape(-1, len(jobs)), devices.columns.model[:, jobs]]
    if claimed is not None:
        rows.append(claimed.asked_by(jobs))
        if claimed.places.windows:  # how long a job runs decides where it may
            rows.append(view.estimate_us[jobs][None])
    return np.concatenate(rows)


def sort_of(view: View, job: int) -> Sort:
    """What a job asks, as a sort."""
    tasks, cores, mb = view.asks[[TASKS, CORES, MEMORY], job].tolist()
    devices, claimed = view.columns.devices, view.columns.claimed
    wants = NO_LOANS if devices is None else devices.columns.wants[:, :, job].copy()
    claims = np.empty(0, np.int64) if claimed is None else claimed.asked(job)
    names = () if view.devices is None else view.devices.installed.quantities
    return Sort(job, tasks, cores, mb, wants, claims, names, int(view.app[job]))
