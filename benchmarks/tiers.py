"""How fast servers are placed on tiers of memory one at a time, beside the targets.

    python benchmarks/tiers.py [--large] [--all]

Prints, for the 1000 published servers (from UNRACK_DATA, or shared/data beside the checkout; drawn ones where there are
none), the best of many runs in ms, with full SLO checks: against the target of 50 ms, and against what the paper
reports (12.58 s for its allocator, 0.012378 s for first fit). With --large also a million servers on 100 000 clusters,
in s, against the target of 60 s: with distant pools of one cluster each, shared by two, and shared by eight; and then
one server leaving and one coming, a hundred thousand times. With --all also best fit at that size. The first use
compiles the kernels: that run is not counted. Times are of the processor, not of the clock on the wall.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

from unrack.solver.servers import Asked, Supply, asked
from unrack_papers.servers.allocator.holdings import RULES
from unrack_papers.servers.allocator.one_by_one import OneByOne
from unrack_papers.servers.problem import regular_supply
from unrack_papers.workloads.server_generator import servers

FILE = Path("slo") / "azure-1000-servers.json"
PAPER_S = {"slo": 12.58, "first-fit": 0.012378}
TARGET_S = 0.050
MILLION = 1_000_000
MILLION_TARGET_S = 60.0
RUNS = 30


def supply(clusters: int, shared: int = 1) -> Supply:
    """The paper's clusters; so many of them share a distant pool, which is as many times larger."""
    rack, distant = (131072, 1, 50, 1), (262144 * shared, 2, 25, shared)
    return regular_supply(clusters, (112, 32768), (rack, distant), price=100)


def drawn(count: int) -> Asked:
    """Servers as Table 2 of the paper has them."""
    jobs = servers(count, seed=0).jobs
    assert jobs.slo is not None
    return asked(jobs.cores, jobs.memory_mb, jobs.slo.floor_mb, jobs.slo.ceiling_mb, tiers=3)


def published() -> tuple[Asked, str]:
    """The published servers, or drawn ones, and what they are."""
    folder = Path(os.environ.get("UNRACK_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not (folder / FILE).is_file():
        return drawn(1000), "1000 drawn servers"
    rows = json.loads((folder / FILE).read_text())["servers"]
    columns = (np.array([row[key] for row in rows], np.int64) for key in ("cores", "mem", "local_SLA", "remote_SLA"))
    return asked(*columns, tiers=3), "the 1000 published servers"


def seconds(where: Supply, asks: Asked, rule: str) -> tuple[float, OneByOne]:
    """All servers, one after the other, from clusters as arrays to placements as arrays."""
    order = np.arange(len(asks))
    start = time.process_time()
    allocator = OneByOne(where, asks, rule)
    allocator.place(order)
    return time.process_time() - start, allocator


def thousand() -> None:
    """The published servers under each rule."""
    asks, what = published()
    print(f"{what}, one at a time, on 100 clusters; best of {RUNS}")
    for rule in RULES:
        seconds(supply(100), asks, rule)
        took, allocator = min((seconds(supply(100), asks, rule) for _ in range(RUNS)), key=lambda run: run[0])
        used = len(np.unique(allocator.cluster[allocator.cluster >= 0]))
        line = f"{rule:10} {took * 1e3:7.2f} ms, {took / TARGET_S:5.3f} of the target, {used} clusters"
        if rule in PAPER_S:
            line += f", {PAPER_S[rule] / took:,.0f} times as fast as the paper reports"
        print(line, flush=True)


def report(words: str, took: float, placed: int) -> None:
    """One line of the large runs."""
    print(f"{words:44} {took:6.1f} s, {took / MILLION_TARGET_S:5.2f} of the target, {placed:,} placed", flush=True)


def million(with_best_fit: bool) -> None:
    """A million servers on 100 000 clusters, and the steady state after them."""
    asks = drawn(MILLION)
    for shared in (1, 2, 8):
        for rule in RULES if with_best_fit else RULES[:2]:
            took, allocator = seconds(supply(100_000, shared), asks, rule)
            words = f"{rule}, distant pools of {shared} cluster{'s' if shared > 1 else ''}"
            report(words, took, int((allocator.cluster >= 0).sum()))
            if shared == 1 and rule == "slo":
                steady(allocator)


def steady(allocator: OneByOne) -> None:
    """One server leaves and one comes, a hundred thousand times."""
    draws = np.random.default_rng(1)
    there = np.flatnonzero(allocator.cluster >= 0)
    turns = draws.choice(there, 100_000)
    start = time.process_time()
    placed = 0
    for server in turns.tolist():
        allocator.remove(server)
        placed += allocator.place(np.array([server]))
    report("slo, one leaves and one comes, 100 000 times", time.process_time() - start, placed)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    thousand()
    if arguments.large or arguments.all:
        million(arguments.all)


if __name__ == "__main__":
    main()
