"""What a job holds: rows of equal nodes, borrowed memory, shares of devices, claims on places of resources.

A job that changes also has the sizes that it can have, and what it goes on with once it was suspended.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from operator import index
from typing import NamedTuple, SupportsIndex

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.resources.contract import NONE_ATTACHED
from unrack.resources.places import NO_CLAIMS, PLACE

FIRST, NODES, TASKS, CORES, LOCAL_MB = range(5)
"""Columns of :attr:`Lease.rows`: first node, how many nodes in a row, and on each: tasks, cores, MB of its memory."""


BORROWER, LENDER, LOAN_MB = range(3)
"""Columns of :attr:`Lease.borrowed`: the node of the tasks that use the memory, the node that it is in, MB."""
NO_LOANS: Ints = np.empty((0, 3), np.int64)
"""Nothing borrowed."""


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
    borrowed : int64[loans, 3]
        Columns BORROWER, LENDER, LOAN_MB: memory of other nodes that the tasks on a node use. :func:`loans_of` makes it
        from :class:`Loan` tuples.
    shares
        Devices.
    claims : int64[claims, 2]
        Columns PLACE, AMOUNT of :mod:`unrack.resources.places`: what it holds of the places of resources.
    parts
        Of a heterogeneous job what each component holds, in order; together that is the lease: :func:`together`.
    """

    job: int
    rows: Ints
    borrowed: Ints = NO_LOANS
    shares: tuple[Share, ...] = ()
    claims: Ints = NO_CLAIMS
    parts: tuple[Lease, ...] = ()

    @property
    def nodes(self) -> Ints:
        """int64[nodes]: the nodes held, in the order of the rows."""
        return nodes_of(self.rows)

    @property
    def tasks(self) -> int:
        """How many tasks the job has."""
        return int(self.rows[:, NODES] @ self.rows[:, TASKS])

    def numbered(self, job: int) -> Lease:
        """The same lease of another job, with its other components numbered behind it."""
        parts = tuple(part._replace(job=job + i) for i, part in enumerate(self.parts))
        return self._replace(job=job, parts=parts)

    @classmethod
    def on(
        cls,
        job: SupportsIndex,
        nodes: Sequence[int],
        tasks: Sequence[int],
        cores: Sequence[int],
        mb: Sequence[int],
        borrowed: Sequence[Loan] = (),
    ) -> Lease:
        """A lease from one entry a node: the node, its tasks, the cores and MB they hold together; and loans.

        Examples
        --------
        >>> Lease.on(7, nodes=[4, 5], tasks=[2, 1], cores=[8, 4], mb=[0, 0]).rows.tolist()
        [[4, 1, 2, 8, 0], [5, 1, 1, 4, 0]]
        """
        rows = np.empty((len(nodes), 5), np.int64)
        rows[:, FIRST], rows[:, NODES], rows[:, TASKS], rows[:, CORES], rows[:, LOCAL_MB] = nodes, 1, tasks, cores, mb
        return cls(index(job), rows, loans_of(borrowed))


def in_runs(rows: Ints) -> Ints:
    """Rows of one node each, by node, with nodes that follow each other and hold alike as one row."""
    new = np.ones(len(rows), np.bool_)
    new[1:] = (np.diff(rows[:, FIRST]) != 1) | (np.diff(rows[:, TASKS:], axis=0) != 0).any(axis=1)
    first = np.flatnonzero(new)
    found = rows[first]
    found[:, NODES] = np.diff(np.append(first, len(rows)))
    return found


def together(job: int, parts: Sequence[Lease]) -> Lease:
    """The lease of a heterogeneous job from those of its components: each node, pair of nodes and place once.

    Examples
    --------
    >>> parts = Lease.on(3, [0, 1], [1, 1], [2, 2], [0, 0]), Lease.on(4, [1], [2], [8], [64])
    >>> together(3, parts).rows.tolist()
    [[0, 1, 1, 2, 0], [1, 1, 3, 10, 64]]
    """
    rows = by_node(np.concatenate([part.rows for part in parts]))
    loans, claims = (np.concatenate([getattr(part, name) for part in parts]) for name in ("borrowed", "claims"))
    borrowed = summed(loans, 2) if len(loans) else NO_LOANS
    claimed = summed(claims) if len(claims) else NO_CLAIMS
    shares = tuple(share for part in parts for share in part.shares)
    return Lease(job, rows, borrowed, shares, claimed, tuple(parts))


