"""Provisioning: use of CPUs and memory (Fig. 8.7, section 8.4.5)."""

from __future__ import annotations

from collections.abc import Iterable

from unrack_papers.claim import Checks, Claim, close, exceeds, together
from unrack_papers.measured import Measured
from unrack_papers.pages.sheet import Sheet, line, texts
from unrack_papers.reproduction import Point, Quantity, Values
from unrack_papers.zacarias.charts import in_columns, scatter
from unrack_papers.zacarias.dynamic.systems import DYNAMIC, NOTES, STATIC, large_nodes, mix, provisioned, row
from unrack_papers.zacarias.systems import mean

CPU = Quantity("CPU utilisation", "utilisation_cores", 100, 1, "%")
USED = Quantity("memory used", "memory_used", 100, 1, "%")
UNUSED = Quantity("held and not used", "memory_held_unused", 100, 1, "%")
QUANTITIES = (CPU, USED, UNUSED)
ENOUGH, SHORT = "match or overprovisioned", "underprovisioned"
OVER = (0, 60)
MIXES = (15, 50, 75)
SYSTEMS: tuple[float, ...] = (25, 50, 75, 100)
SCENARIOS = tuple((large, memory) for large in MIXES for memory in SYSTEMS)
POLICIES = (STATIC, DYNAMIC)
ALL = "all"
"""The mean over the scenarios of a panel."""


def title(kind: str, over: int) -> str:
    """The panel of a kind of systems, and how much more than they use jobs ask for."""
    return f"{kind}, +{over} %"


def short(large: int, memory: float) -> str:
    """A scenario on an axis: large jobs / memory."""
    return f"{large}/{memory:g}"


def scenarios(kind: str) -> tuple[tuple[int, float], ...]:
    """Those of which large nodes are too few for the large jobs, or enough."""
    return tuple((jobs, memory) for jobs, memory in SCENARIOS if (large_nodes(memory) < jobs) == (kind == SHORT))


GROUPS = {title(kind, over): (kind, over) for over in OVER for kind in (ENOUGH, SHORT)}


def with_means(values: Values) -> Values:
    """Places for the means over the scenarios of each panel."""
    found = dict(values)
    for group, (kind, _) in GROUPS.items():
        places = [short(*one) for one in scenarios(kind)]
        for name in POLICIES:
            seeds = range(len(values.get((group, places[0], name), ())))
            found[group, ALL, name] = tuple(
                {one.metric: mean(values[group, x, name][seed].get(one.metric) for x in places) for one in QUANTITIES}
                for seed in seeds
            )
    return found


def _higher(groups: Iterable[str], quantities: Iterable[Quantity]) -> Checks:
    return together(*(exceeds(one.label, DYNAMIC, STATIC, list(groups), [ALL]) for one in quantities))


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    lines = []
    for group, (kind, _) in GROUPS.items():
        for x in (*(short(*one) for one in scenarios(kind)), ALL):
            cells = [
                cell for one in QUANTITIES for name in POLICIES for cell in texts(measured, (group, x, name), [one])
            ]
            lines.append(line(group, x, *cells))
    heads = ("system", "jobs/memory", *(f"{one.label}\n{name}" for one in QUANTITIES for name in POLICIES))
    return (Sheet("in %, from the first submission to the last end: ours ± 95 %", heads, tuple(lines), 2),)


REPRODUCTION = provisioned(
    name="dynamic-utilisation",
    shows="Figure 8.7",
    summary="use of CPUs against use of memory",
    setup="Mixes of 15, 50 and 75 % large jobs on systems of 25 to 100 % of 128 GB a node, apart for systems that "
    "have as many large nodes as large jobs or more, and for those that have fewer. CPUs are those allocated to jobs; "
    "memory is what jobs use, not what they hold, both over what is installed, from the first submission to the last "
    "end.",
    points=tuple(
        Point(group, short(jobs, memory), mix(jobs, over), tuple(row(name, memory) for name in POLICIES))
        for group, (kind, over) in GROUPS.items()
        for jobs, memory in scenarios(kind)
    ),
    quantities=QUANTITIES,
    claims=(
        Claim(
            "With exact requests and enough large nodes both use the same: within 2 points, on average",
            "§8.4.5, Fig. 8.7",
            together(*(close(one.label, DYNAMIC, STATIC, [title(ENOUGH, 0)], [ALL], by=2) for one in (CPU, USED))),
        ),
        Claim(
            "With exact requests and too few, dynamic uses more of the memory, on average",
            "§8.4.5, Fig. 8.7",
            _higher([title(SHORT, 0)], [USED]),
        ),
        Claim(
            "With requests 60 % too high dynamic uses more of both, on either kind of systems, on average",
            "§8.4.5, Fig. 8.7",
            _higher([title(ENOUGH, 60), title(SHORT, 60)], [CPU, USED]),
        ),
    ),
    draw=in_columns(scatter(CPU.label, USED.label, "CPU utilisation, %", "memory used, %", POLICIES), 2),
    x_title="large jobs / memory, %",
    group_title="system",
    notes=("Which scenarios the thesis shows is in its pictures only; these are ours. Means are drawn large.", *NOTES),
    derive=with_means,
    tables=_tables,
)
