"""From a frame of what a file says to a table of jobs: the rules that all formats share, each counted.

What jobs ask for and nothing honours yet is counted and told, with an example: a reader hands the columns that may hold
such asks to :func:`unheeded`; :meth:`Tally.ignore` counts them among the jobs that are kept. What is honoured, perhaps
only on some clusters, is carried along under the names of :data:`unrack.workload.formats.asks.columns.COLUMNS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unrack.workload.formats.asks.columns import COLUMNS, NOTHING, tidied
from unrack.workload.formats.asks.dependencies import first_circle, waits_for
from unrack.workload.formats.rules import RULES, Intake
from unrack.workload.formats.source import Source
from unrack.workload.job import JobTable, Workload, job_table
from unrack.workload.tier_asks import NO_CEILING, TierAsks, tier_asks
from unrack.workload.under_way import UnderWay

UNHEEDED = "unheeded."
"""Prefix, in a frame, of what jobs ask for in vain: ``unheeded.RULE.WHAT``; null = nothing asked."""

_COUNT_IF_DIFFERENT = frozenset({"queue asked for", "quality of service asked for"})
"""Rules about what every job has, which says nothing where it is the same for all."""

_NAMES = {
    "place ignored": "nodeselector affinity topologyspreadconstraints hostlist network contiguous switches",
    "model asked for": "gpumodels gpumodel gpuspec gputype gputypes gpusmodels",
    "queue asked for": "virtualcluster",
    "begin ignored": "begin begintime executiontime",
    "whole nodes ignored": "exclusive wholenode wholenodes",
    "rank ignored": "priorityclassname",
    "other devices": "gres licenses licences license licence",
}
_RULE = {name: rule for rule, names in _NAMES.items() for name in names.split()}
"""Name of a column, in small letters with nothing but letters and digits → the rule about it."""

_NO_FLAG = frozenset(
    {
        "begin ignored", "place ignored", "whole nodes ignored", "rank ignored", "memory ignored", "disk ignored",
        "other devices",
    }
)  # fmt: skip
"""Rules of columns in which 0 says that nothing is asked."""


def unheeded(columns: Iterable[pl.Series], rule: str | None = None) -> list[pl.Series]:
    """Of some columns, those that ask for what nothing honours, under names that :meth:`Tally.ignore` knows.

    Parameters
    ----------
    columns
        Columns of a file under the file's names.
    rule
        Which rule they fall under; by default what their names say, and those that say nothing are left out.

    Examples
    --------
    >>> [made.name for made in unheeded([pl.Series("Exclusive", [None, 1]), pl.Series("colour", ["red", "blue"])])]
    ['unheeded.whole nodes ignored.Exclusive']
    """
    found = []
    for values in columns:
        meant = rule or _RULE.get(re.sub(r"[^a-z0-9]", "", values.name.lower()))
        if meant is not None:
            text = values.cast(pl.String, strict=False).str.strip_chars()
            nothing = NOTHING | {"0", "0.0"} if meant in _NO_FLAG else NOTHING
            bare = text.set(text.str.to_lowercase().is_in(list(nothing)).fill_null(True), None)
            found.append(bare.alias(f"{UNHEEDED}{meant}.{values.name}"))
    return found


OVERRUN = ("truncate", "extend", "keep")
"""What to do about a run longer than the requested time."""

RUNNING = ("kept", "anew")
"""What becomes of jobs that run in a snapshot: they stay where they are, or are placed as if they were new."""

ANEW = "the option running = 'anew' of the trace, which places what runs as if it came now"

EXTRA = "extra:"
"""Prefix, in a frame, of columns that are carried along."""

DEVICE = "devices."
"""Prefix, in a frame and in tables written by unrack, of device demands: ``devices.KIND.QUANTITY``."""

ASK = "ask."
"""Prefix, in a frame, of what is asked of the tiers of memory: ``ask.local``, ``.ceiling`` and so on."""

FIELDS = dict.fromkeys((
    "id", "submit_us", "work_us", "request_us", "tasks", "cores", "memory_mb", "priority", "deadline_us", "user", "app",
), pl.Int64)  # fmt: skip
"""The columns of a frame and their types; ``id``, ``user`` and ``app`` may also be text. Null = not said."""

_REPORTED = ("request_us", "memory_mb", "priority", "deadline_us", "user", "app")


@dataclass
class Tally:
    """What was dropped, changed, ignored and missing so far: rule or field → number of lines; and examples."""

    dropped: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)

    def drop(self, frame: pl.DataFrame, rule: str, where: pl.Expr) -> pl.DataFrame:
        """The frame without the rows of ``where`` (null = stays), which are counted under ``rule``."""
        kept = frame.filter(~where.fill_null(False))
        self.drop_lines(rule, frame.height - kept.height)
        return kept

    def drop_lines(self, rule: str, lines: int) -> None:
        """Count lines dropped under a rule."""
        self._count(self.dropped, rule, lines)

    def change(self, rule: str, lines: int) -> None:
        """Count lines changed under a rule."""
        self._count(self.changed, rule, lines)

    def change_where(self, frame: pl.DataFrame, rule: str, where: pl.Expr) -> None:
        """Count the rows of ``where`` as changed under a rule."""
        self.change(rule, int(frame.select(where.fill_null(False).sum()).item() or 0))

    def ignore(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame without its columns of :func:`unrack.workload.formats.intake.unheeded`, which are counted.

        So are those that are carried along and have a rule: of components, those of which others are missing.
        """
        asked: dict[str, list[tuple[str, str]]] = {}  # rule → column, and what the file calls it
        in_vain = [name for name in frame.columns if name.startswith(UNHEEDED)]
        asks = [(EXTRA + name, one.rule, name) for name, one in COLUMNS.items() if one.rule and EXTRA + name in frame]
        for name in in_vain:
            _, rule, what = name.split(".", 2)
            asks.append((name, rule, what))
        for name, rule, what in asks:
            if rule not in _COUNT_IF_DIFFERENT or frame[name].drop_nulls().n_unique() > 1:
                asked.setdefault(rule, []).append((name, what))
        for rule, names in asked.items():
            some = pl.any_horizontal(pl.col(name).is_not_null() for name, _ in names)
            said = frame.filter(some & _others_missing(frame) if rule == "components missing" else some)
            if said.height:
                self._count(self.ignored, rule, said.height)
                row = said.row(0, named=True)
                words = [f"{what} {row[name]}"[:80] for name, what in names if row[name] is not None]
                self.examples.setdefault(rule, f"job {row['id']}: {', '.join(words)}")
        return frame.drop(in_vain)

    def _count(self, counts: dict[str, int], rule: str, lines: int) -> None:
        assert rule in RULES, rule
        if lines:
            counts[rule] = counts.get(rule, 0) + lines


