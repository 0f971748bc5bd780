"""Where servers are already, as an earlier answer says it, checked against what they ask and what there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.cluster.tiers.tier import names_of_clusters
from unrack.errors import InputError
from unrack.policy.tiers.supply import supply_of
from unrack.solver.servers.problem import NOWHERE, Allocation
from unrack.workload.request import Request


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
