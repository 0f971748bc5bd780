"""What a cluster says of itself in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.facts import Fact, counted, memory_words, some

if TYPE_CHECKING:
    from unrack.cluster.spec import Cluster


def cluster_facts(cluster: Cluster) -> list[Fact]:
    """Nodes, cores, memory, devices, tiers and racks; what there is none of is left out."""
    pools = int((cluster.cores == 0).sum())
    nodes = len(cluster) - pools
    found = [Fact("nodes", f"{nodes:,}", counted(nodes, "node"))]
    found.append(Fact("cores", f"{cluster.total_cores:,}", counted(cluster.total_cores, "core")))
    if cluster.total_mb is not None:
        amount = memory_words(cluster.total_mb)
        found.append(Fact("memory", amount, f"{amount} memory"))
    if pools:
        found.append(Fact("memory pools", f"{pools:,}", counted(pools, "memory pool")))
    kinds = {kind: len(cluster.devices.of_kind(kind)) for kind in cluster.devices.kinds}
    if kinds:
        words = some([f"{count:,} {kind}" for kind, count in kinds.items()])
        found.append(Fact("devices", words, words))
    if cluster.tiers is not None:
        words = some(list(cluster.tiers.names))
        found.append(Fact("tiers of memory", words, f"tiers {words}"))
    if len(cluster.rack_names) > 1:
        racks = len(cluster.rack_names)
        found.append(Fact("racks", f"{racks:,}", counted(racks, "rack")))
    if len(cluster.class_names) > 1:
        found.append(Fact("node classes", some(list(cluster.class_names))))
    if len(cluster.places):
        found.append(Fact("counted resources", "yes", "counted resources"))
    return found
