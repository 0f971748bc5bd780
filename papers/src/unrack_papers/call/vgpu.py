"""Split GPUs and scarce devices: chapter 5 of A. Call's thesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from unrack.cluster import PRESETS
from unrack_papers.call import tables
from unrack_papers.call.counts import jobs_on_nodes
from unrack_papers.call.figures import CLASSES as NVME_CLASSES
from unrack_papers.call.figures import PLACES, node_quantities, nodes_tables
from unrack_papers.call.tables import MISSED, NOTES, of_pools
from unrack_papers.claim import Claim, changes, close, exceeds, lies, together
from unrack_papers.pages.figure import bars, curves, stacks
from unrack_papers.reproduction import Point, Reproduction, Row

PAPER = "Call's thesis, chapter 5"
SCENARIOS = {"S1": "NVMe-intensive", "S2": "GPU-intensive", "S3": "mixed"}
FIRST_FIT, AWARE, RESOURCE, OWN = (
    Row("First Fit", "first-fit", "vgpu-edge"),
    Row("Disagg-Aware", "disaggregation-aware", "vgpu-edge"),
    Row("Resource-Aware", "resource-aware", "vgpu-edge"),
    replace(tables.OWN, cluster="vgpu-edge"),
)
ROWS = (FIRST_FIT, AWARE, RESOURCE, OWN)
NAMES = [row.name for row in ROWS if row.printed]
MODELS = ("smufin", "yolo")
SLOWED = (
    "First fit's jobs slow down by the models here, like those of all rows: with base times, each of four vGPUs of one "
    "GPU would be as fast as the whole."
)
NORMALISED = "The shares of scenario S3 (Table 5.3) add up to 90 %: they are normalised."
EDGE_LOAD = "The load is that of the NVMe: the larger of its bandwidth and capacity loads, offered (§5.4.3)."


def _on(rows: Sequence[Row], cluster: Any, suffix: str = "") -> tuple[Row, ...]:
    return tuple(replace(row, cluster=cluster, name=row.name + suffix) for row in rows)


def _split() -> Reproduction:
    whole, split = " · whole", " · split"
    layouts = {"(a) without splits": whole, "(b) with splits": split}
    loads = (0.6, 0.7, 0.8, 0.9)
    return of_pools(
        name="vgpu-split",
        shows="Figure 5.5",
        paper=PAPER,
        summary="missed deadlines with a GPU that can and that cannot be split",
        setup="5 nodes of 25 cores, 10 pooled NVMe and one GPU of 4 GB/s and 16 GB, which splits into up to four "
        "vGPUs or runs one job at a time; three scenarios, CPU loads of 0.6 to 0.9 (the text does not say which load "
        "the figure shows).",
        points=tuple(
            Point(group, load, {"scenario": f"vgpu-{group.lower()}", "load": load},
                  (*_on(ROWS, "vgpu-unsplit", whole), *_on(ROWS, "vgpu-pool", split)), "vgpu-pool")
            for group in SCENARIOS for load in loads
        ),
        quantities=(MISSED,),
        claims=(
            Claim("With the same GPU, fewer deadlines are missed in every scenario if it can be split, under every "
                  "policy (at 0.7)", "§5.4.2, Fig. 5.5",
                  together(*(exceeds(MISSED.label, name + whole, name + split, [group], [0.7])
                             for group in SCENARIOS for name in NAMES))),
            Claim("Where most jobs want a GPU that cannot be split, no policy can cope: in S2 all miss more than half "
                  "(at 0.7)", "§5.4.2, Fig. 5.5a",
                  together(*(lies(MISSED.label, name + whole, ["S2"], [0.7], 50, 100) for name in NAMES))),
        ),
        draw=curves(MISSED.label, "missed deadlines, %", {
            f"{title} · {group}, {SCENARIOS[group]}": (group, [row.name + suffix for row in ROWS])
            for title, suffix in layouts.items() for group in SCENARIOS
        }),
        x_title="target CPU load",
        models=MODELS,
        notes=(NORMALISED, SLOWED, *NOTES[1:]),
    )  # fmt: skip


CLASSES = {**NVME_CLASSES, "GPU-bound": "yolo"}


def _nodes() -> Reproduction:
    layouts = {
        "(a) physically attached": "vgpu-attached",
        "(b) without splitting": "vgpu-unsplit",
        "(c) splitting": "vgpu-pool",
    }
    fixed, whole, split = layouts
    gpu = "busiest: GPU-bound"
    return of_pools(
        name="vgpu-nodes",
        shows="Figure 5.6",
        paper=PAPER,
        summary="where jobs of each class run: attached, pooled, pooled and split",
        setup="The mixed scenario S3 at a CPU load of 0.7 under the resource-aware policy (the text names neither), on "
        "the three layouts. Counted are all 1500 jobs.",
        points=tuple(
            Point(title, 0.7, {"scenario": "vgpu-s3", "load": 0.7}, _on([RESOURCE], preset), "vgpu-pool")
            for title, preset in layouts.items()
        ),
        quantities=node_quantities(CLASSES),
        claims=(
            Claim("Split, GPU jobs are spread over the nodes: all five run some, and none more than 30 %",
                  "§5.4.2, Fig. 5.6c",
                  together(lies("nodes used: GPU-bound", RESOURCE.name, [split], [0.7], 5, 5),
                           lies(gpu, RESOURCE.name, [split], [0.7], 20, 30))),
            Claim("Not split, they hardly spread: one node runs more than half of them", "§5.4.2, Fig. 5.6b",
                  lies(gpu, RESOURCE.name, [whole], [0.7], 50, 100)),
            Claim("Attached, each class is tied to the nodes that have its devices: GPU jobs to one node, NVMe jobs "
                  "to two", "§5.4.2, Fig. 5.6a",
                  together(lies(gpu, RESOURCE.name, [fixed], [0.7], 100, 100),
                           lies("nodes used: bandwidth-bound", RESOURCE.name, [fixed], [0.7], 1, 2),
                           lies("nodes used: capacity-bound", RESOURCE.name, [fixed], [0.7], 1, 2))),
        ),
        draw=stacks(list(CLASSES), RESOURCE.name, "jobs", "node", PLACES),
        x_title="target CPU load",
        group_title="layout",
        models=MODELS,
        measure=jobs_on_nodes,
        bounded=False,
        tables=nodes_tables,
        notes=(NORMALISED, SLOWED, *NOTES[1:]),
    )  # fmt: skip


def _edge(group: str, load: float) -> dict[str, Any]:
    return {"scenario": f"vgpu-{group.lower()}", "load": load, "load_of": "nvme", "nvme_devices": 3}


def _heterogeneous() -> Reproduction:
    loads = (0.6, 0.7, 0.8, 0.9)
    others = (FIRST_FIT.name, AWARE.name)
    spread = [(one, other) for i, one in enumerate(NAMES) for other in NAMES[i + 1 :]]
    return of_pools(
        name="vgpu-heterogeneous",
        shows="Figure 5.7",
        paper=PAPER,
        summary="missed deadlines where devices are scarce: 3 NVMe and one GPU that cannot be split",
        setup="5 nodes of 25 cores that share 3 NVMe and one GPU, as at an edge site; three scenarios at NVMe loads of "
        "0.6 to 0.9.",
        points=tuple(
            Point(group, load, _edge(group, load), ROWS, "vgpu-edge") for group in SCENARIOS for load in loads
        ),
        quantities=(MISSED,),
        claims=(
            Claim("Where NVMe jobs are the majority (S1) the resource-aware policy beats both others, even at 0.9",
                  "§5.4.3, Fig. 5.7",
                  together(*(exceeds(MISSED.label, other, RESOURCE.name, ["S1"], loads) for other in others))),
            Claim("In the GPU-intensive scenario (S2) all policies do equally badly: within 5 points of each other, "
                  "and more than half missed", "§5.4.3, Fig. 5.7",
                  together(*(close(MISSED.label, one, other, ["S2"], loads, by=5) for one, other in spread),
                           *(lies(MISSED.label, name, ["S2"], loads, 50, 100) for name in NAMES))),
            Claim("In the mixed scenario (S3) policies are roughly equal, within 5 points, at 0.8 and 0.9",
                  "§5.4.3, Fig. 5.7",
                  together(*(close(MISSED.label, other, RESOURCE.name, ["S3"], [0.8, 0.9], by=5)
                             for other in others))),
            Claim("In the mixed scenario (S3) the resource-aware policy beats both others at 0.6 and 0.7",
                  "§5.4.3, Fig. 5.7",
                  together(*(exceeds(MISSED.label, other, RESOURCE.name, ["S3"], [0.6, 0.7]) for other in others))),
        ),
        draw=curves(MISSED.label, "missed deadlines, %"),
        x_title="target NVMe load",
        groups=SCENARIOS,
        models=MODELS,
        notes=(EDGE_LOAD, NORMALISED, SLOWED, *NOTES[1:]),
    )  # fmt: skip


def slower_edge(percent: int) -> dict[str, Any]:
    """The keys of the edge cluster with a GPU that is slower by so many per cent when used from afar."""
    content = PRESETS["vgpu-edge"].content
    pools = [{**pool, "overhead": percent / 100} if pool["kind"] == "gpu" else pool for pool in content["pools"]]
    return {"name": f"vgpu-edge, {percent} %", **content, "pools": pools}


def _overhead() -> Reproduction:
    percents = tuple(range(6))
    rows = {percent: _on(ROWS, slower_edge(percent)) for percent in percents}

    def drift(low: float, high: float, groups: Sequence[str]) -> Any:
        return together(*(changes(MISSED.label, name, groups, 0, 5, low, high) for name in NAMES))

    return of_pools(
        name="vgpu-overhead",
        shows="Figure 5.8",
        paper=PAPER,
        summary="missed deadlines as the overhead of a remote GPU grows from 0 to 5 %",
        setup="The scarce devices of Figure 5.7 at an NVMe load of 0.8; GPU jobs run 0 to 5 % longer.",
        points=tuple(
            Point(group, percent, _edge(group, 0.8), rows[percent], "vgpu-edge")
            for group in SCENARIOS for percent in percents
        ),
        quantities=(MISSED,),
        claims=(
            Claim("Even 5 % overhead makes almost no difference: at most 2 points, under every policy in every "
                  "scenario", "§5.4.4, Fig. 5.8", drift(-2, 2, list(SCENARIOS))),
            Claim("The conclusion stands at every overhead: in S1 the resource-aware policy beats the "
                  "disaggregation-aware one", "§5.4.4, Fig. 5.8",
                  exceeds(MISSED.label, AWARE.name, RESOURCE.name, ["S1"], percents)),
        ),
        draw=bars(MISSED.label, "missed deadlines, %"),
        x_title="overhead, %",
        groups=SCENARIOS,
        models=MODELS,
        notes=(EDGE_LOAD, NORMALISED, SLOWED, *NOTES[1:]),
    )  # fmt: skip


REPRODUCTIONS = (_split(), _nodes(), _heterogeneous(), _overhead())
