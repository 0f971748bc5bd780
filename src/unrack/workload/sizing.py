"""Sizes and limits that jobs accept beside those that they ask for.

*Limits.* The column ``time_min_s`` has the shortest that a job accepts.

*The filter* ``flexible`` gives jobs of a log several sizes, by a model of their speed-up. A log says how long a job ran
with the size that it had; how long it would have run with another is a model's word. As submitted it runs as long as in
the log. Of Downey's model, each job draws its average parallelism evenly between half and twice the tasks that it has,
and its variation evenly between 0 and 2, the range that Downey looks at.

*Sizes* from columns of a trace, of moldable, malleable and evolving jobs. The kinds are those of Feitelson and Rudolph
1996: of a *moldable* job the scheduler chooses the size when it starts, of a *malleable* one also while it runs; an
*evolving* one asks for another size at points of its work.

A job says its sizes as a table (``sizes = "4:3600;8:2000"``: tasks, and seconds with so many) or as a range
(``min_tasks``, ``max_tasks``) with a model of its speed-up (``speedup``): ``linear``; ``amdahl F``, where F is the part
of the work that is sequential (Amdahl 1967); ``downey A SIGMA``, the average parallelism and its variation (Downey
1997). Times count as ratios to that at the job's own size: what it really runs and what it asks for scale alike.

References
----------
Downey: A model for speedup of parallel programs. UC Berkeley CSD-97-933, 1997.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from unrack.errors import InputError
from unrack.kernels.arrays import Ints
from unrack.ledger.lease import Sizes
from unrack.resources.checked import Strict, Time
from unrack.units import SECOND_US
from unrack.workload.job import JobTable, Workload
from unrack.workload.resample import recorded

COLUMNS = ("sizes", "min_tasks", "max_tasks", "evolves", "speedup", "flexibility", "change_s")
KINDS = ("rigid", "moldable", "malleable", "evolving")
MOST_SIZES = 16
"""Of a range with more sizes so many are offered, at equal ratios, and the job's own."""
_TABLE = "sizes with their times in s, such as 4:3600;8:2000, the job's own among them"
_COUNT = re.compile("0*[1-9][0-9]{0,8}", re.ASCII)
_MODEL = "linear, amdahl F (0 to 1) or downey A SIGMA (A 1 or more, SIGMA 0 or more)"
Speedup = Callable[[int], float]


def downey(n: int, a: float, sigma: float) -> float:
    """The speed-up with n tasks at an average parallelism of a (Downey 1997, A model for speedup, section 2).

    Examples
    --------
    >>> downey(4, 16, 0.0), downey(64, 16, 0.5), round(downey(8, 16, 2.0), 3)
    (4.0, 16, 6.194)
    """
    if sigma <= 1:
        if n <= a:
            return a * n / (a + sigma * (n - 1) / 2)
        return a * n / (sigma * (a - 0.5) + n * (1 - sigma / 2)) if n <= 2 * a - 1 else a
    return n * a * (sigma + 1) / (sigma * (n + a - 1) + a) if n <= a + a * sigma - sigma else a


def speedup_of(text: str, where: str) -> Speedup:
    """A model of speed-up as it is written. An InputError if there is no such model, or it has other parameters."""
    name, *words = text.replace(",", " ").replace("/", " ").split() or [""]
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = [-1.0]
    if all(isfinite(number) and number >= 0 for number in numbers):
        if name == "linear" and not numbers:
            return float
        if name == "amdahl" and len(numbers) == 1 and numbers[0] <= 1:
            return lambda n: 1 / (numbers[0] + (1 - numbers[0]) / n)
        if name == "downey" and len(numbers) == 2 and numbers[0] >= 1:
            return lambda n: downey(n, *numbers)
    raise InputError(where, repr(text), _MODEL)


