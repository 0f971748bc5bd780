"""The nodes, licences and rules of a Slurm as a cluster, with what a site adds that Slurm does not know."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from unrack.cluster.formats.described import Described, DescribedNode, converted, counter
from unrack.cluster.formats.partitions import partition_keys
from unrack.cluster.formats.reservations import AHEAD_S, reservation_keys
from unrack.cluster.formats.site import Keys, Lost, SaidSite, lose
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError
from unrack.live.slurm.reading import MPS, SHARES, Reading, SlurmNode
from unrack.resources.gpus.columns import WHOLE
from unrack.slurm_text.hostlists import compress, expand

GPU = "gpu"
LONGEST_S = 7 * 86_400
"""How long a job without a time limit is expected to run."""
LEAST_MB = 2
"""Slurm says 1 MB of a node with memory that was not configured."""
_LISTS = ("nodes", "pools", "counted", "memory_pools")
_OF_NODES = ("tier", "priority")
"""Keys of a partition that say nothing of what Slurm itself looks at when it starts a job."""
SIZE, TYPE = "size", "gres"
"""Before a colon, features of nodes that Slurm has other words for: their cores and MB, and the types of their GRES."""


class Machines(NamedTuple):
    """A cluster as a Slurm has it."""

    content: dict[str, Any]  # the keys of a cluster file
    names: tuple[str, ...]  # name of each node that runs jobs, in the order of the cluster
    notes: tuple[str, ...]  # what was left out or changed, a sentence each
    together: tuple[int, ...] = ()  # of each node, how many of its CPUs are given to jobs together; none: 1
    shares: tuple[tuple[str, int], ...] = ()  # kinds of shares of GPUs, and how many each GPU has, if as many as others


def machines_of(
    reading: Reading,
    additions: Mapping[str, Any] | None = None,
    *,
    name: str = "slurm",
    partitions: Collection[str] | None = None,
    in_use: bool = False,
    origin_s: float | None = None,
    early_s: float | None = None,
) -> Machines:
    """The nodes of a reading, equal ones together, and its licences.

    GPUs are counted, as are licences and other generic resources of nodes; shares of GPUs, where each has as many.

    Parameters
    ----------
    reading
        What Slurm says.
    additions
        Further keys of a cluster file, such as pools and which nodes lend memory to which. Lists go behind what Slurm
        says.
    name
        What reports call the cluster.
    partitions
        Only their nodes; ``None``: all.
    in_use
        Leave out nodes on which nothing runs and nothing can be started; those on which something runs are
        ``drained``. Else all are there, and none is said to be drained.
    origin_s
        When the clock of the jobs begins, s since 1970; ``None``: when it was read.
    early_s
        Keep of the site only what decides on which nodes a job may run, and when, as Slurm itself looks at its limits;
        reservations keep their nodes so long before they begin. ``None``: all of the site.

    Raises
    ------
    ClusterError
        There are no such partitions, no node is left, or a key of the site says again what Slurm says.
    """
    nodes = [node for node in reading.nodes if partitions is None or node.partitions & set(partitions)]
    if not nodes:
        known = sorted({one for node in reading.nodes for one in node.partitions})
        raise ClusterError(
            "--partition", ", ".join(partitions or ()), f"one of {', '.join(known)}" if known else "a node in Slurm"
        )
    busy = {held for job in reading.jobs if job.runs for held in job.holds}
    notes = []
    if in_use:
        idle = [node.name for node in nodes if not node.usable and node.name not in busy]
        if idle:
            notes.append(f"{len(idle)} node{'s' * (len(idle) != 1)} out of service left out.")
        nodes = [node for node in nodes if node.usable or node.name in busy]
        if not nodes:
            raise ClusterError("Slurm", f"{len(idle)} nodes out of service", "a node that is in use")
    licences = {key: licence.total for key, licence in reading.licences.items() if licence.total > 0}
    chosen = frozenset().union(*(node.partitions for node in nodes)) if partitions is None else frozenset(partitions)
    unlike = len({(node.cores, node.memory_mb) for node in nodes}) > 1, len({node.types for node in nodes}) > 1
    shares = tuple((kind, each) for kind in SHARES if (each := _each_gpu(nodes, kind)))
    said = (False, False) if early_s is None else unlike
    listed = tuple(_described(node, chosen, dict(shares), *said) for node in nodes)
    site = _site(reading, chosen, reading.at_s if origin_s is None else origin_s, early_s)
    if reading.accounting is not None:
        site = (reading.accounting if early_s is None else _counted(reading.accounting)).then(site)
    made = converted(
        Described("Slurm", name, listed, licences, site=site, in_order=early_s is not None), all_nodes=True
    )
    content = dict(made.content)
    if early_s is not None and reading.accounting is not None and "site" in content:
        content["site"] = {**content["site"], "bound": {"open": True}}
    if of_nodes := _gres(nodes, dict(shares)):
        content["counted"] = [*content.get("counted", []), *of_nodes]
    if in_use and (drained := [node.name for node in nodes if not node.usable]):
        content["drained"] = compress(drained)
    names, of = _names(content), {node.name: node.together for node in nodes}
    together = tuple(of[name] for name in names) if max(of.values()) > 1 else ()
    return Machines(_with(content, additions or {}), names, (*made.notes, *notes), together, shares)


def _each_gpu(nodes: Collection[SlurmNode], kind: str) -> int:
    """How many shares of a kind each GPU has that has any; 0: none, unlike numbers, or so many that one more fits."""
    found = {divmod(node.gres[kind], node.gres.get(GPU, 0) or 1) for node in nodes if node.gres.get(kind, 0)}
    each, left = found.pop() if len(found) == 1 else (0, 0)
    return each if each and not left and (each + 1) * (WHOLE // each) > WHOLE else 0


def _site(reading: Reading, partitions: Collection[str], origin_s: float, early_s: float | None) -> SaidSite:
    """The partitions and reservations of a reading."""
    driven = early_s is not None
    lost, lost_of, partition_of, reservations = Lost(), Lost(), dict[str, Keys](), dict[str, Keys]()
    for name, one in sorted(reading.partitions.items()):
        if name in partitions:
            fields = {key.lower(): value for key, value in one.fields.items()} | {"partitionname": name}
            try:
                keys = partition_keys(fields, f"partition {name}", lost_of)
            except ClusterError as error:
                lose(lost_of, "Of partitions that cannot be understood only the nodes are known", name, str(error))
                keys = {}
            partition_of[name] = {key: keys[key] for key in _OF_NODES if key in keys} if driven else keys
    ahead_s = LONGEST_S + 86_400 if driven else AHEAD_S
    for reservation in sorted(reading.reservations, key=lambda one: one.name):
        where = f"reservation {reservation.name}"
        try:
            found = reservation_keys(reservation.record, where, lost, origin_s, ahead_s)
        except ClusterError as error:
            lose(lost, "Reservations that cannot be understood are left out", reservation.name, str(error))
            continue
        if found is not None:
            early = min(early_s or 0, found.get("every", math.inf) - found["duration"])
            reservations[reservation.name] = found | {
                "start": found["start"] - early, "duration": found["duration"] + early,
            }  # fmt: skip
    return SaidSite(partition_of, reservations=reservations, lost=lost, lost_of_partitions={} if driven else lost_of)


def _counted(said: SaidSite) -> SaidSite:
    """Limits on what several jobs hold: by what one job asks alone it is for Slurm to refuse it."""

    def kept(keys: Keys) -> Keys:
        limits = [one for one in keys.get("limits", ()) if one.get("per") != "job"]
        users = [one if isinstance(one, str) else kept(one) for one in keys.get("users", ())]
        own = {key: value for key, value in keys.items() if key not in ("limits", "max_time", "users")}
        return own | ({"limits": limits} if limits else {}) | ({"users": users} if users else {})

    qos, accounts = ({name: kept(keys) for name, keys in of.items()} for of in (said.qos, said.accounts))
    limits = [one for one in said.limits if one.get("per") != "job"]
    return SaidSite(qos=qos, accounts=accounts, limits=limits, rules=said.rules)


def cluster_of(
    reading: Reading, additions: Mapping[str, Any] | None = None, **chosen: Any
) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster itself, and the name of each node that runs jobs; parameters as of :func:`machines_of`.

    Raises
    ------
    ClusterError
        As of :func:`machines_of`, or what the site adds cannot be.
    """
    made = machines_of(reading, additions, **chosen)
    return Cluster.from_dict(made.content, "cluster"), made.names


