"""How far one node's memory is from another node: in the same rack, in the same group of racks, or farther."""

from __future__ import annotations

from unrack.jit import inlined
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
