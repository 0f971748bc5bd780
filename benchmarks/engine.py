"""How fast the engine is: each case against a plain-Python reference of the same algorithm, in one run.

    python benchmarks/engine.py [CASE ...] [--trace KTH.swf.gz]

Cases: kth-easy, kth-conservative, blue-easy, million-fcfs, large-easy, thousand-fcfs, first-use; the large and the
thousand have one node a processor. Without ``--trace``, the KTH cases use the log in $UNRACK_DATA/swf or a generated
one of its size. Reading and generating are not timed. Times are CPU seconds of this process; on a busy machine look at
the ratio. The peak of memory is of the process so far: name a case alone.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import reference

import unrack
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

SECOND = 1_000_000


def generated(count: int, processors: int, load: float, largest: int, seed: int = 0) -> Workload:
    random = np.random.default_rng(seed)
    tasks = 2 ** random.integers(0, largest + 1, count)
    run = np.maximum(1, random.lognormal(np.log(3600) - 1, 1.4, count)).astype(np.int64)
    rate = load * processors / np.mean(tasks * run)
    submit = np.cumsum(random.exponential(1 / rate, count)).astype(np.int64)
    request = (run * random.uniform(1, 5, count)).astype(np.int64)
    table = job_table(submit_us=submit * SECOND, work_us=run * SECOND, request_us=request * SECOND, tasks=tasks)
    return Workload("generated", table, Intake("generated", "benchmark", count, count))


def kth(trace: str | None) -> Workload:
    data = os.environ.get("UNRACK_DATA", "../shared/data")
    path = Path(trace) if trace else Path(data) / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz"
    if path.is_file():
        return unrack.read_trace(path)
    print(f"no {path}: a generated log of that size instead")
    return generated(28_476, 100, 0.7, 6)


def timed(name: str, workload: Workload, cluster: unrack.Cluster, policy: str, goal: str, compare: int | None) -> None:
    """Time the engine, and the reference on the first ``compare`` jobs of the same workload (None: on all)."""
    started = time.process_time()
    result = unrack.simulate(cluster, workload, policy)
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    jobs = workload.jobs
    some = len(jobs) if compare is None else compare
    plain = list(
        zip(
            jobs.submit_us[:some].tolist(),
            jobs.work_us[:some].tolist(),
            jobs.request_us[:some].tolist(),
            jobs.tasks[:some].tolist(),
            strict=True,
        )
    )
    started = time.process_time()
    starts = getattr(reference, policy)(plain, cluster.total_cores)
    plain_seconds = time.process_time() - started
    ours = (result.jobs["start_s"] * SECOND).round().cast(int).to_list()
    same = sum(a == b for a, b in zip(ours, starts, strict=False)) if some == len(jobs) else None
    rate, plain_rate = len(jobs) / seconds, some / plain_seconds
    agreement = f"{same}/{some} equal starts" if same is not None else f"reference on the first {some}"
    print(
        f"{name:18} {len(jobs):>9} jobs {seconds:7.2f} s {rate:>9,.0f} jobs/s | reference {plain_rate:>9,.0f} jobs/s | "
        f"ratio {rate / plain_rate:5.2f} | {agreement} | peak {peak:.2f} GiB | goal {goal}",
        flush=True,
    )


def first_use() -> None:
    """Time a first simulation with no compiled kernels on disk, in a process of its own."""
    code = (
        "import unrack\n"
        "w = unrack.generate({'jobs': 200, 'arrivals': {'gap_s': 1}, 'classes': [{'run_s': 60, 'tasks': 2}]}, seed=0)\n"
        "c = unrack.Cluster.homogeneous(nodes=20, cores=2)\n"
        "[unrack.simulate(c, w, p) for p in ('fcfs', 'easy', 'conservative', 'slurm')]\n"
    )
    with tempfile.TemporaryDirectory() as cache:
        seconds = []
        for _ in range(2):
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], env={**os.environ, "NUMBA_CACHE_DIR": cache}, check=True)
            seconds.append(time.perf_counter() - started)
    print(f"{'first-use':18} {seconds[0]:.1f} s, compilation included; {seconds[1]:.1f} s the next time | goal 20 s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "cases",
        nargs="*",
        default=[
            "first-use",
            "kth-easy",
            "kth-conservative",
            "blue-easy",
            "million-fcfs",
            "large-easy",
            "thousand-fcfs",
        ],
    )
    parser.add_argument("--trace")
    chosen = parser.parse_args()
    small = generated(12_000, 100, 0.7, 5)  # enough for the compiled loop
    for policy in ("fcfs", "easy", "conservative"):
        unrack.simulate(unrack.Cluster.homogeneous(nodes=100, cores=1), small, policy)  # load the compiled kernels
    for case in chosen.cases:
        if case == "first-use":
            first_use()
        elif case in ("kth-easy", "kth-conservative"):
            policy = case.partition("-")[2]
            goal = "100 000 jobs/s" if policy == "easy" else "3 s"
            timed(case, kth(chosen.trace), unrack.Cluster.preset("kth-sp2"), policy, goal, None)
        elif case == "blue-easy":
            workload = generated(230_000, 1152, 0.85, 9)
            timed(case, workload, unrack.Cluster.preset("sdsc-blue"), "easy", "15 s", None)
        elif case == "million-fcfs":
            workload = generated(1_000_000, 10_000, 0.8, 6)
            timed(case, workload, unrack.Cluster.homogeneous(10_000, 1), "fcfs", "80 000 jobs/s", 200_000)
        elif case == "large-easy":
            workload = generated(295_000, 80_640, 0.8, 12)
            timed(case, workload, unrack.Cluster.homogeneous(80_640, 1), "easy", "30 000 jobs/s, 1 GB", None)
        elif case == "thousand-fcfs":
            workload = generated(100_000, 1000, 0.8, 6)
            timed(case, workload, unrack.Cluster.homogeneous(1000, 1), "fcfs", "80 000 jobs/s", None)
        else:
            parser.error(f"unknown case {case!r}")


if __name__ == "__main__":
    main()
