"""Servers with SLOs on tiers of memory: setup shared by the figures of Farshin et al. (2021), section 5."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from unrack.errors import InputError
from unrack.solver import Asked, Supply, asked
from unrack_papers.farshin.counts import of_prices, of_slos, of_uses
from unrack_papers.measured import Compared
from unrack_papers.options import Options
from unrack_papers.pages.sheet import TONES, Cell, line, number, signed
from unrack_papers.reproduction import Numbers, Reproduction, Row, Task
from unrack_papers.servers.problem import Allocation, regular_supply

PAPER = "Farshin et al. 2021, section 5"
OPTIONS = Options(seeds=10)
TAKES = frozenset({"seeds", "servers"})
COUNT = 1000
"""Servers that are drawn."""
CLUSTERS, GB = 100, 1024
COMPUTE = (112, 32 * GB)
RACK_MB, DISTANT_MB = 128 * GB, 256 * GB
"""Memory pools: in the rack, and distant (Table 3)."""
LOCAL_PRICE, RACK_PRICE, DISTANT_PRICE = 100, 50, 25
"""Of a GB for an hour, $ (Table 1)."""
BATCH = "batch"
EFFORT_S = 60.0
"""Work on a batch at once, counted: the answer is the same on every run."""
REPEATS = 3

ALLOCATOR = Row("Allocator", "slo", "basic")
FIRST_FIT = Row("First fit", "first-fit", "basic")
BEST_FIT = Row("Best fit", "best-fit", "basic", printed=False)
AT_ONCE = Row("All at once", BATCH, "basic", printed=False)
PAPER_S = {ALLOCATOR.name: 12.5804, FIRST_FIT.name: 0.012378}
"""Time to place the 1000 servers, s (section 5.2)."""

SETUP = (
    "1000 servers are placed one after the other, in their order, on clusters of 112 cores with 32 GB of local memory "
    "($100 a GB and hour), 128 GB in the rack ($50) and 256 GB distant ($25). Cores and memory are by the histograms "
    "of Table 2. SLOs: a tenth of the memory is local; the rest, with a GB of the rack counted once and a distant one "
    "twice, is at most α times what need not be local, 1 < α < 2."
)
NOTES = (
    "The paper's figures are pictures: what is checked are the facts that its text states.",
    "By default servers are drawn from Table 2, another 1000 for every seed. The paper's own 1000 are published: "
    "--servers FILE takes them, and nothing is drawn then.",
    "A price is of the memory held for an hour, as Table 1 has it; cores are free.",
)


def placed(task: Task) -> list[Numbers]:
    """The numbers of each row: its rule places the servers of a seed, or of a file."""
    supply = supply_of(task.workload)
    asks = asked_by(task.workload.get("servers"), task.seed)
    base = _place(supply, asks, ALLOCATOR.policy)
    met = of_slos(supply, asks, _place(supply, asks, FIRST_FIT.policy).allocation).met
    numbers = []
    for row in task.rows:
        found = base if row.policy == ALLOCATOR.policy else _place(supply, asks, row.policy)
        values: Numbers = {"wall_s": found.took_s, "unplaced": float((found.allocation.cluster < 0).sum())}
        if found.settled:
            values |= of_slos(supply, asks, found.allocation).numbers()
            values |= of_uses(supply, asks, found.allocation, base.allocation)
            values |= of_prices(supply, found.allocation, base.allocation, met)
        numbers.append(values)
    return numbers


served = partial(Reproduction, paper=PAPER, defaults=OPTIONS, takes=TAKES, solve=placed)
"""A reproduction of servers with SLOs."""


def supply_of(keys: Mapping[str, Any]) -> Supply:
    """The data centre; keys: ``shared`` (clusters that share a distant pool) and ``distant_mb`` (of such a pool)."""
    distant = (keys.get("distant_mb", DISTANT_MB), 2, DISTANT_PRICE, keys.get("shared", 1))
    return regular_supply(CLUSTERS, COMPUTE, ((RACK_MB, 1, RACK_PRICE, 1), distant), LOCAL_PRICE)


def asked_by(path: str | None, seed: int) -> Asked:
    """What the servers of a file ask, or drawn ones.

    Raises
    ------
    TraceError
        The file is not one of servers.
    InputError
        Its servers have no SLOs, or ask for more than SLOs.
    """
    if path is None:
        from unrack_papers.workloads.server_generator import servers

        jobs = servers(COUNT, seed=seed).jobs
    else:
        from unrack_papers.workloads.servers_json import read_servers

        jobs = read_servers(path).jobs
    slo = jobs.slo
    if slo is None or slo.group_names or slo.forbidden.any():
        got = "servers without SLOs" if slo is None else "groups or forbidden tiers"
        raise InputError(f"--servers {path}", got, "servers as the paper's: SLOs, and nothing else")
    return asked(jobs.cores, jobs.memory_mb, slo.floor_mb, slo.ceiling_mb, tiers=3)


@dataclass(frozen=True, eq=False)
class _Found:
    """An allocation; the time it took, s; and whether it is the same on every run."""

    allocation: Allocation
    took_s: float
    settled: bool = True


def _place(supply: Supply, asks: Asked, rule: str) -> _Found:
    """Place all servers; the best time of several where that is quick."""
    if rule == BATCH:
        from unrack_papers.servers import place_batch

        found = place_batch(supply, asks, effort_s=EFFORT_S)
        return _Found(found.allocation, found.wall_s, not found.cut)
    from unrack_papers.servers.allocator.one_by_one import place_one_by_one

    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        allocation = place_one_by_one(supply, asks, rule)
        times.append(time.perf_counter() - began)
    return _Found(allocation, min(times))


def beside(found: Compared) -> tuple[Cell, ...]:
    """Cells: the paper's value, ours, the difference, and what that says."""
    decimals = found.quantity.decimals
    drawn = decimals + (found.ours is not None and found.ours.count > 1)  # a mean has a decimal more
    paper = "–" if found.paper is None else f"{found.paper:.{decimals}f}"
    difference = "–" if found.difference is None else signed(found.difference, drawn)
    verdict = Cell(("–",)) if found.verdict is None else Cell((str(found.verdict),), TONES[found.verdict])
    return line(paper, number(found.ours, drawn), difference, verdict)
