"""Jobs of the past from accounting logs of PBS, OpenPBS and Torque: the records ``E``, which say how a job ended.

What a job asked for is ``select=2:ncpus=8:mem=4gb:ngpus=1``, ``nodes=2:ppn=8:gpus=1``, or totals.

References
----------
The manual pages pbs_accounting(8B) and pbs_resources(7B) of OpenPBS.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import polars as pl

from unrack.workload.formats.intake import DEVICE, EXTRA, OVERRUN, Tally, unheeded, workload
from unrack.workload.formats.limits import UNLIMITED, limit_us, limits_us, with_limits
from unrack.workload.formats.quantities import MOST_MB, asked_as, choice, shown
from unrack.workload.formats.source import Source, each, load, text_bytes
from unrack.workload.job import Workload

_AMOUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([kmgtp]?)([bw]?)", re.IGNORECASE)
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_COUNT = re.compile("[0-9]{1,9}")
_GPUS = ("ngpus", "gpus")
_OF_PARTS = {"ncpus", "ppn", "mem", "mpiprocs", "ompthreads", "vmem", *_GPUS}
_MODES = {"shared", "default", "reseterr", "exclusive", "exclusive_thread", "exclusive_process"}
"""How Torque's GPUs may be used, which stands where features of nodes do."""


class EqualTasks(NamedTuple):
    """Equal tasks."""

    tasks: int  # how many; 0 = not said
    # cores, gpus: of each
    cores: int
    gpus: int
    mb: int | None  # MB of each; ``None`` = not said
    unequal: bool = False  # whether parts of the job differ, of which each counts as the largest
    places: bool = False  # whether it names resources of the site that nodes have
    constraint: str = ""  # features of nodes, in the words of Slurm
    hosts: str = ""  # nodes that it names


def memory_mb(text: str) -> int:
    """MB in an amount such as ``4gb``, rounded up; a plain number is of bytes, ``w`` stands for words of eight."""
    if match := _AMOUNT.fullmatch(text.strip()):
        words = 8 if match[3].lower() == "w" else 1
        mb = math.ceil(Decimal(match[1]) * _BYTES[match[2].lower()] * words / 2**20)
        if mb < MOST_MB:
            return mb
    raise ValueError(f"{text!r} is not an amount of memory such as 4gb")


def span_s(text: str) -> int:
    """Seconds in ``1:00:00:00`` (a day), ``168:00:00``, ``30:00`` or a number of seconds, up to 68 years."""
    parts = text.strip().split(":")
    if len(parts) > 4 or not all(part.isascii() and part.isdigit() and len(part) < 11 for part in parts):
        raise ValueError(f"{text!r} is not a time such as 24:00:00")
    seconds = sum(int(part) * size for part, size in zip(reversed(parts), (1, 60, 3600, 86_400), strict=False))
    if seconds > 2**31:
        raise ValueError(f"{text!r} is not a time such as 24:00:00, up to 68 years")
    return seconds


