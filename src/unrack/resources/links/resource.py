"""The resource ``links``: its keys, metrics and section, in one place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import polars as pl

from unrack.resources.contract import Installed, Nodes, Speeds, UsualResource
from unrack.resources.held import held_steps
from unrack.resources.links.links import LINK, UPLINK, Links, read_keys
from unrack.resources.telling import Kept, Table, Told, mean_share, rows_by_policy

MEASURES = (
    Told("used_links", "", "", "share of what the links of nodes carry that jobs claimed",
         "∫ claimed dt / (carried x window)"),
    Told("peak_links", "", "low", "share of what a node's link carries that was claimed at most, of the fullest",
         "max claimed / carried"),
    Told("used_uplinks", "", "", "the same of the uplinks of racks", "∫ claimed dt / (carried x window)"),
    Told("peak_uplinks", "", "low", "the same of the uplinks of racks", "max claimed / carried"),
)  # fmt: skip
HEAD = ("policy", "jobs", "links in use", "fullest link", "uplinks in use", "fullest uplink", "GB sent")
WORDS = (
    "In use: the mean share of what all links carry that jobs claimed; fullest: the most at any time on one link, "
    "above 100 % where links are oversubscribed. GB sent: claimed MB/s x time, over the links of nodes; what passes "
    "between two nodes counts at both."
)
MOST_PICTURES = 4
WIDTH, HEIGHT = 900, 80
STYLE = "text{font:11px system-ui,sans-serif;fill:currentColor}"


class LinkResource(UsualResource):
    """See :class:`unrack.resources.contract.Resource`."""

    name = "links"
    title = "Network links"
    metrics = MEASURES

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """The links of a cluster file."""
        return Links(read_keys(table, where), nodes, where)

    def measure(
        self,
        installed: Installed,
        claims: pl.DataFrame,
        jobs: pl.DataFrame,
        start_s: float,
        end_s: float,
        placements: pl.DataFrame | None = None,
    ) -> dict[str, float | None]:
        """How much of links and uplinks was claimed."""
        quantities = [place.quantity for place in installed.places]
        return measures(quantities, cast(Links, installed).capacity.tolist(), claims, start_s, end_s)

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """Load by policy."""
        return tables(runs)

    def slowdown(self, cluster: Any, jobs: Any) -> Speeds | None:
        """See :class:`unrack.resources.links.slowdown.LinkSpeeds`."""
        from unrack.resources.links.slowdown import LinkSpeeds

        return LinkSpeeds.of(cluster, jobs)


def tables(runs: Sequence[Kept]) -> tuple[Table, ...]:
    """One table, a row a policy, over its seeds; and the load of the links over time."""
    rows = rows_by_policy(runs, _row)
    return (Table("Load of the links", WORDS, HEAD, rows), *_pictures(runs)) if rows else ()


def _row(policy: str, runs: Sequence[Kept]) -> tuple[str, ...]:
    names = ("used_links", "peak_links", "used_uplinks", "peak_uplinks")
    shares = [mean_share([run.metrics.get(name) for run in runs]) for name in names]
    own = [run.claims.filter(pl.col("quantity") == LINK) for run in runs]
    jobs = sum(claims["job"].n_unique() for claims in own) / len(runs)
    sent = sum(float((claims["amount"] * (claims["end_s"] - claims["start_s"])).sum()) for claims in own) / len(runs)
    return policy, f"{jobs:,.0f}", *shares, f"{sent / 1000:,.1f}"


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
    times, level = held_steps(claims, begin, end)
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


def measures(
    quantities: Sequence[str], capacity: Sequence[int], claims: pl.DataFrame, start_s: float, end_s: float
) -> dict[str, float | None]:
    """Every metric; ``None`` over a window that lasts no time, or where there are no uplinks.

    Parameters
    ----------
    quantities, capacity
        Of every place: its quantity, and what it carries.

    Examples
    --------
    >>> claims = pl.DataFrame({"place": ["a", "b"], "quantity": ["mb_s"] * 2, "start_s": [0.0, 0.0],
    ...                        "end_s": [4.0, 8.0], "amount": [50, 100]})
    >>> measures(["mb_s", "mb_s"], [100, 100], claims, 0.0, 8.0)
    {'used_links': 0.625, 'peak_links': 1.0, 'used_uplinks': None, 'peak_uplinks': None}
    """
    values: dict[str, float | None] = {}
    length = end_s - start_s
    for quantity, stem in ((LINK, "links"), (UPLINK, "uplinks")):
        carried = [each for name, each in zip(quantities, capacity, strict=True) if name == quantity]
        own = claims.filter(pl.col("quantity") == quantity)
        known = length > 0 and bool(carried)
        spent = peak = 0.0
        for (_,), rows in own.group_by("place", maintain_order=True) if known else ():
            times, level = held_steps(rows, start_s, end_s)
            spent += float((np.diff(times) * level[:-1]).sum())
            peak = max(peak, float(level.max()))
        values[f"used_{stem}"] = spent / (sum(carried) * length) if known else None
        values[f"peak_{stem}"] = peak / carried[0] if known else None
    return values
