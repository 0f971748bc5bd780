"""The resource ``counted``: its keys, metrics and section, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.resources.contract import Installed, Kept, Nodes, Place, Table, Told, mean_share
from unrack.resources.counted.counters import Counters, read_counters

MEASURES = (
    Told("used_counted_QUANTITY", "", "", "share of a counter that jobs held", "∫ held dt / (installed x window)"),
    Told(
        "peak_counted_QUANTITY", "", "", "share of a counter that was held at most, in one rack where it is per rack",
        "max held / installed",
    ),
    Told(
        "full_counted_QUANTITY", "", "low", "share of the time in which nothing was left of a counter, in some rack",
        "time with held = installed / window",
    ),
)  # fmt: skip
HEAD = ("policy", "jobs", "in use", "peak", "all out", "amount x hours")


class Counted(NamedTuple):
    """See :class:`unrack.resources.contract.Resource`."""

    name: str = "counted"
    title: str = "Licences and other counters"
    metrics: tuple[Told, ...] = MEASURES

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """The counters of a cluster file."""
        return Counters(read_counters(table, where), nodes, where)

    def measure(
        self,
        installed: Installed,
        claims: pl.DataFrame,
        jobs: pl.DataFrame,
        start_s: float,
        end_s: float,
        placements: pl.DataFrame | None = None,
    ) -> dict[str, float | None]:
        """How much of every counter was used."""
        return measures(installed.places, claims, start_s, end_s)

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """A table of every counter."""
        return tables(runs)


def tables(runs: Sequence[Kept]) -> tuple[Table, ...]:
    """One table for every counter: a row a policy, over its seeds."""
    if not runs:
        return ()
    policies = dict.fromkeys(run.policy for run in runs)
    return tuple(
        Table(
            file["name"], _words(file), HEAD,
            tuple(_row(file["name"], policy, [run for run in runs if run.policy == policy]) for policy in policies),
        )
        for file in runs[0].written
    )  # fmt: skip


def _words(file: dict[str, object]) -> str:
    where = "in each rack" if file["per"] == "rack" else "on the cluster"
    return (
        f"Installed: {file['amount']} {where}. In use: the mean over time; peak: the most at any time"
        f"{', in one rack' if file['per'] == 'rack' else ''}; all out: the share of the time in which nothing was left"
        f"{' in some rack' if file['per'] == 'rack' else ''}."
    )


def _row(name: str, policy: str, runs: Sequence[Kept]) -> tuple[str, ...]:
    jobs, hours = 0, 0.0
    for run in runs:
        own = run.claims.filter(pl.col("quantity") == name)
        jobs += own["job"].n_unique()
        hours += float((own["amount"] * (own["end_s"] - own["start_s"])).sum()) / 3600
    shares = [
        mean_share([run.metrics.get(f"{stem}_counted_{name}") for run in runs]) for stem in ("used", "peak", "full")
    ]
    return policy, f"{jobs / len(runs):,.0f}", *shares, f"{hours / len(runs):,.1f}"


def measures(places: Sequence[Place], claims: pl.DataFrame, start_s: float, end_s: float) -> dict[str, float | None]:
    """Every metric of every counter; ``None`` over a window that lasts no time.

    Examples
    --------
    >>> claims = pl.DataFrame({"place": ["matlab"] * 2, "start_s": [0.0, 2.0], "end_s": [4.0, 4.0], "amount": [1, 3]})
    >>> measures([Place("matlab", "matlab", 4)], claims, 0.0, 8.0)
    {'used_counted_matlab': 0.3125, 'peak_counted_matlab': 1.0, 'full_counted_matlab': 0.25}
    """
    values: dict[str, float | None] = {}
    length = end_s - start_s
    for name in dict.fromkeys(place.quantity for place in places):
        own = [place for place in places if place.quantity == name]
        held = [held_steps(claims.filter(pl.col("place") == place.name), start_s, end_s) for place in own]
        spent = sum(float((np.diff(times) * level[:-1]).sum()) for times, level in held)
        installed = sum(place.amount for place in own)
        values[f"used_counted_{name}"] = spent / (installed * length) if length > 0 else None
        peaks = [float(level.max()) / place.amount for (_, level), place in zip(held, own, strict=True)]
        values[f"peak_counted_{name}"] = max(peaks) if length > 0 else None
        values[f"full_counted_{name}"] = _full_s(held, own) / length if length > 0 else None
    return values


def held_steps(claims: pl.DataFrame, start_s: float, end_s: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """What is held of a place, as times and the level from each on; from the start of the window to its end."""
    start, end = (np.clip(claims[name].to_numpy(), start_s, max(start_s, end_s)) for name in ("start_s", "end_s"))
    amount = claims["amount"].to_numpy()
    lasts = end > start
    when = np.concatenate([[start_s], start[lasts], end[lasts], [max(start_s, end_s)]])
    change = np.concatenate([[0], amount[lasts], -amount[lasts], [0]]).astype(np.int64)
    times, of = np.unique(when, return_inverse=True)
    level = np.zeros(len(times), np.int64)
    np.add.at(level, of.ravel(), change)
    return times, np.cumsum(level)


def _full_s(held: Sequence[tuple[NDArray[np.float64], NDArray[np.int64]]], places: Sequence[Place]) -> float:
    """For how long one place or another has nothing left."""
    spells = sorted(
        (float(times[i]), float(times[i + 1]))
        for (times, level), place in zip(held, places, strict=True)
        for i in np.flatnonzero(level[:-1] >= place.amount).tolist()
    )
    total, reached = 0.0, -np.inf
    for start, end in spells:
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
