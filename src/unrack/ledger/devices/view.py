"""What a policy may see of pooled devices: which jobs share what, what is free, and when jobs would end.

For a task and a node it says which devices there could be: compositions in use that have room, and free ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np

from unrack.cluster.pools.pool import Devices, Pool
from unrack.kernels.arrays import Ints
from unrack.ledger.candidate import Candidate, Chosen
from unrack.ledger.devices import columns as at
from unrack.ledger.devices.columns import DeviceColumns
from unrack.ledger.devices.sharing import PROBLEMS, TAKEN
from unrack.ledger.devices.state import DeviceReader, draft_of
from unrack.ledger.lease import Lease, Share
from unrack.reasons import Code, Reason
from unrack.units import NEVER_US


class Composition(NamedTuple):
    """Devices in use: one or more seen as one, or one that is split into equal parts.

    Attributes
    ----------
    devices
        Their ids, ascending.
    pool
        Of which pool.
    node
        To which node they are attached; -1: several.
    jobs
        The jobs that share them, in order of joining.
    parts
        0: not split.
    free
        Per quantity of the kind: what is installed and not asked for by those jobs. Below 0 where a model governs it.
    """

    devices: tuple[int, ...]
    pool: Pool
    node: int
    jobs: tuple[int, ...]
    parts: int
    free: tuple[int, ...]


class DeviceView:
    """Pooled devices, read-only; times in µs.

    Attributes
    ----------
    installed
        What there is: kinds, quantities, pools, columns.
    """

    def __init__(self, reader: DeviceReader) -> None:
        self._reader = reader
        self.installed: Devices = reader.devices

    @property
    def _columns(self) -> DeviceColumns:
        return self._reader.columns

    def free(self, kind: str, node: int = -1) -> Ints:
        """int64[k]: the free devices of a kind, ascending; with a node, those in its reach."""
        c, which = self._columns, self.installed.of_kind(kind)
        found: Ints = which[c.device[at.GROUP, which] == at.FREE]
        return found if node < 0 else found[self.installed.reach[c.device[at.POOL, found], node]]

    def compositions(self, kind: str) -> list[Composition]:
        """Those in use, in order of their first device."""
        c = self._columns
        return [self._composition(int(d)) for d in self.installed.of_kind(kind) if c.device[at.GROUP, d] == d]

    def admits(self, lease: Lease) -> Reason | None:
        """Whether the core would take the devices of a lease now; ``None``: it would. Changes nothing.

        Says nothing about cores and memory.
        """
        draft = draft_of(self._reader, (lease.job,))
        for share in lease.shares:
            verdict = draft.try_share(lease.job, share, 0)
            if verdict != TAKEN:
                return Reason(Code.NO_ROOM, PROBLEMS[verdict])
        return None

    def load(self, kind: str, quantity: str) -> float:
        """What all jobs in the system ask, running or waiting, over what is installed (Call et al. 2022, eq. 4)."""
        k = self.installed.kinds.index(kind)
        asked = self._columns.asked[k, self.installed.quantities[k].index(quantity)]
        return float(asked) / max(self.installed.installed(kind, quantity), 1)

    def ample(self, job: int, full: Ints) -> bool:
        """Whether each of so many tasks as a job's (int64[nodes]) has a device of its own, and no other speed or delay.

        Those of fewer cores are more, and this is not said of them: so each task finds one, however many others run.
        """
        c, some = self._columns, full > 0
        for kind in np.flatnonzero(c.needs[:, job]).tolist():
            mine, which, wants = c.pool[at.KIND_OF] == kind, c.device[at.KIND] == kind, c.wants[kind, :, job]
            small = c.pool[at.COUNT, mine].sum() < full.sum() or (c.capacity[:, which] < wants[:, None]).any()
            if small or c.model[kind, job] >= 0 or (c.whole[kind] >= 0 and wants[c.whole[kind]] > 0):
                return False
            slow = c.overhead[mine].any() or c.pool[[at.ATTACH_US, at.DETACH_US]][:, mine].any()
            if slow or (c.pool[at.SPLIT, mine] > 1).any():
                return False
            reach, of = np.unique(self.installed.reach[mine][:, some], axis=0, return_inverse=True)
            enough = np.bincount(of.ravel(), c.pool[at.COUNT, mine], len(reach)) >= reach @ full[some]
            if not reach[enough].any(axis=0).all():
                return False
        return True

    def share(self, job: int, node: int, devices: tuple[int, ...], parts: int = 0) -> Share:
        """A share with the amounts that a task of the job asks of the devices' kind."""
        kind = int(self._columns.device[at.KIND, devices[0]])
        names = self.installed.quantities[kind]
        wants = self._columns.wants[kind, : len(names), job]
        return Share(node, tuple(sorted(devices)), tuple(wants.tolist()), parts)

    def speed(self, job: int, kind: str, devices: int, sharers: int) -> float:
        """The speed of a job on so many devices shared by so many, by its model; 1 without one; 0: not admitted."""
        c = self._columns
        model = int(c.model[self.installed.kinds.index(kind), job])
        if model < 0:
            return 1.0
        return (
            float(c.speeds[model, min(devices, c.speeds.shape[1] - 1), sharers]) if sharers < c.speeds.shape[2] else 0.0
        )

    def sizes_of_model(self, kind: str, job: int) -> int:
        """The most devices as one that the job's model tells apart; 0: no model governs it."""
        c = self._columns
        return c.speeds.shape[1] - 1 if int(c.model[self.installed.kinds.index(kind), job]) >= 0 else 0

    def end_us(self, job: int) -> int:
        """When a running job is expected to end if no job joins or leaves."""
        return int(self._columns.clock[at.END_US, job])

    def predicted_us(self, lease: Lease, expected_us: int, now: int) -> dict[int, int]:
        """When the lease's job, and all that it would share with, would end if it started now. Changes nothing.

        Parameters
        ----------
        lease
            A lease that could be applied now.
        expected_us
            The job's expected run time at speed 1: ``view.estimate_us[job]``.

        Returns
        -------
        dict
            Job → expected end. Where the core would not take the lease's devices, all end never (``NEVER_US``).
        """
        job, shares = lease.job, lease.shares
        beside = {other: NEVER_US for share in shares for other in self._reader.sharers(min(share.devices)).tolist()}
        draft = draft_of(self._reader, (job, *beside))
        if any(draft.try_share(job, share, now) != TAKEN for share in shares):
            return beside | {job: NEVER_US}
        end_us = draft.end_us(job, expected_us, now)
        draft.follow(shares, job, now, np.zeros((2, 1), np.int64), 0)
        return {other: int(draft.columns.clock[at.END_US, other]) for other in beside} | {job: end_us}

    def _composition(self, leader: int) -> Composition:
        c = self._columns
        names = self.installed.quantities[int(c.device[at.KIND, leader])]
        free = c.installed[: len(names), leader] - c.held[: len(names), leader]
        return Composition(
            self._reader.members(leader), self.installed.pools[int(c.device[at.POOL, leader])],
            int(c.group[at.NODE, leader]), tuple(self._reader.sharers(leader).tolist()),
            int(c.group[at.PARTS, leader]), tuple(free.tolist()),
        )  # fmt: skip


