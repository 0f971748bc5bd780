"""Which kinds of workers there are, and how a user names them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from unrack.errors import InputError
from unrack.study.workers.contract import Workers

KINDS = ("processes", "dask", "ray")
WANTED = "processes, dask or ray, the last two perhaps with an address: 'dask tcp://node1:8786'"


class On(NamedTuple):
    """A kind of workers, and the address of a cluster that runs already; none: one is started here."""

    kind: str = "processes"
    address: str = ""


def parse_on(text: str) -> On:
    """What ``--on`` says: a kind, perhaps followed by an address.

    Raises
    ------
    InputError
        There is no such kind, or it takes no address.

    Examples
    --------
    >>> parse_on("processes")
    On(kind='processes', address='')
    >>> parse_on("dask tcp://node1:8786")
    On(kind='dask', address='tcp://node1:8786')
    """
    kind, _, address = text.strip().partition(" ")
    if kind not in KINDS:
        raise InputError("--on", repr(text), WANTED)
    if kind == "processes" and address:
        raise InputError("--on", repr(text), "processes alone: they are of this machine")
    return On(kind, address.strip())


@contextmanager
def open_workers(on: int | Workers | On, count: int = 1) -> Iterator[Workers]:
    """Workers of a kind, to be used for one batch after another; at the end nothing of them is left.

    Parameters
    ----------
    on
        From :func:`parse_on`; or how many processes; or workers that are open already, and stay so.
    count
        How many are started; a cluster that runs already has its own.
    """
    if not isinstance(on, int | On):
        yield on
        return
    workers = _opened(On(), on) if isinstance(on, int) else _opened(on, count)
    try:
        yield workers
    finally:
        workers.close()


def _opened(on: On, count: int) -> Workers:
    if on.kind == "dask":
        from unrack.study.workers.dask_cluster import DaskWorkers

        return DaskWorkers(on.address, count)
    if on.kind == "ray":
        from unrack.study.workers.ray_cluster import RayWorkers

        return RayWorkers(on.address, count)
    if count <= 1:
        from unrack.study.workers.here import Here

        return Here()
    from unrack.study.workers.processes import Processes

    return Processes(count)