def gres(kind: str) -> str:
    """The counter of a generic resource of nodes."""
    return counter(f"gres_{kind}")


def _gres(nodes: Collection[SlurmNode], shares: Mapping[str, int]) -> list[dict[str, Any]]:
    """Counters of the generic resources of nodes, a table for each amount of each kind; of MPS that of one GPU."""
    found: dict[tuple[str, int], list[str]] = {}
    for node in nodes:
        for kind, count in node.gres.items():
            if count and kind not in {*SHARES, GPU} - ({MPS} & shares.keys()) and node.cores:
                found.setdefault((kind, shares.get(kind, count)), []).append(node.name)
    return [
        {"name": gres(kind), "amount": count, "per": "node", "nodes": [compress(names)]}
        for (kind, count), names in sorted(found.items())
    ]


def _described(
    node: SlurmNode, partitions: frozenset[str], shares: Mapping[str, int], sizes: bool, types: bool
) -> DescribedNode:
    others = {kind: count for kind, count in node.gres.items() if kind in {*SHARES} - shares.keys() and count}
    memory = node.memory_mb if node.memory_mb >= LEAST_MB else None
    own = [f"{SIZE}:{node.cores}x{node.memory_mb}"] * sizes + [f"{TYPE}:{kind}" for kind in node.types] * types
    return DescribedNode(
        node.name, node.cores, memory, node.gres.get(GPU, 0), "", node.partitions & partitions, others=others,
        features=(*node.features, *own),
    )  # fmt: skip


def _with(content: dict[str, Any], additions: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in additions.items():
        if key in _LISTS and isinstance(value, list):
            content[key] = [*content.get(key, []), *value]
        elif key in content and key != "name":
            raise ClusterError(f"cluster.{key}", "a key of which Slurm says what it is", "other keys of a cluster file")
        else:
            content[key] = value
    return content


def _names(content: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for kind in content["nodes"] if "names" in kind for name in expand(kind["names"]))
