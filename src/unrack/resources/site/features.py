"""What jobs say of the features of their nodes: ``a&b``, ``a|b``, ``(a|b)&c``, ``[a|b]``, ``[(a&c)*2&b*4]``.

``&`` binds closer than ``|``. In square brackets, ``|`` parts: all nodes of a job have the same of them. A feature or
round brackets with a number, ``a*2``, are wanted of at least so many nodes; of others that say nothing else, any will
do. ``contiguous*4`` is no feature: four nodes side by side, by their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from unrack.errors import ClusterError
from unrack.kernels.arrays import Bools, Ints
from unrack.resources.contract import Nodes
from unrack.slurm_text.hostlists import expand

_TOKEN = re.compile(r"\s*(?:([()\[\]&|,])|([^()\[\]&|,*\s]+))(?:(?<![(\[\]&|,])\*(\d{1,9}))?")
CONTIGUOUS = "contiguous"
MOST_WAYS = 64
"""In how many ways a job may have nodes; of more runs of nodes, as many that lie as far apart as others."""
_WANT = "features such as 'a&b', 'a|b', '(a|b)&c', '[a|b]' or '[a*2&b*4]'"


class Way(NamedTuple):
    """One way to have nodes: all in ``nodes`` (bool), and at least so many in each of ``counts``; in a partition."""

    nodes: Bools
    counts: tuple[tuple[int, Bools], ...] = ()
    partition: str = ""

    def both(self, other: Way) -> Way:
        """What is one and the other."""
        return Way(self.nodes & other.nodes, self.counts + other.counts)


class _Parser:
    def __init__(self, text: str, nodes_of: Mapping[str, Bools], total: int) -> None:
        self.text, self.nodes_of, self.total = text, nodes_of, total
        self.tokens: list[tuple[str, str, str]] = []
        at = 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            if found is None:
                raise ValueError(_WANT)
            self.tokens.append((found[1] or "", found[2] or "", found[3] or ""))
            at = found.end()
        self.at = 0
        self.depth = 0

    def next(self, *signs: str) -> str:
        """Take the next sign if it is one of these."""
        if self.at < len(self.tokens) and self.tokens[self.at][0] in signs:
            self.at += 1
            return self.tokens[self.at - 1][0]
        return ""

    def whole(self) -> list[Way]:
        ways = self.any_of(parted=False)
        if self.at < len(self.tokens):
            raise ValueError(_WANT)
        return ways

    def any_of(self, parted: bool) -> list[Way]:
        found = [self.all_of(parted)]
        while self.next("|"):
            found.append(self.all_of(parted))
        if parted or len(found) == 1:
            return [way for ways in found for way in ways]
        if any(way.counts or len(ways) > 1 for ways in found for way in ways):
            raise ValueError("numbers and brackets that stand outside of '|', or '|' inside of square brackets")
        return [Way(np.logical_or.reduce([ways[0].nodes for ways in found]))]

    def all_of(self, parted: bool) -> list[Way]:
        ways = self.one(parted)
        while self.next("&", ","):
            more = self.one(parted)
            ways = [first.both(second) for first in ways for second in more]
            if len(ways) > MOST_WAYS:
                raise ValueError(f"at most {MOST_WAYS} ways to have nodes")
        return ways

    def one(self, parted: bool) -> list[Way]:
        if opened := self.next("(", "["):
            self.depth += 1
            if self.depth > 32:
                raise ValueError("brackets at most 32 deep")
            ways = self.any_of(parted or opened == "[")
            self.depth -= 1
            if not self.next(")" if opened == "(" else "]"):
                raise ValueError(_WANT)
            if not self.tokens[self.at - 1][2]:
                return ways
            if len(ways) > 1 or ways[0].counts:
                raise ValueError("numbers of brackets in which there are others, or '|'")
            nodes = ways[0].nodes
        elif self.at >= len(self.tokens) or not (name := self.tokens[self.at][1]):
            raise ValueError(_WANT)
        else:
            self.at += 1
            nodes = self.nodes_of.get(name, np.zeros(self.total, np.bool_))
        number = self.tokens[self.at - 1][2]
        if not opened and name == CONTIGUOUS and name not in self.nodes_of:
            return _runs(self.total, int(number or 1))
        return [Way(np.ones(self.total, np.bool_), ((int(number), nodes),))] if number else [Way(nodes)]


def _runs(total: int, length: int) -> list[Way]:
    """Runs of so many nodes, each a way."""
    last = total - length
    first = np.unique(np.linspace(0, last, min(last + 1, MOST_WAYS)).astype(np.int64)) if last >= 0 else ()
    numbers = np.arange(total)
    return [Way((numbers >= at) & (numbers < at + length)) for at in first]


def ways_of(text: str, nodes_of: Mapping[str, Bools], total: int) -> list[Way]:
    """The ways to have nodes as a text says.

    Parameters
    ----------
    nodes_of
        Feature → bool[nodes]; no node has any other.
    total
        How many nodes there are.

    Raises
    ------
    ValueError
        The text cannot be read; it says what was wanted.

    Examples
    --------
    >>> a, b = np.array([True, True, False]), np.array([False, True, True])
    >>> [way.nodes.tolist() for way in ways_of("a&b", {"a": a, "b": b}, 3)]
    [[False, True, False]]
    >>> [way.nodes.tolist() for way in ways_of("[a|b]", {"a": a, "b": b}, 3)]
    [[True, True, False], [False, True, True]]
    >>> [way.nodes.tolist() for way in ways_of("contiguous*2", {}, 3)]
    [[True, True, False], [False, True, True]]
    """
    return _Parser(text, nodes_of, total).whole()


def features_in(text: str) -> list[str]:
    """The features that a text names, in its order; :data:`CONTIGUOUS` is none.

    Examples
    --------
    >>> features_in("[rack1*2&rack2*4]|(ib&big)")
    ['rack1', 'rack2', 'ib', 'big']
    """
    return [found[2] for found in _TOKEN.finditer(text) if found[2] and found[2] != CONTIGUOUS]


def any_will_do(ways: Sequence[Way], nodes: Bools) -> bool:
    """Whether ways to have nodes say no more than that they are of these."""
    return len(ways) == 1 and not ways[0].counts and bool((ways[0].nodes == nodes).all())


def still_wanted(way: Way, nodes: Ints) -> int:
    """How many nodes are still wanted of those that are counted."""
    return sum(max(0, count - int(mask[nodes].sum())) for count, mask in way.counts)


def open_next(way: Way, nodes: Ints, left: int) -> Bools:
    """Where the next of ``left`` tasks may go, so that the nodes that are counted can still be had.

    Nodes that count twice are seen of two features; of more each is taken to have nodes of its own.
    """
    if (wanted := still_wanted(way, nodes)) < left or not wanted:
        return way.nodes
    fresh, found = way.nodes.copy(), np.zeros(len(way.nodes), np.bool_)
    fresh[nodes] = False
    short = [(count - int(mask[nodes].sum()), mask & fresh) for count, mask in way.counts]
    short = [one for one in short if one[0] > 0]
    number = np.int64 if len(short) < 63 else object
    kinds = sum(mask.astype(number) * (1 << bit) for bit, (_, mask) in enumerate(short))
    for kind in np.unique(kinds).tolist():
        most = [max(0, count - (kind >> bit & 1)) for bit, (count, _) in enumerate(short)]
        twice = 0
        if len(most) == 2:
            twice = min(*most, int(np.count_nonzero(kinds == 3)) - (kind == 3))
        found |= (kinds == kind) & (sum(most) - twice < left)
    return way.nodes & found


Counts = tuple[tuple[int, int, str], ...]
"""What jobs count for: places, amounts, and the partition that they run in where that decides it.

