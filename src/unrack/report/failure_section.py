"""What the page shows of failures: how many jobs each one hit; nothing where a study has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from unrack.report.charts.chart import MOST_POLICIES
from unrack.report.column import number_text
from unrack.report.directory import RunFiles
from unrack.report.setting import Setting
from unrack.units import seconds_text

MOST_FAILURES = 20
"""Failures of a setting that are listed one by one."""
COLUMNS = (
    "time_s", "repaired_s", "level", "domain", "nodes", "nodes_down", "cores_down", "memory_mb_down", "jobs_hit",
    "jobs_hit_elsewhere", "core_s_lost",
)  # fmt: skip
WHICH = ("seed", "time_s", "repaired_s", "level", "domain", "nodes", "nodes_down", "cores_down", "memory_mb_down")
"""What a failure is, whatever the policy."""
EVERY = "all"


@dataclass(frozen=True)
class Total:
    """Failures under a policy, of one level or of all, over the seeds: texts for the columns of the table."""

    policy: str
    level: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Listed:
    """One failure: what it was in words, and the jobs that it hit under each policy (``"–"``: the run was over)."""

    cells: tuple[str, ...]
    hit: tuple[str, ...]


@dataclass(frozen=True)
class FailureSetting:
    """One setting with failures.

    Attributes
    ----------
    title
        Of the setting.
    totals
        A row for every policy, and for each of its levels where there are several.
    policies
        Those of the list.
    worst
        The failures that hit most jobs under some policy, worst first.
    more
        How many further failures there were.
    seeded
        Whether there are several seeds, of which the first cell of the list is then one.
    """

    title: str
    totals: tuple[Total, ...]
    policies: tuple[str, ...]
    worst: tuple[Listed, ...]
    more: int
    seeded: bool


def may_fail(run: RunFiles) -> bool:
    """Whether the study asked for failures, struck or not."""
    return "failures" in run.metrics


def failure_section(settings: Sequence[Setting]) -> tuple[FailureSetting, ...]:
    """Read and count what the section shows of these settings; those without failures are passed over."""
    found = []
    for setting in settings:
        own = {policy: [run for run in runs if may_fail(run)] for policy, runs in setting.runs.items()}
        frames = {policy: _read(runs) for policy, runs in own.items() if runs}
        if frames:
            found.append(_setting(setting.title, frames, {policy: len(runs) for policy, runs in own.items()}))
    return tuple(found)


def _read(runs: Sequence[RunFiles]) -> pl.DataFrame:
    frames = [
        run.frame("failures", COLUMNS).select(pl.lit(run.seed, pl.Int64).alias("seed"), *COLUMNS)
        for run in runs
        if (run.folder / "failures.parquet").is_file()
    ]
    empty = pl.DataFrame(schema={"seed": pl.Int64, **dict.fromkeys(COLUMNS, pl.Int64)})
    return pl.concat(frames) if frames else empty


def _setting(title: str, frames: Mapping[str, pl.DataFrame], seeds: Mapping[str, int]) -> FailureSetting:
    totals = []
    for policy, frame in frames.items():
        levels = frame["level"].unique(maintain_order=True).to_list()
        totals.append(_total(policy, EVERY, frame))
        if len(levels) > 1:
            totals += [_total(policy, level, frame.filter(pl.col("level") == level)) for level in sorted(levels)]
    policies = tuple(frames)[:MOST_POLICIES]
    worst, count = _worst({policy: frames[policy] for policy in policies}, max(seeds.values()) > 1)
    return FailureSetting(title, tuple(totals), policies, worst, count - len(worst), max(seeds.values()) > 1)


def _total(policy: str, level: str, frame: pl.DataFrame) -> Total:
    hit, count = frame["jobs_hit"], frame.height
    cells = (
        f"{count:,}",
        f"{int(hit.sum()):,}",
        number_text(float(hit.sum()) / count if count else None),
        f"{max(hit.to_list()):,}" if count else "–",
        f"{int(frame['jobs_hit_elsewhere'].sum()):,}",
        number_text(round(float(frame["core_s_lost"].sum()) / 3600, 2)),
    )
    return Total(policy, level, cells)


def _worst(frames: Mapping[str, pl.DataFrame], seeded: bool) -> tuple[tuple[Listed, ...], int]:
    """The worst failures of a setting, and how many there were in all."""
    some = pl.concat(
        frame.with_columns(pl.lit(policy).alias("policy")) for policy, frame in frames.items() if frame.height
    ) if any(frame.height for frame in frames.values()) else None  # fmt: skip
    if some is None:
        return (), 0
    ranked = (
        some.group_by(WHICH)
        .agg(pl.col("jobs_hit").max().alias("most"), pl.col("core_s_lost").max().alias("lost"))
        .sort("most", "lost", "seed", "time_s", "domain", "repaired_s", descending=[True, True, *[False] * 4])
    )
    hits: dict[tuple[object, ...], dict[str, tuple[int, int]]] = {}
    for row in some.iter_rows(named=True):
        key = tuple(row[name] for name in WHICH)
        hits.setdefault(key, {})[row["policy"]] = (row["jobs_hit"], row["jobs_hit_elsewhere"])
    listed = []
    for row in ranked.head(MOST_FAILURES).iter_rows(named=True):
        under = hits[tuple(row[name] for name in WHICH)]
        memory = "–" if row["memory_mb_down"] is None else f"{row['memory_mb_down']:,}"
        cells = [str(row["seed"])] if seeded else []
        cells += [
            seconds_text(row["time_s"]), row["level"], row["domain"], _nodes(row["nodes_down"], row["nodes"]),
            f"{row['cores_down']:,}", memory, seconds_text(row["repaired_s"] - row["time_s"]),
        ]  # fmt: skip
        listed.append(Listed(tuple(cells), tuple(_hit(under.get(policy)) for policy in frames)))
    return tuple(listed), ranked.height


def _nodes(down: int, nodes: int) -> str:
    return f"{down:,}" if down == nodes else f"{down:,} of {nodes:,}"


def _hit(found: tuple[int, int] | None) -> str:
    if found is None:
        return "–"
    return f"{found[0]:,} ({found[1]:,} elsewhere)" if found[1] else f"{found[0]:,}"
