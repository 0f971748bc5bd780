"""Disaggregated memory: use of CPUs and memory (Fig. 6.7, section 6.3.3)."""

from __future__ import annotations

from unrack_papers.claim import Checks, Claim, close, lies, together
from unrack_papers.measured import Measured
from unrack_papers.pages.sheet import Sheet, line, texts
from unrack_papers.reproduction import Point, Quantity, Values
from unrack_papers.zacarias.charts import scatter
from unrack_papers.zacarias.systems import (
    ALL_SCENARIOS,
    BASELINE,
    DISAGGREGATED,
    MATCH,
    NOTES,
    OVER,
    UNDER,
    lent,
    mean,
    mix,
    ratio,
    row,
    runs,
    short,
)

KINDS = (OVER, MATCH, UNDER)
ALL = "all"
"""The mean over the scenarios of a kind that both policies can run."""
CPU = Quantity("CPU utilisation", "utilisation_cores", 100, 1, "%")
MEMORY = Quantity("memory utilisation", "utilisation_memory", 100, 1, "%")
GAIN = Quantity("memory utilisation over the baseline's", "memory_gain", 1, 2)
REMOTE = Quantity("remote memory", "remote_share", 100, 1, "%")


def with_means(values: Values) -> Values:
    """Places for the means over the scenarios of each kind, and how much more memory is in use there."""
    found = dict(values)
    for kind in KINDS:
        both = [short(one) for one in ALL_SCENARIOS if one.kind == kind and (kind, short(one), BASELINE) in values]
        if not both:
            continue
        seeds = range(len(values[kind, both[0], BASELINE]))
        for name in (BASELINE, DISAGGREGATED):
            found[kind, ALL, name] = tuple(
                {one.metric: mean(values[kind, x, name][i].get(one.metric) for x in both) for one in (CPU, MEMORY)}
                for i in seeds
            )
        base = found[kind, ALL, BASELINE]
        found[kind, ALL, DISAGGREGATED] = tuple(
            {**own, GAIN.metric: ratio(own[MEMORY.metric], base[i][MEMORY.metric])}
            for i, own in enumerate(found[kind, ALL, DISAGGREGATED])
        )
    return found


def _alike(kind: str) -> Checks:
    return together(*(close(one.label, DISAGGREGATED, BASELINE, [kind], [ALL], by=2) for one in (CPU, MEMORY)))


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    lines = []
    for kind in measured.groups:
        for x in (*measured.xs(kind), ALL):
            cells = [cell for one in (CPU, MEMORY) for name in (BASELINE, DISAGGREGATED)
                     for cell in texts(measured, (kind, x, name), [one])]  # fmt: skip
            lines.append(line(kind, str(x), *cells, *texts(measured, (kind, x, DISAGGREGATED), [REMOTE])))
    heads = ("", "jobs/nodes", *(f"{one.label}\n{name}" for one in (CPU, MEMORY) for name in (BASELINE, DISAGGREGATED)),
             f"{REMOTE.label}\n{DISAGGREGATED}")  # fmt: skip
    return (Sheet("utilisation in %, from the first submission to the last end: ours ± 95 %", heads, tuple(lines), 2),)


REPRODUCTION = lent(
    name="memory-utilisation",
    shows="Figure 6.7",
    summary="use of CPUs against use of memory, in every scenario",
    setup="The mixes and systems of Figure 6.4: overprovisioned (fewer large jobs than nodes), match, "
    "underprovisioned. Use is of the CPUs and the memory installed, from the first submission to the last end. Under "
    "both policies jobs take whole nodes; use of memory is what they asked for.",
    points=tuple(
        Point(
            kind,
            short(one),
            mix(one.jobs),
            tuple(row(name, one.nodes) for name in (BASELINE, DISAGGREGATED) if name != BASELINE or runs(one)),
        )
        for kind in KINDS
        for one in ALL_SCENARIOS
        if one.kind == kind
    ),
    quantities=(CPU, MEMORY, GAIN, REMOTE),
    claims=(
        Claim("Where large nodes match the large jobs or exceed them, both policies have the same use of CPUs and "
              "memory: within 2 points", "§6.3.3, Fig. 6.7", together(_alike(OVER), _alike(MATCH))),
        Claim("Where there are too few, memory is used 1.6 times as much as under the baseline (1.4 to 1.8), on "
              "average", "§6.3.3, Fig. 6.7", lies(GAIN.label, DISAGGREGATED, [UNDER], [ALL], 1.4, 1.8)),
        Claim("There almost 90 % of the CPUs are in use (85 to 95 %), on average", "§6.3.3, Fig. 6.7",
              lies(CPU.label, DISAGGREGATED, [UNDER], [ALL], 85, 95)),
    ),
    draw=scatter(CPU.label, MEMORY.label, "CPU utilisation, %", "memory utilisation, %", (BASELINE, DISAGGREGATED)),
    x_title="large jobs / large nodes, %",
    group_title="provision",
    notes=(
        "Means over the underprovisioned scenarios leave out the systems without large nodes, which the baseline "
        "cannot run.",
        "The text says `almost 90 % of CPU utilization compared to the baseline`; we read it as use of the CPUs.",
        *NOTES,
    ),
    derive=with_means,
    tables=_tables,
)  # fmt: skip
