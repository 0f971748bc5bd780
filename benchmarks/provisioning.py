"""Memory that follows use: how fast it is simulated, and what unrack's own ways bring beside the thesis's.

    python benchmarks/provisioning.py                     # speed: 27 000 jobs on 1490 nodes
    python benchmarks/provisioning.py --ways [--way WORDS …] [--usage FILE] [--seeds N] [--jobs N]
    python benchmarks/provisioning.py --growth [--seeds N] [--jobs N]

The first prints CPU seconds and memory of one run with contention and 5-minute looks, and their share of 60 s and 3 GB.
The second runs the thesis's systems (and, with FILE, measured series of memory, of which the second half is held back:
ways are chosen by looking at the first) under Dynamic as published and under other ways, and prints for each the
throughput and the stopped attempts over those of Dynamic on the same jobs, with 95 % intervals over seeds. The third
has jobs share 16 nodes, each with memory of its own, and prints what room for growth in reservations does to waits
(over those of memory that stays) and to stopped attempts.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np
from scipy import stats

import unrack
from unrack.workload.filters import filtered
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table
from unrack.workload.usage.curves import WHOLE, UsageCurves

DYNAMIC = "disaggregated(main=interval, provisioning=dynamic{})"
WAYS = {
    "predicted use": ", admit=0.9",
    "remote memory moves back": ", pull=yes",
    "both": ", admit=0.9, pull=yes",
    "both, 5 % free": ", admit=0.9, pull=yes, headroom=0.05",
    "band of 10 %": ", band=0.1",
    "keeps 30 %": ", keep=0.3",
    "least is lost": ", stop=least-lost",
}
SYSTEMS = (("32 GB", 0.5), ("64 GB", 1.0))
"""Memory of every node, and the node-hours by jobs that need more than 64 GB: the thesis's underprovisioned systems."""
REQUESTS: tuple[tuple[str, Any], ...] = (("+0 %", 0.0), ("+60 %", 0.6), ("+0 to 100 %", {"uniform": [0, 1]}))


def workload(seed: int, jobs: int, large: float, usage: dict[str, Any], more: Any, nodes: int = 1024) -> Workload:
    """Jobs of the thesis's chapter 8, what they use, and requests above it."""
    keys = {
        "model": "cirne", "parameters": "cirne-anl", "nodes": nodes, "cores_per_node": 32, "jobs": jobs, "load": 1.1,
        "memory": "table-5.5", "large_share": large, "normal_node": "64 GB", "profiles": "synthetic",
    }  # fmt: skip
    return filtered(unrack.generate(keys, seed=seed), {"usage": usage, "overestimate": more}, seed)


def speed() -> None:
    """CPU seconds and memory of one large run."""
    nodes = [{"count": 745, "cores": 32, "memory": memory} for memory in ("64 GB", "128 GB")]
    cluster = unrack.Cluster.from_dict({"nodes": nodes, "lending": "all"})
    policy = DYNAMIC.format("")
    for jobs in (200, 27_000):  # the first compiles
        drawn = workload(0, jobs, 0.5, {"shapes": "grizzly"}, 0.6, nodes=1490)
        start = time.process_time()
        result = unrack.simulate(cluster, drawn, policy, world=unrack.World(contention="synthetic"))
        took = time.process_time() - start
    usage, most = drawn.jobs.usage, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    assert usage is not None
    changes = len(usage.at) - len(usage.point) + 1
    print(f"27 000 jobs, 1490 nodes, {changes / 1e6:.1f} million changes of use: {took:.1f} s ({took / 60:.2f} of the "
          f"target), {most:.2f} GB ({most / 3:.2f}); {len(result.log.span_attempt)} spans")  # fmt: skip


