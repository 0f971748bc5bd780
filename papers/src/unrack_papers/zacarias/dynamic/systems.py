"""Memory that follows use: systems, mixes and policies of chapter 8 of Vieira Zacarias's thesis.

Numbers of tables, figures and sections are the thesis's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from unrack.cluster import MemorySystem
from unrack_papers.options import Options
from unrack_papers.reproduction import Place, Quantity, Reproduction, Row, Values
from unrack_papers.zacarias.dynamic.counts import jobs_with_use
from unrack_papers.zacarias.systems import SLURM, THROUGHPUT, ratio

PAPER = "Vieira Zacarias 2023, chapter 8"
OPTIONS = Options(seeds=3, jobs=2000, load=1.1)
TAKES = frozenset({"seeds", "jobs", "load", "profiles", "profile_cores"})
provisioned = partial(Reproduction, paper=PAPER, measure=jobs_with_use, defaults=OPTIONS, takes=TAKES)
"""A reproduction of provisioning."""

BASELINE, STATIC, DYNAMIC = "Baseline", "Static", "Dynamic"
ROWS = (BASELINE, STATIC, DYNAMIC)
REFERENCE = "Baseline, 100 % memory"
"""What throughput is normalised to, where the axis does not have it."""
POLICIES = {BASELINE: "baseline", STATIC: "disaggregated", DYNAMIC: "disaggregated"}
MIXES = (0, 15, 25, 50, 75, 100)
"""Node-hours by large jobs, which need more than 64 GB a node, in %."""
SYSTEMS: tuple[float, ...] = (25, 37.5, 50, 62.5, 75, 100)
"""Memory of the systems, in % of 128 GB a node."""
ALL_SYSTEMS: tuple[float, ...] = (25, 28.75, 37.5, 50, 57.5, 62.5, 75, 87.5, 100)
GRIZZLY = "Grizzly-like"
NODES, GRIZZLY_NODES = 1024, 1490
AXIS = "memory, % of 128 GB a node"

USE = "What jobs use over time is drawn, from shapes in the manner of the Google trace (one curve for all nodes of a "
USE += "job, of 5-minute maxima) whose parameters were chosen, not measured: the trace itself is not at hand. Jobs "
USE += "are not matched with its jobs by Euclidean distance. How much of its peak a job uses on average decides most "
USE += "of what dynamic provisioning gains over static at +0 %."
GAINS = (
    "Why dynamic gains more over static here than in the thesis: the use. With large jobs only, on half of the memory "
    "and at +0 %, it has 23 % more throughput if use is drawn as here (0.60 of the peak on average, for long jobs), "
    "13 % if the part of their peak that jobs leave is halved, and 3 % if it is a quarter; with 75 % large jobs, on "
    "25 % of the memory and at +60 %, 81 % and, halved, 47 %. The load is not it: 21 % at 0.8 (one seed each)."
)
GRIZZLY_NOTE = (
    "The Grizzly log is not at hand. In its place stand jobs of the same model on 1490 nodes, with peaks drawn "
)
GRIZZLY_NOTE += (
    "by Table 5.5, and use over time by shapes in the manner of Grizzly (a curve a node, chosen, not measured). "
)
GRIZZLY_NOTE += "The thesis's weeks are of 70 % utilisation or more; ours offer the load of the other mixes."
MIXTURES = (
    "The thesis says that nodes have 32, 64 or 128 GB, that the largest of a system have 64 or 128, and that 0 to "
)
MIXTURES += (
    "100 % are large; which systems it shows is in its pictures. We take nodes of 64 and 128 GB where there is 50 % "
)
MIXTURES += "of the memory or more (57.5 %: 15 % large nodes; 62.5: 25; 75: 50; 87.5: 75), and of 32 and 64 GB below "
MIXTURES += "(25 %: all 32 GB; 28.75: 15 % of 64 GB; 37.5: 50 %). That gives the 28 and 37 % of its text."
DRAWN = (
    "Sizes, times and arrivals are drawn from distributions fitted to the 1838 jobs that the original generator made "
)
DRAWN += (
    "(parameters `cirne-anl`): sizes of 1 to 128 nodes. Requests follow Table 5.5, and jobs are chosen so that those "
)
DRAWN += "above 64 GB a node do the share of the node-hours."
LOAD = (
    "The thesis does not say how close together jobs arrive. Every mix offers a load of 1.1 (--load), as that of the "
)
LOAD += "published jobs of its chapter 6. The lower the load, the less memory is missed."
FEWER = "Ours are fewer jobs (--workload-jobs) and several seeds, so that the time in which the last jobs drain counts "
FEWER += "for more: that hides differences of throughput, not of response."
RESTARTS = "Use is looked at every 5 minutes. Who lacks memory is stopped, loses its work and is queued again "
RESTARTS += "(Fail/Restart); after three stops a job keeps the most that it was ever seen to need."
NOTES = (USE, MIXTURES, DRAWN, LOAD, FEWER, RESTARTS)


def title(large: int | str, over: int) -> str:
    """The panel of a mix, or of the Grizzly-like jobs, and how much more than they use all jobs ask for."""
    words = large if isinstance(large, str) else f"{large} % large jobs"
    return f"{words}, +{over} %"


def mix(large: int | str, over: int = 0) -> dict[str, Any]:
    """Keys of a generator and filters: jobs of which large ones do so many % of the node-hours; or Grizzly-like."""
    keys: dict[str, Any] = {
        "model": "cirne",
        "parameters": "cirne-anl",
        "nodes": GRIZZLY_NODES if large == GRIZZLY else NODES,
        "cores_per_node": 32,
        "memory": "table-5.5",
        "usage": {"shapes": "grizzly" if large == GRIZZLY else "google"},
    }
    if not isinstance(large, str):
        keys |= {"large_share": large / 100, "normal_node": "64 GB"}
    return keys | ({"overestimate": over / 100} if over else {})


def system(memory: float, nodes: int = NODES) -> dict[str, Any]:
    """Keys of a cluster file: nodes with so many % of 128 GB on average, of two neighbouring sizes of 32, 64, 128 GB.

    Examples
    --------
    >>> [(kind["count"], kind["memory"] // 1024) for kind in system(37.5)["nodes"]]
    [(512, 32), (512, 64)]
    """
    normal, large = (32, 64) if memory < 50 else (64, 128)
    share = (128 * memory / 100 - normal) / (large - normal)
    keys = {"nodes": nodes, "cores": 32, "large_share": share, "normal": f"{normal} GB", "large": f"{large} GB"}
    return {"name": f"memory-{nodes}-{memory:g}-percent", "nodes": MemorySystem.model_validate(keys).classes}


def large_nodes(memory: float) -> float:
    """Nodes of 128 GB, in %.

    Examples
    --------
    >>> large_nodes(62.5), large_nodes(37.5)
    (25.0, 0.0)
    """
    return max(2 * memory - 100, 0.0)


def row(name: str, memory: float, nodes: int = NODES, **parameters: object) -> Row:
    """A policy by its name in the thesis on a system with so many % of the memory."""
    extra = ", provisioning=dynamic" if name == DYNAMIC else ""
    extra += "".join(f", {key}={value}" for key, value in parameters.items())
    return Row(name, POLICIES[name] + SLURM.replace(")", f"{extra})"), system(memory, nodes))


def runs(large: int | str, over: int, memory: float) -> bool:
    """Whether the baseline can run all jobs of a mix there, as the thesis has it.

    Large jobs need nodes of 128 GB, others (of up to 64 GB) nodes of 64 GB everywhere: it has no bars below 50 %, and
    none where jobs ask for more than they use.
    """
    return not over and (memory >= 50 if large == 0 else large_nodes(memory) > 0)


def rows_at(large: int | str, over: int, memory: float) -> tuple[Row, ...]:
    """The policies that can run a mix on a system."""
    nodes = GRIZZLY_NODES if large == GRIZZLY else NODES
    return tuple(row(name, memory, nodes) for name in ROWS if name != BASELINE or runs(large, over, memory))


def normalised(values: Values, base: Callable[[Place], Place]) -> Values:
    """Throughput over that at another place, seed by seed; ``None`` where that was not run.

    Parameters
    ----------
    values
        As measured.
    base
        Place → the place whose throughput counts as 1: the baseline on 100 % memory, asked for what is used.
    """
    found: Values = {}
    for place, seeds in values.items():
        others = values.get(base(place), ())
        found[place] = tuple(
            {**seed, THROUGHPUT.metric: ratio(seed.get("jobs_per_h"), others[i].get("jobs_per_h") if others else None)}
            for i, seed in enumerate(seeds)
        )
    return found


FAILED = Quantity("jobs out of memory", "jobs_out_of_memory", 100, 2, "%")
"""Share of the jobs that were ever stopped for lack of memory."""
