"""How far one node's memory is from another node: in the same rack, in the same group of racks, or farther."""

from __future__ import annotations

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints

RACK, GROUP, FAR, POOL = range(4)
NAMES = ("rack", "group", "far", "pool")
"""What files call the distances; RACK … POOL are places in it."""


@inlined
def distance_of(rack: Ints, rack_group: Ints, cores: Ints, a: int, b: int) -> int:
    """The distance between two nodes, the same both ways; a node without cores is a POOL beyond its own rack.

    ``rack``, ``rack_group``, ``cores``: int64[nodes], as in :class:`unrack.cluster.spec.Cluster`.
    """
    if rack[a] == rack[b]:
        return RACK
    if cores[a] == 0 or cores[b] == 0:
        return POOL
    return GROUP if rack_group[a] == rack_group[b] else FAR


@compiled
def distances(rack: Ints, rack_group: Ints, cores: Ints, a: Ints, b: Ints) -> Ints:
    """int64[pairs]: the distance between ``a[i]`` and ``b[i]``, for :func:`distance_of`'s columns.

    Examples
    --------
    >>> rack, group, cores = np.array([0, 0, 1, 2, 3]), np.array([0, 0, 0, 1, 1]), np.array([4, 4, 4, 4, 0])
    >>> found = distances(rack, group, cores, np.zeros(4, np.int64), np.array([1, 2, 3, 4]))
    >>> [NAMES[distance] for distance in found]
    ['rack', 'group', 'far', 'pool']
    """
    found = np.empty(len(a), np.int64)
    for i in range(len(a)):
        found[i] = distance_of(rack, rack_group, cores, a[i], b[i])
    return found