def sizes_of(jobs: JobTable) -> Mapping[int, Sizes]:
    """Job → its sizes, of those that have several, or one that they say.

    An InputError if what a job says of its sizes cannot be read or cannot be.
    """
    there = [name for name in COLUMNS if name in jobs.extra.columns]
    if not set(COLUMNS[:4]) & set(there):
        return {}
    columns = {name: jobs.extra[name].cast(pl.String).fill_null("").str.strip_chars().to_list() for name in there}
    said = np.logical_or.reduce([np.array(columns.get(name, [""] * len(jobs))) != "" for name in COLUMNS[:4]])
    found = {}
    for job in np.flatnonzero(said).tolist():
        row = {name: columns[name][job] if name in columns else "" for name in COLUMNS}
        kind = row["flexibility"].lower() or ("evolving" if row["evolves"] else "moldable")
        where = f"job {jobs.ids[job]}, "
        if kind not in KINDS:
            raise InputError(f"{where}flexibility", repr(row["flexibility"]), f"one of {', '.join(KINDS)}")
        if kind != "rigid":
            found[job] = _read(row, kind, int(jobs.tasks[job]), where)
    return found


def _read(row: Mapping[str, str], kind: str, own: int, where: str) -> Sizes:
    times = _table(row["sizes"], where) if row["sizes"] else _range(row, own, where)
    if own not in times:
        got = f"sizes {', '.join(map(str, sorted(times)))} of a job that is submitted with {own} tasks"
        raise InputError(f"{where}sizes", got, "its own size among them")
    change = _number(row["change_s"] or "0", f"{where}change_s", "seconds, 0 or more")
    tasks = tuple(sorted(times))
    asks = _asks(row["evolves"], tasks, f"{where}evolves") if kind == "evolving" else ()
    if row["evolves"] and kind != "evolving":
        raise InputError(f"{where}evolves", f"{row['evolves']!r} of a {kind} job", "flexibility evolving")
    speeds = tuple(times[own] / times[n] for n in tasks)
    return Sizes(tasks, speeds, kind == "malleable", round(change * SECOND_US), asks)


def _table(text: str, where: str) -> dict[int, float]:
    times = {}
    for part in filter(None, text.replace(" ", "").split(";")):
        tasks, _, seconds = part.partition(":")
        if not _COUNT.fullmatch(tasks) or int(tasks) in times:
            raise InputError(f"{where}sizes", repr(text), _TABLE)
        times[int(tasks)] = _number(seconds, f"{where}sizes", _TABLE, above=True)
    return times


def _range(row: Mapping[str, str], own: int, where: str) -> dict[int, float]:
    if not row["min_tasks"] + row["max_tasks"]:
        return {own: 1.0}
    if not row["speedup"]:
        raise InputError(f"{where}speedup", "nothing beside min_tasks or max_tasks", _MODEL)
    ends = []
    for name in ("min_tasks", "max_tasks"):
        text = (row[name] or str(own)).removesuffix(".0")
        if not _COUNT.fullmatch(text):
            raise InputError(f"{where}{name}", repr(row[name]), "a whole number of tasks, 1 to 999999999")
        ends.append(int(text))
    least, most = ends
    if not least <= own <= most:
        got = f"{least} to {most} tasks of a job that is submitted with {own}"
        raise InputError(f"{where}min_tasks", got, "a range with its own size in it")
    speedup = speedup_of(row["speedup"], f"{where}speedup")
    return {n: 1 / speedup(n) for n in spread(least, most, own)}


def spread(least: int, most: int, own: int) -> list[int]:
    """The sizes of a range that are offered: all, or :data:`MOST_SIZES` at equal ratios, and a job's own.

    Examples
    --------
    >>> spread(2, 5, 3)
    [2, 3, 4, 5]
    """
    if most - least < MOST_SIZES:
        return list(range(least, most + 1))
    return sorted({*np.rint(np.geomspace(least, most, MOST_SIZES)).astype(np.int64).tolist(), own})


def _asks(text: str, tasks: tuple[int, ...], where: str) -> tuple[tuple[float, int], ...]:
    want = f"parts of its work and sizes of it ({', '.join(map(str, tasks))}), such as 0.3:8;0.7:2, in order"
    found: list[tuple[float, int]] = []
    for part in [*filter(None, text.replace(" ", "").split(";"))] or [""]:
        at, _, size = part.partition(":")
        share = _number(at, where, want, above=True)
        if share >= 1 or not _COUNT.fullmatch(size) or int(size) not in tasks or (found and share <= found[-1][0]):
            raise InputError(where, repr(text), want)
        found.append((share, int(size)))
    return tuple(found)


