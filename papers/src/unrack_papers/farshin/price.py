"""Prices of servers under first fit beside those under the constraint allocator (Fig. 5)."""

from __future__ import annotations

from unrack_papers.claim import MORE, Claim, exceeds, lies, together
from unrack_papers.farshin.counts import OUTCOMES, SETS
from unrack_papers.farshin.servers import ALLOCATOR, AT_ONCE, BEST_FIT, FIRST_FIT, GB, NOTES, SETUP, served
from unrack_papers.measured import Measured
from unrack_papers.pages.figure import bars, rows_of_figures
from unrack_papers.pages.sheet import Sheet, columns, line, named, texts
from unrack_papers.reproduction import Point, Quantity, Values

TOTAL, WHERE = "price of all servers", "all servers"
GROUPS = ("beside the allocator: all servers", "those whose SLOs first fit met", "those whose SLOs first fit missed")
ALL, MET, LOST = GROUPS
OVERPRICED, SAME, CHEAPER = OUTCOMES
SHARE = Quantity("% of all servers", "share", 100, 1, "%")
PRICE = Quantity("price, $/h", "price", 1 / GB, 2)
SUM = Quantity("price, MB × $/GB", "price", 1, 0)
ROWS = (ALLOCATOR, FIRST_FIT, BEST_FIT, AT_ONCE)
NAMES = [row.name for row in ROWS]


def by_outcome(values: Values) -> Values:
    """Places more: for each set of servers, the share that is overpriced, of the same price, cheaper."""
    found = dict(values)
    for group, which in zip(GROUPS, SETS, strict=True):
        for x in OUTCOMES:
            for row in ROWS[1:]:
                seeds = values[TOTAL, WHERE, row.name]
                found[group, x, row.name] = tuple({"share": seed.get(f"{which}.{x}")} for seed in seeds)
    return found


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    """The shares; then the totals."""
    title = "% of all servers, by price beside the allocator's"
    shares = columns(measured, SHARE.label, title, NAMES[1:])
    totals = tuple(line(named(row), *texts(measured, (TOTAL, WHERE, row.name), (PRICE, SUM))) for row in ROWS)
    return (
        Sheet(shares.title, shares.heads, tuple(own for own in shares.lines if own[0].lines[0] != TOTAL), 2),
        Sheet(f"{TOTAL}: ours ± 95 %", ("allocator", PRICE.label, SUM.label), totals, 1),
    )


REPRODUCTION = served(
    name="slo-price",
    shows="Figure 5",
    summary="servers that cost more under first fit than under the constraint allocator",
    setup=f"{SETUP} Each server's price under first fit is compared with its price under the constraint allocator. "
    "`All at once` is the whole batch in the fewest clusters at the lowest price.",
    points=(Point(TOTAL, WHERE, {}, ROWS),),
    quantities=(SHARE, PRICE, SUM),
    claims=(
        Claim("Where first fit met the SLOs, the allocator is always cheaper: no server costs less or as much under "
              "first fit", "§5.2, Fig. 5",
              together(lies(SHARE.label, FIRST_FIT.name, [MET], [SAME, CHEAPER], 0, 0),
                       lies(SHARE.label, FIRST_FIT.name, [MET], [OVERPRICED], MORE, 100))),
        Claim("Where it did not, first fit could be cheaper: some servers are", "§5.2, Fig. 5",
              lies(SHARE.label, FIRST_FIT.name, [LOST], [CHEAPER], MORE, 100)),
        Claim("In all, first fit is cheaper, by what the SLOs cost", "this project",
              exceeds(PRICE.label, ALLOCATOR.name, FIRST_FIT.name, [TOTAL], [WHERE])),
    ),
    draw=rows_of_figures([
        bars(SHARE.label, "servers, % of all", groups=GROUPS, order=NAMES),
        bars(PRICE.label, "$ an hour", groups=[TOTAL], x_title="", order=NAMES),
    ], "x", "xOffset", "y"),
    x_title="price beside the allocator's",
    group_title="servers",
    notes=(
        "The text calls a server overpriced if first fit's price is above the allocator's; that they are compared "
        "server by server is our reading.",
        "The whole batch is placed by search; its numbers stand here only where it ended by itself.",
        *NOTES,
    ),
    derive=by_outcome,
    tables=_tables,
)  # fmt: skip
