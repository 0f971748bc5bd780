"""Which pools could serve a demand for devices at all, on a cluster where nothing is held."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.pools.pace import Pace
from unrack.cluster.pools.pool import Devices

Ints = NDArray[np.int64]


class Supplier(NamedTuple):
    """Pools that some node with cores may attach, and whose largest compositions have equally much of a quantity.

    Attributes
    ----------
    kind, quantity
        Numbers of the kind and of its quantity.
    split
        Whether their devices are split.
    most
        How much of the quantity the largest composition has.
    reached : bool[nodes]
        The nodes with cores that may attach one of them.
    sizes
        The different (cores, MB) of these nodes.
    """

    kind: int
    quantity: int
    split: bool
    most: int
    reached: NDArray[np.bool_]
    sizes: tuple[tuple[int, int], ...]

    def governed(self, pace: Pace) -> NDArray[np.bool_]:
        """bool[jobs]: for which jobs a model governs the quantity, so that any amount will do."""
        model = pace.model[self.kind]
        return np.asarray((model >= 0) & pace.governed[model, self.quantity] & (not self.split))


def suppliers_of(devices: Devices, cores: Ints, memory_mb: Ints) -> dict[tuple[str, str], tuple[Supplier, ...]]:
    """Kind and quantity → who supplies it, on nodes with so many cores and MB. O(pools x nodes), once a cluster."""
    alike: dict[tuple[int, int, bool, int], NDArray[np.bool_]] = {}
    for p, pool in enumerate(devices.pools):
        reached = devices.reach[p] & (cores > 0)
        if not reached.any():
            continue
        kind = devices.kinds.index(pool.kind)
        has = np.sort(devices.capacity[:, pool.first : pool.first + pool.count])[:, ::-1][:, : pool.compose].sum(axis=1)
        for q in range(len(devices.quantities[kind])):
            nodes = alike.setdefault((kind, q, pool.split > 1, int(has[q])), np.zeros(len(cores), np.bool_))
            nodes |= reached
    found: dict[tuple[str, str], tuple[Supplier, ...]] = {}
    for (kind, q, split, most), nodes in alike.items():
        cores_mb = np.unique(np.stack([cores, memory_mb])[:, nodes], axis=1).T.tolist()
        key = devices.kinds[kind], devices.quantities[kind][q]
        sizes = tuple((size[0], size[1]) for size in cores_mb)
        found[key] = (*found.get(key, ()), Supplier(kind, q, split, most, nodes, sizes))
    return found