def by_node(rows: Ints) -> Ints:
    """int64[nodes, 5]: rows of a lease with each node once, in order, and all that is held on it.

    Examples
    --------
    >>> by_node(np.array([[4, 2, 1, 8, 0], [5, 1, 1, 2, 64]])).tolist()
    [[4, 1, 1, 8, 0], [5, 1, 2, 10, 64]]
    """
    each = np.repeat(rows, rows[:, NODES], axis=0)
    each[:, FIRST] = nodes_of(rows)
    found = summed(each)
    found[:, NODES] = 1
    return found


def summed(rows: Ints, keys: int = 1) -> Ints:
    """Rows of which the first columns are keys: each key once, in order, with the sums of the other columns.

    Examples
    --------
    >>> summed(np.array([[7, 1], [2, 5], [7, 3]])).tolist()
    [[2, 5], [7, 4]]
    """
    if len(rows) < 2:
        return rows.copy()
    once, at = np.unique(rows[:, :keys], axis=0, return_inverse=True)
    total = np.zeros((len(once), rows.shape[1] - keys), np.int64)
    np.add.at(total, at.ravel(), rows[:, keys:])
    return np.concatenate([once, total], axis=1)


def loans_of(loans: Sequence[Loan] | Ints) -> Ints:
    """int64[loans, 3]: loans as :attr:`Lease.borrowed` has them.

    Examples
    --------
    >>> loans_of([Loan(node=0, lender=3, mb=512)]).tolist()
    [[0, 3, 512]]
    """
    if type(loans) is np.ndarray:
        return loans
    return np.array(loans, np.int64).reshape(-1, 3) if len(loans) else NO_LOANS


def attached(shares: Sequence[Share], home: Ints) -> Ints:
    """int64[k, 3]: the devices of shares as resources see them, one row for each node of tasks and home of devices.

    Columns TASK_NODE, HOME and DEVICES of :mod:`unrack.resources.contract`. ``home``: int64[devices], the node that
    each device of the cluster sits in; -1: none.

    Examples
    --------
    >>> shares = Share(node=0, devices=(0, 2, 3), amounts=(3,)), Share(node=4, devices=(1,), amounts=(1,))
    >>> attached(shares, np.array([0, 0, 1, 1])).tolist()
    [[0, 0, 1], [0, 1, 2], [4, 0, 1]]
    """
    if not shares:
        return NONE_ATTACHED
    count: dict[tuple[int, int], int] = {}
    for share in shares:
        for device in share.devices:
            pair = share.node, int(home[device])
            count[pair] = count.get(pair, 0) + 1
    return np.array([[*pair, count[pair]] for pair in sorted(count)], np.int64)


def ranges(first: Ints, count: Ints) -> Ints:
    """int64[sum of count]: of each range, one after the other, so many numbers from the first on.

    Examples
    --------
    >>> ranges(np.array([3, 9]), np.array([2, 3])).tolist()
    [3, 4, 9, 10, 11]
    """
    if len(first) == 1:  # most leases are one range
        return np.arange(first[0], first[0] + count[0])
    return np.arange(count.sum(), dtype=np.int64) + np.repeat(first - np.cumsum(count) + count, count)


def nodes_of(rows: Ints) -> Ints:
    """int64[nodes]: every node that the rows name."""
    return ranges(rows[:, FIRST], rows[:, NODES])


