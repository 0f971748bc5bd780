"""Where jobs may run and who they are, in words of the site; jobs that say the same have the same number."""

from __future__ import annotations

from typing import Any, NamedTuple


class Where(NamedTuple):
    """Where jobs may run, in words of the site; jobs that say the same have the same number."""

    partitions: tuple[str, ...] | None = None  # in one of these, the first that will do; ``None``: anywhere
    features: str = ""
    nodes: str = ""  # a list of nodes, of which each must be used; ``""``: any
    without: str = ""  # a list of nodes that are not used
    reservation: str = ""  # the reservation in which they run
    why: str = ""  # why there is no such node, if something else than the nodes decides that
    # its quality of service and its queue, where these say whom it may preempt
    qos: str = ""
    queue: str = ""


class Whose(NamedTuple):
    """What decides who is first, as far as it is not in what jobs ask; jobs that say the same have the same number."""

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