An amount below 0 says: as much as the job has nodes, and of how many nodes it has at least.
"""


class Said(NamedTuple):
    """What jobs say, a text each, ``""``: nothing; and int64[jobs] what they ask."""

    user: Sequence[str]
    account: Sequence[str]
    qos: Sequence[str]
    partition: Sequence[str]  # one, or several between commas
    features: Sequence[str]
    nodes: Sequence[str]
    without: Sequence[str]
    reservation: Sequence[str]
    queue: Sequence[str]
    array: Sequence[str]  # the array of jobs that it is of
    array_limit: Ints  # how many of that may run at once; 0: any number
    runs: Bools  # bool[jobs]: which run when the run begins
    submit_us: Ints  # of these when they began
    nice: Ints  # what is taken off its priority
    tasks: Ints
    cores: Ints
    mb: Ints
    request_us: Ints
    totals: Mapping[str, Ints]  # KIND.QUANTITY → what all tasks of a job ask of it


class Where(NamedTuple):
    """Where jobs may run, in words of the site; jobs that say the same have the same number."""

    partitions: tuple[str, ...] | None = None  # in one of these, the first that will do; ``None``: anywhere
    features: str = ""
    nodes: str = ""  # a list of nodes, of which each must be used; ``""``: any
    without: str = ""  # a list of nodes that are not used
    reservation: str = ""  # the reservation in which they run
    why: str = ""  # why there is no such node, if something else than the nodes decides that
    # its quality of service and its queue, where these say which jobs it may preempt
    qos: str = ""
    queue: str = ""


class Whose(NamedTuple):
    """What decides which job is first, beside what jobs ask; jobs that say the same have the same number."""

    account: str = ""
    user: str = ""
    tier: int = 1  # of its partition; of several the highest
    partition: int = 1  # the partition's priority, of the highest tier among several
    qos: int = 0  # of its quality of service
    usage_factor: float = 1.0  # so often what it uses counts
    nice: int = 0


def where_of(kept: dict[str, Any]) -> Where:
    """As the record of a run has it."""
    partitions = kept["partitions"]
    return Where(**{**kept, "partitions": None if partitions is None else tuple(partitions)})


def words(where: Where) -> str:
    """Where in words: "of partition a or b with ib, without n[1-2]"."""
    parts = [] if where.partitions is None else [f"of partition {' or '.join(where.partitions)}"]
    parts += [f"of reservation {where.reservation}"] if where.reservation else []
    parts += [f"with {where.features}"] if where.features else []
    parts += [f"among which are {where.nodes}"] if where.nodes else []
    parts += [f"without {where.without}"] if where.without else []
    return " ".join(parts) or "of the cluster"


def listed(text: str, nodes: Nodes) -> tuple[str, str, str]:
    """Those of a list of nodes that there are; that some are not, and what is wrong with it, in words."""

    def there(names: str) -> bool:
        try:
            return bool(nodes.named([names], "nodes"))
        except ClusterError:
            return False

    try:
        names = [text] if not text or there(text) else expand(text)
    except ValueError as wrong:
        return "", "", str(wrong)
    gone = [name for name in names if name and not there(name)]
    missing = f"node {gone[0]!r}, which the cluster does not have" if gone else ""
    return ",".join(name for name in names if name not in gone), missing, ""


def own_of(counts: Counts, partition: str) -> list[tuple[int, int]]:
    """What counts for jobs that run in a partition: places and amounts."""
    return [(place, amount) for place, amount, inside in counts if inside in ("", partition)]