def _number(text: str, where: str, want: str, above: bool = False) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not isfinite(found) or found < 0 or (above and found == 0):
        raise InputError(where, repr(text), want)
    return found


_FLEXIBLE = 0x666C  # beside the seed, so that these draws are no generator's


class FlexibleTable(Strict):
    """The value of ``flexible``; or a share."""

    share: Annotated[float, Field(ge=0, le=1)] = 1.0  # of the jobs, drawn, that are given sizes
    flexibility: Literal["moldable", "malleable"] = "moldable"
    # smaller, larger: sizes go from so much of a job's own to so much, in whole tasks
    smaller: Annotated[float, Field(gt=0, le=1)] = 0.25
    larger: Annotated[float, Field(ge=1)] = 4.0
    most: Annotated[int, Field(ge=1)] | None = None  # and up to so many tasks
    speedup: str | None = None  # as in the column of that name; default: Downey's, drawn for each job
    change: Time = 0  # how long a job stands still at a change, µs


def flexible(workload: Workload, value: Any, seed: int = 0) -> Workload:
    """Give jobs sizes as the value of the filter ``flexible`` says.

    An InputError if the value is wrong, or jobs say their sizes themselves.
    """
    if not isinstance(value, Mapping):
        value = {"share": value}
    table = FlexibleTable.read(value, "filter flexible, ", "")
    if table.speedup is not None:
        speedup_of(table.speedup, "filter flexible, speedup")
    jobs, count = workload.jobs, len(workload)
    if said := sorted(set(COLUMNS) & set(jobs.extra.columns)):
        raise InputError("filter flexible", f"jobs that say {', '.join(said)} themselves", "jobs of one size")
    draw = np.random.default_rng([_FLEXIBLE, seed])
    chosen = draw.random(count) < table.share
    average, sigma = draw.uniform(0.5, 2.0, count) * jobs.tasks, draw.uniform(0.0, 2.0, count)
    most = np.floor(jobs.tasks * table.larger).astype(np.int64)
    if table.most is not None:
        most = np.maximum(np.minimum(most, table.most), jobs.tasks)
    models = [f"downey {max(a, 1.0):.4f} {s:.4f}" for a, s in zip(average.tolist(), sigma.tolist(), strict=True)]

    def of_chosen(values: Ints | list[str]) -> pl.Series:
        return pl.Series(values).set(pl.Series(~chosen), None)

    extra = {
        "min_tasks": of_chosen(np.ceil(jobs.tasks * table.smaller).astype(np.int64)),
        "max_tasks": of_chosen(most),
        "speedup": of_chosen(models if table.speedup is None else [table.speedup] * count),
        "flexibility": of_chosen([table.flexibility] * count),
        "change_s": pl.Series(np.full(count, table.change / SECOND_US)),
    }
    frame = jobs.extra.with_columns(**extra) if jobs.extra.width else pl.DataFrame(extra)
    how = table.speedup or f"downey's model, drawn for each, seed {seed}"
    words = f"{int(chosen.sum())} of {count} jobs made {table.flexibility}, speed-up by {how}"
    return recorded(workload, replace(jobs, extra=frame), words)


COLUMN = "time_min_s"


def least_times(jobs: JobTable) -> Mapping[int, int]:
    """Job → the shortest limit that it accepts, µs, of those that say one.

    An InputError if it is no time above 0, or longer than what the job asks for.
    """
    if COLUMN not in jobs.extra.columns:
        return {}
    found = {}
    for job, said in enumerate(jobs.extra[COLUMN].to_list()):
        if said is None or said == "":
            continue
        where, whole_s = f"job {jobs.ids[job]}, {COLUMN}", int(jobs.request_us[job]) / SECOND_US
        want = f"seconds above 0, up to the {whole_s:g} that it asks for"
        if (seconds := _number(str(said), where, want, above=True)) > whole_s:
            raise InputError(where, repr(said), want)
        found[job] = max(1, round(seconds * SECOND_US))
    return found
