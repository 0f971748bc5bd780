"""The filters ``usage`` and ``overestimate`` as study files write them: checked values, and what they do.

``overestimate`` makes jobs ask for more memory than they use: what they use stays, and a job without a curve that asks
for more gets a constant one, at what it asked for before. The share of each is carried along in the column
``overestimate``, 0.6 for 60 % more than it used to ask.

References
----------
Vieira Zacarias 2023, section 7.1: by a fixed percentage from +0 to +60 %, or independently and uniformly between +0 and
+100 %; a diligent user is exact, a careless one asks for twice the use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Protocol

import numpy as np
import polars as pl
from pydantic import BeforeValidator, Field, FiniteFloat, model_validator

from unrack.errors import InputError
from unrack.kernels.arrays import Floats, Ints
from unrack.plugins.code import blamed
from unrack.plugins.table import ELSEWHERE, Table
from unrack.resources.checked import Strict
from unrack.units import SECOND_US, memory_mb
from unrack.workload.job import JobTable, Workload
from unrack.workload.resample import recorded
from unrack.workload.usage.attach import (
    Match,
    Part,
    Scale,
    asking,
    fitted,
    given,
    is_swf,
    matched,
    part_of,
    used_column,
    used_of_swf,
    with_constants,
)
from unrack.workload.usage.curves import SHARE_UNIT, UsageCurves, UsageSeries
from unrack.workload.usage.read import read_usage
from unrack.workload.usage.thin import RISE, TOLERANCE, thinned


def _memory(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("an amount of memory, such as '128 GB'")
    return memory_mb(value, rounding="down")


Cap = Annotated[int, BeforeValidator(_memory), Field(ge=1)]
Share = Annotated[FiniteFloat, Field(ge=0, le=1)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
_OF_FILE = ("match", "part", "thin", "rise", "columns", "time_unit", "options")


class DrawUsage(Protocol):
    """Draws what jobs use of their memory, after parameters of a name or a file."""

    def __call__(self, which: str, tasks: Ints, run_s: Floats, peak_mb: Ints, seed: int) -> UsageCurves:
        """One curve a job, or one a task, of which the highest reaches ``peak_mb``; all int64[jobs], ``run_s`` s."""


def _of_others(name: str, found: Any) -> DrawUsage:
    if not callable(found):
        raise InputError(f"the usage {name}", f"{found!r:.100}", "a function: draw(which, tasks, run_s, peak_mb, seed)")

    def draw(which: str, tasks: Ints, run_s: Floats, peak_mb: Ints, seed: int) -> UsageCurves:
        with blamed(f"the usage {name}"):
            curves: UsageCurves = found(which, tasks, run_s, peak_mb, seed)
        return curves

    return draw


USAGES: Table[DrawUsage] = Table("usages", {}, _of_others)
"""Names of shapes → what draws them; ``toml`` stands for files of parameters."""


class UsageTable(Strict):
    """The value of ``usage``: one of ``file``, ``shapes`` and ``column``, and how."""

    # file, shapes, column: measured series; a name or file of shapes to draw; or a column of the trace with what a
    # task used
    file: str | None = None
    shapes: str | None = None
    column: str | None = None
    # match, part: Which series of the file a job gets, of which part of the file. By default the nearest; of an SWF
    # log by id.
    match: Match | None = None
    part: Part = "all"
    # as of :func:`unrack.workload.usage.attach.fitted`; default: ``"request"``, of columns and SWF logs ``"cut"``
    scale: Scale | None = None
    # thin, rise: as of :func:`unrack.workload.usage.thin.thinned`
    thin: Share = TOLERANCE
    rise: Share = RISE
    cap: Cap | None = None  # the largest node
    seed: Seed | None = None  # of what is drawn; default: the study's
    # columns, time_unit, memory_unit: as of :func:`unrack.workload.usage.read.read_usage`
    columns: dict[str, str | int] = Field(default_factory=dict)
    time_unit: str | None = None
    memory_unit: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)  # of the reader of SWF

    @model_validator(mode="after")
    def _one_source(self) -> UsageTable:
        if [self.file, self.shapes, self.column].count(None) != 2:
            raise ValueError("exactly one of file, shapes and column")
        if self.file is None and (wrong := [key for key in _OF_FILE if key in self.model_fields_set]):
            raise ValueError(f"{wrong[0]} only beside file")
        if self.shapes is not None and self.scale not in (None, "request"):
            raise ValueError("scale = 'request' beside shapes: they have no MB of their own")
        if self.options and not is_swf(self.file or ""):
            raise ValueError("options only beside a file in SWF")
        return self


class OverestimateTable(Strict):
    """The value of ``overestimate``: one of ``share``, ``uniform``, ``users``, ``careless``, and what goes with it."""

    share: Any = None
    uniform: tuple[float, float] | None = None
    users: dict[str, float] | None = None
    others: float = 0.0
    careless: float | None = None
    by: float = 1.0
    of: Literal["users", "jobs"] = "users"
    cap: Cap | None = None
    seed: Seed | None = None

    @model_validator(mode="after")
    def _one_way(self) -> OverestimateTable:
        if [self.share, self.uniform, self.users, self.careless].count(None) != 3:
            raise ValueError("exactly one of share, uniform, users and careless")
        for key, beside in (("others", "users"), ("by", "careless"), ("of", "careless")):
            if key in self.model_fields_set and getattr(self, beside) is None:
                raise ValueError(f"{key} only beside {beside}")
        return self


def use(workload: Workload, value: Any, seed: int = 0) -> Workload:
    """The workload with usage as the value of the filter ``usage`` says; curves that the jobs had are gone.

    ``value``: a file of series, a name or ``.toml`` file of shapes, or a table: :class:`UsageTable`. ``seed``: where
    the table gives none.
    """
    if isinstance(value, str):
        shapes = value in (*USAGES.names(), *ELSEWHERE[USAGES.group]) or value.endswith(".toml")
        value = {"shapes" if shapes else "file": value}
    table = UsageTable.read(value, "filter usage, ", "")
    number = seed if table.seed is None else table.seed
    jobs = workload.jobs
    scale: Scale = table.scale or ("cut" if table.column or is_swf(table.file or "") else "request")
    if table.column is not None:
        source, how, cost = table.column, "column", ""
        usage = used_column(jobs, table.column, table.memory_unit or "MB")
    elif table.shapes is not None:
        source, how, cost = table.shapes, f"drawn, seed {number}", ""
        draw = _drawn_by(table.shapes)
        usage = draw(table.shapes, jobs.tasks, jobs.work_us / SECOND_US, np.full(len(jobs), SHARE_UNIT), number)
    else:
        assert table.file is not None
        series = used_of_swf(table.file, **table.options) if is_swf(table.file) else read_usage(
            table.file, columns=table.columns, time_unit=table.time_unit, memory_unit=table.memory_unit
        )  # fmt: skip
        source, usage, how, cost = _from_series(table, scale, series, jobs, number)
    made, words = fitted(replace(jobs, usage=None), usage, scale, table.cap)
    have = int((usage.curves > 0).sum())
    line = f"usage from {source} ({how}): {have} of {len(jobs)} jobs have curves, {len(usage.mb)} points{cost}; {words}"
    return recorded(workload, made, line)


def _drawn_by(shapes: str) -> DrawUsage:
    name = "toml" if shapes.endswith(".toml") else shapes
    if name not in USAGES:
        known = ", ".join(one for one in USAGES if one != "toml")
        want = USAGES.missing(name) or f"a file that ends in .toml, or one of {known}"
        raise InputError("shapes", repr(shapes), want)
    return USAGES[name]


def _from_series(
    table: UsageTable, scale: Scale, series: UsageSeries, jobs: JobTable, seed: int
) -> tuple[str, UsageCurves, str, str]:
    if series.shares and scale != "request":
        raise InputError(f"usage, scale = {scale!r}", f"{series.source}, of shares", "scale = 'request'")
    part = part_of(series, table.part)
    how: Match = table.match or ("id" if is_swf(series.source) else "nearest")
    rows, words = matched(jobs, part, how, seed)
    if scale == "request":  # the peak as a million: small amounts keep their shape
        part = part.over_peak()
    made = thinned(part, table.thin, table.rise)
    odd = [f"{count} rows: {rule}" for rule, count in {**series.dropped, **series.changed}.items()]
    name = series.source.replace("\\", "/").rpartition("/")[2]
    told = f"{name}, {len(part)} jobs" + (f" of its {table.part}" if table.part != "all" else "")
    where = f"; {', '.join(odd)}" if odd else ""
    cost = f" ({made.samples} samples of the source are {made.points} points{where})"
    return told, given(jobs, made.curves, rows), words, cost


def ask_for_more(workload: Workload, value: Any, seed: int = 0) -> Workload:
    """The workload with requests above use as the value of the filter ``overestimate`` says.

    ``value``: a share for all, or a table: :class:`OverestimateTable`. ``seed``: where the table gives none.
    """
    if not isinstance(value, Mapping):
        value = {"share": value}
    table = OverestimateTable.read(value, "filter overestimate, ", "")
    number = seed if table.seed is None else table.seed
    if table.uniform is not None:
        share, words = _evenly(workload, *table.uniform, number)
    elif table.users is not None:
        share, words = _by_user(workload, table.users, table.others)
    elif table.careless is not None:
        share, words = _careless(workload, table.careless, table.by, table.of, number)
    else:
        by = _share("share", table.share)
        share, words = np.full(len(workload), by), f"requests {by:.4g} above use"
    return _raised(workload, share, words, table.cap)


COLUMN = "overestimate"
"""The column of the share, in ``JobTable.extra``."""

_OVER = 0x6F76  # beside the seed, so that these draws are no generator's
_LARGEST = 1000.0


def _evenly(workload: Workload, least: float, most: float, seed: int) -> tuple[Floats, str]:
    """float64[jobs]: a share for each job, drawn evenly and independently between two; and in words."""
    least, most = _share("uniform", least), _share("uniform", most)
    if least > most:
        raise InputError("overestimate, uniform", f"{least:g} to {most:g}", "a share and a larger one")
    drawn = np.random.default_rng([_OVER, seed]).uniform(least, most, len(workload))
    return drawn, f"requests {least:g} to {most:g} above use, drawn evenly, seed {seed}"


def _by_user(workload: Workload, users: Mapping[str, float], others: float) -> tuple[Floats, str]:
    """float64[jobs]: the share of each job's user, ``others`` also where the user is not known; and in words."""
    jobs = workload.jobs
    share = np.full(len(jobs), _share("others", others))
    for name, value in users.items():
        if name not in jobs.user_names:
            known = ", ".join(jobs.user_names[:20]) or "none are known"
            raise InputError("overestimate, users", repr(name), f"users of {workload.name}: {known}")
        share[jobs.user == jobs.user_names.index(name)] = _share(f"users.{name}", value)
    return share, f"requests above use by user ({len(users)} named, others {others:g})"