def compared(sources: dict[str, dict[str, Any]], ways: dict[str, str], seeds: int, jobs: int) -> None:
    """What every way brings, beside Dynamic."""
    for name, usage in sources.items():
        for memory, large in SYSTEMS:
            cluster = unrack.Cluster.from_dict(
                {"nodes": [{"count": 1024, "cores": 32, "memory": memory}], "lending": "all"}
            )
            for words, more in REQUESTS:
                found: dict[str, list[tuple[float, float]]] = {}
                for seed in range(seeds):
                    drawn = workload(seed, jobs, large, usage, more)
                    for way, keys in {"Dynamic": "", **ways}.items():
                        result = unrack.simulate(
                            cluster, drawn, DYNAMIC.format(keys), world=unrack.World(contention="synthetic")
                        )
                        numbers = result.measured
                        found.setdefault(way, []).append(
                            (numbers["throughput_jobs_per_h"] or 0.0, numbers["memory_stops"] or 0.0)
                        )
                print(f"{name}, nodes of {memory}, {100 * large:.0f} % large jobs, requests {words}", flush=True)
                base = np.array(found["Dynamic"])
                print(f"  {'Dynamic':26} {base[:, 0].mean():8.3f} jobs/h, {base[:, 1].mean():6.1f} stops", flush=True)
                for way in ways:
                    own = np.array(found[way])
                    thr, stops = interval(100 * (own[:, 0] / base[:, 0] - 1)), interval(own[:, 1] - base[:, 1])
                    print(f"  {way:26} throughput {thr} %, stops {stops}", flush=True)


def sharing(seed: int, jobs: int) -> Workload:
    """Jobs of a few cores and GB a task that use a part of what they ask, in three steps, and ask for more time."""
    random = np.random.default_rng(seed)
    run_s, gb = np.ceil(random.lognormal(7, 1, jobs)), random.integers(1, 25, jobs)
    tasks, cores = random.integers(1, 5, jobs), random.integers(1, 5, jobs)
    gaps = random.exponential((run_s * tasks * cores).mean() / (16 * 16), jobs)
    used = np.ceil(random.random((jobs, 3)) * gb[:, np.newaxis] * 1024).astype(np.int64)
    at = np.tile(np.array([0, 3, 7]) * (WHOLE // 10), jobs)
    table = job_table(
        submit_us=(np.cumsum(gaps) * 1e6).astype(np.int64), work_us=(run_s * 1e6).astype(np.int64),
        request_us=(run_s * random.uniform(1, 2, jobs) * 1e6).astype(np.int64), tasks=tasks, cores=cores,
        memory_mb=gb * 1024, usage=UsageCurves(np.arange(jobs + 1), 3 * np.arange(jobs + 1), at, used.ravel()),
    )  # fmt: skip
    return Workload(f"sharing, seed {seed}", table, Intake("drawn", "benchmark", jobs, jobs))


def grown(seeds: int, jobs: int) -> None:
    """What room for growth does under three schedulers."""
    cluster = unrack.Cluster.from_dict({"nodes": [{"count": 16, "cores": 16, "memory": "64 GB"}]})
    for scheduler in ("easy", "conservative", "slurm"):
        for growth in (0, 0.5, 1):
            waits, stops = [], []
            for seed in range(seeds):
                drawn = sharing(seed, jobs)
                ways = (scheduler, f"{scheduler}(provisioning=dynamic, growth={growth})")
                fixed, found = (unrack.simulate(cluster, drawn, way).measured for way in ways)
                waits.append(100 * ((found["wait_s_mean"] or 0) / (fixed["wait_s_mean"] or 1) - 1))
                stops.append(found["memory_stops"] or 0.0)
            wait, stop = (interval(np.array(one)) for one in (waits, stops))
            print(f"{scheduler:14} growth={growth:<4} mean wait {wait} %, stops {stop}", flush=True)


def interval(values: np.ndarray) -> str:
    """A mean with its 95 % interval."""
    if len(values) < 2:
        return f"{values.mean():+7.1f}"
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():+7.1f} ± {half:4.1f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--usage", help="series of memory, as `unrack usage info` reads them")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="one of the ways; default: all")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1000)
    chosen = parser.parse_args()
    if chosen.growth:
        grown(chosen.seeds, chosen.jobs)
        return
    if not chosen.ways:
        speed()
        return
    sources: dict[str, dict[str, Any]] = {"google": {"shapes": "google"}, "grizzly": {"shapes": "grizzly"}}
    if chosen.usage:
        file = {"file": chosen.usage, "match": "random", "thin": 0.02}
        sources = {f"{part} of the file": {**file, "part": part} for part in ("first half", "second half")}
    ways = {name: WAYS[name] for name in chosen.way or WAYS}
    compared(sources, ways, chosen.seeds, chosen.jobs)


if __name__ == "__main__":
    main()
