"""How much of a data centre is only there because servers are placed one at a time.

    python benchmarks/batch.py [--servers FILE] [--limit-s 300] [--moves 100]

The papers' 1000 servers (shared/data/slo, or UNRACK_DATA) on 100 clusters: one at a time as published, then all at
once with proven bounds, for the basic clustering and two that share pools; then the published allocation repacked
with few moves. The first solve of a process compiles its kernels; it is done twice, and the second counts.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

from unrack.solver.servers import Asked, Supply, asked
from unrack_papers.servers.allocator.one_by_one import place_one_by_one
from unrack_papers.servers.batch.running.repack import repack
from unrack_papers.servers.batch.solution import Solution, price_of
from unrack_papers.servers.batch.solve import place_batch
from unrack_papers.servers.problem import regular_supply

COMPUTE = (112, 32768)
NEAR, FAR = 131072, 262144
CLUSTERINGS = {
    "nothing shared": ((NEAR, 1, 50, 1), (FAR, 2, 25, 1)),
    "distant pool for 2": ((NEAR, 1, 50, 1), (2 * FAR, 2, 25, 2)),
    "both pools for 4": ((4 * NEAR, 1, 50, 4), (4 * FAR, 2, 25, 4)),
}
FILE = "slo/azure-1000-servers.json"


def read(path: Path) -> Asked:
    """The servers of a file of the authors' kind."""
    servers = json.loads(path.read_text())["servers"]
    columns = [np.array([s[key] for s in servers], np.int64) for key in ("cores", "mem", "local_SLA", "remote_SLA")]
    return asked(columns[0], columns[1], columns[2], columns[3], tiers=3)


def show(name: str, found: Solution, seconds: float, limit_s: float) -> None:
    print(
        f"{name:22} {found.status:8} {found.clusters_used:3} clusters (bound {found.bound_clusters}), "
        f"price {found.price:,} (bound {found.bound_price:,}, gap {found.gap:.5%}), "
        f"{seconds:6.2f} s, {seconds / limit_s:.3f} of the target",
        flush=True,
    )


def all_at_once(supply: Supply, servers: Asked, limit_s: float) -> tuple[Solution, float]:
    """A solution, and the time of a second solve, s."""
    place_batch(supply, servers, effort_s=limit_s)
    start = time.perf_counter()
    found = place_batch(supply, servers, effort_s=limit_s)
    return found, time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("UNRACK_DATA") or Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--servers", type=Path, default=data / FILE)
    parser.add_argument("--limit-s", type=float, default=300.0)
    parser.add_argument("--moves", type=int, default=100)
    options = parser.parse_args()
    servers = read(options.servers)
    for name, remote in CLUSTERINGS.items():
        supply = regular_supply(100, COMPUTE, remote, price=100)
        single = place_one_by_one(supply, servers, "slo")
        clusters = len(np.unique(single.cluster[single.cluster >= 0]))
        found, seconds = all_at_once(supply, servers, options.limit_s)
        show(name, found, seconds, options.limit_s)
        print(
            f"  one at a time: {clusters} clusters, price {price_of(supply, single):,}: "
            f"{clusters - found.clusters_used} of {clusters} clusters are needed "
            "only because servers are placed one at a time",
            flush=True,
        )
        if name != "nothing shared":
            continue
        for resplit in (False, True):
            start = time.perf_counter()
            again = repack(supply, servers, single, moves=options.moves, resplit=resplit)
            show(f"  repacked, {options.moves} moves", again, time.perf_counter() - start, 60)
            print(
                f"    splits of others {'may change' if resplit else 'stay'}: {len(again.moved)} servers moved in "
                f"{len(again.plan)} steps, {again.copied_mb:,} MB written"
            )


if __name__ == "__main__":
    main()