def _careless(
    workload: Workload, part: float, by: float, of: Literal["users", "jobs"], seed: int
) -> tuple[Floats, str]:
    """float64[jobs]: ``by`` for a part of the users or jobs, 0 for all others and unknown users; and in words."""
    if not 0 <= part <= 1:
        raise InputError("overestimate, careless", repr(part), f"a share of the {of} from 0 to 1")
    by = _share("by", by)
    jobs = workload.jobs
    rng = np.random.default_rng([_OVER, seed])
    if of == "users":
        there = np.unique(jobs.user[jobs.user >= 0])
        if not len(there):
            raise InputError("overestimate, careless", f"{workload.name}, which names no users", "of = 'jobs'")
        chosen = np.isin(jobs.user, rng.permutation(there)[: round(part * len(there))])
        words = f"{round(part * len(there))} of {len(there)} users"
    else:
        chosen = np.zeros(len(jobs), np.bool_)
        chosen[rng.permutation(len(jobs))[: round(part * len(jobs))]] = True
        words = f"{int(chosen.sum())} of {len(jobs)} jobs"
    return np.where(chosen, by, 0.0), f"requests {by:g} above use of {words}, seed {seed}"


def _share(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LARGEST:
        raise InputError(f"overestimate, {name}", repr(value), "a share from 0 to 1000, such as 0.6 for 60 % more")
    return float(value)


def _raised(workload: Workload, share: Floats, words: str, cap_mb: int | None) -> Workload:
    """The workload with requests so much above use, rounded up to MB, but not above the cap if it was not before."""
    jobs = workload.jobs
    old = jobs.memory_mb
    new = np.ceil(np.round(old * (1.0 + share), 6)).astype(np.int64)
    if cap_mb is not None:
        new = np.maximum(np.minimum(new, cap_mb), old)
    raised = new > old
    usage = with_constants(jobs, old, raised) if raised.any() else jobs.usage
    column = pl.Series(COLUMN, share)
    others = jobs.extra.drop(COLUMN, strict=False)
    extra = others.with_columns(column) if others.width else pl.DataFrame([column])
    made = replace(jobs, asks=asking(jobs, new), usage=usage, extra=extra)
    return recorded(workload, made, f"{words}: {int(raised.sum())} of {len(jobs)} jobs ask for more")