class DeviceChoices:
    """The devices that a job's task could have now.

    O(compositions + free devices) per node; of equal free devices the first are offered. ``view``: the devices;
    ``job``: which job, of one task; ``wants``: kind → quantity → amount: what it asks.
    """

    def __init__(self, view: DeviceView, job: int, wants: Mapping[str, Mapping[str, int]]) -> None:
        self.view, self.job, self.wants = view, job, wants
        self.in_use = {kind: view.compositions(kind) for kind in wants}

    def on(self, candidate: Candidate) -> Iterator[Candidate]:
        """The candidate with each choice of devices that the core would admit there."""
        for chosen in product(*(list(self._of_kind(kind, candidate.node)) for kind in self.wants)):
            made = candidate._replace(chosen=chosen)
            lease = made.lease
            if lease is not None and self.view.admits(lease) is None:
                yield made

    def _of_kind(self, kind: str, node: int) -> Iterator[Chosen]:
        for composition in self.in_use[kind]:
            if composition.node == node or not composition.pool.single:
                yield self._shared(kind, node, composition)
        free = self.view.free(kind, node)
        for number in np.unique(self.view.installed.pool[free]).tolist():
            pool = self.view.installed.pools[number]
            here = free[self.view.installed.pool[free] == number].tolist()
            for size in range(1, min(pool.compose, len(here), self._largest(kind, pool)) + 1):
                yield self._fresh(kind, node, tuple(here[:size]), 0)
            for parts in range(2, pool.split + 1):
                yield self._fresh(kind, node, tuple(here[:1]), parts)

    def _largest(self, kind: str, pool: Pool) -> int:
        """The most devices worth composing: until they have what is asked, or until the model says no more."""
        capacity = self.view.installed.capacity[:, pool.first].tolist()
        names = self.view.installed.quantities[self.view.installed.kinds.index(kind)]
        asked = self.wants[kind]
        needed = [-(-asked.get(name, 0) // has) for name, has in zip(names, capacity, strict=False) if has]
        return max(1, self.view.sizes_of_model(kind, self.job), *map(int, needed))

    def _shared(self, kind: str, node: int, composition: Composition) -> Chosen:
        share = self.view.share(self.job, node, composition.devices, composition.parts)
        names = self.view.installed.quantities[self.view.installed.kinds.index(kind)]
        left = {name: free - mine for name, free, mine in zip(names, composition.free, share.amounts, strict=True)}
        return Chosen(kind, share, composition.jobs, left)

    def _fresh(self, kind: str, node: int, devices: tuple[int, ...], parts: int) -> Chosen:
        share = self.view.share(self.job, node, devices, parts)
        names = self.view.installed.quantities[self.view.installed.kinds.index(kind)]
        there = self.view.installed.capacity[: len(names), list(devices)].sum(axis=1).tolist()
        left = {name: has - mine for name, has, mine in zip(names, there, share.amounts, strict=True)}
        return Chosen(kind, share, (), left)
