"""How fast lending memory is scheduled, beside the targets, and how the cost grows with the nodes.

    python benchmarks/lending.py [--large] [--curve]

Prints the CPU seconds of one run of 27 000 jobs on 1024 nodes with half of the node-hours by large jobs and no large
nodes, under `disaggregated` (Slurm-like, both loops every 30 s) with contention, and its share of the 20 s that it may
take; the same of `baseline` without contention on large nodes, for comparison. With --large also 100 000 jobs on 4096
nodes (180 s, 3 GB). With --curve 8000 jobs on 256 to 4096 nodes: CPU time a job, which a cost of the square of the
nodes would let grow 256-fold. The first use compiles the kernels: that run is not counted.
"""

from __future__ import annotations

import argparse
import resource
import time

import unrack

POLICY = "disaggregated(main=interval)"


def measured(jobs: int, nodes: int, large_nodes: float, policy: str, load: float) -> tuple[float, unrack.Result]:
    """CPU seconds of one run, and its result."""
    keys = {"model": "cirne", "nodes": nodes, "cores_per_node": 32, "jobs": jobs, "load": load, "memory": "profiles",
            "profiles": "synthetic", "large_share": 0.5, "normal_node": "32 GB"}  # fmt: skip
    workload = unrack.generate(keys, seed=0)
    cluster = unrack.memory_system(nodes=nodes, large_share=large_nodes)
    start = time.process_time()
    result = unrack.simulate(
        cluster, workload, policy, world=unrack.World(contention=None if policy == "baseline" else "synthetic")
    )
    return time.process_time() - start, result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--load", type=float, default=1.0)
    chosen = parser.parse_args()
    measured(300, 64, 0.0, POLICY, chosen.load)
    measured(300, 64, 1.0, "baseline", chosen.load)
    took, result = measured(27_000, 1024, 0.0, POLICY, chosen.load)
    loans = len(result.log.loans)
    print(f"27 000 jobs, 1024 nodes: {took:6.1f} s, {took / 20:5.2f} of the target ({loans} loans)", flush=True)
    took, _ = measured(27_000, 1024, 1.0, "baseline", chosen.load)
    print(f"  baseline, large nodes: {took:6.1f} s", flush=True)
    for nodes in (256, 512, 1024, 2048, 4096) if chosen.curve else ():
        took, _ = measured(8000, nodes, 0.0, POLICY, chosen.load)
        print(f"8 000 jobs, {nodes:4} nodes: {1e3 * took / 8000:6.2f} ms a job", flush=True)
    if chosen.large:
        took, _ = measured(100_000, 4096, 0.0, POLICY, chosen.load)
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"100 000 jobs, 4096 nodes: {took:6.1f} s, {took / 180:5.2f} of the target; {most:.2f} GB", flush=True)


if __name__ == "__main__":
    main()
