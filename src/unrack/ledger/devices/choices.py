"""Which devices a task could have on a node: compositions in use that have room, and free devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from unrack.cluster.pools.pool import Pool
from unrack.ledger.candidate import Candidate, Chosen
from unrack.ledger.devices.view import Composition, DeviceView


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
