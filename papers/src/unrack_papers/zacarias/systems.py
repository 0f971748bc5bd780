"""Disaggregated memory: what the reproductions of chapter 6 of Vieira Zacarias's thesis have in common.

Numbers of tables, figures and sections are the thesis's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from unrack_papers.options import Options
from unrack_papers.reproduction import Place, Point, Quantity, Reproduction, Row, Values, X
from unrack_papers.zacarias.counts import jobs_with_memory

PAPER = "Vieira Zacarias 2023, chapter 6"
SHARES = (0, 15, 25, 50, 75, 100)
"""Large nodes of the systems, and node-hours by large jobs of the mixes, both in %."""
OPTIONS = Options(seeds=3, jobs=2000, load=1.1)
TAKES = frozenset({"seeds", "jobs", "load", "profiles", "profile_cores"})
lent = partial(Reproduction, paper=PAPER, measure=jobs_with_memory, defaults=OPTIONS, takes=TAKES)
"""A reproduction of lent memory."""

SLURM = "(scheduler=slurm, main=interval)"
POLICIES = {
    "Baseline": "baseline",
    "Strawman": "strawman",
    "Naive": "naive",
    "Local": "local",
    "Local-spread": "local-spread",
    "Disaggregated": "disaggregated",
    "Contention-aware": "contention-aware",
}
BASELINE, DISAGGREGATED, OWN = "Baseline", "Disaggregated", "Contention-aware"
REFERENCE = "Baseline, 100 % large nodes"
"""What throughput is normalised to, where the axis does not have it."""

THROUGHPUT = Quantity("throughput", "throughput_normalised", 1, 3)

DRAWN = (
    "The thesis's generator has constants that are in no paper. Ours draws from distributions fitted to the 1838 jobs "
)
DRAWN += "that the original generated (parameters `cirne-anl`): sizes of 1 to 128 nodes, requests of up to 49 h."
LOAD = "The thesis does not say how close together jobs arrive. The 1838 jobs offer a load of 1.10 (node-seconds over "
LOAD += "those there are), and so do ours (--load): the system is kept busy until the last arrival."
PROFILED = (
    "Applications, and with them memory and contention, are of the synthetic profiles that come with unrack: large "
)
PROFILED += "jobs need 47 or 55 GB a node, in the thesis 33 to 50. With the measured profiles: --profiles PATH."
FEWER = "The thesis runs 16 000 to 27 000 jobs a mix, once; ours are fewer and several seeds (--workload-jobs), so "
FEWER += "that the time in which the last jobs drain counts for more."
MAIN = "Slurm's main loop and backfill both run every 30 s and look at 100 jobs, as in Table 5.1."
NOTES = (DRAWN, LOAD, PROFILED, FEWER, MAIN)


class Scenario(NamedTuple):
    """A mix on a system: node-hours by large jobs and large nodes, both in %."""

    jobs: int
    nodes: int

    @property
    def kind(self) -> str:
        """``"overprovisioned"``, ``"match"`` or ``"underprovisioned"``, as the thesis has it."""
        return "match" if self.jobs == self.nodes else "underprovisioned" if self.jobs > self.nodes else OVER

    def __str__(self) -> str:
        return f"{self.jobs} % jobs on {self.nodes} % nodes"


def short(one: Scenario) -> str:
    """A scenario on an axis: large jobs / large nodes."""
    return f"{one.jobs}/{one.nodes}"


OVER, MATCH, UNDER = "overprovisioned", "match", "underprovisioned"
SCENARIOS = tuple(Scenario(jobs, nodes) for nodes, mixes in ((50, (25, 50, 75)), (25, (15, 25, 50))) for jobs in mixes)
"""Two systems, and three mixes on each: overprovisioned, match, underprovisioned. Which ones the thesis shows is in its
pictures only."""
ALL_SCENARIOS = tuple(Scenario(jobs, nodes) for jobs in SHARES for nodes in SHARES)


def of_kind(kind: str) -> list[str]:
    """The titles of ``SCENARIOS`` of a kind."""
    return [str(one) for one in SCENARIOS if one.kind == kind]


def mix(large_percent: int) -> dict[str, Any]:
    """Keys of a generator: jobs of which large ones do so many % of the node-hours."""
    return {
        "model": "cirne",
        "parameters": "cirne-anl",
        "nodes": 1024,
        "cores_per_node": 32,
        "memory": "profiles",
        "large_share": large_percent / 100,
        "normal_node": "32 GB",
    }


def row(name: str, large_nodes: int, **parameters: object) -> Row:
    """A policy, by its name in the thesis, on a system with so many % large nodes."""
    extra = "".join(f", {key}={value}" for key, value in parameters.items())
    policy = POLICIES[name] + SLURM.replace(")", f"{extra})")
    return Row(name, policy, f"memory-1024-{large_nodes}", printed=name != OWN)


def reference() -> Row:
    """The baseline where all nodes are large."""
    return replace(row(BASELINE, 100), name=REFERENCE)


def runs(scenario: Scenario) -> bool:
    """Whether the baseline can run the mix there: without large nodes it cannot run large jobs."""
    return scenario.nodes > 0 or scenario.jobs == 0


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that there are."""
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


def ratio(own: float | None, base: float | None) -> float | None:
    """One number over another; ``None`` where either is missing, or the other is 0."""
    return own / base if own is not None and base else None


def normalised(values: Values) -> Values:
    """Throughput over that of the baseline on the system of large nodes, for the same mix and seed.

    The reference is at the same place, or at the first of the group, or the baseline at 100 on its axis.
    """
    references: dict[str, Place] = {}
    for group, x, name in values:
        if name == REFERENCE:
            references.setdefault(group, (group, x, name))
    found: Values = {}
    for place, seeds in values.items():
        group, x, _ = place
        near = [(group, x, REFERENCE), references.get(group), (group, 100, BASELINE)]
        base = next((values[one] for one in near if one is not None and one in values), None)
        found[place] = tuple(
            {**seed, THROUGHPUT.metric: ratio(seed.get("jobs_per_h"), base[i].get("jobs_per_h") if base else None)}
            for i, seed in enumerate(seeds)
        )
    return found


def carried(values: Values, points: tuple[Point, ...]) -> Values:
    """Rows that are run at the first point of a group only stand at all of its points: they do not depend on x."""
    found, firsts = dict(values), {point.group: point for point in reversed(points)}
    for first in firsts.values():
        later = {point.x: {own.name for own in point.rows} for point in points if point.group == first.group}
        for own in first.rows:
            for x, names in later.items():
                if own.name not in names and own.name != REFERENCE:
                    found[first.group, x, own.name] = values[first.group, first.x, own.name]
    return found


def along(xs: tuple[X, ...], rows_at: Callable[[Scenario, X], tuple[Row, ...]]) -> tuple[Point, ...]:
    """Points of every scenario along an axis; the baseline and the reference are run at the first only."""
    return tuple(
        Point(
            str(one),
            x,
            mix(one.jobs),
            (*rows_at(one, x), *((row(BASELINE, one.nodes), reference()) if x == xs[0] else ())),
        )
        for one in SCENARIOS
        for x in xs
    )
