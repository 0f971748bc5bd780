"""What the page shows of failures: how many jobs each one hit; nothing where a study has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from unrack.metric.estimate import Mark
from unrack.report.charts.chart import MOST_POLICIES
from unrack.report.sections.section import PlainTable, Row, SectionKind, Shown, plain
from unrack.report.setting import RunFiles, Setting
from unrack.report.table import number_text
from unrack.units import clock_start, seconds_text

MOST_FAILURES = 20
"""Failures of a setting that are listed one by one."""
COLUMNS = (
    "time_s", "repaired_s", "level", "domain", "nodes", "nodes_down", "cores_down", "memory_mb_down", "jobs_hit",
    "jobs_hit_elsewhere", "core_s_lost",
)  # fmt: skip
WHICH = ("seed", "time_s", "repaired_s", "level", "domain", "nodes", "nodes_down", "cores_down", "memory_mb_down")
"""What a failure is, whatever the policy."""
EVERY = "all"

TOTALS = "totals"
_OF_TOTALS = (
    ("level", "Of the domains that failed."),
    ("failures", "Before the run ended, over all seeds."),
    ("jobs hit", "Jobs that failures stopped."),
    ("mean per failure", "Jobs hit ÷ failures."),
    ("max per failure", "Jobs hit by the worst failure."),
    ("hit elsewhere", "Of the jobs hit, those that ran on other nodes and used memory or a device of one that failed."),
    ("core-hours lost", "Cores held × time since the start of the attempt, over the jobs hit."),
)
_OF_LIST = (
    ("at", "When it failed."),
    ("level", "Of the domain."),
    ("nodes down", "That no other failure kept down already."),
    ("cores", "Of these nodes."),
    ("memory (MB)", "Of these nodes."),
    ("repaired after", "How long the domain was down."),
)


def may_fail(run: RunFiles) -> bool:
    """Whether the study asked for failures, struck or not."""
    return "failures" in run.metrics


def of_setting(setting: Setting, policies: Sequence[str]) -> Shown:
    """Two tables of the policies that may meet failures.

    ``TOTALS`` has a row for every policy, and for each level of domains where there are several; a second one, which is
    called as it is to be introduced, lists the failures that hit most jobs under some policy.
    """
    own = {policy: [run for run in runs if may_fail(run)] for policy, runs in setting.runs.items()}
    frames = {policy: _read(runs) for policy, runs in own.items() if runs}
    rows = tuple(row for policy, frame in frames.items() for row in _totals(policy, frame))
    listed = _worst(dict(list(frames.items())[:MOST_POLICIES]), setting.seeds > 1)
    return [], {TOTALS: PlainTable(_OF_TOTALS, rows), **listed}


def _read(runs: Sequence[RunFiles]) -> pl.DataFrame:
    frames = [
        run.frame("failures", COLUMNS)
        .select(pl.lit(run.seed, pl.Int64).alias("seed"), *COLUMNS)
        .with_columns(pl.col("time_s", "repaired_s") - clock_start(run.span[0] if run.span else 0.0))
        for run in runs
        if run.has("failures")
    ]
    empty = pl.DataFrame(schema={"seed": pl.Int64, **dict.fromkeys(COLUMNS, pl.Int64)})
    return pl.concat(frames) if frames else empty


def _totals(policy: str, frame: pl.DataFrame) -> Iterator[Row]:
    yield policy, _counts(EVERY, frame)
    levels = sorted(frame["level"].unique().to_list())
    for level in levels if len(levels) > 1 else ():
        yield "", _counts(level, frame.filter(pl.col("level") == level))


def _counts(level: str, frame: pl.DataFrame) -> tuple[tuple[str, Mark], ...]:
    hit, count = frame["jobs_hit"], frame.height
    return plain(
        level,
        f"{count:,}",
        f"{int(hit.sum()):,}",
        number_text(float(hit.sum()) / count if count else None),
        f"{max(hit.to_list()):,}" if count else "–",
        f"{int(frame['jobs_hit_elsewhere'].sum()):,}",
        number_text(round(float(frame["core_s_lost"].sum()) / 3600, 2)),
    )


def _worst(frames: Mapping[str, pl.DataFrame], seeded: bool) -> dict[str, PlainTable]:
    """The worst failures of a setting, introduced by how many there were in all; empty without any."""
    every = [frame.with_columns(pl.lit(policy).alias("policy")) for policy, frame in frames.items() if frame.height]
    if not every:
        return {}
    ranked = (
        pl.concat(every)
        .group_by(WHICH)
        .agg(
            pl.col("jobs_hit").max().alias("most"), pl.col("core_s_lost").max().alias("lost"),
            pl.col("policy", "jobs_hit", "jobs_hit_elsewhere"),
        )
        .sort("most", "lost", "seed", "time_s", "domain", "repaired_s", descending=[True, True, *[False] * 4])
    )  # fmt: skip
    rows = []
    for row in ranked.head(MOST_FAILURES).iter_rows(named=True):
        hits = zip(row["policy"], row["jobs_hit"], row["jobs_hit_elsewhere"], strict=True)
        under = {policy: f"{hit:,} ({away:,} elsewhere)" if away else f"{hit:,}" for policy, hit, away in hits}
        memory = "–" if row["memory_mb_down"] is None else f"{row['memory_mb_down']:,}"
        nodes = f"{row['nodes_down']:,}" + (f" of {row['nodes']:,}" if row["nodes_down"] < row["nodes"] else "")
        cells = plain(
            *([str(row["seed"])] if seeded else []), seconds_text(row["time_s"]), row["level"],
            nodes, f"{row['cores_down']:,}", memory,
            seconds_text(row["repaired_s"] - row["time_s"]), *(under.get(policy, "–") for policy in frames),
        )  # fmt: skip
        rows.append((row["domain"], cells))
    seed = (("seed", "Of the run."),) if seeded else ()
    heads = (*seed, *_OF_LIST, *((f"jobs hit, {policy}", "–: the run was over before.") for policy in frames))
    more = f"The {len(rows)} failures that hit most jobs, of {ranked.height:,}"
    words = more if ranked.height > len(rows) else "Every failure, worst first"
    return {words: PlainTable(heads, tuple(rows))}


FAILURES = SectionKind(may_fail, of_setting)
