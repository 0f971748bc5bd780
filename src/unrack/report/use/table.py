"""The tables of the section on memory in use: metrics, throughput by memory, jobs whose memory changed or ended."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from unrack.report.charts.chart import MOST_POLICIES
from unrack.report.column import number_text
from unrack.report.section import PlainTable, plain
from unrack.report.setting import Setting
from unrack.report.table import share_text

MOST_JOBS = 8
THROUGHPUT = "throughput_jobs_per_h"
MB_PER_TB = 1024**2


def throughput_by_memory(settings: Sequence[Setting]) -> PlainTable | None:
    """Jobs per hour for every TB that is installed: a row a setting, a column a policy (the first ``MOST_POLICIES``).

    What served less than others of its setting says so. ``None``: no cluster counts its memory.
    """
    policies = list(dict.fromkeys(policy for setting in settings for policy in setting.runs))[:MOST_POLICIES]
    heads = [("installed (TB)", "Memory of all nodes."),
             *((policy, "Jobs per hour and TB installed.") for policy in policies)]  # fmt: skip
    rows = []
    for setting in settings:
        mb = next(iter(setting.runs.values()))[0].total_mb
        if mb is None:
            continue
        values, marked = setting.values(THROUGHPUT), setting.marks(THROUGHPUT, "high")
        cells = [*plain(number_text(mb / MB_PER_TB))]
        for policy in policies:
            value = values.get(policy)
            text = number_text(None if value is None else value.mean / (mb / MB_PER_TB))
            if policy in setting.served_less:
                text += f" (served {share_text(setting.served_less[policy])})"
            cells.append((text, marked.get(policy, "")))
        rows.append((setting.title, tuple(cells)))
    return PlainTable(tuple(heads), tuple(rows)) if rows else None


def changed_jobs(jobs: pl.DataFrame) -> PlainTable | None:
    """The jobs whose leases changed most, in MB; ``None``: no lease changed."""
    moved = pl.col("memory_grown_mb") + pl.col("memory_shrunk_mb")
    top = jobs.with_row_index("row").filter(moved > 0).sort(moved, "row", descending=[True, False]).head(MOST_JOBS)
    heads = (
        ("grew by (GB)", "Sum of all by which its leases grew while it ran."),
        ("shrank by (GB)", "Sum of all by which its leases shrank while it ran."),
        ("asked (GB)", "By all of its tasks."),
        ("peak of a task (GB)", "The most that any of its tasks uses."),
        ("tasks", "How many it has."),
        ("stops", "Attempts that were stopped for lack of memory."),
    )
    rows = [
        (_name(row), plain(_gb(row["memory_grown_mb"]), _gb(row["memory_shrunk_mb"]), _gb(row["memory_mb"]),
                            _gb(row["peak_mb_per_task"]), f"{row['tasks']:,}", f"{row['memory_stops']:,}"))
        for row in top.iter_rows(named=True)
    ]  # fmt: skip
    return PlainTable(heads, tuple(rows)) if rows else None


def stopped_jobs(jobs: pl.DataFrame) -> PlainTable | None:
    """The jobs that lost most for lack of memory, stopped or standing still; ``None``: there was enough."""
    hit = (pl.col("memory_stops") > 0) | (pl.col("node_s_blocked") > 0)
    cost = pl.col("node_s_lost") + pl.col("node_s_blocked")
    order = [cost, pl.col("memory_stops"), pl.col("row")]
    top = jobs.with_row_index("row").filter(hit).sort(order, descending=[True, True, False]).head(MOST_JOBS)
    heads = (
        ("stops", "Attempts that were stopped for lack of memory."),
        ("lost (node-h)", "Work that was lost with these attempts."),
        ("stood still (node-h)", "Time in which it stood still for lack of memory, times its nodes."),
        ("asked (GB)", "By all of its tasks."),
        ("peak of a task (GB)", "The most that any of its tasks uses."),
        ("tasks", "How many it has."),
        ("in the end", "What became of it."),
    )
    rows = [
        (_name(row), plain(f"{row['memory_stops']:,}", number_text(round(row["node_s_lost"] / 3600, 3)),
                            number_text(round(row["node_s_blocked"] / 3600, 3)), _gb(row["memory_mb"]),
                            _gb(row["peak_mb_per_task"]), f"{row['tasks']:,}", str(row["state"])))
        for row in top.iter_rows(named=True)
    ]  # fmt: skip
    return PlainTable(heads, tuple(rows)) if rows else None


def _name(row: dict[str, object]) -> str:
    return f"{row['job']} of {row['user']}" if row.get("user") else str(row["job"])


def _gb(mb: int) -> str:
    return number_text(mb / 1024)
