"""Which rows may be compared, and which of them is best: only where the numbers carry it.

Three things must hold before one row is called better than another.

*The same world.* Rows compete only with rows of the same ``world``; see :func:`world_of`.

*The same work.* On every seed, a row must have served as much as the row of its world that served most: in core-time
(``served``) and in jobs. There is no allowance beyond rounding, as the one job left out can be the one that waits
longest. ``COUNT_THE_UNSERVED`` are compared without this: a policy that serves less looks worse there by itself.

*More than noise.* With several seeds, the difference to the best mean is taken seed by seed, as the rows had the same
jobs, and its Student-t interval must exclude 0. Of k rows, k − 1 are compared with the best mean, so the intervals are
at 1 − 0.05 / (k − 1) (Bonferroni): with 95 % confidence the best row is among those not told apart from the best mean
(as in Gupta's selection of subsets, 1965). With one seed there is no interval, and the numbers are those of these jobs,
unless the time of the log was resampled: then the difference is taken draw by draw (:mod:`unrack.metric.bootstrap`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from unrack.facts import counted
from unrack.metric.estimate import LEVEL, Estimate, difference, estimate

if TYPE_CHECKING:
    from unrack.metric.bootstrap import Resampled

COUNT_THE_UNSERVED = frozenset({"served", "jobs_finished", "jobs_rejected", "jobs_queued", "servers_rejected"})
"""Metrics that are worse where less is served, so that all rows may be compared."""
ROUNDING = 1e-9
"""Shares of work served that differ by less are the same."""

Mark = Literal["best", "among", ""]
"""``best``: better than all others; ``among``: not told apart from the best, as others are."""


class Entry(NamedTuple):
    """A row that may be compared: seed → its metrics, its world, and of one seed perhaps what resampled time gives."""

    seeds: Mapping[int, Mapping[str, Any]]
    world: str = ""
    drawn: Resampled | None = None

    def estimate(self, metric: str) -> Estimate | None:
        """The mean over the seeds, or the value of the one log, with its interval if there is one."""
        values = self.by_seed(metric)
        if self.drawn is not None and len(values) == 1:
            return self.drawn.estimate(metric, *values.values())
        return estimate(values.values())

    def above(self, other: Entry, metric: str, level: float) -> Estimate | None:
        """By how much it is above another row, seed by seed or draw by draw."""
        more, less = self.by_seed(metric), other.by_seed(metric)
        found = difference(more, less, level)
        if found is None or found.count > 1 or self.drawn is None or other.drawn is None:
            return found
        return self.drawn.difference(other.drawn, metric, found.mean, level)

    def by_seed(self, metric: str) -> dict[int, float]:
        """Seed → value, where there is one."""
        found = {seed: values.get(metric) for seed, values in self.seeds.items()}
        return {seed: float(value) for seed, value in found.items() if value is not None and math.isfinite(value)}


@dataclass(frozen=True)
class Standing:
    """How the rows of one world compare by one metric."""

    world: str  # theirs
    values: Mapping[str, Estimate]  # row → mean over its seeds, for the rows that were compared
    # Rows that are better than all others; several where they are equal on every seed. Empty where nothing is.
    best: tuple[str, ...] = ()
    # rows that cannot be told apart from the one with the best mean, that one first; empty where ``best`` is not, or
    # where no two rows can be told apart from the best
    among: tuple[str, ...] = ()
    # row → its difference to the row with the best mean, with the interval that decided; several seeds or draws only
    gaps: Mapping[str, Estimate] = field(default_factory=dict)
    drawn: bool = False  # whether the intervals come of resampled time, not of seeds

    @property
    def over(self) -> str:
        """What the rows were compared on, at least: ``"5 seeds"``, ``"52 blocks of time"``."""
        count = min((gap.count for gap in self.gaps.values()), default=1)
        return f"{counted(count, 'block')} of time" if self.drawn else counted(count, "seed")


def world_of(record: Mapping[str, Any]) -> str:
    """What must be equal for two rows to compete: the ``world`` of a row of the summary, or of the record of a run."""
    world = record.get("world")
    return "" if world is None else world if isinstance(world, str) else json.dumps(world, sort_keys=True)


def served_less(rows: Mapping[str, Entry]) -> dict[str, float]:
    """Row → the share of core-time that it served, of those that served less than the best of their world.

    Where the core-time is the same and jobs are missing, it is the share of the jobs.
    """
    found = {}
    for names in _worlds(rows).values():
        shares = {name: {seed: _shares(values) for seed, values in rows[name].seeds.items()} for name in names}
        most: dict[int, tuple[float, float]] = {}
        for own in shares.values():
            for seed, (work, jobs) in own.items():
                most[seed] = max(most.get(seed, (0.0, 0.0))[0], work), max(most.get(seed, (0.0, 0.0))[1], jobs)
        for name, own in shares.items():
            for kind in (0, 1):
                if any(share[kind] < most[seed][kind] - ROUNDING for seed, share in own.items()):
                    found[name] = math.fsum(share[kind] for share in own.values()) / len(own)
                    break
    return found


def _shares(values: Mapping[str, Any]) -> tuple[float, float]:
    """What a run served: of the core-time asked for, and of the jobs; of the jobs, where the former is not known."""
    counts = [float(values.get(f"jobs_{state}") or 0) for state in ("finished", "rejected", "queued")]
    jobs = counts[0] / sum(counts) if sum(counts) else 1.0
    work = values.get("served")
    return jobs if work is None else float(work), jobs


def standings(
    rows: Mapping[str, Entry], metric: str, better: str, less: Mapping[str, float] | None = None
) -> tuple[Standing, ...]:
    """Compare rows by a metric: one standing a world, in order of first appearance.

    ``better``: ``"low"``, ``"high"`` or ``""`` (neither is better: nothing is marked). ``less``: rows that served less,
    from :func:`served_less`; ``None``: find out.
    """
    less = served_less(rows) if less is None else less
    found = []
    for world, names in _worlds(rows).items():
        fair = [name for name in names if metric in COUNT_THE_UNSERVED or name not in less]
        found.append(_standing(world, {name: rows[name] for name in fair}, metric, better))
    return tuple(found)


def marks(
    rows: Mapping[str, Entry], metric: str, better: str, less: Mapping[str, float] | None = None
) -> dict[str, Mark]:
    """Row → its mark in the column of a metric; rows without one are left out.

    Examples
    --------
    >>> two = {"a": Entry({0: {"wait": 1.0}, 1: {"wait": 2.0}}), "b": Entry({0: {"wait": 1.5}, 1: {"wait": 2.5}})}
    >>> marks(two, "wait", "low")
    {'a': 'best'}
    """
    found: dict[str, Mark] = {}
    for own in standings(rows, metric, better, less):
        found.update((name, "best") for name in own.best)
        found.update((name, "among") for name in own.among)
    return found


def _worlds(rows: Mapping[str, Entry]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, row in rows.items():
        found.setdefault(row.world, []).append(name)
    return found


def _standing(world: str, rows: Mapping[str, Entry], metric: str, better: str) -> Standing:
    means = {name: mean for name, row in rows.items() if (mean := row.estimate(metric)) is not None}
    values = {name: rows[name].by_seed(metric) for name in means}
    shared = set.intersection(*(set(own) for own in values.values())) if values else set()
    if better not in ("low", "high") or len(values) < 2 or not shared:
        return Standing(world, means)
    sign = 1 if better == "low" else -1
    top = min(values, key=lambda name: sign * math.fsum(values[name][seed] for seed in sorted(shared)))
    others = [name for name in values if name != top]
    equal = [name for name in others if _equal(values[name], values[top], shared)]
    if len(equal) == len(others):
        return Standing(world, means)
    drawn = all(mean.count > 1 and len(values[name]) == 1 for name, mean in means.items())
    if not drawn and all(len(own) == 1 for own in values.values()):
        return Standing(world, means, best=_in_order(values, [top, *equal]))
    level = 1 - (1 - LEVEL) / len(others)
    gaps = {name: gap for name in others if (gap := rows[name].above(rows[top], metric, level)) is not None}
    near = [name for name in others if name not in equal and not (name in gaps and gaps[name].excludes_0)]
    if not near:
        return Standing(world, means, _in_order(values, [top, *equal]), gaps=gaps, drawn=drawn)
    among = (top, *(name for name in others if name in equal or name in near))
    return Standing(world, means, (), among if len(among) < len(values) else (), gaps, drawn)


def _in_order(values: Mapping[str, object], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in values if name in names)


def _equal(one: Mapping[int, float], other: Mapping[int, float], seeds: set[int]) -> bool:
    return all(math.isclose(one[seed], other[seed], rel_tol=1e-9, abs_tol=1e-12) for seed in seeds)
