"""Policies of one's own on tiers of memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import PolicyError
from unrack.policy import Lease, OnTiers, View, offer
from unrack.policy.file import load_policy
from unrack_papers.servers import place
from unrack_papers.workloads.server_generator import servers

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_tier_policy.py"


def centre(nodes: int = 6, **more: Any) -> Cluster:
    content = {
        "nodes": [{"count": nodes, "cores": 112, "memory": "32 GB"}],
        "memory_pools": [
            {"name": "r", "count": nodes, "memory": "128 GB", "tier": "rack"},
            {"name": "f", "count": nodes // 2, "memory": "512 GB", "tier": "far", "shared_by": 2},
        ],
        "tiers": [{"name": "local", "price": 100}, {"name": "rack", "cost": 1, "price": 50},
                  {"name": "far", "cost": 1.5, "price": 25}],
        **more,
    }  # fmt: skip
    return Cluster.from_dict(content)


def first_offer(view: View, job: int, now: int) -> Lease | None:
    """The first cluster that can take it."""
    made = (offer(view, job, cluster) for cluster in range(view.cluster.tiers.clusters))
    return next((one.lease for one in made if one is not None), None)


def most_used_first(view: View, job: int, now: int) -> Lease | None:
    """The paper's allocator, sorted anew each time; right as long as nobody leaves and utilisations never tie."""
    tiers = view.cluster.tiers
    used = []
    for cluster in range(tiers.clusters):
        pools = tiers.pools(cluster)
        cores, mb = (100 - 100 * view.free[row, pools].sum() / view.total[row, pools].sum() for row in (0, 1))
        used.append(int(cores) // 2 + int(mb) // 2)
    made = (offer(view, job, cluster) for cluster in np.argsort(-np.array(used), kind="stable").tolist())
    return next((one.lease for one in made if one is not None), None)


@pytest.mark.parametrize("place", [first_offer, load_policy(f"{EXAMPLE}:CHEAPEST").place], ids=["first", "cheapest"])
def test_servers_are_within_their_slos_and_replicas_apart_at_all_times(place: Any) -> None:
    workload = servers(
        400,
        alive=70,
        seed=5,
        lifetime_s={"kind": "exponential", "mean": 3600},
        replicas={"share": 0.5, "spread": "node"},
    )
    result = unrack.simulate(centre(), workload, OnTiers(place, order="fcfs", label="own"))
    jobs = result.jobs.filter(pl.col("state") == "finished")
    assert jobs.height > 300
    assert set(jobs["slo"].to_list()) == {"met"}
    held = result.placements.select("job", "start_s", "end_s", node="first_node").vstack(
        result.table("loans").select("job", "start_s", "end_s", node="lender")
    )
    together = held.join(jobs.select("job", "group").drop_nulls(), on="job")
    pairs = together.join(together, on=["group", "node"]).filter(
        (pl.col("job") != pl.col("job_right"))
        & (pl.col("start_s") < pl.col("end_s_right"))
        & (pl.col("start_s_right") < pl.col("end_s"))
    )
    assert pairs.height == 0
    assert together["group"].n_unique() > 30


@pytest.mark.parametrize("seed", range(6))
def test_an_offer_is_what_the_allocator_would_give(seed: int, tmp_path: Path) -> None:
    draws = np.random.default_rng(seed)
    found: list[float] = []

    def ask(view: View, job: int, now: int) -> Lease | None:
        made = offer(view, job, 0)
        found.append(-1.0 if made is None else made.price_per_h)
        return None

    cores, mem = int(draws.integers(1, 130)), int(draws.integers(1000, 900_000))
    floor, ceiling = int(draws.integers(0, min(mem, 40_000))), int(1.3 * mem)
    request = {"cores": cores, "mem": mem, "local": floor, "ceiling": ceiling, "pinned": 0}
    try:
        placed = place(centre(), [request])
        wanted = -1.0 if len(placed.unplaced) else placed.price / placed.cluster.tiers.price_scale / 1024
    except unrack.InputError:
        wanted = -1.0  # a ceiling below what an empty cluster can give
    row = {"submit_s": [0], "run_s": [60], "cores": [cores], "memory_mb": [mem], "local": [floor], "ceiling": [ceiling]}
    pl.DataFrame(row).write_csv(tmp_path / "one.csv")
    policy = OnTiers(ask, order="fcfs", label="asks")
    unrack.simulate(centre(), unrack.read_trace(str(tmp_path / "one.csv")), policy)
    assert (found[0] if found else -1.0) == pytest.approx(wanted)


def test_the_papers_allocator_in_ten_lines_begins_as_the_built_in_one() -> None:
    workload = servers(60, seed=3)
    own = unrack.simulate(centre(), workload, OnTiers(most_used_first, order="fcfs", label="own"))
    built_in = unrack.simulate(centre(), workload, "slo")
    columns = ["job", "mb_local", "mb_rack", "mb_far", "price_per_h"]
    assert own.jobs["price_per_h"].sum() == pytest.approx(built_in.jobs["price_per_h"].sum(), rel=0.05)
    assert own.jobs.select(columns)[:10].equals(built_in.jobs.select(columns)[:10])


def test_a_cluster_without_tiers_and_jobs_that_are_no_servers_are_refused() -> None:
    policy = OnTiers(first_offer, order="fcfs", label="own")
    spec = {"jobs": 3, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 60, "tasks": 2}]}
    with pytest.raises(PolicyError, match="without tiers"):
        unrack.simulate(Cluster.homogeneous(nodes=2, cores=4), unrack.generate(spec, seed=0), policy)
    with pytest.raises(PolicyError, match="of 2 tasks"):
        unrack.simulate(centre(), unrack.generate(spec, seed=0), policy)
