"""Nodes by number, as a person writes them (``"0-15"``, ``"20"``), and sets of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from unrack.errors import ClusterError
from unrack.kernels.arrays import Bools, Ints


class NodeSets(NamedTuple):
    """Sets of nodes, bool[sets, nodes], and which of them is each job's, int64[jobs].

    ``owner``: int64[sets]: which :class:`Window` jobs of a set run in, by its number from 1; 0: in none. Below 0: they
    may use what the windows of that number keep, and run outside of these as well, until the last is over.
    """

    masks: Bools
    of: Ints
    owner: Ints


NOBODY = 2**40
"""The owner of windows that are no job's."""


class Window(NamedTuple):
    """When some jobs run, or none, from ``start_us`` until ``end_us``, and nodes that are kept for them.

    ``owner``: a number from 1; windows with the same are for the same jobs. ``nodes``: bool[nodes]. ``place``: of which
    an amount is kept from all that claim it; -1: of none. The windows of a place are no job's, and apart in time.
    """

    start_us: int
    end_us: int
    owner: int
    nodes: Bools
    place: int = -1
    amount: int = 0


def ranges(nodes: Iterable[int]) -> list[str]:
    """Ascending node ids as a person writes them.

    Examples
    --------
    >>> ranges([0, 1, 2, 7])
    ['0-2', '7']
    """
    ids = np.array(list(nodes), np.int64)
    runs = np.split(ids, np.flatnonzero(np.diff(ids) != 1) + 1) if len(ids) else []
    return [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]


def node_ids(member: str, total: int, at: str) -> range:
    """Node ids from a text such as ``"0-15"`` or ``"20"``.

    A ClusterError if it is no such text, or there are not so many nodes.
    """
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", member)
    first = int(match[1]) if match else 0
    last = int(match[2] or match[1]) if match else -1
    if not first <= last < total:
        raise ClusterError(at, repr(member), f"node ids such as '3' or '0-15', below {total}")
    return range(first, last + 1)
