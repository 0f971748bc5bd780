"""A cluster as the record of a run keeps it, and as it was again from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from unrack.cluster.domains import parted
from unrack.cluster.pools.pool import Devices, Pool, no_devices
from unrack.cluster.spec import GROUPS, UNCOUNTED_MB, Cluster
from unrack.cluster.tiers.tier import tiers_again, tiers_record
from unrack.resources.contract import Nodes
from unrack.resources.numbers import node_ids
from unrack.resources.places import built
from unrack.slurm_text.hostlists import compress, expand

TORUS = ("torus_rows", "torus_columns")
"""Columns of the nodes, where the layout of some node's cores is known."""


def cluster_record(cluster: Cluster) -> dict[str, Any]:
    """What ``run.json`` says of a cluster: all that schedules depend on, and its digest."""
    of_class = [np.flatnonzero(cluster.node_class == i) for i in range(len(cluster.class_names))]
    classes = [
        {
            "name": name,
            "nodes": len(own),
            "cores": int(cluster.cores[own[0]]),
            "memory_mb": None if cluster.total_mb is None else int(cluster.memory_mb[own[0]]),
        }
        for name, own in zip(cluster.class_names, of_class, strict=True)
    ]
    levels = {level.name: level.written() for level in cluster.failure_levels}
    return {
        "name": cluster.name,
        "nodes": len(cluster),
        "cores": cluster.total_cores,
        "memory_mb": cluster.total_mb,
        "classes": classes,
        "racks": len(cluster.rack_names),
        "rack_names": list(cluster.rack_names),
        "domains": {name: list(nodes) for name, nodes in cluster.domains.items()},
        **({"failure_domains": levels} if levels else {}),
        "columns": _columns(cluster),
        **({"devices": _pools(cluster.devices)} if len(cluster.devices) else {}),
        **({"tiers": tiers_record(cluster)} if cluster.tiers is not None else {}),
        **({"names": compress(cluster.names)} if cluster.names else {}),
        **({"drained": list(cluster.drained)} if cluster.drained else {}),
        **({"resources": cluster.places.written()} if cluster.places.parts else {}),
        "digest": cluster.digest(),
    }


def cluster_again(kept: Mapping[str, Any]) -> Cluster:
    """The cluster that :func:`cluster_record` wrote."""
    columns: dict[str, Any] = {
        name: np.array(values, np.int64).repeat(kept["columns"]["count"])
        for name, values in kept["columns"].items()
        if name != "count"
    }
    sides = [columns.pop(name) for name in TORUS if name in columns]
    columns["torus"] = np.stack(sides, axis=1) if sides else None
    columns["memory_mb"][columns["memory_mb"] < 0] = UNCOUNTED_MB
    rack_names, count = tuple(kept["rack_names"]), len(columns["cores"])
    devices = _devices(kept.get("devices"), count)
    countable = devices.countable(columns["cores"])
    nodes = Nodes(columns["cores"], columns["memory_mb"], columns["rack"], rack_names, counters=countable)
    levels = []
    for level, domains in kept.get("failure_domains", {}).items():
        members = {name: [node for text in texts for node in node_ids(text, count, name)]
                   for name, texts in domains.items()}  # fmt: skip
        levels.append(parted(level, members, count, level))
    return Cluster(
        name=kept["name"],
        class_names=tuple(entry["name"] for entry in kept["classes"]),
        rack_names=rack_names,
        domains={name: tuple(nodes) for name, nodes in kept["domains"].items()},
        failure_levels=tuple(levels),
        devices=devices,
        tiers=tiers_again(kept.get("tiers")),
        places=built(kept.get("resources", {}), nodes, kept["name"]),
        names=tuple(expand(kept["names"])) if "names" in kept else (),
        drained=tuple(kept.get("drained", ())),
        **columns,
    )


def _columns(cluster: Cluster) -> dict[str, list[int]]:
    """The nodes, run by run of equal consecutive ones: how many, and their columns; -1: memory not counted."""
    memory = np.where(cluster.memory_mb == UNCOUNTED_MB, -1, cluster.memory_mb)
    names = ["cores", "memory_mb", "node_class", "rack"]
    rows = [cluster.cores, memory, cluster.node_class, cluster.rack]
    for name in GROUPS:
        if getattr(cluster, name).any():
            names.append(name)
            rows.append(getattr(cluster, name))
    if cluster.torus is not None:
        names += TORUS
        rows += list(cluster.torus.T)
    table = np.stack(rows)
    first = np.flatnonzero(np.append(True, (np.diff(table, axis=1) != 0).any(axis=0)))
    kept = {name: table[row, first].tolist() for row, name in enumerate(names)}
    return {"count": np.diff(np.append(first, len(cluster))).tolist(), **kept}


def _pools(devices: Devices) -> dict[str, Any]:
    return {
        "kinds": list(devices.kinds),
        "quantities": [list(names) for names in devices.quantities],
        "pools": [
            {
                **asdict(pool),
                "capacity": devices.capacity[:, pool.first].tolist(),
                "nodes_reached": int(devices.reach[i].sum()),
                "home": devices.home[pool.first : pool.first + pool.count].tolist(),
                "reach": np.flatnonzero(devices.reach[i]).tolist(),
            }
            for i, pool in enumerate(devices.pools)
        ],
    }


def _devices(kept: dict[str, Any] | None, nodes: int) -> Devices:
    """The pooled devices, as :func:`_pools` wrote them."""
    if kept is None:
        return no_devices(nodes)
    pools = [Pool(**{key: entry[key] for key in (field.name for field in fields(Pool))}) for entry in kept["pools"]]
    total = sum(pool.count for pool in pools)
    capacity = np.zeros((max(map(len, kept["quantities"])), total), np.int64)
    home, which = np.full(total, -1, np.int64), np.zeros(total, np.int64)
    reach = np.zeros((len(pools), nodes), np.bool_)
    for i, (pool, entry) in enumerate(zip(pools, kept["pools"], strict=True)):
        here = slice(pool.first, pool.first + pool.count)
        capacity[:, here] = np.array(entry["capacity"], np.int64)[:, None]
        home[here], which[here] = entry["home"], i
        reach[i, entry["reach"]] = True
    kind = np.array([kept["kinds"].index(pool.kind) for pool in pools], np.int64)[which]
    names = tuple(tuple(names) for names in kept["quantities"])
    return Devices(tuple(kept["kinds"]), names, tuple(pools), which, kind, home, capacity, reach)
