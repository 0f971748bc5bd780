"""All readers in a table, and the one function that picks among them; what it raises, each of them may."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from io import BytesIO
from typing import Any, NamedTuple

import polars as pl

from unrack.errors import InputError, TraceError
from unrack.plugins.code import blamed
from unrack.plugins.table import Table
from unrack.vocabulary import Need
from unrack.workload.formats.intake import tidy
from unrack.workload.formats.kubernetes import read_pods
from unrack.workload.formats.pbs import read_pbs
from unrack.workload.formats.quantities import boolean
from unrack.workload.formats.slurm.listing import heads_a_list, plain
from unrack.workload.formats.slurm.queue import read_queue
from unrack.workload.formats.slurm.sacct import read_sacct
from unrack.workload.formats.source import Source, load, text_bytes, without
from unrack.workload.formats.swf import read_swf
from unrack.workload.formats.table.published import ALIBABA, PERLMUTTER, read_alibaba, read_perlmutter
from unrack.workload.formats.table.read import read_table
from unrack.workload.formats.wfcommons import read_workflow
from unrack.workload.job import Workload

_PBS = re.compile(r"[0-9]{2}/[0-9]{2}/[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2};[A-Za-z];[^;]*;.*")
_NUMBER = re.compile(r"[+-]?[0-9.]+")
_PAST = {"end", "elapsedraw", "exitcode", "alloctres", "reqtres", "maxrss", "cputime", "cputimeraw", "jobidraw"}
_NOW = {"st", "time", "timeleft", "nodelistreason", "timeused", "mincpus", "minmemory"}


class Format(NamedTuple):
    """One file format."""

    reader: Callable[..., Workload]  # ``reader(path, **options) -> Workload``
    summary: str  # one line for people
    offers: frozenset[Need]  # what files of this format can say of jobs
    options: dict[str, Any]  # names of the reader's options, with their defaults
    giveaway: tuple[str, ...] = ()  # columns of a CSV that give the format away in its header; none: it has to be named


def make_format(
    reader: Callable[..., Workload],
    summary: str,
    offers: str,
    without: tuple[str, ...] = (),
    giveaway: tuple[str, ...] = (),
) -> Format:
    """A format with the parameters of its reader, after the first, as options; ``offers``: words of ``Need``."""
    parameters = list(inspect.signature(reader).parameters.values())[1:]
    options = {parameter.name: parameter.default for parameter in parameters if parameter.name not in without}
    return Format(reader, summary, frozenset(map(Need, offers.split())), options, giveaway)


def _of_others(name: str, found: Any) -> Format:
    """The format of a plug-in: a :class:`Format`, or a bare reader, which may say anything of jobs."""
    if isinstance(found, Format):
        return found
    if not callable(found):
        raise InputError(f"the reader {name}", f"{found!r:.100}", "a function: read(source, …) -> Workload")

    @wraps(found)
    def read(source: Source, **options: Any) -> Workload:
        with blamed(f"the reader {name}"):
            made = found(source, **options)
        return as_workload(made, source.path, name, f"the reader {name}")

    return make_format(read, (inspect.getdoc(found) or "a format of one's own").split("\n")[0], _ALL)


def as_workload(made: object, path: str, kind: str, source: str) -> Workload:
    """What a reader or generator of a plug-in returned: a workload, or a table of jobs to be read as any Parquet file.

    An InputError if it is neither, or the table is not one of jobs.
    """
    if isinstance(made, pl.DataFrame):
        packed = BytesIO()
        made.write_parquet(packed)
        read = read_table(Source(path, packed.getvalue()))
        made = replace(read, intake=replace(read.intake, format=kind))
    if not isinstance(made, Workload):
        raise InputError(f"{source}: what it returned", f"{made!r:.100}", "a Workload or a polars.DataFrame")
    return made


_ALL = "memory request user app deadline priority devices tiers counted"
_OWN: dict[str, Format] = {
    "swf": make_format(
        read_swf, "Standard Workload Format of the Parallel Workloads Archive", "memory request user app"
    ),
    "csv": make_format(read_table, "comma-separated values with any columns, mapped by name", _ALL),
    "parquet": make_format(read_table, "Parquet with any columns, mapped by name", _ALL, ("has_header", "separator")),
    "sacct": make_format(
        read_sacct, "jobs of the past as Slurm's sacct prints them", "memory request user devices deadline counted"
    ),
    "pbs": make_format(read_pbs, "accounting logs of PBS, OpenPBS and Torque", "memory request user devices counted"),
    "slurm-queue": make_format(
        read_queue,
        "what runs and waits now: squeue, scontrol show job",
        "memory request user priority devices deadline counted",
    ),
    "kubernetes": make_format(
        read_pods,
        "pods that run and wait now: kubectl get pods -o json",
        "memory request user app priority devices counted",
    ),
    "wfcommons": make_format(read_workflow, "workflows in the JSON of WfCommons: a job a task", "memory app"),
    "perlmutter": make_format(read_perlmutter, "CSV of Perlmutter's jobs: whole nodes, memory used", "memory"),
    "alibaba2018": make_format(read_alibaba, "CSV of Alibaba's batch tasks, without a header", "memory"),
}
FORMATS: Table[Format] = Table("readers", _OWN, _of_others)
"""Format name → reader; all may be packed by gzip."""


def read_trace(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002 -- the public name
    *,
    strict: bool = False,
    **options: Any,
) -> Workload:
    """Read a workload from a file.

    Parameters
    ----------
    path
        The file; ``~`` and environment variables are expanded, and a relative path is looked for in the working
        folder, then in the folder ``$UNRACK_TRACES``.
    format
        A key of :data:`FORMATS`; by default found from the content.
    strict
        Whether a row that cannot be read is an error. By default it is left out and counted, unless such rows are more
        than half of the file, or the file is JSON, as its records are not lines.
    options
        The options of the format's reader: see :func:`unrack.workload.formats.swf.read_swf`,
        :func:`unrack.workload.formats.table.read.read_table`,
        and those of :mod:`unrack.workload.formats.table.published`. A CSV in a layout of its own is read as any CSV
        where the options are those of any CSV.

    Raises
    ------
    TraceError
        The file cannot be read as that format; the error names the line and the field.
    InputError
        There is no such format or option, or an option has a value it cannot have.
    """
    if format is not None and format not in FORMATS:
        raise InputError("format", repr(format), FORMATS.missing(format) or f"one of {', '.join(FORMATS)}")
    source = load(path)
    name = format or _found(source)
    if name not in FORMATS:
        raise InputError(f"{source.path}: format", f"{name!r} by its content", FORMATS.missing(name))
    chosen = FORMATS[name]
    if format is None and (name in _TABLES or chosen.giveaway) and not set(options) <= set(chosen.options):
        name, chosen = "csv", FORMATS["csv"]
    is_parquet = source.data.startswith(b"PAR1")
    if is_parquet != (name == "parquet"):
        raise source.fault(None, "", "Parquet data" if is_parquet else "no Parquet data", f"the format {name}")
    for option in options:
        if option not in chosen.options:
            valid = ", ".join(chosen.options)
            raise InputError(f"{source.path}: option {option}", f"no option of {name}", f"one of {valid}")
    boolean("strict", strict)
    return _with_good_rows(chosen.reader, source, options, strict)


def _with_good_rows(
    reader: Callable[..., Workload], source: Source, options: Mapping[str, Any], strict: bool
) -> Workload:
    """The workload of the rows that can be read; the others are counted, unless they are most or ``strict``."""
    whole, bad, example = source, set[range](), ""
    while True:
        try:
            made = reader(source, **options)
            break
        except TraceError as error:
            new = set(error.rows) - bad if error.path == whole.path else set()
            bad |= new
            lines = sum(1 for line in text_bytes(whole).split(b"\n") if line.strip()) if new else 0
            if strict or not new or 2 * len(bad) >= lines:
                raise
            example = example or str(error).removeprefix(f"{error.path}, ")
            source = without(whole, bad)
    if not bad:
        return made
    dropped = tidy({**made.intake.dropped, BAD_ROW: len(bad)})
    examples = {BAD_ROW: example, **made.intake.examples}
    return replace(
        made, intake=replace(made.intake, read=made.intake.read + len(bad), dropped=dropped, examples=examples)
    )


BAD_ROW = "bad row"
_TABLES = {"sacct", "slurm-queue", "perlmutter", "alibaba2018"}
"""Formats that are tables, too, as those with a giveaway: read as any table where the options are those of any."""


def _found(source: Source) -> str:
    """The format that a file's content gives away; one that looks like none is taken for what its name says.

    SWF starts with a ``;`` comment or has 18 fields between blanks, the first of them numbers.
    """
    if source.data.startswith(b"PAR1"):
        return "parquet"
    text = text_bytes(source)
    first = text[:1_000_000].lstrip().split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    if first.startswith(("{", "[")):
        return _of_json(text[:100_000].decode("utf-8", "replace"))
    if _PBS.fullmatch(first):
        return "pbs"
    if first.startswith("JobId="):
        return "slurm-queue"
    fields = tuple(field.strip() for field in first.split(","))
    if fields == PERLMUTTER or ALIBABA.fullmatch(first):
        return "perlmutter" if fields == PERLMUTTER else "alibaba2018"
    for name, one in FORMATS.items():
        if one.giveaway and set(one.giveaway) <= set(fields):
            return name
    if heads_a_list(first):
        names = {plain(name) for name in re.split(r"[^\w()]+", first)}
        return "slurm-queue" if names & _NOW and not names & _PAST else "sacct"
    words = first.split()
    if first.startswith(";") or (len(words) >= 18 and all(map(_NUMBER.fullmatch, words[:11]))):
        return "swf"
    if any(separator in first for separator in ",;\t|"):
        return "csv"
    numbers = len(words) > 1 and all(map(_NUMBER.fullmatch, words))
    return "swf" if numbers or re.search(r"\.swf(\.gz)?$", source.path, re.IGNORECASE) else "csv"


def _of_json(head: str) -> str:
    """The format of JSON, which begins so, by its keys."""
    keys = set(re.findall(r'"(\w+)"\s*:', head))
    if {"apiVersion", "kind"} <= keys:
        return "kubernetes"
    if "workflow" in keys and keys & {"tasks", "jobs", "specification"}:
        return "wfcommons"
    if "jobs" in keys and ("submission" in keys or not keys & {"job_id", "servers"}) and "job_state" not in keys:
        return "sacct"
    return (
        "slurm-queue" if keys & {"job_state", "job_resources", "job_id"} and keys & {"jobs", "job_state"} else "servers"
    )
