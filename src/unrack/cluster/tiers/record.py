"""Tiers of memory as a run keeps them, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.cluster.tiers.tier import Tiers


def installed_mb(cluster: Cluster) -> dict[str, int]:
    """MB of each tier of a cluster with tiers, in their order."""
    tiers = cluster.tiers
    assert tiers is not None
    return {name: int(cluster.memory_mb[tiers.tier == tier].sum()) for tier, name in enumerate(tiers.names)}


def tiers_record(cluster: Cluster) -> dict[str, Any]:
    """The tiers of a cluster that has some, for ``run.json``.

    ``names``, ``cost``, ``price`` and ``installed_mb`` have an entry a tier (a tier without pools: 0); ``of_nodes``:
    (nodes, tier) of every run of nodes of one tier; ``clusters``: the nodes of each, the compute pool first, and
    ``cluster_names``, where they have names; the two scales make costs and prices whole.
    """
    tiers = cluster.tiers
    assert tiers is not None
    count = len(tiers.names)
    cost, price = np.zeros(count, np.int64), np.zeros(count, np.int64)
    cost[tiers.tier], price[tiers.tier] = tiers.cost, tiers.price
    first = np.flatnonzero(np.diff(tiers.tier, prepend=-1))
    lengths = np.diff(np.append(first, len(cluster)))
    return {
        "names": list(tiers.names),
        "cost": (cost / tiers.cost_scale).tolist(),
        "price": (price / tiers.price_scale).tolist(),
        "installed_mb": list(installed_mb(cluster).values()),
        "cost_scale": tiers.cost_scale,
        "price_scale": tiers.price_scale,
        "of_nodes": np.stack([lengths, tiers.tier[first]], axis=1).tolist(),
        "clusters": [tiers.pools(index).tolist() for index in range(tiers.clusters)],
        **({"cluster_names": list(tiers.cluster_names)} if tiers.cluster_names else {}),
    }


def tiers_again(kept: Mapping[str, Any] | None) -> Tiers | None:
    """The tiers that :func:`tiers_record` has written; ``None``: there were none."""
    if kept is None:
        return None
    runs = np.array(kept["of_nodes"], np.int64)
    tier = np.repeat(runs[:, 1], runs[:, 0])
    cost, price = (
        np.rint(np.array(kept[name]) * kept[f"{name}_scale"]).astype(np.int64)[tier] for name in ("cost", "price")
    )
    lengths = [len(nodes) for nodes in kept["clusters"]]
    return Tiers(
        tuple(kept["names"]),
        cost,
        price,
        kept["cost_scale"],
        kept["price_scale"],
        tier,
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array([node for nodes in kept["clusters"] for node in nodes], np.int64),
        tuple(kept.get("cluster_names", ())),
    )
