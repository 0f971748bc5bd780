"""What jobs ask of GPUs: the quantities, in order, and how they are read."""

from __future__ import annotations

from typing import NamedTuple

from unrack.kernels.arrays import Ints

WHOLE = 1000
"""Parts of a GPU: a job may ask for so many of them."""
QUANTITIES = ("count", "milli", "slices", "together", "apart", "min_utility", "graph", "weight")
"""What jobs ask for as ``gpus.NAME``, each of a task unless it says something else.

``count``: GPUs. ``milli``: 1/1000 of each of them that it may use; 0: all. ``slices``: slices of memory of a GPU that
is divided into such (MIG). ``together``: all tasks on one machine. ``apart``: every task on a machine of its own.
``min_utility``: 1/10000, below which a policy may wait for a better place. ``graph``: which tasks talk to which, a
place in ``GRAPHS``. ``weight``: how much the job communicates, 1/1000 of most; 0: most.
"""
COUNT, MILLI, SLICES, TOGETHER, APART, MIN_UTILITY, GRAPH, WEIGHT = range(len(QUANTITIES))
COMPLETE, RING, TREE, PAIRS = range(4)
GRAPHS = ("complete", "ring", "tree", "pairs")
"""Communication graphs: all with all; round in a ring; along a tree; two by two. Which GPU is where in a
ring, tree or pair is chosen as the libraries that use them do: at least distance."""
UTILITY_PARTS = 10_000


class Ask(NamedTuple):
    """What one job asks, as kernels take it; ``gpus`` is 0 for a job without any.

    ``milli`` is of each GPU, ``WHOLE`` for all of it; ``profile`` is the row of its application, 0: not known.
    """

    tasks: int
    cores: int
    mb: int
    gpus: int
    milli: int
    slices: int
    together: bool
    apart: bool
    graph: int
    weight: float
    min_utility: float
    profile: int


def ask_of(asked: Ints, tasks: int, cores: int, mb: int, profile: int = 0) -> Ask:
    """What a job asks, from its quantities (int64[quantities])."""
    count, milli, slices, together, apart, utility, graph, weight = asked.tolist()
    return Ask(
        tasks, cores, mb, max(count, int(milli > 0 or slices > 0)), milli or WHOLE, slices, together > 0, apart > 0,
        graph, (weight or 1000) / 1000, utility / UTILITY_PARTS, profile,
    )  # fmt: skip
