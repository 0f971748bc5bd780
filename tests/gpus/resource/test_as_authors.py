"""Packing and clustering with the authors' marks against plain Python that fills small clusters pod by pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from plain_gpus import gpu_jobs, run

from unrack.cluster.spec import Cluster

SIZES = (2, 4, 1, 8, 4, 2)
Pod = tuple[int, int, int]
"""Cores, GPUs, and 1/1000 of each."""


@dataclass
class Node:
    """What is left of a node, and how many pods of each kind it has."""

    cores: int
    gpus: list[int]
    kinds: Counter[str] = field(default_factory=Counter)


def kind_of(pod: Pod) -> str:
    return "part" if pod[2] < 1000 else f"{pod[1]} whole"


def chosen(node: Node, pod: Pod) -> list[int]:
    """The GPUs with least left that have room, as many as the pod asks for; fewer: it has no place."""
    room = [gpu for gpu, left in enumerate(node.gpus) if left >= pod[2]]
    return sorted(room, key=lambda gpu: (node.gpus[gpu], gpu))[: pod[1]]


def packing(node: Node, pod: Pod) -> int:
    idle = node.gpus.count(1000)
    if idle == len(node.gpus):
        return max(33 - idle, idle)
    taken = [node.gpus[gpu] for gpu in chosen(node, pod)]
    if 1000 in taken:
        return max(50 - taken.count(1000), 33)
    return max(100 - sum(left // 10 for left in taken) // 10, 50)


def clustering(node: Node, pod: Pod) -> int:
    full = 25 * (8000 - sum(node.gpus)) // 8000
    if node.kinds[kind_of(pod)]:
        return full + (75 if len(+node.kinds) == 1 else 50)
    return full + (0 if +node.kinds else 25)


def filled(pods: list[Pod], cores: int, mark: Callable[[Node, Pod], int]) -> list[list[str] | None]:
    """The GPUs of each pod, one after the other; ``None``: it is turned away."""
    nodes = [Node(cores, [1000] * size) for size in SIZES]
    found: list[list[str] | None] = []
    for pod in pods:
        fit = [i for i, node in enumerate(nodes) if node.cores >= pod[0] and len(chosen(node, pod)) == pod[1]]
        if not fit:
            found.append(None)
            continue
        best = max(fit, key=lambda i: (mark(nodes[i], pod) if pod[1] else 0, -i))
        gpus = chosen(nodes[best], pod)
        nodes[best].cores -= pod[0]
        nodes[best].kinds[kind_of(pod)] += pod[1] > 0
        for gpu in gpus:
            nodes[best].gpus[gpu] -= pod[2]
        found.append([f"node{best}/gpu{gpu}" for gpu in sorted(gpus)])
    return found


@pytest.mark.long
@pytest.mark.parametrize(("rule", "mark"), [("packing", packing), ("clustering", clustering)])
def test_pods_go_where_a_plain_reading_of_the_marks_puts_them(rule: str, mark: Callable[[Node, Pod], int]) -> None:
    nodes = [{"count": 1, "cores": 20} for _ in SIZES]
    fleet = [{"machine": {"gpus": size}, "nodes": str(node)} for node, size in enumerate(SIZES)]
    cluster = Cluster.from_dict({"nodes": nodes, "gpus": fleet})
    turned_away = 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        gpus = random.choice([0, 1, 1, 1, 2, 4, 8], 40)
        milli = np.where((gpus == 1) & (random.random(40) < 0.7), random.integers(1, 20, 40) * 50, 1000)
        pods = list(zip(random.integers(1, 6, 40).tolist(), gpus.tolist(), milli.tolist(), strict=True))
        rows = [{"cores": cores, "count": count, "milli": part % 1000 * (count > 0), "submit": i, "work": 10_000}
                for i, (cores, count, part) in enumerate(pods)]  # fmt: skip
        result = run(cluster, gpu_jobs(*rows), f"list(backfill=any, wait=no, gpus={rule}-as-authors)")
        held: dict[int, list[str]] = {}
        for job, place in result.table("claims").select("job", "place").rows():
            held.setdefault(job, []).append(place)
        began = result.jobs.sort("submit_s").select("job", "start_s").rows()
        ours = [None if start is None else sorted(held.get(job, [])) for job, start in began]
        assert ours == filled(pods, 20, mark), seed
        turned_away += ours.count(None)
    assert turned_away > 12