def _others_missing(frame: pl.DataFrame) -> pl.Expr:
    """Whether others are missing of the heterogeneous job of a row: it is alone, or a number behind a + is left out."""
    named = EXTRA + "job_id" if EXTRA + "job_id" in frame.columns else "id"
    number = pl.col(named).cast(pl.String).str.extract(r"\+([0-9]{1,9})$").cast(pl.Int64).fill_null(0)
    there = pl.len().over(EXTRA + "het", "submit_us")
    return (there == 1) | (number.max().over(EXTRA + "het", "submit_us") >= there)


def tidy(counts: dict[str, int]) -> dict[str, int]:
    """Counts by rule, in the order of ``RULES``."""
    return {rule: counts[rule] for rule in RULES if rule in counts}


def workload(
    source: Source, reader: str, read: int, frame: pl.DataFrame, tally: Tally, overrun: str, header: dict[str, str]
) -> Workload:
    """Apply the shared rules and build the workload.

    Parameters
    ----------
    source, reader
        Where the frame came from, and the name of the reader.
    read
        How many job lines there were.
    frame
        Columns of :data:`FIELDS` (any may be absent), and columns prefixed by :data:`EXTRA`, :data:`DEVICE`,
        :data:`ASK` or :data:`unrack.workload.formats.intake.UNHEEDED`; and of jobs that run when the run begins
        ``on``, ``ran_us``, and ``line`` where that is known; and ``endless``: which have a request that no batch system
        ends them at.
    tally
        What the reader counted so far; more is added.
    overrun
        One of :data:`OVERRUN`.
    header
        What the input says about itself.
    """
    frame = frame.with_columns(pl.lit(None, kind).alias(name) for name, kind in FIELDS.items() if name not in frame)
    frame = tally.ignore(_following(_drop(frame, tally), tally, source))
    for name in _REPORTED:
        if nulls := frame[name].null_count():
            tally.missing[name.removesuffix("_us").removesuffix("_mb")] = nulls
    for name in frame.columns:
        if name.startswith(EXTRA) and (nulls := frame[name].null_count()):
            column = COLUMNS.get(name.removeprefix(EXTRA))
            if column is None or not column.sparse:
                tally.missing[name.removeprefix(EXTRA)] = nulls
            frame = frame.drop(name) if nulls == frame.height else frame
    jobs = _table(_order(_times(frame, tally, overrun), tally), source.path)
    intake = Intake(
        source=Path(source.path).name,
        format=reader,
        read=read,
        kept=len(jobs),
        dropped=tidy(tally.dropped),
        changed=tidy(tally.changed),
        missing=tally.missing,
        header=header,
        ignored=tidy(tally.ignored),
        examples={rule: words for rule in RULES if (words := tally.examples.get(rule))},
    )
    return Workload(source.name, jobs, intake)


