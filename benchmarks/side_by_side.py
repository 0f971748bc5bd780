"""Is this checkout slower than another? The same cases in both, by turns, in one run.

    python benchmarks/side_by_side.py OTHER [CASE ...] [--rounds N]

OTHER is a checkout with an environment of its own (``git worktree add ../before COMMIT && make -C ../before env``).
Each case runs in a process of each checkout, by turns, N times (3); each process runs it once to compile, then three
times. Printed: the least CPU time of each, and theirs ÷ ours (above 1: this checkout is faster), without and with the
audit of the tables, which older checkouts do not have. Starts are compared too: ``same`` or how many differ.
"""

from __future__ import annotations

import argparse
import inspect
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
REPEATS = 3
DISTANT = {"rack": "128 GB", "far": "256 GB"}
"""Memory of a pool of each tier but the local one."""


def batch(policy: str, jobs: int, cores: int) -> dict[str, Any]:
    import numpy as np

    import unrack
    from unrack.workload.job import Intake, Workload, job_table

    draws = np.random.default_rng(0)
    tasks = 2 ** draws.integers(0, 7, jobs)
    run = np.maximum(1, draws.lognormal(np.log(3600) - 1, 1.4, jobs)).astype(np.int64)
    submit = np.cumsum(draws.exponential(np.mean(tasks * run) / (0.7 * cores), jobs)).astype(np.int64)
    request = (run * draws.uniform(1, 5, jobs)).astype(np.int64)
    second = 1_000_000
    table = job_table(submit_us=submit * second, work_us=run * second, request_us=request * second, tasks=tasks)
    workload = Workload("generated", table, Intake("generated", "benchmark", jobs, jobs))
    return {"cluster": unrack.Cluster.homogeneous(nodes=cores, cores=1), "workload": workload, "policy": policy}


def pools(policy: str) -> dict[str, Any]:
    import unrack

    workload = unrack.generate({"scenario": "nvme-s1", "load": 0.8}, seed=0)
    return {"cluster": unrack.Cluster.preset("nvme-pool"), "workload": workload, "policy": policy, "models": ["smufin"]}


def lending(policy: str, contention: str | None) -> dict[str, Any]:
    import unrack

    keys = {"model": "cirne", "nodes": 256, "cores_per_node": 32, "jobs": 2000, "load": 1.0, "memory": "profiles",
            "profiles": "synthetic", "large_share": 0.5, "normal_node": "32 GB"}  # fmt: skip
    cluster = unrack.memory_system(nodes=256, large_share=0.0)
    return {"cluster": cluster, "workload": unrack.generate(keys, seed=0), "policy": policy, "contention": contention}


def tiers() -> dict[str, Any]:
    import unrack

    pools = [{"name": name, "tier": name, "count": 16, "memory": memory} for name, memory in DISTANT.items()]
    cluster = unrack.Cluster.from_dict({
        "nodes": [{"name": "compute", "count": 16, "cores": 112, "memory": "32 GB"}],
        "tiers": [{"name": "local", "price": 99}, {"name": "rack", "cost": 1, "price": 50}, {"name": "far", "cost": 2}],
        "memory_pools": pools,
    })  # fmt: skip
    lifetime = {"kind": "exponential", "mean": 14_400}
    keys = {"servers": 6000, "alive": 200, "steady": True, "lifetime_s": lifetime}
    return {"cluster": cluster, "workload": unrack.generate(keys, seed=0), "policy": "slo"}


CASES = {
    "easy": lambda: batch("easy", 28_000, 100),
    "fcfs": lambda: batch("fcfs", 28_000, 100),
    "conservative": lambda: batch("conservative", 28_000, 100),
    "slurm": lambda: batch("slurm", 28_000, 100),
    "pools, first fit": lambda: pools("first-fit"),
    "pools, aware": lambda: pools("disaggregation-aware"),
    "pools, lookahead": lambda: pools("lookahead"),
    "lending": lambda: lending("disaggregated", None),
    "lending, contended": lambda: lending("contention-aware", "synthetic"),
    "tiers": tiers,
}


def one(case: str) -> None:
    """Run a case in this process and print its CPU times and starts."""
    import unrack

    keys = CASES[case]()
    able = "audit" in inspect.signature(unrack.simulate).parameters
    found: dict[str, Any] = {}
    for way in ("plain", "audited") if able else ("plain",):
        times = []
        for _ in range(REPEATS + 1):
            began = time.process_time()
            result = unrack.simulate(**keys, **({"audit": way == "audited"} if able else {}))
            times.append(time.process_time() - began)
        found[way] = min(times[1:])
    log = result.log
    found["starts"] = sorted(zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True))
    print(json.dumps(found))


def answer(checkout: Path, case: str) -> dict[str, Any]:
    command = [str(checkout / ".venv" / "bin" / "python"), str(Path(__file__)), "--one", case]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{checkout}, {case}:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", nargs="?", type=Path)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one)
        return
    if given.other is None:
        parser.error("the other checkout is missing")
    print(f"{'case':20} {'theirs, s':>9} {'ours, s':>9} {'ratio':>6} {'audited':>8}  starts")
    for case in given.cases or CASES:
        least: dict[str, float] = {}
        starts: dict[str, Any] = {}
        for _ in range(given.rounds):
            for name, checkout in (("theirs", given.other.resolve()), ("ours", HERE)):
                found = answer(checkout, case)
                starts[name] = found["starts"]
                for way in ("plain", "audited"):
                    if way in found:
                        least[name, way] = min(found[way], least.get((name, way), found[way]))
        theirs, ours = least["theirs", "plain"], least["ours", "plain"]
        differ = len(set(map(tuple, starts["theirs"])) ^ set(map(tuple, starts["ours"]))) // 2
        audited = least.get(("ours", "audited"), ours)
        words = "same" if not differ else f"{differ} differ"
        print(f"{case:20} {theirs:9.3f} {ours:9.3f} {theirs / ours:6.2f} {theirs / audited:8.2f}  {words}", flush=True)


if __name__ == "__main__":
    main()
