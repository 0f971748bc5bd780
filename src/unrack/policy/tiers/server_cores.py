"""Which cores of its compute pool each placed server has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from unrack.cluster.spec import Cluster
from unrack.cluster.tiers.tier import names_of_clusters
from unrack.errors import InputError, RefusedError
from unrack.policy.placement.core_tiles import CoreSet, CoreTiles
from unrack.policy.tiers.answer import PlacedServers, Request


def with_cores(
    placed: PlacedServers, rule: str, before: Mapping[int, tuple[int, list[int]]] | None = None
) -> PlacedServers:
    """The same answer, with the cores that each server has.

    Servers that have cores keep them, unless they are somewhere else now; then the others choose, in the order of the
    request. An InputError if there is no such rule, the layout of the cores is not known, or cores in use do not fit.

    Parameters
    ----------
    placed
        Where the servers are.
    rule
        As of :class:`unrack.policy.placement.core_tiles.CoreTiles`.
    before
        Server → the cluster that it was in, and its cores; as :func:`read_cores` reads them.
    """
    tiles = CoreTiles(placed.cluster, rule)
    sets: dict[int, CoreSet] = {}
    at = placed.allocation.cluster.tolist()
    node_of = {server: int(placed.supply.pools(home)[0]) for server, home in enumerate(at) if home >= 0}
    for server, (home, ids) in sorted((before or {}).items()):
        if at[server] != home or not tiles.knows(node_of[server]):
            continue
        where = f"where servers are now, server {placed.request.ids[server]!r}, cores"
        if len(ids) != placed.asked.cores[server]:
            raise InputError(where, f"{len(ids)} cores", f"the {placed.asked.cores[server]} that it asks")
        try:
            sets[server] = tiles.hold(node_of[server], ids)
        except RefusedError as error:
            raise InputError(where, str(error), "different cores of its node") from None
    for server, node in node_of.items():
        if server not in sets and tiles.knows(node):
            sets[server] = tiles.take(node, int(placed.asked.cores[server]))
    return replace(placed, core_sets=dict(sorted(sets.items())))


def read_cores(
    content: Mapping[str, Any], cluster: Cluster, request: Request, where: str
) -> dict[int, tuple[int, list[int]]]:
    """The cores that servers have, from what ``unrack place --json`` printed earlier; ``{}`` where it did not say.

    An InputError if cores are not numbers.
    """
    number = {name: index for index, name in enumerate(names_of_clusters(cluster))}
    index_of = {called: i for i, called in enumerate(request.ids)}
    found: dict[int, tuple[int, list[int]]] = {}
    for place, row in enumerate(content["servers"]):
        if "cores" not in row or row["cluster"] is None or row["id"] not in index_of:
            continue
        ids = row["cores"].get("ids") if isinstance(row["cores"], dict) else None
        if not isinstance(ids, list) or not all(type(core) is int and 0 <= core < 2**31 for core in ids):
            raise InputError(f"{where}, servers.{place}.cores", repr(row["cores"])[:80], "ids, a list of core numbers")
        found[index_of[row["id"]]] = (number[str(row["cluster"])], ids)
    return found
