"""A study places servers that come at once as ``unrack place`` does."""

from __future__ import annotations

import numpy as np
import polars as pl

import unrack
from unrack.cluster.spec import Cluster
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table
from unrack.workload.tier_asks import tier_asks
from unrack_papers.servers import place


def test_servers_that_come_at_once_in_a_study_are_placed_as_in_one_shot() -> None:
    draws = np.random.default_rng(7)
    centre = Cluster.preset("slo-basic")
    differ = 0
    for _ in range(8):
        count = 60
        mb = draws.integers(1_000, 30_000, count)
        floor = (mb * draws.random(count)).astype(np.int64)
        ceiling = np.maximum(((mb - floor) * draws.uniform(1, 2, count)).astype(np.int64), 1)
        cores = draws.integers(1, 30, count)
        zero = np.zeros(count, np.int64)
        jobs = job_table(
            submit_us=zero, work_us=zero + 10**6, tasks=zero + 1, cores=cores, memory_mb=mb,
            slo=tier_asks(floor, ceiling),
        )  # fmt: skip
        workload = Workload("at once", jobs, Intake("test", "generated", count, count))
        wanted = [
            {"cores": int(c), "mem": int(m), "local": int(f), "ceiling": int(w)}
            for c, m, f, w in zip(cores, mb, floor, ceiling, strict=True)
        ]
        homes = {}
        for order in ("request", "slo-ratio"):
            name = "fcfs" if order == "request" else order  # `slo` has ties of its own
            run = unrack.simulate(centre, workload, f"slo-best-fit(order={name})")
            homes[order] = (
                run.placements.group_by("job").agg(pl.col("first_node").min()).sort("job")["first_node"].to_list()
            )
            shot = place(centre, wanted, policy="best-fit", order=order)
            assert homes[order] == shot.allocation.cluster.tolist()
        differ += homes["request"] != homes["slo-ratio"]
    assert differ > 4
