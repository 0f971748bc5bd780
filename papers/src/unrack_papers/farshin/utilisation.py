"""Clusters that are needed, and how their cores and memory are used (Fig. 6), with and without shared pools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from unrack_papers.claim import Check, Claim, changes, exceeds, together
from unrack_papers.farshin.counts import RESOURCES
from unrack_papers.farshin.servers import (
    ALLOCATOR,
    AT_ONCE,
    BEST_FIT,
    DISTANT_MB,
    FIRST_FIT,
    NOTES,
    PAPER_S,
    SETUP,
    beside,
    served,
)
from unrack_papers.measured import Measured
from unrack_papers.pages.figure import Draw, bars, framed, names, numbers, rows_of_figures
from unrack_papers.pages.sheet import Sheet, columns, line, named, texts
from unrack_papers.reproduction import Numbers, Point, Quantity, Spec, Values
from unrack_papers.within import mean_of

NEEDED = "clusters in use"
OWN = "256 GB each"
DESIGNS = {
    OWN: (1, DISTANT_MB),
    "256 GB for 2": (2, DISTANT_MB),
    "256 GB for 4": (4, DISTANT_MB),
    "512 GB for 2": (2, 2 * DISTANT_MB),
    "1 TB for 4": (4, 4 * DISTANT_MB),
}
"""Distant pools: how many clusters share one, and its MB; the first is the paper's, the others that of its Fig. 2b."""
USED, SAME = "over the clusters in use", "over as many clusters as the allocator uses"
ONE_ROW, ROWS = (ALLOCATOR, FIRST_FIT, BEST_FIT), (ALLOCATOR, FIRST_FIT, BEST_FIT, AT_ONCE)
NAMES = [row.name for row in ROWS]
NEED = Quantity("clusters", "clusters", 1, 0, share=0.02)
POOLS = Quantity("distant pools", "distant_pools", 1, 0)
IN_USE = tuple(Quantity(f"{name} in use", name, 100, 1, "%") for name in RESOURCES)
SHARE = Quantity("in use", "share", 100, 1, "%")
CORES, MEMORY, LOCAL, RACK, DISTANT = RESOURCES


def each(name: str) -> str:
    """The panel of a resource: its use in every cluster."""
    return f"{name}, each cluster"


def by_resource(values: Values) -> Values:
    """Places more, of the paper's own clustering: the use of each resource, and its use in each cluster."""
    found = dict(values)
    for group, before in ((USED, ""), (SAME, "same.")):
        for x in RESOURCES:
            for name in NAMES:
                seeds = values[NEEDED, OWN, name]
                found[group, x, name] = tuple({"share": seed.get(f"{before}{x}")} for seed in seeds)
    both = [values[NEEDED, OWN, name] for name in (ALLOCATOR.name, FIRST_FIT.name)]
    most = int(max((seed.get("clusters") or 0.0 for seeds in both for seed in seeds), default=0.0))
    for x in RESOURCES:
        for name, seeds in zip((ALLOCATOR.name, FIRST_FIT.name), both, strict=True):
            for rank in range(most):
                uses = tuple(seed.get(f"of.{x}.{rank}", 0.0) for seed in seeds)
                found[each(x), rank + 1, name] = tuple({"share": use} for use in uses)
    return {place: tuple(map(_brief, seeds)) for place, seeds in found.items()}


def _brief(seed: Numbers) -> Numbers:
    return {key: value for key, value in seed.items() if not key.startswith("of.")}


def _fewer(measured: Measured) -> Iterable[Check]:
    """Clusters that first fit saves, in % of the allocator's: 50 of 68 are 26 % fewer."""
    more, less = (measured.each((NEEDED, OWN, row.name), NEED.label) for row in (ALLOCATOR, FIRST_FIT))
    saved = [None if not a or b is None else 100 * (1 - b / a) for a, b in zip(more, less, strict=True)]
    yield Check("fewer clusters under first fit", OWN, mean_of(saved), 20, 33, "%")


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    """Clusters beside the paper's; the designs; the tiers."""
    paper = tuple(line(row.name, *beside(measured.compared((NEEDED, OWN, row.name), NEED.label)))
                  for row in (ALLOCATOR, FIRST_FIT))  # fmt: skip
    lines, drawn = [], not measured.reproduction.exact
    for x in DESIGNS:
        for row in measured.rows(NEEDED):
            if (NEEDED, x, row.name) in measured.values:
                cells = texts(measured, (NEEDED, x, row.name), (NEED, POOLS, *IN_USE), 1 if drawn else None)
                lines.append(line(x, named(row), *cells))
    tiers = columns(measured, SHARE.label, "in use, %", NAMES)
    shown = tuple(own for own in tiers.lines if own[0].lines[0] in (USED, SAME))
    return (
        Sheet("clusters for all servers", ("", "paper", "ours", "difference", "verdict"), paper, 1),
        Sheet("by distant pool, over the clusters in use: ours ± 95 %",
              ("distant pool", "", NEED.label, "distant\npools", *(f"{name}\n%" for name in RESOURCES)),
              tuple(lines), 2),
        Sheet(tiers.title, ("", "resource", *tiers.heads[2:]), shown, 2),
    )  # fmt: skip


