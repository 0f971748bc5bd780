"""Is this checkout slower than another? The same cases in both, by turns, in one run.

    python benchmarks/side_by_side.py OTHER [CASE ...] [--rounds N]

OTHER is a checkout with an environment of its own (``git worktree add ../before COMMIT && make -C ../before env``).
A process of each checkout runs a case by turns, run for run, N times (9, and on for some seconds): a machine that is
slow for a while is so for both. Printed: the least CPU time of each, and the median of theirs ÷ ours (above 1: this
checkout is faster), without and with the audit of the tables, which older checkouts do not have. Starts are compared
too: ``same`` or how many differ.
"""

from __future__ import annotations

import argparse
import inspect
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parents[1]
LEAST_S, MOST_ROUNDS = 20.0, 50
DISTANT = {"rack": "128 GB", "far": "256 GB"}
"""Memory of a pool of each tier but the local one."""


def batch(policy: str, jobs: int, cores: int) -> dict[str, Any]:
    import numpy as np

    import unrack
    from unrack.workload.formats.rules import Intake
    from unrack.workload.job import Workload, job_table

    draws = np.random.default_rng(0)
    tasks = 2 ** draws.integers(0, 7, jobs)
    run = np.maximum(1, draws.lognormal(np.log(3600) - 1, 1.4, jobs)).astype(np.int64)
    submit = np.cumsum(draws.exponential(np.mean(tasks * run) / (0.7 * cores), jobs)).astype(np.int64)
    request = (run * draws.uniform(1, 5, jobs)).astype(np.int64)
    second = 1_000_000
    table = job_table(submit_us=submit * second, work_us=run * second, request_us=request * second, tasks=tasks)
    workload = Workload("generated", table, Intake("generated", "benchmark", jobs, jobs))
    return {"cluster": unrack.Cluster.homogeneous(nodes=cores, cores=1), "workload": workload, "policy": policy}


def pools(policy: str, scenario: str = "nvme-s1", base: bool = False) -> dict[str, Any]:
    """A case of pools; ``base``: without a model, the world that older checkouts gave first fit in any study."""
    import unrack

    workload = unrack.generate({"scenario": scenario, "load": 0.8}, seed=0)
    world = unrack.World(models=[] if base else ["smufin"])
    return {"cluster": unrack.Cluster.preset("nvme-pool"), "workload": workload, "policy": policy, "world": world}


def lending(policy: str, contention: str | None) -> dict[str, Any]:
    import unrack

    keys = {"model": "cirne", "nodes": 256, "cores_per_node": 32, "jobs": 2000, "load": 1.0, "memory": "profiles",
            "profiles": "synthetic", "large_share": 0.5, "normal_node": "32 GB"}  # fmt: skip
    cluster = unrack.memory_system(nodes=256, large_share=0.0)
    world = unrack.World(contention=contention)
    return {"cluster": cluster, "workload": unrack.generate(keys, seed=0), "policy": policy, "world": world}


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
    "easy, 2 000 nodes": lambda: batch("easy", 28_000, 2_000),
    "easy by sjf": lambda: batch("easy(order=sjf)", 28_000, 100),
    "conservative": lambda: batch("conservative", 28_000, 100),
    "slurm": lambda: batch("slurm", 28_000, 100),
    "pools, first fit": lambda: pools("first-fit", base=True),
    "pools, aware": lambda: pools("disaggregation-aware"),
    "pools, aware, S2": lambda: pools("disaggregation-aware", "nvme-s2"),
    "pools, lookahead": lambda: pools("lookahead"),
    "lending": lambda: lending("disaggregated", None),
    "lending, contended": lambda: lending("contention-aware", "synthetic"),
    "tiers": tiers,
}


def serve(case: str) -> None:
    """Compile, print the starts, then simulate once for every line read (``plain`` or ``audited``): its CPU time."""
    import unrack

    keys = CASES[case]()
    able = "audit" in inspect.signature(unrack.simulate).parameters
    log = unrack.simulate(**keys).log
    print(json.dumps(sorted(zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True))), flush=True)
    for line in sys.stdin:
        began = time.process_time()
        unrack.simulate(**keys, **({"audit": line.strip() == "audited"} if able else {}))
        print(time.process_time() - began, flush=True)


class Checkout:
    """A process of a checkout that waits to be asked."""

    def __init__(self, checkout: Path, case: str) -> None:
        command = [str(checkout / ".venv" / "bin" / "python"), str(Path(__file__)), "--serve", case]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.starts = json.loads(self.line())

    def line(self) -> str:
        """What it says next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit("a checkout has failed: see above")
        return line

    def time(self, way: str) -> float:
        """CPU seconds of one more run."""
        print(way, file=self.process.stdin, flush=True)
        return float(self.line())

    def end(self) -> None:
        """Ask no more."""
        self.process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", nargs="?", type=Path)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    if given.other is None:
        parser.error("the other checkout is missing")
    print(f"{'case':20} {'theirs, s':>9} {'ours, s':>9} {'ratio':>6} {'audited':>8}  starts")
    for case in given.cases or CASES:
        theirs, ours = Checkout(given.other.resolve(), case), Checkout(HERE, case)
        times = []
        while len(times) < given.rounds or (sum(map(sum, times)) < LEAST_S and len(times) < MOST_ROUNDS):
            times.append((theirs.time("plain"), ours.time("plain"), ours.time("audited")))
        theirs.end()
        ours.end()
        ratio, audited = (median(each[0] / each[way] for each in times) for way in (1, 2))
        least = [min(each[way] for each in times) for way in (0, 1)]
        differ = len(set(map(tuple, theirs.starts)) ^ set(map(tuple, ours.starts))) // 2
        words = "same" if not differ else f"{differ} differ"
        print(f"{case:20} {least[0]:9.3f} {least[1]:9.3f} {ratio:6.2f} {audited:8.2f}  {words}", flush=True)


if __name__ == "__main__":
    main()
