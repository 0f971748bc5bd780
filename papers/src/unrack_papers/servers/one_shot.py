"""Servers placed on tiers of memory in one shot, from Python as by ``unrack place``: a request in, an answer out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unrack import Cluster
from unrack.cluster import names_of_clusters
from unrack.errors import InputError, PolicyError, RefusedError, check_choice
from unrack.jit import Ints
from unrack.policy import supply_of
from unrack.solver import NOWHERE
from unrack_papers.servers.all_at_once import MOST_LOOKS, Repack, place_together
from unrack_papers.servers.allocator.one_by_one import OneByOne, Refusals
from unrack_papers.servers.allocator.order import ORDERS, REQUEST, servers_in_order
from unrack_papers.servers.answer import PlacedServers
from unrack_papers.servers.batch.solution import nowhere
from unrack_papers.servers.problem import Allocation, least_price
from unrack_papers.servers.request import Request, asked_of, read_request
from unrack_papers.torus import CoreSet, CoreTiles

SLO, FIRST_FIT, BEST_FIT, OPTIMAL = POLICIES = ("slo", "first-fit", "best-fit", "optimal")


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
        As of :class:`unrack_papers.torus.CoreTiles`.
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


def read_now(content: Mapping[str, Any], cluster: Cluster, request: Request, where: str) -> Allocation:
    """Where servers are, from what ``unrack place --json`` printed earlier; servers that it does not know are nowhere.

    An InputError if it is no such answer, it is of another data centre, servers hold what they did not ask for, or
    together more than a pool has.
    """
    supply, tiers = supply_of(cluster), cluster.tiers
    assert tiers is not None
    rows = content.get("servers")
    if not isinstance(rows, list):
        got = "nothing" if rows is None else repr(rows)[:80]
        raise InputError(f"{where}, servers", got, "the answer of unrack place --json")
    number = {name: index for index, name in enumerate(names_of_clusters(cluster))}
    index_of = {called: i for i, called in enumerate(request.ids)}
    now = Allocation(np.full(len(request), NOWHERE, np.int64), np.zeros((len(request), supply.width), np.int64))
    for place, row in enumerate(rows):
        at = f"{where}, servers.{place}"
        if not isinstance(row, dict) or not {"id", "cluster", "pools"} <= set(row):
            raise InputError(at, repr(row)[:80], "id, cluster and pools")
        if type(row["id"]) not in (int, str):
            raise InputError(f"{at}.id", repr(row["id"])[:80], "the id of a server")
        if row["cluster"] is None or row["id"] not in index_of:
            continue
        if str(row["cluster"]) not in number:
            raise InputError(f"{at}.cluster", repr(row["cluster"]), "a cluster of this data centre")
        server, home, mb = index_of[row["id"]], number[str(row["cluster"])], row["pools"]
        if now.cluster[server] >= 0:
            raise InputError(f"{at}.id", f"{row['id']!r} again", "each server once")
        count = len(supply.pools(home))
        if not isinstance(mb, list) or len(mb) != count or not all(type(part) is int and part >= 0 for part in mb):
            raise InputError(f"{at}.pools", repr(mb)[:80], f"MB from each of the {count} pools of its cluster")
        if sum(mb) != request.mb[server]:
            raise InputError(f"{at}.pools", f"{sum(mb)} MB", f"the {request.mb[server]} MB that it asks")
        now.mb[server, :count] = mb
        now.cluster[server] = home
    for what, held, there in zip(
        ("cores", "MB"), now.held(supply, request.cores), (supply.cores, supply.mb), strict=True
    ):
        if (held > there).any():
            pool = int(np.argmax(held - there))
            raise InputError(
                f"{where}, servers", f"{(held - there)[pool]} {what} more than pool {pool} has", "what fits"
            )
    return now


def place(
    cluster: Cluster,
    servers: Sequence[Mapping[str, Any]],
    policy: str = "slo",
    *,
    most_clusters: int | None = None,
    limit_s: float | None = None,
    seed: int = 0,
    now: Mapping[str, Any] | None = None,
    moves: int | None = None,
    resplit: bool = False,
    cores: str | None = None,
    order: str = REQUEST,
    explain: bool = False,
) -> PlacedServers:
    """Place servers with SLOs on the pools of a data centre with tiers of memory.

    Parameters
    ----------
    cluster
        A data centre with tiers.
    servers
        With the keys of a request (``docs/papers/servers.md``): ``cores``, ``mem`` (MB or text) and, if wanted, ``id``,
        ``local_SLA``, ``remote_SLA``, ``group``, ``spread``, ``forbidden``, ``pinned``.
    policy
        ``"slo"``, ``"first-fit"``, ``"best-fit"``: one at a time, in order; ``"optimal"``: all at once.
    most_clusters
        At most so many clusters may be in use; ``None``: any number.
    limit_s, seed
        Of ``optimal``: time that it may compute, s (of the processor, without compiling), and the seed of its search.
        Without a time limit its work is counted, about a minute of an ordinary core at most, and the answer is the
        same anywhere.
    now
        Where servers are already: what ``as_json`` of an earlier answer said.
    moves
        Of ``optimal`` with ``now``: how many servers may move.
    resplit
        Of ``moves``: servers that stay may have their memory split anew.
    cores
        Also choose which cores: ``"best"``, ``"quick"``, ``"first-fit"``; the cluster's nodes need a ``torus``.
    order
        Of one at a time: ``"request"``, or ``"slo-ratio"``: largest floor // ceiling first, as the authors' program.
    explain
        Say of each server why it is where it is.

    Raises
    ------
    InputError
        Something asked cannot be, or ``now`` does not fit; the message says what and where.
    PolicyError
        There is no such policy or order.

    Examples
    --------
    >>> centre = Cluster.preset("slo-basic")
    >>> placed = place(centre, [{"cores": 4, "mem": "16 GB", "local_SLA": "2 GB", "remote_SLA": "20 GB"}])
    >>> placed.as_json()["servers"][0]["tiers"]
    {'local': 2048, 'local-remote': 8192, 'distant-remote': 6144}
    """
    content: dict[str, Any] = {"servers": list(servers)}
    if most_clusters is not None:
        content["most_clusters"] = most_clusters
    request = read_request(content, "place")
    return place_request(
        cluster, request, policy, limit_s=limit_s, seed=seed, earlier=now, moves=moves, resplit=resplit, cores=cores,
        order=order, explain=explain,
    )  # fmt: skip


def place_request(
    cluster: Cluster,
    request: Request,
    policy: str = "slo",
    *,
    limit_s: float | None = None,
    seed: int = 0,
    earlier: Mapping[str, Any] | None = None,
    where: str = "now",
    moves: int | None = None,
    resplit: bool = False,
    cores: str | None = None,
    order: str = REQUEST,
    explain: bool = False,
) -> PlacedServers:
    """Place the servers of a request that has been read; parameters and errors are those of :func:`place`.

    ``earlier``: an answer that says where servers are already, and ``where`` that was read.
    """
    now = None if earlier is None else read_now(earlier, cluster, request, where)
    check_choice("order", order, ORDERS, PolicyError)
    check_choice("policy", policy, POLICIES, PolicyError)
    supply, asks = supply_of(cluster), asked_of(request, cluster)
    empty = PlacedServers(policy, cluster, request, asks, supply, nowhere(supply, asks), {}, 0)
    if policy == OPTIMAL:
        if order != REQUEST:
            raise PolicyError("order", f"{order!r} beside the policy optimal", "servers that come one after the other")
        placed = place_together(empty, Repack(now, moves, resplit), limit_s, seed, explain)
    elif moves is not None or resplit:
        got = "a limit on moves" if moves is not None else "new splits for servers that are there"
        raise PolicyError(f"policy {policy}", got, "the policy optimal, which repacks")
    else:
        placed = _one_by_one(empty, now, order, explain)
    if cores is None:
        return placed
    return with_cores(placed, cores, None if earlier is None else read_cores(earlier, cluster, request, where))


def _one_by_one(empty: PlacedServers, now: Allocation | None, order: str, explain: bool) -> PlacedServers:
    """Servers that are nowhere placed one after the other."""
    cluster, supply, asks, policy = empty.cluster, empty.supply, empty.asked, empty.policy
    tiers = cluster.tiers
    assert tiers is not None
    allocator = OneByOne(supply, asks, policy, now)
    todo = np.arange(len(asks)) if now is None else np.flatnonzero(now.cluster < 0)
    todo = servers_in_order(todo, asks, order, tiers.cost_scale)
    reasons: dict[int, str] = {}
    if explain:
        refusals = Refusals(allocator, tiers.cost_scale)
        names = names_of_clusters(cluster)
        for server in todo.tolist():
            reasons[server] = _step(allocator, refusals, server, names, policy)
    else:
        allocator.place(todo)
        out = np.flatnonzero(allocator.cluster[todo] < 0)
        if len(out):
            reasons = _reasons(OneByOne(supply, asks, policy, now), todo, out, tiers.cost_scale)
    found = allocator.allocation
    bound = least_price(supply, asks, found)
    return replace(empty, allocation=found, reasons=reasons, bound=bound)


def _step(allocator: OneByOne, refusals: Refusals, server: int, names: tuple[str, ...], policy: str) -> str:
    """Place one server and say why it went where it did, or why nowhere."""
    order, used, lacks = allocator.order, allocator.ranking.used.copy(), refusals.of(server)
    if allocator.place([server]) == 0:
        return lacks.among(order)
    cluster = int(allocator.cluster[server])
    words = f"cluster {names[cluster]}"
    if policy == BEST_FIT:
        return f"{words}, the fullest of those that could take it"
    if policy == SLO:
        words += f" ({used[cluster]} % in use)"
    ahead = order[: int(np.flatnonzero(order == cluster)[0])]
    return f"{words}, the first in order" + (f" that could: {lacks.among(ahead)}" if len(ahead) else "")


def _reasons(again: OneByOne, todo: Ints, out: Ints, cost_scale: int) -> dict[int, str]:
    """Why servers had no place when it was their turn: everything is placed once more, with a look at each of them.

    ``out`` are their places in ``todo``.
    """
    refusals = Refusals(again, cost_scale)
    clusters = np.arange(again.supply.clusters)
    reasons: dict[int, str] = {}
    start = 0
    for count, end in enumerate(out.tolist()):
        server = int(todo[end])
        if count * len(clusters) > MOST_LOOKS:
            reasons[server] = "no cluster could take it (too many servers have no place to look at each)"
            continue
        again.place(todo[start:end])
        start = end
        reasons[server] = refusals.of(server).among(clusters)
    return reasons