def _drop(frame: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    said = pl.col("id").is_not_null() if frame["id"].dtype == pl.String else pl.col("id") >= 0
    frame = frame.with_row_index("number", 1).with_columns(id=pl.when(said).then("id"))
    frame = tally.drop(frame, "submit missing", pl.col("submit_us").is_null() | (pl.col("submit_us") < 0))
    frame = tally.drop(frame, "run missing", pl.col("work_us").is_null() | (pl.col("work_us") < 0))
    frame = tally.drop(frame, "size missing", (pl.col("tasks").fill_null(0) <= 0) | (pl.col("cores") <= 0))
    tally.change("id missing", frame["id"].null_count())
    return frame.with_columns(id=pl.coalesce("id", pl.col("number").cast(frame["id"].dtype))).drop("number")


def _following(frame: pl.DataFrame, tally: Tally, source: Source) -> pl.DataFrame:
    """What jobs say of where, when and after which others they run, in the words that are kept of it."""
    said = {name: tidied(name, frame[EXTRA + name]) for name in COLUMNS if EXTRA + name in frame.columns}
    other = {"job_id": frame[f"{EXTRA}job_id"]} if f"{EXTRA}job_id" in frame.columns else {}
    if (waits := waits_for(frame["id"], said | other)) is not None:
        said |= waits.columns
        tally.change("dependency not there", int(waits.absent.sum()))
        frame = frame.with_columns(unheeded([waits.unknown.alias("dependency")], "dependency ignored"))
        if circle := first_circle(frame["id"], waits.columns):
            got = f"job {' waits for '.join(circle[:8])}{' …' if len(circle) > 8 else ''}"
            raise source.fault(None, f"job {circle[0]}, dependency", got, "jobs that do not wait for themselves")
    return frame.with_columns(values.alias(EXTRA + name) for name, values in said.items())


def _times(frame: pl.DataFrame, tally: Tally, overrun: str) -> pl.DataFrame:
    work, request = pl.col("work_us"), pl.col("request_us")
    unasked = request.is_null() | (request <= 0)
    tally.change_where(frame, "request from run", unasked)
    frame = frame.with_columns(request_us=pl.when(unasked).then(work).otherwise(request))
    rule = {"truncate": "run cut at request", "extend": "request raised to run", "keep": "run beyond request"}[overrun]
    endless = pl.col("endless").fill_null(False) if "endless" in frame.columns else pl.lit(False)
    cut, beyond = (work > request) & ~endless, (work > request) & endless  # nothing would have ended the latter
    tally.change_where(frame, rule, cut)
    tally.change_where(frame, "run beyond request", beyond)
    if overrun == "truncate":
        return frame.with_columns(work_us=pl.when(cut).then(request).otherwise(work))
    return frame.with_columns(request_us=pl.when(cut).then(work).otherwise(request)) if overrun == "extend" else frame


def _order(frame: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    tally.change("id repeated", frame.height - frame["id"].n_unique())
    submit, by_id = pl.col("submit_us"), pl.col("id") < pl.col("id").shift(1)
    if "on" in frame.columns:  # those that run come first, by themselves, and a queue of one moment is in order
        frame = frame.sort(pl.col("on").is_null(), maintain_order=True)
        by_id &= pl.col("on").is_null().all()
    before = submit.shift(1)
    tally.change_where(frame, "out of order", (submit < before) | ((submit == before) & by_id))
    return frame


def _table(frame: pl.DataFrame, path: str) -> JobTable:
    filled = frame.with_columns(
        pl.col("cores").fill_null(1),
        pl.col("memory_mb", "priority").fill_null(0),
        pl.col("deadline_us").fill_null(-1).clip(lower_bound=-1),
    )
    extra = {name: name.removeprefix(EXTRA) for name in frame.columns if name.startswith(EXTRA)}
    asks = {name.removeprefix(ASK): frame[name] for name in frame.columns if name.startswith(ASK)}
    devices = {}
    for name in frame.columns:
        if name.startswith(DEVICE):
            kind, quantity = name.removeprefix(DEVICE).split(".", 1)
            devices[kind, quantity] = filled[name].fill_null(0).to_numpy()
    columns: dict[str, Any] = {
        name: np.ascontiguousarray(filled[name].to_numpy(), np.int64)
        for name, kind in FIELDS.items()
        if name not in ("id", "user", "app")
    }
    return job_table(
        **columns,
        ids=filled["id"],
        user=filled["user"],
        app=filled["app"],
        extra=filled.select(list(extra)).rename(extra) if extra else None,
        devices=devices,
        slo=asks_of(asks, frame.height) if asks else None,
        under_way=_under_way(frame, path),
    )


def _under_way(frame: pl.DataFrame, path: str) -> UnderWay | None:
    if "on" not in frame.columns or frame["on"].null_count() == frame.height:
        return None
    if "line" not in frame.columns:
        return UnderWay(frame["on"], frame["ran_us"].to_numpy(), source=path, way_out=ANEW)
    return UnderWay(frame["on"], frame["ran_us"].to_numpy(), frame["line"].to_numpy(), path)


def asks_of(columns: Mapping[str, pl.Series], jobs: int) -> TierAsks:
    """What is asked of tiers: ``local`` and ``ceiling`` in MB, and names: ``group``, ``spread`` and ``forbidden``."""
    none = pl.Series([None], dtype=pl.Int64).new_from_index(0, jobs)
    return tier_asks(
        columns.get("local", none).fill_null(0).to_numpy(),
        columns.get("ceiling", none).fill_null(NO_CEILING).to_numpy(),
        group=columns.get("group"),
        spread=columns.get("spread"),
        forbidden=columns.get("forbidden"),
    )
