"""The resource ``spread``: its key and section, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from unrack.resources.contract import Installed, Kept, Nodes, Table, Told, rows_by_policy
from unrack.resources.spread.limits import WHOLE, Limits

HEAD = ("policy", "jobs with a limit", "groups", "nodes of a group", "of these at the limit")
WORDS = (
    "Nodes of a group: pairs of a group and a node on which instances of it ran. At the limit: those on which "
    "there was no room, at some time, for another instance like the smallest there."
)


class Spread(NamedTuple):
    """See :class:`unrack.resources.contract.Resource`."""

    name: str = "spread"
    title: str = "Instances kept apart"
    metrics: tuple[Told, ...] = ()

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """The groups of a cluster file."""
        return Limits(table, nodes, where)

    def measure(
        self,
        installed: Installed,
        claims: pl.DataFrame,
        jobs: pl.DataFrame,
        start_s: float,
        end_s: float,
        placements: pl.DataFrame | None = None,
    ) -> dict[str, float | None]:
        """Nothing: a limit is no amount of anything."""
        return {}

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """A table of the limits."""
        return tables(runs)


def tables(runs: Sequence[Kept]) -> tuple[Table, ...]:
    """One table: a row a policy, over its seeds."""
    rows = rows_by_policy(runs, _row)
    return (Table("Instances of a group on a node", WORDS, HEAD, rows),) if rows else ()


def _row(policy: str, runs: Sequence[Kept]) -> tuple[str, ...]:
    jobs = groups = pairs = full = 0
    for run in runs:
        found = at_the_limit(run.claims)
        jobs += run.claims["job"].n_unique()
        groups += found["place"].str.split(" on ").list.first().n_unique()
        pairs += found.height
        full += int(found["full"].sum())
    share = f"{100 * full / pairs:.1f} %" if pairs else "–"
    return policy, *(f"{count / len(runs):,.0f}" for count in (jobs, groups, pairs)), share


def at_the_limit(claims: pl.DataFrame) -> pl.DataFrame:
    """Columns ``place`` and ``full``: whether at some time no room was left for the smallest claim there.

    Examples
    --------
    >>> claims = pl.DataFrame({"place": ["a", "a", "b"], "start_s": [0.0, 2.0, 0.0], "end_s": [2.0, 3.0, 9.0],
    ...                        "amount": [360360, 360360, 720720]})
    >>> at_the_limit(claims).sort("place").rows()
    [('a', False), ('b', True)]
    """
    lasting = claims.filter(pl.col("end_s") > pl.col("start_s"))
    least = lasting.group_by("place").agg(pl.col("amount").min().alias("least"))
    steps = pl.concat(
        [
            lasting.select("place", pl.col("start_s").alias("when"), pl.col("amount").alias("change")),
            lasting.select("place", pl.col("end_s").alias("when"), -pl.col("amount").alias("change")),
        ]
    ).sort("place", "when", "change")  # who ends gives back before another starts
    level = steps.with_columns(held=pl.col("change").cum_sum().over("place"))
    peaks = level.group_by("place").agg(pl.col("held").max().alias("peak")).join(least, on="place")
    return peaks.select("place", full=pl.col("peak") + pl.col("least") > WHOLE)