def ranked(label: str, groups: Sequence[str], x_title: str, y_title: str, order: Sequence[str]) -> Draw:
    """Steps over ranks, a panel a group, a line a row.

    Parameters
    ----------
    label
        The quantity, in per cent.
    groups
        The panels; their places on the axis are ranks from 1.
    x_title, y_title
        Words for the axes.
    order
        Rows in the order of their colours.
    """

    def draw(measured: Measured) -> Spec:
        lines: list[dict[str, Any]] = []
        for group, x, name in measured.values:
            found = measured.at((group, x, name), label) if group in groups else None
            if found is not None:
                lines.append({"panel": measured.titled(group), "row": name, "x": x, "y": found.mean})
        encoding = {
            "x": numbers("x", x_title, scale={"zero": False, "nice": False}),
            "y": numbers("y", y_title, scale={"domain": [0, 100]}),
            "color": names("row", order),
        }
        mark = {"type": "line", "strokeWidth": 1.8, "interpolate": "step"}
        return framed(
            measured, lines, [measured.titled(group) for group in groups], {"mark": mark, "encoding": encoding}
        )

    return draw


def _aside(measured: Measured) -> list[str]:
    """The time on the wall."""
    lines = ["Time of this run on the wall, which is another each time, to place all servers:"]
    for row in ROWS:
        seeds = [seed.get("wall_s") or 0.0 for seed in measured.values[NEEDED, OWN, row.name]]
        took = sum(seeds) / max(len(seeds), 1)
        paper = PAPER_S.get(row.name)
        words = f"; the paper {paper:g} s, {paper / took:,.1f} times ours" if paper and took else ""
        lines.append(f"  {row.name}: {took:.4f} s{words}")
    return lines


REPRODUCTION = served(
    name="slo-utilisation",
    shows="Figure 6",
    summary="clusters that all servers need, and use of their cores and memory by tier",
    setup=f"{SETUP} The paper's clusters have a distant pool each; what shared ones would do it leaves open. Here are "
    "five designs: 256 GB for each cluster, 256 GB shared by 2 or by 4, and as much memory as the paper's, shared by 2 "
    "or by 4. A shared pool counts once, as long as one of its clusters is in use.",
    points=tuple(
        Point(NEEDED, x, {"shared": shared, "distant_mb": mb}, ROWS if x == OWN else ONE_ROW)
        for x, (shared, mb) in DESIGNS.items()
    ),
    quantities=(NEED, POOLS, *IN_USE, SHARE),
    claims=(
        Claim("First fit needs fewer clusters: 50 in place of 68, 26 % (20 to 33 %)", "§5.2", _fewer),
        Claim("First fit always has the better utilisation, over the clusters that each uses", "§5.2, Fig. 6a",
              exceeds(SHARE.label, FIRST_FIT.name, ALLOCATOR.name, [USED], [CORES, MEMORY])),
        Claim("By tier it has the higher use in distant memory only: over the clusters that each uses",
              "§5.2, Fig. 6b",
              together(exceeds(SHARE.label, FIRST_FIT.name, ALLOCATOR.name, [USED], [DISTANT]),
                       exceeds(SHARE.label, ALLOCATOR.name, FIRST_FIT.name, [USED], [LOCAL, RACK]))),
        Claim("The same, over the clusters that the allocator uses (the paper plots 68 for both)", "§5.2, Fig. 6b",
              together(exceeds(SHARE.label, FIRST_FIT.name, ALLOCATOR.name, [SAME], [DISTANT]),
                       exceeds(SHARE.label, ALLOCATOR.name, FIRST_FIT.name, [SAME], [LOCAL, RACK]))),
        Claim("Models that share a distant pool among clusters could use memory better: 256 GB for 2 clusters, by 10 "
              "points or more (left open by the paper)", "§5.2",
              changes("memory in use", ALLOCATOR.name, [NEEDED], OWN, "256 GB for 2", 10, 100)),
    ),
    draw=rows_of_figures([
        bars(NEED.label, "clusters", groups=[NEEDED], x_title="distant pool", order=NAMES, width=560),
        bars(SHARE.label, "in use, %", groups=[USED, SAME], x_title="", order=NAMES, width=330),
        ranked(SHARE.label, [each(name) for name in RESOURCES], "cluster, by rank", "in use, %", NAMES),
    ], "x", "xOffset", "y"),
    x_title="",
    group_title="",
    printed={
        (NEEDED, OWN, ALLOCATOR.name): {NEED.label: 68},
        (NEEDED, OWN, FIRST_FIT.name): {NEED.label: 50},
    },
    notes=(
        "A cluster's place in the curves is its rank by that resource; a cluster that is not in use counts as 0.",
        *NOTES,
    ),
    derive=by_resource,
    tables=_tables,
    aside=_aside,
)  # fmt: skip
