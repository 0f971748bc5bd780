"""How fast a site is: partitions that overlap, users and accounts, fair share, in CPU seconds of this process.

    python benchmarks/site.py [POLICY ...] [--jobs 100000] [--single] [--kept] [--profile]

400 nodes of 32 cores in 20 partitions, 500 users of 40 accounts, a load of 0.9. ``--single``: every task asks for a
core. ``--kept``: every other hour a reservation keeps three cores of each node for one user. Generating is not timed,
nor is loading the compiled kernels: a small run goes first.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import time
from typing import Any

import numpy as np
import polars as pl

import unrack
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

SECOND = 1_000_000
NODES, CORES, PARTITIONS, USERS, ACCOUNTS = 400, 32, 20, 500, 40
POLICIES = ("easy", "easy(order=multifactor)")


def site(kept: bool) -> dict[str, Any]:
    """The cluster, as of a file: one partition of all nodes, and others of 40 nodes, of which neighbours share half."""
    course = {"name": "course", "nodes": [f"0-{NODES - 1}"], "cores": 3, "start": "1 h", "duration": "1 h",
              "every": "2 h", "until": "2 d", "users": ["u0"]}  # fmt: skip
    every = {"name": "p0", "nodes": [f"0-{NODES - 1}"]}
    own = [
        {"name": f"p{i}", "nodes": [f"{20 * (i - 1)}-{min(NODES, 20 * (i - 1) + 40) - 1}"]}
        for i in range(1, PARTITIONS)
    ]
    accounts = [
        {"name": f"a{a}", "shares": 1 + a % 5, "users": [f"u{u}" for u in range(a, USERS, ACCOUNTS)]}
        for a in range(ACCOUNTS)
    ]
    weights = {"age": 1000, "fair_share": 10_000, "job_size": 100}
    partitions = [every, *own]
    return {
        "nodes": [{"count": NODES, "cores": CORES}],
        "site": {
            "partitions": partitions, "accounts": accounts, "priority": weights, "reservations": [course] * kept,
        },
    }  # fmt: skip


def jobs(count: int, single: bool, load: float = 0.9, seed: int = 0) -> Workload:
    """Jobs of up to 64 cores (``single``: in tasks of one), which run for minutes to hours, in all partitions."""
    draw = np.random.default_rng(seed)
    cores = 2 ** draw.integers(0, 7, count)
    tasks, each = (cores, np.ones(count, np.int64)) if single else (np.maximum(1, cores // 16), np.minimum(cores, 16))
    run = np.clip(draw.lognormal(np.log(1800), 1.2, count), 10, 86_400).astype(np.int64)
    rate = load * NODES * CORES / np.mean(cores * run)
    submit = np.cumsum(draw.exponential(1 / rate, count)).astype(np.int64)
    user = draw.integers(0, USERS, count)
    table = job_table(
        submit_us=submit * SECOND, work_us=run * SECOND,
        request_us=(run * draw.uniform(1, 4, count)).astype(np.int64) * SECOND,
        tasks=tasks, cores=each, user=pl.Series([f"u{u}" for u in user]),
        extra=pl.DataFrame({
            "partition": [f"p{p}" for p in draw.integers(0, PARTITIONS, count)],
            "account": [f"a{u % ACCOUNTS}" for u in user],
        }),
    )  # fmt: skip
    return Workload("site", table, Intake("", "", 0, 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", nargs="*", default=POLICIES)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--single", action="store_true")
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    cluster, workload = unrack.Cluster.from_dict(site(given.kept)), jobs(given.jobs, given.single)
    for policy in given.policies:
        unrack.simulate(cluster, jobs(min(given.jobs, 2500), given.single), policy)
        profile = cProfile.Profile()
        if given.profile:
            profile.enable()
        started = time.process_time()
        found = unrack.simulate(cluster, workload, policy).jobs
        seconds = time.process_time() - started
        profile.disable()
        wait = (found["start_s"] - pl.Series(workload.jobs.submit_us / SECOND)).mean()
        print(
            f"{policy:32} {given.jobs:>8} jobs {seconds:7.2f} s of CPU, a mean wait of {wait:.1f} s "
            f"(load of the machine {os.getloadavg()[0]:.1f})",
            flush=True,
        )
        if given.profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
