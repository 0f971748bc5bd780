"""The section of the report: how much of the links was claimed by policy, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from unrack.resources.contract import Kept, Table
from unrack.resources.links.links import LINK, UPLINK
from unrack.resources.links.measures import levels

HEAD = ("policy", "jobs", "links in use", "fullest link", "uplinks in use", "fullest uplink", "GB sent")
WORDS = (
    "In use: the mean share of what all links carry that jobs claimed; fullest: the most at any time on one link, "
    "above 100 % where links are oversubscribed. GB sent: claimed MB/s x time, over the links of nodes; what passes "
    "between two nodes counts at both."
)
MOST_PICTURES = 4
WIDTH, HEIGHT = 900, 80
STYLE = "text{font:11px system-ui,sans-serif;fill:currentColor}"


def tables(runs: Sequence[Kept]) -> tuple[Table, ...]:
    """One table, a row a policy, over its seeds; and the load of the links over time."""
    policies = list(dict.fromkeys(run.policy for run in runs))
    rows = tuple(_row(policy, [run for run in runs if run.policy == policy]) for policy in policies)
    return (Table("Load of the links", WORDS, HEAD, rows), *_pictures(runs)) if rows else ()


def _row(policy: str, runs: Sequence[Kept]) -> tuple[str, ...]:
    names = ("used_links", "peak_links", "used_uplinks", "peak_uplinks")
    shares = [_share([run.metrics.get(name) for run in runs]) for name in names]
    own = [run.claims.filter(pl.col("quantity") == LINK) for run in runs]
    jobs = sum(claims["job"].n_unique() for claims in own) / len(runs)
    sent = sum(float((claims["amount"] * (claims["end_s"] - claims["start_s"])).sum()) for claims in own) / len(runs)
    return policy, f"{jobs:,.0f}", *shares, f"{sent / 1000:,.1f}"


def _share(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{100 * sum(known) / len(known):.1f} %" if known else "–"


def _pictures(runs: Sequence[Kept]) -> Iterator[Table]:
    """Of the first run of every policy."""
    first = {run.policy: run for run in reversed(runs)}
    for policy in list(dict.fromkeys(run.policy for run in runs))[:MOST_PICTURES]:
        own = first[policy].claims.filter(pl.col("quantity").is_in([LINK, UPLINK]))
        if own.height:
            words = "What jobs claim of all links together, in MB/s."
            yield Table(f"Load over time, {policy}", words, (), (), steps(own))


def steps(claims: pl.DataFrame) -> str:
    """A step line of what is claimed in all, as SVG."""
    begin, end = float(claims["start_s"].to_numpy().min()), float(claims["end_s"].to_numpy().max())
    times, level = levels(claims, begin, end)
    most, length = max(float(level.max()), 1.0), max(end - begin, 1e-9)
    x, y = (times - begin) / length * WIDTH, HEIGHT - level / most * (HEIGHT - 14)
    points = [f"{x[0]:.1f},{HEIGHT}"]
    for i in range(len(x) - 1):
        points += [f"{x[i]:.1f},{y[i]:.1f}", f"{x[i + 1]:.1f},{y[i]:.1f}"]
    points.append(f"{x[-1]:.1f},{HEIGHT}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + 4}" role="img" '
        f'style="width:100%;max-width:{WIDTH}px"><style>{STYLE}</style>'
        f'<polygon points="{" ".join(points)}" fill="currentColor" fill-opacity=".3" stroke="currentColor"/>'
        f'<text x="2" y="10">{most:,.0f} MB/s</text></svg>'
    )
