"""Named clusters: machines of public logs and of the papers; and any cluster in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from unrack.facts import Fact, counted, memory_words, some

if TYPE_CHECKING:
    from unrack.cluster.spec import Cluster


LARGE_PERCENT = (0, 15, 25, 50, 75, 100)
"""Large nodes of the systems of Vieira Zacarias (2023), Table 5.1: in % of 1024."""


class Preset(NamedTuple):
    """Something by name, such as a cluster: one line of words and the keys of its file."""

    summary: str
    content: Mapping[str, Any]


NODES = [{"count": 5, "cores": 25}]
NVME = {"kind": "nvme", "quantities": {"bandwidth_mb_s": "2 GB/s", "capacity_mb": "600 GB"}}
GPU = {"kind": "gpu", "count": 1, "quantities": {"bandwidth_mb_s": "4 GB/s", "memory_mb": "16 GB"}, "compose": 1}
WHOLE = {**GPU, "share": 1}
"""A GPU that cannot be split: one job at a time."""
ATTACHED = [
    {**NVME, "name": "nvme-node0", "count": 6, "reach": ["0"]},
    {**NVME, "name": "nvme-node2", "count": 4, "reach": ["2"]},
]
ATTACHED_4_6 = [{**ATTACHED[0], "count": 4}, {**ATTACHED[1], "count": 6}]


def _memory_system(percent: int) -> Preset:
    large = (1024 * percent + 50) // 100
    kinds = {"normal": (1024 - large, "32 GB"), "large": (large, "64 GB")}
    words = " and ".join(f"{count} {name} of {memory}" for name, (count, memory) in kinds.items() if count)
    return Preset(
        f"Vieira Zacarias 2023, Table 5.1, {percent} % large nodes: {words}; 32 cores each",
        {
            "nodes": [
                {"name": name, "count": count, "cores": 32, "memory": memory}
                for name, (count, memory) in kinds.items()
                if count
            ]
        },
    )


def _tiered(shared: int, words: str) -> Preset:
    far = {"name": "distant", "count": 100 // shared, "memory": f"{256 * shared} GB", "tier": "distant-remote"}
    return Preset(
        f"Farshin 2021, Tables 1 and 3: 100 compute pools of 112 cores and 32 GB, 128 GB in the rack and {words}",
        {
            "nodes": [{"name": "compute", "count": 100, "cores": 112, "memory": "32 GB", "torus": [4, 7]}],
            "memory_pools": [
                {"name": "rack", "count": 100, "memory": "128 GB", "tier": "local-remote"},
                {**far, "shared_by": shared},
            ],
            "tiers": [
                {"name": "local", "price": 100},
                {"name": "local-remote", "cost": 1, "price": 50},
                {"name": "distant-remote", "cost": 2, "price": 25},
            ],
        },
    )


PRESETS: dict[str, Preset] = {
    "kth-sp2": Preset("IBM SP2 at KTH: 100 single-processor nodes", {"nodes": [{"count": 100, "cores": 1}]}),
    "ctc-sp2": Preset("IBM SP2 at Cornell: 338 batch nodes", {"nodes": [{"count": 338, "cores": 1}]}),
    "sdsc-sp2": Preset("IBM SP2 at San Diego: 128 nodes", {"nodes": [{"count": 128, "cores": 1}]}),
    "sdsc-blue": Preset(
        "Blue Horizon at San Diego: 144 nodes of 8 processors", {"nodes": [{"count": 144, "cores": 8}]}
    ),
    "nasa-ipsc": Preset("iPSC/860 at NASA Ames: 128 single-processor nodes", {"nodes": [{"count": 128, "cores": 1}]}),
    "llnl-atlas": Preset(
        "Atlas at LLNL: 1152 nodes of 8 cores, 16 GB", {"nodes": [{"count": 1152, "cores": 8, "memory": "16 GB"}]}
    ),
    "cerit-wagap": Preset(
        "CERIT-SC grid, 2013: 20 zewura nodes of 80 cores, 505 GB; 48 zegox nodes of 12 cores, 90 GB",
        {
            "nodes": [
                {"name": "zewura", "count": 20, "cores": 80, "memory": "529426432 KB"},
                {"name": "zegox", "count": 48, "cores": 12, "memory": "94035968 KB"},
            ]
        },
    ),
    **{f"memory-1024-{percent}": _memory_system(percent) for percent in LARGE_PERCENT},
    "memory-1024": Preset(
        "Vieira Zacarias 2023, Table 5.1: 1024 nodes of 32 cores, 64 GB; the nodes of memory-1024-100",
        {"nodes": [{"count": 1024, "cores": 32, "memory": "64 GB"}]},
    ),
    "memory-1024-half": _memory_system(50)._replace(
        summary="The same with half large nodes, as memory-1024-50: 512 of 32 GB and 512 of 64 GB"
    ),
    "grizzly-1490": Preset(
        "The size of LANL's Grizzly (Table 5.2): 1490 nodes of 32 cores, 128 GB",
        {"nodes": [{"count": 1490, "cores": 32, "memory": "128 GB"}]},
    ),
    "nvme-pool": Preset(
        "Call et al. 2022, Table 4.2: 5 nodes of 25 cores; 10 NVMe of 2 GB/s and 600 GB that any node may attach",
        {"nodes": NODES, "pools": [{**NVME, "count": 10}]},
    ),
    "nvme-attached": Preset(
        "The same, physically attached: six NVMe fixed to node 0, four to node 2, none elsewhere",
        {"nodes": NODES, "pools": ATTACHED},
    ),
    "nvme-attached-4-6": Preset(
        "The same with four NVMe fixed to node 0 and six to node 2: the papers name both layouts",
        {"nodes": NODES, "pools": ATTACHED_4_6},
    ),
    "vgpu-pool": Preset(
        "Call 2022, Table 5.2: the NVMe pool and one GPU of 4 GB/s, 16 GB that splits into up to 4 vGPUs",
        {"nodes": NODES, "pools": [{**NVME, "count": 10}, {**GPU, "attach": "multi", "split": 4}]},
    ),
    "vgpu-unsplit": Preset(
        "The same with a GPU that cannot be split: one job at a time, on one node",
        {"nodes": NODES, "pools": [{**NVME, "count": 10}, WHOLE]},
    ),
    "vgpu-attached": Preset(
        "The same, physically attached: NVMe as in nvme-attached, the GPU fixed to node 4",
        {"nodes": NODES, "pools": [*ATTACHED, {**WHOLE, "reach": ["4"]}]},
    ),
    "vgpu-edge": Preset(
        "Section 5.4.3: 5 nodes of 25 cores with scarce devices: 3 NVMe and one GPU that cannot be split",
        {"nodes": NODES, "pools": [{**NVME, "count": 3}, WHOLE]},
    ),
    "gpu-racks": Preset(
        "64 nodes of 32 cores, 64 GB and four GPUs in four racks, each with 8 NVMe of 2 GB/s and 600 GB that its nodes "
        "may attach",
        {
            "nodes": [{"count": 64, "cores": 32, "memory": "64 GB", "gpus": 4}],
            "nodes_per_rack": 16,
            "pools": [{**NVME, "per": "rack", "count": 8, "compose": 3, "share": 6}],
        },
    ),
    "disaggregated-racks": Preset(
        "355 000 places in 100 racks: each 40 nodes of 64 cores beside pools of 512 GPUs, 374 modules of memory and 64 "
        "burst buffers that its nodes may attach",
        {
            "nodes": [{"count": 4000, "cores": 64, "memory": "128 GB"}],
            "nodes_per_rack": 40,
            "pools": [
                {"kind": "gpu", "per": "rack", "count": 512, "share": 1},
                {"kind": "memory", "per": "rack", "count": 374, "share": 1},
                {"kind": "burst", "per": "rack", "count": 64, "share": 1},
            ],
        },
    ),
    "slo-basic": _tiered(1, "256 GB in another rack for each (Fig. 2a)"),
    "slo-shared": _tiered(2, "512 GB in another rack for every two (Fig. 2b)"),
}


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
