"""Random small worlds of whatever a cluster may have, all of it at once, and policies that run on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from law_worlds import S
from test_irrelevance import World

from unrack.workload.tier_asks import NO_CEILING, tier_asks

PARTS = ("drives", "gpus", "licences", "links", "spread", "lent", "partitions", "windows", "cores", "het")
"""What there may be beside nodes."""
MORE = ("models", "tiers", "preempted")
"""What there may be besides, of which worlds of old know nothing: their draws come last."""
PLACES = ("first-fit", "first-fit", "best-fit", "worst-fit", "tightest-run", "min-fragmentation")
GPU_RULES = ("best-fit", "worst-fit", "pack", "spread", "drb", "topology", "fgd", "dot-product", "packing")


def some(draw: np.random.Generator, names: Sequence[str]) -> set[str]:
    """Up to five of these."""
    return set(draw.choice(names, int(draw.integers(0, 6)), replace=False).tolist())


def any_world(draw: np.random.Generator, parts: set[str]) -> World:
    """Up to 30 jobs on up to nine nodes, with these of ``PARTS``; none runs for longer than it asks."""
    count, alike = int(draw.integers(8, 31)), draw.random() < 0.25
    kinds = [{"count": int(draw.integers(1, 4)), "cores": int(draw.integers(1, 6)), "memory": int(draw.integers(2, 9))}
             for _ in range(int(draw.integers(1, 4)))]  # fmt: skip
    nodes, span = sum(kind["count"] for kind in kinds), int(draw.integers(5, 150))
    one, run = np.ones(count, np.int64), draw.integers(1, 30, count)
    over = np.where(draw.random(count) < 0.5, 0, draw.integers(0, 30, count))
    mb = draw.integers(0, 6 if "lent" in parts else 3, count)
    jobs: dict[str, Any] = {
        "submit_us": np.sort(draw.integers(0, span, count)) * S, "work_us": run * S, "request_us": (run + over) * S,
        "tasks": draw.integers(1, 5, count), "cores": one if alike else draw.integers(1, 4, count),
        "memory_mb": 0 * one if alike and "lent" not in parts else mb, "user": pl.Series(["u"] * count),
    }  # fmt: skip
    cluster: dict[str, Any] = {"nodes": kinds, "nodes_per_rack": int(draw.integers(1, 4))}
    devices, words, site = dict[tuple[str, str], Any](), dict[str, Any](), dict[str, Any]()

    def asks(most: int, often: float = 0.4, least: int = 1) -> Any:
        return np.where(draw.random(count) < often, draw.integers(least, most + 1, count), 0)

    def of_nodes() -> list[str]:
        return [str(at) for at in sorted(draw.choice(nodes, int(draw.integers(1, nodes + 1)), replace=False).tolist())]

    if "drives" in parts:
        pool = {"name": "drives", "kind": "nvme", "count": int(draw.integers(1, 7)), "share": int(draw.integers(1, 4)),
                "compose": int(draw.integers(1, 4)), "quantities": {"capacity_mb": 1000}}  # fmt: skip
        pool |= {"detach_latency": "3 s"} if draw.random() < 0.4 else {}
        pool |= {"attach_latency": "2 s"} if draw.random() < 0.2 else {}
        pool |= {"reach": of_nodes()} if draw.random() < 0.3 else {}
        cluster["pools"], devices["nvme", "capacity_mb"] = [pool], asks(int(draw.choice([600, 1900])))
    if "gpus" in parts:
        machine = {"gpus": int(draw.integers(1, 5)), "per_socket": 2}
        machine["per_socket"] = min(2, machine["gpus"])
        cluster["gpus"] = {"machines": [{"machine": machine, "nodes": f"0-{int(draw.integers(0, nodes))}"}]}
        sort = draw.integers(0, 4, count)
        devices["gpus", "count"] = np.where(sort == 1, draw.integers(1, 3, count), 0)
        devices["gpus", "milli"] = np.where(sort == 2, draw.integers(1, 9, count) * 100, 0)
    if "licences" in parts:
        racks = nodes > cluster["nodes_per_rack"]
        seats, by = int(draw.integers(1, 6)), str(draw.choice(["job", "task"]))
        slots, per = int(draw.integers(1, 4)), str(draw.choice(["node", "rack"])) if racks else "node"
        cluster["counted"] = [
            {"name": "seat", "amount": seats, "asked_by": by}, {"name": "slot", "amount": slots, "per": per},
        ]  # fmt: skip
        devices |= {("counted", "seat"): asks(2), ("counted", "slot"): asks(1)}
    if "links" in parts:
        cluster["links"], devices["links", "mb_s"] = {"mb_s": 10}, asks(8)
    if "spread" in parts:
        cluster["spread"] = {"groups": 2}
        devices |= {("spread", "group"): asks(2), ("spread", "most"): draw.integers(1, 3, count)}
    if "lent" in parts:
        cluster["lending"] = str(draw.choice(["all", "rack"]))
    if "partitions" in parts:
        partitions: list[dict[str, Any]] = [{"name": name, "nodes": of_nodes()} for name in "ab"]
        if draw.random() < 0.5:
            partitions[0]["limits"] = [{"per": "user", "amounts": {"jobs": int(draw.integers(1, 4))}}]
        site["partitions"] = partitions
        words["partition"] = draw.choice(["", "a", "b"], count).tolist()
    if "windows" in parts or "cores" in parts:
        kept: dict[str, Any] = {"name": "r", "nodes": of_nodes(), "start": int(draw.integers(10, 2 * span + 20)),
                                "duration": int(draw.integers(5, 60)), "users": ["other"]}  # fmt: skip
        kept |= {"cores": 1, "nodes": [f"0-{nodes - 1}"]} if "cores" in parts else {}
        site["reservations"] = [kept]
    if "het" in parts:
        words["het"] = [""] * count
        for at in draw.choice(count - 1, 2, replace=False).tolist():
            words["het"][at : at + 2] = [str(at + 1)] * 2
            for name in ("submit_us", "work_us", "request_us"):
                jobs[name][at + 1] = jobs[name][at]
    models: tuple[Any, ...] = ()
    if "models" in parts:
        pool = {"name": "shared", "kind": "ssd", "count": int(draw.integers(1, 4)), "share": 4,
                "compose": int(draw.integers(1, 3)), "quantities": {"capacity_mb": 1000}}  # fmt: skip
        cluster["pools"] = [*cluster.get("pools", []), pool]
        devices["ssd", "capacity_mb"] = np.where(draw.random(count) < 0.5, draw.integers(50, 400, count), 0)
        jobs["app"] = pl.Series(draw.choice(["shares", "other"], count).tolist())
        models = ({"model": "shares", "kind": "ssd", "linear": True, "most_devices": 2, "most_sharers": 4},)
    if "tiers" in parts:
        far = [{"name": f"far{at}", "count": 1, "memory": int(draw.integers(2, 9)), "tier": tier}
               for at, tier in enumerate(("rack", "far"))]  # fmt: skip
        cluster["memory_pools"] = far
        cluster["tiers"] = [
            {"name": "local", "price": 4},
            {"name": "rack", "cost": 1, "price": 2},
            {"name": "far", "cost": 2},
        ]
        cluster["pool_clusters"] = [[f"node{at}", *(f"node{nodes + p}" for p in range(2) if draw.random() < 0.7)]
                                    for at in range(nodes)]  # fmt: skip
        jobs["tasks"], jobs["memory_mb"] = one, draw.integers(1, 8, count)
        floor = (jobs["memory_mb"] * draw.random(count)).astype(np.int64)
        ceiling = np.where(draw.random(count) < 0.4, NO_CEILING, (jobs["memory_mb"] - floor) * 3)
        jobs["slo"] = tier_asks(floor, ceiling.astype(np.int64))
    if "preempted" in parts:
        modes = ["requeue", "requeue", "checkpoint", "cancel", "suspend"]
        low, high = of_nodes(), of_nodes()
        site["partitions"] = [
            {"name": "a", "nodes": low, "tier": 1, "preempt_mode": str(draw.choice(modes))},
            {"name": "b", "nodes": high, "tier": 2},
        ]
        site["preempt"] = {"by": "partition", "victims": str(draw.choice(["youngest", "fewest"])),
                           "exempt_time": int(draw.choice([0, 0, 7]))}  # fmt: skip
        words["partition"] = draw.choice(["", "a", "a", "b"], count).tolist()
    if site:
        cluster["site"] = site
    if words:
        jobs["extra"] = pl.DataFrame(words)
    return World(cluster, jobs | ({"devices": devices} if devices else {}), models)


def any_rules(draw: np.random.Generator, parts: set[str]) -> dict[str, str]:
    """How a policy places jobs where there is all this."""
    rules = {"place": str(draw.choice(PLACES))}
    if draw.random() < 0.25 and "cores" not in parts:
        rules["nodes"] = "whole"
    if "lent" in parts and "cores" not in parts:
        rules["memory"] = str(draw.choice(["naive", "local", "disaggregated"]))
    if "tiers" in parts:
        rules["memory"] = "slo"
    if "gpus" in parts and draw.random() < 0.5:
        rules["gpus"] = str(draw.choice(GPU_RULES))
    return rules