def request(fields: Mapping[str, str]) -> EqualTasks:
    """What the keys ``Resource_List.…`` of a job say.

    Examples
    --------
    >>> request({"Resource_List.select": "2:ncpus=8:mem=4gb:ngpus=1"})
    EqualTasks(tasks=2, cores=8, gpus=1, mb=4096, unequal=False, places=False, constraint='', hosts='')
    >>> request({"Resource_List.nodes": "2:ppn=8", "Resource_List.mem": "8gb"})
    EqualTasks(tasks=2, cores=8, gpus=0, mb=4096, unequal=False, places=False, constraint='', hosts='')
    >>> request({"Resource_List.ncpus": "16", "Resource_List.nodect": "2"}).cores
    8
    >>> [getattr(request({"Resource_List.nodes": "2:ppn=8:big+n7"}), name) for name in ("constraint", "hosts")]
    ['[big*2]', 'n7']
    """
    asked = {key.removeprefix("Resource_List."): value for key, value in fields.items() if key.startswith("Resource_")}
    listed = asked.get("select") or asked.get("nodes") or asked.get("neednodes") or ""
    if listed:
        found = _parts(listed)
        if not (asked.get("select") or asked.get("nodes")):
            found = found._replace(hosts="")  # neednodes may be where it ran
    elif "procs" in asked:
        found = EqualTasks(_count(asked["procs"]), 1, 0, None)
    elif "ncpus" in asked:
        nodes = max(_count(asked.get("nodect", "1")), 1)
        found = EqualTasks(nodes, -(-_count(asked["ncpus"]) // nodes), 0, None)
    else:
        found = EqualTasks(_count(asked.get("nodect", "0")), 1, 0, None)
    tasks = max(found.tasks, 1)
    if not found.gpus and (name := next((name for name in _GPUS if name in asked), None)):
        found = found._replace(gpus=-(-_count(asked[name]) // tasks))
    if found.mb is None:
        if "mem" in asked:
            found = found._replace(mb=-(-memory_mb(asked["mem"]) // tasks))
        elif "pmem" in asked:
            found = found._replace(mb=memory_mb(asked["pmem"]) * found.cores)
    return found


def _parts(text: str) -> EqualTasks:
    """Of ``2:ncpus=8:mem=4gb+1:ncpus=1``, or ``2:ppn=8:big+n7:ppn=4``."""
    parts = [_part(part) for part in text.partition("#")[0].split("+")]
    sizes = {part[1:4] for part in parts}
    constraint = parts[0].constraint
    if len({part.constraint for part in parts}) > 1:  # so many nodes of each
        each = [f"{one}*{part.tasks}" for part in parts if part.constraint for one in part.constraint.split("&")]
        constraint = f"[{'&'.join(each)}]"
    mb = [part.mb for part in parts if part.mb is not None]
    return EqualTasks(
        sum(part.tasks for part in parts),
        max(part.cores for part in parts),
        max(part.gpus for part in parts),
        max(mb) if mb else None,
        len(sizes) > 1,
        any(part.places for part in parts),
        constraint,
        ",".join(part.hosts for part in parts if part.hosts),
    )


def _part(text: str) -> EqualTasks:
    words = text.strip().split(":")
    counted = _COUNT.fullmatch(words[0]) is not None
    pairs = dict(word.partition("=")[::2] for word in (words[1:] if counted else words))
    if not text.strip() or (not counted and len(words) == 1 and "=" not in words[0] and not words[0][:1].isalpha()):
        raise ValueError(f"{text!r} is not a part of a request such as 2:ncpus=8:mem=4gb")
    cores = _count(pairs.get("ncpus", pairs.get("ppn", "1")))
    gpus = next((_count(pairs[name]) for name in _GPUS if pairs.get(name)), 0)
    mb = memory_mb(pairs["mem"]) if "mem" in pairs else None
    bare = [key for key in pairs if not pairs[key] and key not in _OF_PARTS | _MODES]
    host = [] if counted or "=" in words[0] else bare[:1]
    hosts = [*host, *(pairs[key] for key in ("host", "vnode") if pairs.get(key))]
    places = any(pairs[key] and key not in _OF_PARTS | {"host", "vnode"} for key in pairs)
    features = "&".join(one for one in bare if one not in host)
    return EqualTasks(_count(words[0]) if counted else 1, cores, gpus, mb, False, places, features, ",".join(hosts))


def _count(text: str) -> int:
    if not _COUNT.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


LINE = re.compile(r"([0-9]{2}/[0-9]{2}/[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2});([A-Za-z]+);([^;]*);?(.*)")
_FIELD = re.compile(r"""([A-Za-z][\w.\[\]-]*)=("[^"]*"|'[^']*'|\S*)""")
_ID = re.compile(r"([0-9]{1,18})(\[([0-9]{0,9})\])?(?:\.(\S+))?")
WANT = "MM/DD/YYYY HH:MM:SS;E;123.server;key=value …"
_CARRIED = {
    "queue": "queue", "group": "group", "account": "account", "project": "project", "Exit_status": "exit_code",
    "jobname": "job_name", "resvname": "reservation", "depend": "dependency",
}  # fmt: skip
_SUBMITTED = {"submit": ("ctime", "qtime", "etime"), "eligible": ("etime", "qtime", "ctime")}
_LATEST_S = 2**33


def read_pbs(
    path: str | os.PathLike[str] | Source,
    *,
    memory: str = "requested",
    gpus: str = "gpus.count",
    arrival: str = "submit",
    unlimited: float | str = UNLIMITED,
    limits: Mapping[str, float | str] | None = None,
    overrun: str = "truncate",
) -> Workload:
    """Read accounting logs, one after the other in one file; the first job is submitted at 0.

    Parameters
    ----------
    memory
        ``"requested"``, ``"used"`` (resources_used.mem), ``"max"`` of both, or ``"ignore"``.
    gpus
        What GPUs are asked as: ``"gpus.count"``, ``"gpu.devices"`` and the like, or ``"ignore"``.
    arrival
        ``"submit"`` (ctime), or ``"eligible"`` (etime): when nothing but resources kept a job waiting any more.
    unlimited
        How long a job without a limit (Resource_List.walltime) is taken to ask for, s or text such as ``"7 d"``; one
        that ran longer is not cut there.
    limits
        Queue → its limit, which then counts in place of ``unlimited``.
    overrun
        As in :func:`unrack.workload.formats.swf.read_swf`.
    """
    choice("overrun", overrun, OVERRUN)
    choice("memory", memory, ("requested", "used", "max", "ignore"))
    choice("arrival", arrival, tuple(_SUBMITTED))
    asked_as("gpus", gpus)
    longest_us, by_queue = limit_us("unlimited", unlimited), limits_us(limits or {})
    source = load(path)
    tally = Tally()
    every = records(source)
    ended = [record for record in every if record.kind == "E"]
    names = each(ended, lambda one: _read(source, one, "job", one.job, job_name))
    ends = [record for record, name in zip(ended, names, strict=True) if name.member != -1]
    tally.drop_lines("no job of its own", len(every) - len(ends))
    last = {record.job: place for place, record in enumerate(ends)}
    kept = [record for place, record in enumerate(ends) if last[record.job] == place]
    tally.drop_lines("run before a requeue", len(ends) - len(kept))
    rows = each(kept, lambda record: _row(record, source, arrival, memory))
    asked = pl.DataFrame(rows, _SCHEMA, orient="row")
    tally.change("parts not equal", int(asked["unequal"].sum()))
    whole = [said if "excl" in (said := record.fields.get("Resource_List.place", "")) else None for record in kept]
    frame = asked.drop("unequal", "places").with_columns(
        *_ids(kept),
        *unheeded([pl.Series("exclusive", whole, pl.String)]),
        *unheeded([asked["places"]], "place ignored"),
        *unheeded([pl.Series("Resource_List", [_others(record) for record in kept], pl.String)], "other devices"),
    )
    frame = tally.drop(frame, "never started", pl.col(f"{EXTRA}log_wait_s").is_null() & (pl.col("work_us") == 0))
    frame = with_limits(frame, frame["request_us"].is_null(), frame[f"{EXTRA}queue"], by_queue, longest_us, tally)
    frame = frame.drop("gpus") if gpus == "ignore" else frame.rename({"gpus": DEVICE + gpus})
    start_us = int(frame.select(pl.col("submit_us").min()).item() or 0)
    waits = pl.col(f"{EXTRA}dependency").is_not_null()  # which then says why it was not eligible before
    begin = pl.when(~waits & (pl.col("eligible_us") > pl.col("submit_us"))).then(pl.col("eligible_us") - start_us)
    frame = frame.with_columns(pl.col("submit_us") - start_us, (begin / 1e6).alias(f"{EXTRA}begin_s"))
    header = {"Columns": f"{memory} memory", "UnixStartTime": str(start_us // 1_000_000)}
    return workload(source, "pbs", len(every), frame, tally, overrun, header)


_SCHEMA: dict[str, Any] = {
    "submit_us": pl.Int64, "work_us": pl.Int64, "request_us": pl.Int64, "tasks": pl.Int64, "cores": pl.Int64,
    "gpus": pl.Int64, "memory_mb": pl.Int64, "unequal": pl.Boolean, "places": pl.String, "user": pl.String,
    "eligible_us": pl.Int64, f"{EXTRA}constraint": pl.String, f"{EXTRA}req_nodes": pl.String,
    f"{EXTRA}log_wait_s": pl.Float64, **{EXTRA + name: pl.String for name in _CARRIED.values()},
}  # fmt: skip


_KNOWN = frozenset({
    "select", "nodes", "neednodes", "procs", "ncpus", "nodect", "mem", "pmem", "vmem", "pvmem", "walltime", "cput",
    "pcput", "place", "ngpus", "gpus", "mpiprocs", "ompthreads", "nice", "preempt_targets",
})  # fmt: skip


def _parts_of(record: PbsLine) -> str | None:
    names = ("Resource_List.select", "Resource_List.nodes", "Resource_List.neednodes")
    return next((record.fields[name] for name in names if record.fields.get(name)), None)


def _others(record: PbsLine) -> str | None:
    """The first resource of the job that is not read."""
    keys = (key.removeprefix("Resource_List.") for key in record.fields if key.startswith("Resource_List."))
    return next((f"{key}={record.fields[f'Resource_List.{key}']}" for key in keys if key not in _KNOWN), None)


def _row(record: PbsLine, source: Source, arrival: str, memory: str) -> tuple[Any, ...]:
    def time(*names: str) -> int | None:
        name = next((name for name in names if record.fields.get(name, "0") != "0"), None)
        return None if name is None else _read(source, record, name, record.fields[name], _epoch_us)

    def value(name: str, parse: Callable[[str], int]) -> int | None:
        text = record.fields.get(name)
        return None if not text else _read(source, record, name, text, parse)

    submit, start, end = time(*_SUBMITTED[arrival]), time("start"), time("end")
    asked: EqualTasks = _read(source, record, "Resource_List", None, lambda _: request(record.fields))
    run_s = value("resources_used.walltime", span_s)
    run = run_s * 1_000_000 if run_s is not None else None if start is None or end is None else max(end - start, 0)
    limit_s = value("Resource_List.walltime", span_s)
    used_mb = value("resources_used.mem", memory_mb)
    used = None if used_mb is None else -(-used_mb // max(asked.tasks, 1))
    said = {"requested": [asked.mb], "used": [used], "max": [asked.mb, used], "ignore": []}[memory]
    mb = max((amount for amount in said if amount is not None), default=None)
    if mb is not None and mb >= MOST_MB:
        raise source.fault(record.line, "Resource_List", f"{mb} MB", "an amount below 4 EB")
    wait = None if start is None or submit is None or start < submit else (start - submit) / 1e6
    return (
        submit, run, None if limit_s is None else limit_s * 1_000_000, asked.tasks, asked.cores, asked.gpus, mb,
        asked.unequal, _parts_of(record) if asked.places else None, record.fields.get("user"), time("etime"),
        asked.constraint or None, asked.hosts or None, wait,
        *(record.fields.get(name) for name in _CARRIED),
    )  # fmt: skip


def _read(source: Source, record: PbsLine, field: str, text: str | None, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text or "")
    except ValueError as error:
        got, _, want = str(error).partition(" is not ")
        raise source.fault(record.line, field, got if want else shown(text or ""), want or str(error)) from None


def _epoch_us(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) < _LATEST_S):
        raise ValueError(f"{text!r} is not a number of seconds since 1970")
    return int(text) * 1_000_000


def _ids(kept: Sequence[PbsLine]) -> list[pl.Series]:
    """The ids: numbers where all are; and, of arrays, ``extra:array``."""
    names = [job_name(record.job) for record in kept]
    servers = {record.job.partition(".")[2] for record in kept}
    if all(name.member is None for name in names) and len(servers) <= 1:
        return [pl.Series("id", [name.number for name in names], pl.Int64)]
    ids = [record.job if len(servers) > 1 else record.job.partition(".")[0] for record in kept]
    arrays = [None if name.member is None else name.number for name in names]
    return [pl.Series("id", ids, pl.String), pl.Series(f"{EXTRA}array", arrays, pl.Int64)]


class PbsLine(NamedTuple):
    """One line."""

    line: int  # counted from 1
    kind: str  # ``E`` for the end of a job, ``Q``, ``S``, ``D`` and so on for all else
    job: str  # its name
    fields: dict[str, str]  # key → value; of a key that comes twice, the last


class JobName(NamedTuple):
    """A name such as ``123[4].server``."""

    number: int  # 123
    member: int | None  # 4; -1: it is the array as a whole; ``None``: it is of no array


def records(source: Source) -> list[PbsLine]:
    """The lines of a log."""
    text = text_bytes(source).decode("utf-8", "replace")
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    return each(lines, lambda line: _record(source, *line))


def _record(source: Source, number: int, line: str) -> PbsLine:
    match = LINE.fullmatch(line)
    if match is None:
        raise source.fault(number, "", shown(line), WANT)
    fields = {found[1]: found[2].strip("\"'") for found in _FIELD.finditer(match[4])} if match[2] == "E" else {}
    return PbsLine(number, match[2], match[3].strip(), fields)


def job_name(text: str) -> JobName:
    """Read the name of a job, ``123.server`` or ``123[4].server``, or of an array as a whole, ``123[].server``."""
    match = _ID.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not the name of a job such as 123.server or 123[4].server")
    if match[2] is None:
        return JobName(int(match[1]), None)
    return JobName(int(match[1]), int(match[3]) if match[3] else -1)