def as_rows(lease: Lease, places: int) -> tuple[Ints, Ints]:
    """The rows and claims of a lease in plans, loans among them; ``places``: how many there are of resources.

    Lent memory counts like what is held there: a loan is a row of its lender, with -1 less the borrower for tasks, and
    a claim of what the lender lends: behind the places of resources each node has one.
    """
    loans = lease.borrowed
    if not len(loans):
        return lease.rows, lease.claims
    rows = np.zeros((len(loans), 5), np.int64)
    rows[:, FIRST], rows[:, NODES], rows[:, TASKS] = loans[:, LENDER], 1, -1 - loans[:, BORROWER]
    rows[:, LOCAL_MB] = loans[:, LOAN_MB]
    claims = np.stack([places + loans[:, LENDER], loans[:, LOAN_MB]], axis=1)
    return np.concatenate([lease.rows, rows]), np.concatenate([lease.claims, claims])


def from_rows(job: int, rows: Ints, claims: Ints, places: int) -> Lease:
    """The lease of which :func:`as_rows` makes these; private copies.

    Examples
    --------
    >>> lease = Lease(7, np.array([[4, 1, 2, 8, 3]]), np.array([[4, 0, 5], [4, 1, 5]]))
    >>> again = from_rows(7, *as_rows(lease, places=2), places=2)
    >>> again.rows.tolist(), again.borrowed.tolist(), again.claims.tolist()
    ([[4, 1, 2, 8, 3]], [[4, 0, 5], [4, 1, 5]], [])
    """
    own = int(np.count_nonzero(rows[:, TASKS] >= 0))  # these come first
    if own == len(rows):
        return Lease(job, rows.copy(), claims=claims.copy())
    loans = rows[own:]
    if (loans[:, NODES] > 1).any():
        loans = np.repeat(loans, loans[:, NODES], axis=0)
        loans[:, FIRST] = nodes_of(rows[own:])
    borrowed = np.stack([-1 - loans[:, TASKS], loans[:, FIRST], loans[:, LOCAL_MB]], axis=1)
    return Lease(job, rows[:own].copy(), borrowed, claims=claims[claims[:, PLACE] < places])


class Sizes(NamedTuple):
    """The sizes of one job; the size that it was submitted with is one of them, and has the speed 1.

    Examples
    --------
    >>> sizes = Sizes((2, 4), (0.6, 1.0))
    >>> sizes.time_us(60, 2)
    100
    """

    tasks: tuple[int, ...]  # ascending
    speed: tuple[float, ...]  # of each, as a multiple of that of its own size
    malleable: bool = False  # whether a policy may change it while it runs
    change_us: int = 0  # how long it stands still at a change while it runs, µs
    asks: tuple[tuple[float, int], ...] = ()  # at which part of its work (above 0, below 1) it asks for which size

    @property
    def changes(self) -> bool:
        """Whether its size may change while it runs."""
        return self.malleable or bool(self.asks)

    @property
    def own(self) -> int:
        """The size that it was submitted with, or the smallest that is as fast; the largest if it cannot have that."""
        return next((n for n, speed in zip(self.tasks, self.speed, strict=True) if speed == 1.0), self.tasks[-1])

    def some(self, places: Sequence[int]) -> Sizes:
        """Some of the sizes, by their places; it asks for no others."""
        tasks, speed = tuple(self.tasks[i] for i in places), tuple(self.speed[i] for i in places)
        return self._replace(tasks=tasks, speed=speed, asks=tuple(one for one in self.asks if one[1] in tasks))

    def speed_at(self, tasks: int) -> float:
        """How fast it runs with so many tasks, which is one of its sizes."""
        return self.speed[self.tasks.index(tasks)]

    def time_us(self, own_us: int, tasks: int) -> int:
        """How long it runs with so many tasks if it runs ``own_us`` at its own size, µs."""
        return ceil(own_us / self.speed_at(tasks))


class Suspended(NamedTuple):
    """What it held, and what is left of it."""

    rows: Ints  # int64[rows, 5]: of its lease, with its cores
    since_us: int
    left_us: int  # the work that is expected to be left of it, µs at speed 1
    lead_us: int  # how much longer its devices were being attached
