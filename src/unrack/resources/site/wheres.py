"""What jobs say, where they may run and what they belong to, in words of the site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from unrack.errors import ClusterError
from unrack.kernels.arrays import Ints
from unrack.resources.contract import Nodes
from unrack.slurm_text.hostlists import expand

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
    submit_us: Ints
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
