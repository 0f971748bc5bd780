"""What went in and what was lost: input rules, rejected jobs; and what users, applications and queues got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from unrack.metric.comparison import Entry, Mark, marks
from unrack.report.sections.section import PlainTable, plain
from unrack.report.setting import RunFiles, Setting
from unrack.report.table import column_of, number_text
from unrack.study.notes import site_of
from unrack.workload.formats.rules import RULES, heeded

TOP = 10
_KINDS = {
    "user": "User", "account": "Account", "app": "Application or class", "queue": "Queue", "group": "Group",
    "partition": "Partition", "qos": "Quality of service",
}  # fmt: skip


_DONE = {"dropped": "dropped", "ignored": "not honoured", "changed": "changed"}
"""What a reader did by a rule, by its name in the record → in words."""

Intake = tuple[str, Mapping[str, Any], list[tuple[str, str, int, str]]]
"""Workload, what the record says of its reader, and what that did: in words, the rule, to how many jobs, a sentence."""


def inputs(runs: Iterable[RunFiles]) -> list[Intake]:
    """One for each different intake of the study's workloads."""
    seen: dict[str, Intake] = {}
    for run in runs:
        intake = run.record["workload"].get("intake") or {}
        done = [
            (words, rule, int(count), RULES.get(rule, ""))
            for name, words in _DONE.items()
            for rule, count in (intake.get(name) or {}).items()
            if count and not (name == "ignored" and heeded(rule, site_of(run.record)))
        ]
        seen[run.workload + repr((intake, done))] = run.workload, intake, done
    return list(seen.values())


@dataclass(frozen=True)
class Loss:
    """Jobs of one setting that did not finish, for one reason: how many at least and at most over the runs."""

    setting: str
    state: str
    reason: str
    low: int
    high: int
    policies: str
    examples: str


def losses(settings: Sequence[Setting]) -> list[Loss]:
    """Jobs that were rejected or still queued at the end, by setting and reason."""
    found = []
    for setting in settings:
        lost = [
            _lost(run).with_columns(pl.lit(policy).alias("policy"))
            for policy, runs in setting.runs.items()
            for run in runs
            if any(run.metrics.get(name, 1) for name in ("jobs_rejected", "jobs_queued"))
        ]
        kinds = pl.concat(lost).group_by("state", "reason", maintain_order=True) if lost else ()
        for (state, reason), own in kinds:
            count, policies = own["count"].to_list(), own["policy"].unique(maintain_order=True).to_list()
            whole = len(policies) == len(setting.runs)
            names = "all" if whole else ", ".join(policies)
            low = min(count) if whole else 0
            found.append(Loss(setting.title, str(state), str(reason), low, max(count), names, own["examples"][0]))
    return found


def _lost(run: RunFiles) -> pl.DataFrame:
    """A row a state and reason: how many jobs did not finish, and some of them."""
    some = pl.col("job").cast(pl.String).head(5).str.join(", ").alias("examples")
    return (
        run.frame("jobs", ("job", "state", "reason"))
        .filter(pl.col("state") != "finished")
        .group_by("state", _kind(pl.col("reason").fill_null("")), maintain_order=True)
        .agg(pl.len().alias("count"), some)
        .sort("state", "reason")
    )


def _kind(reason: pl.Expr) -> pl.Expr:
    """Reasons without their amounts, so that those of one kind are alike."""
    return reason.str.replace_all(r" \([^()]*\)", "").str.replace_all(r"\b\d+ (have|are|share) ", "some $1 ")


Breakdown = tuple[str, PlainTable, int]
"""What it is by, the table, and how many values are left out."""


def breakdowns(setting: Setting) -> list[Breakdown]:
    """Mean waits by user, account, application, queue, partition …, where the trace has them: the first by core-time.

    Core-time is cores × run time of all jobs; mean waits are of the finished jobs of each policy's first seed, and are
    marked only where that is the only seed and as many jobs of the value finished as under the others. Empty where no
    job finished.
    """
    frames = {
        policy: runs[0].frame("jobs", ("state", "wait_s", "run_s", "cores", *_KINDS))
        for policy, runs in setting.runs.items()
    }
    first = next(iter(frames.values()))
    if not any((frame["state"] == "finished").any() for frame in frames.values()):
        return []
    return [
        _breakdown(setting, kind, words, frames)
        for kind, words in _KINDS.items()
        if kind in first.columns and first[kind].drop_nulls().n_unique() > 1
    ]


def _breakdown(setting: Setting, kind: str, words: str, frames: Mapping[str, pl.DataFrame]) -> Breakdown:
    first = next(iter(frames.values())).with_columns(pl.col(kind).cast(pl.String).fill_null("(not known)"))
    work = pl.col("run_s") * pl.col("cores")
    ranked = (
        first.group_by(kind)
        .agg(work.sum().alias("work"), pl.len().alias("jobs"))
        .sort("work", kind, descending=[True, False])
    )
    total = float(ranked["work"].sum()) or 1.0
    found = {
        policy: {
            name: (wait, float(count))
            for name, wait, count in frame.filter(pl.col("state") == "finished")
            .group_by(pl.col(kind).cast(pl.String).fill_null("(not known)"))
            .agg(pl.col("wait_s").mean(), pl.len())
            .iter_rows()
        }
        for policy, frame in frames.items()
    }
    waits = {policy: {name: wait for name, (wait, _) in own.items()} for policy, own in found.items()}
    top = ranked.head(TOP)
    column = column_of("wait_s_mean", (own.get(name) for own in waits.values() for name in top[kind]))
    rows = []
    for name, work_s, jobs in top.iter_rows():
        marked = _marked(setting, {policy: own.get(name, (None, 0.0)) for policy, own in found.items()}, jobs)
        cells = tuple((column.text(waits[policy].get(name)), marked.get(policy, "")) for policy in frames)
        share = number_text(round(100 * (work_s or 0.0) / total, 1))
        rows.append((name, (*plain(f"{jobs:,}", share), *cells)))
    heads = (
        ("jobs", "All of them."),
        ("core-time (%)", "Cores × run time, of that of all jobs."),
        *((f"{policy} ({column.unit})", "Mean wait of finished jobs.") for policy in frames),
    )
    return f"{words} · {setting.title}", PlainTable(heads, tuple(rows)), max(len(ranked) - TOP, 0)


def _marked(setting: Setting, found: Mapping[str, tuple[float | None, float]], jobs: int) -> dict[str, Mark]:
    """Policy → mark, given its mean wait and how many jobs it served; none with several seeds, as one is shown."""
    if setting.seeds > 1:
        return {}
    rows = {
        policy: Entry(
            {0: {"wait_s_mean": wait, "jobs_finished": served, "jobs_rejected": jobs - served}},
            setting.rows[policy].world,
        )
        for policy, (wait, served) in found.items()
        if policy not in setting.served_less
    }
    return marks(rows, "wait_s_mean", "low")
