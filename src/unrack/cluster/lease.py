"""What a job holds: rows of equal nodes, borrowed memory, shares of devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

FIRST, NODES, TASKS, CORES, LOCAL_MB = range(5)
"""Columns of :attr:`Lease.rows`: first node, how many nodes in a row, and on each: tasks, cores, MB of its memory."""


class Loan(NamedTuple):
    """Memory of another node (or of a pool) that the tasks on ``node`` use."""

    node: int
    lender: int
    mb: int


class Share(NamedTuple):
    """What the tasks on ``node`` hold of a device, of a part of one, or of several seen as one.

    Attributes
    ----------
    node
        The node it is attached to.
    devices
        One id: a device, or a part of it. Several, ascending: a composition.
    amounts
        What is held of each quantity of the device's kind, in the kind's order.
    parts
        0: the device is not split. n: the share is one of n equal parts of the one device.
    """

    node: int
    devices: tuple[int, ...]
    amounts: tuple[int, ...]
    parts: int = 0


class Lease(NamedTuple):
    """All that one job holds while it runs.

    Attributes
    ----------
    job
        Its index.
    rows : int64[rows, 5]
        Columns FIRST, NODES, TASKS, CORES, LOCAL_MB: on each of the nodes FIRST … FIRST + NODES - 1 the job has TASKS
        tasks that hold, together, CORES cores and LOCAL_MB of the node's memory.
    borrowed
        Memory from elsewhere.
    shares
        Devices.
    """

    job: int
    rows: Ints
    borrowed: tuple[Loan, ...] = ()
    shares: tuple[Share, ...] = ()

    @property
    def nodes(self) -> Ints:
        """int64[nodes]: the nodes held, in the order of the rows."""
        return nodes_of(self.rows)

    @classmethod
    def on(cls, job: int, nodes: Sequence[int], tasks: Sequence[int], cores: Sequence[int], mb: Sequence[int]) -> Lease:
        """A lease from one entry a node: the node, its tasks, the cores and MB they hold together.

        Examples
        --------
        >>> Lease.on(7, nodes=[4, 5], tasks=[2, 1], cores=[8, 4], mb=[0, 0]).rows.tolist()
        [[4, 1, 2, 8, 0], [5, 1, 1, 4, 0]]
        """
        rows = np.empty((len(nodes), 5), np.int64)
        rows[:, FIRST], rows[:, NODES], rows[:, TASKS], rows[:, CORES], rows[:, LOCAL_MB] = nodes, 1, tasks, cores, mb
        return cls(job, rows)


def nodes_of(rows: Ints) -> Ints:
    """int64[nodes]: every node that the rows name."""
    count = rows[:, NODES]
    within = np.arange(count.sum(), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
    nodes: Ints = np.repeat(rows[:, FIRST], count) + within
    return nodes
