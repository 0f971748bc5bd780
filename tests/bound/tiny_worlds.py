"""Tiny worlds at random, and the same worlds in the engine's terms."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
from exhaustive import Ask, Instance, Shelf

from unrack.cluster.pools.pool import Pace
from unrack.cluster.spec import Cluster
from unrack.units import SECOND_US
from unrack.workload.job import JobTable, job_table

SMUFIN_S = {
    1: [1489.15, 1601.25, 1677.35, 1936.245, 2411.56, 2802.62],
    2: [1455.48, 1455.45, 1474.12, 1569.89, 1668.35, 1835.62],
    3: [1478.5, 1461.5, 1513.0, 1550.5, 1578.5, 1618.5],
}
"""Times by devices and sharers, s (Call et al. 2022); base time 1600 s."""
SMUFIN = {(d, k): 1600 / time for d, times in SMUFIN_S.items() for k, time in enumerate(times, 1)}
STEEP = {(1, 1): 1.0, (1, 2): 0.75, (1, 3): 0.4, (2, 1): 1.9, (2, 2): 1.0}
"""Made up, so that composing and sharing matter."""
QUANTITIES = ("bandwidth_mb_s", "capacity_mb")


def random_instance(seed: int, jobs: int) -> Instance:
    """Up to two nodes, three devices and a crowd of jobs with deadlines that often cannot all be met."""
    rng = random.Random(seed)
    nodes = rng.choice([1, 2, 2])
    everywhere = tuple(range(nodes))
    count = rng.choice([1, 2, 3])
    share, compose, single = rng.choice([99, 99, 1, 2]), rng.choice([1, 2, 3]), rng.random() < 0.8
    compose = min(compose, count) if single else 1  # what is attached to several nodes is not composed
    shelves = [Shelf(count, everywhere, compose, share, single)]
    if rng.random() < 0.3:
        shelves = [Shelf(count, (rng.randrange(nodes),), compose, share, single)]
    if rng.random() < 0.2 and count < 3:
        shelves.append(Shelf(1, (rng.randrange(nodes),), 1, share, single))
    asks = []
    span = rng.choice([0, 600, 2000])
    for _ in range(jobs):
        release = rng.randrange(0, span + 1, 100)
        what = rng.choice(["smufin", "smufin", "steep", "capacity", "both", "compute"])
        work, cores, amounts, model = {
            "smufin": (1600, 6, (1800, 43), "smufin"),
            "steep": (rng.choice([400, 1000]), rng.choice([1, 3]), (1000, rng.choice([0, 43, 700])), "steep"),
            "capacity": (800, 6, (160, 600), None),
            "both": (rng.choice([300, 900]), 2, (rng.choice([900, 1900]), rng.choice([20, 550])), None),
            "compute": (900, rng.choice([3, 8]), (), None),
        }[what]
        due = None if rng.random() < 0.05 else release + int(work * rng.choice([0.6, 1.0, 1.2, 1.2, 1.5, 2.0, 3.0]))
        asks.append(Ask(release, work, cores, due, amounts, model))
    cores = tuple(rng.choice([8, 12]) for _ in everywhere)
    return Instance(cores, tuple(asks), tuple(shelves), (2000, 600), {"smufin": SMUFIN, "steep": STEEP})


def cluster_of(instance: Instance) -> Cluster:
    """Its nodes, and its shelves as pools of NVMe."""
    pools = [
        {
            "name": f"pool{i}",
            "kind": "nvme",
            "count": shelf.count,
            "quantities": dict(zip(QUANTITIES, instance.device, strict=True)),
            "attach": "single" if shelf.single else "multi",
            "share": shelf.share,
            "reach": [str(node) for node in shelf.reach],
            "compose": min(shelf.compose, shelf.count),
        }
        for i, shelf in enumerate(instance.shelves)
    ]
    nodes = [{"count": 1, "cores": cores, "name": f"n{i}"} for i, cores in enumerate(instance.cores)]
    return Cluster.from_dict({"nodes": nodes, "pools": pools})


def jobs_of(instance: Instance) -> JobTable:
    """Its jobs in order of release, each with its model as its app."""
    asks = instance.jobs
    order = sorted(range(len(asks)), key=lambda job: (asks[job].release, job))
    asks = tuple(asks[job] for job in order)
    column = {q: np.array([ask.amounts[q] if ask.amounts else 0 for ask in asks], np.int64) for q in (0, 1)}
    return job_table(
        submit_us=np.array([round(ask.release * SECOND_US) for ask in asks]),
        work_us=np.array([round(ask.work * SECOND_US) for ask in asks]),
        tasks=np.ones(len(asks), np.int64),
        cores=np.array([ask.cores for ask in asks]),
        deadline_us=np.array([-1 if ask.due is None else round(ask.due * SECOND_US) for ask in asks]),
        app=pl.Series([ask.model for ask in asks], dtype=pl.String),
        devices={("nvme", name): column[q] for q, name in enumerate(QUANTITIES)},
    )


def pace_of(instance: Instance, frozen: bool = False) -> Pace:
    """Its models, for the jobs in the order of :func:`jobs_of`."""
    names = sorted(instance.models)
    speeds = np.zeros((len(names), 4, 7))
    governed = np.zeros((len(names), len(QUANTITIES)), np.bool_)
    for m, name in enumerate(names):
        table = instance.models[name]
        most = max(d for d, _ in table)
        for d in range(1, 4):
            for k in range(1, 7):
                speeds[m, d, k] = table.get((min(d, most), k), 0.0)
        governed[m, sorted(instance.governed)] = True
    asks = sorted(instance.jobs, key=lambda ask: ask.release)
    model = np.array([[-1 if ask.model is None else names.index(ask.model) for ask in asks]], np.int64)
    return Pace(model, speeds, governed, np.full(len(names), frozen))


def fastest_of(instance: Instance) -> np.ndarray:
    """int64[jobs]: fastest runs, µs, in the order of :func:`jobs_of`; a job that never fits runs its work."""
    order = sorted(range(len(instance.jobs)), key=lambda job: (instance.jobs[job].release, job))
    runs = [min(instance.fastest(job), 10 * instance.jobs[job].work) for job in order]
    return np.array([int(run * SECOND_US) for run in runs], np.int64)
