"""How fast pools are scheduled, beside the targets.

    python benchmarks/pools.py [--large]

Prints, per policy, the best of three runs of 1500 jobs on the papers' data centre, in CPU s and as a share of the 0.25
s that a run may take; the slowest of three scenarios counts. With --large also 100 000 jobs on 500 nodes and 1000 NVMe
(a share of 60 s), once. The first use of a policy compiles its kernels: that run is not counted.
"""

from __future__ import annotations

import argparse
import time

import unrack
from unrack.policy.table import POLICIES

PAPERS = (("nvme-s1", 0.8), ("nvme-s2", 0.9), ("nvme-s3", 0.9))
DRIVE = {"bandwidth_mb_s": "2 GB/s", "capacity_mb": "600 GB"}


def seconds(cluster: unrack.Cluster, workload: unrack.Workload, policy: str) -> float:
    """One run, CPU s."""
    start = time.process_time()
    unrack.simulate(cluster, workload, policy, world=unrack.World(models=["smufin"]))
    return time.process_time() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    large = parser.parse_args().large
    policies = [name for name, entry in POLICIES.items() if entry.summary.startswith("pools:")]
    cluster = unrack.Cluster.preset("nvme-pool")
    workloads = [unrack.generate({"scenario": name, "load": load}, seed=1) for name, load in PAPERS]
    for policy in policies:
        seconds(cluster, workloads[0], policy)
        slowest = max(min(seconds(cluster, workload, policy) for _ in range(3)) for workload in workloads)
        print(f"{policy:22} {slowest:6.3f} s a run of 1500 jobs, {slowest / 0.25:5.2f} of the target", flush=True)
    if not large:
        return
    pool = {"kind": "nvme", "count": 1000, "quantities": DRIVE}
    cluster = unrack.Cluster.from_dict({"nodes": [{"count": 500, "cores": 25}], "pools": [pool]})
    workload = unrack.generate({"scenario": "nvme-s1", "load": 0.8, "jobs": 100_000, "cores": 12_500}, seed=0)
    for policy in ("first-fit", "disaggregation-aware", "lookahead"):
        took = seconds(cluster, workload, policy)
        print(f"{policy:22} {took:6.1f} s for 100 000 jobs, {took / 60:5.2f} of the target", flush=True)


if __name__ == "__main__":
    main()
