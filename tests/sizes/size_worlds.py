"""Small random worlds of jobs with sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

import unrack
from unrack.cluster.spec import Cluster
from unrack.sim.result import Result
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

S = 10**6


def world(seed: int, kind: str, count: int = 14) -> tuple[int, list[dict[str, Any]]]:
    """Cores, and jobs of which some have one size."""
    draw = np.random.default_rng([seed, len(kind)])
    cores = int(draw.integers(4, 10))
    submits = np.sort(draw.integers(0, int(draw.integers(40, 200)), count))
    jobs = []
    for submit in submits.tolist():
        sizes = sorted(draw.choice(np.arange(1, cores + 1), int(draw.integers(1, 4)), replace=False).tolist())
        tasks, work = int(draw.choice(sizes)), int(draw.integers(5, 60)) * S
        alpha = float(draw.choice([0.0, 0.3, 0.7, 1.0]))
        times = {n: max(1, round(600 / n**alpha)) for n in sizes}
        request = work + int(draw.integers(0, 2)) * int(draw.integers(0, 50)) * S
        change = int(draw.choice([0, 1, 5])) * S
        able = kind == "malleable" and bool(draw.integers(0, 4))
        asks = []
        if kind == "evolving" and len(sizes) > 1 and draw.integers(0, 4):
            shares = sorted({round(float(share), 2) for share in draw.uniform(0.05, 0.95, int(draw.integers(1, 4)))})
            asks = [(share, int(draw.choice(sizes))) for share in shares]
        elif kind == "evolving":
            able = bool(draw.integers(0, 2))
        jobs.append({"submit": submit * S, "work": work, "request": request, "tasks": tasks, "times": times,
                     "malleable": able, "change": change, "asks": asks})  # fmt: skip
    return cores, jobs


def workload(jobs: list[dict[str, Any]], **more: Any) -> Workload:
    """The same for unrack."""
    extra = pl.DataFrame(
        {
            "sizes": [";".join(f"{n}:{t}" for n, t in job["times"].items()) for job in jobs],
            "flexibility": [
                "malleable" if job["malleable"] else "evolving" if job.get("asks") else "moldable" for job in jobs
            ],
            "evolves": [";".join(f"{share}:{n}" for share, n in job.get("asks", ())) or None for job in jobs],
            "change_s": [job["change"] / S for job in jobs],
        }
    )
    columns = {name: np.array([job[name] for job in jobs], np.int64) for name in ("submit", "work", "request", "tasks")}
    table = job_table(
        submit_us=columns["submit"], work_us=columns["work"], request_us=columns["request"], tasks=columns["tasks"],
        extra=extra, **more,
    )  # fmt: skip
    return Workload("sizes", table, Intake("", "", 0, 0))


def run(cores: int, jobs: list[dict[str, Any]], policy: str, **more: Any) -> Result:
    """A run of them."""
    cluster = Cluster.from_dict({"nodes": [{"count": cores, "cores": 1, "memory": 4}]})
    return unrack.simulate(cluster, workload(jobs, **more), policy)


def spans(result: Result) -> dict[int, list[tuple[int, int]]]:
    """Job → when each of its spans began, µs, and with how many tasks."""
    placements = result.placements
    found: dict[int, dict[int, list[int]]] = {}
    for row in placements.iter_rows(named=True):
        span = found.setdefault(int(row["job"]) - 1, {}).setdefault(row["span"], [round(row["start_s"] * S), 0])
        span[1] += row["nodes"] * row["tasks_per_node"]
    return {job: [(start, size) for start, size in own.values()] for job, own in found.items()}
