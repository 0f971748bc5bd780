"""Lines about jobs as columns that a workload is made of: the part that ``sacct`` and ``squeue`` share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from unrack.cluster.formats.described import counter
from unrack.errors import InputError
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.job_ids import job_id, job_state
from unrack.slurm_text.tres import Tres, gres, licences, tres
from unrack.slurm_text.tres import memory as amount_of_memory
from unrack.slurm_text.values import ENDLESS, submit_line
from unrack.workload.formats.intake import DEVICE, EXTRA, UNHEEDED, Tally, unheeded
from unrack.workload.formats.quantities import DEVICE_KEY, MOST_MB, asked_as, boolean, choice, refuse, typed
from unrack.workload.formats.slurm.listing import ASKS, READ, RENAMED, Listing, ListingColumns, first_said

GPU = "gpu"
PER_NODE = ("gres", "allocgres", "reqgres")


@dataclass(frozen=True)
class Choices:
    """Which of the things that Slurm says become what."""

    # ``"allocated"``: what a job was given, and where that is not said what it asked for; ``"requested"``: the other
    # way round
    size: str = "allocated"
    memory: str = "requested"  # ``"requested"``, ``"used"``, ``"max"`` of both, or ``"ignore"``
    gpus: str = "gpus.count"  # what GPUs are asked as, such as ``gpus.count``; ``"ignore"``: not at all
    # name of another generic resource → what it is asked as, such as ``nvme.devices``
    gres: Mapping[str, str] = field(default_factory=dict)
    licences: bool = True  # whether licences are asked for, as ``counted.NAME``

    def __post_init__(self) -> None:
        choice("size", self.size, ("allocated", "requested"))
        choice("memory", self.memory, ("requested", "used", "max", "ignore"))
        boolean("licences", self.licences)
        asked_as("gpus", self.gpus)
        if not isinstance(self.gres, Mapping):
            raise InputError("option gres", repr(self.gres), "a table of names and KIND.QUANTITY")
        for name, key in self.gres.items():
            if not isinstance(key, str) or not DEVICE_KEY.fullmatch(key):
                raise InputError(f"option gres.{name}", repr(key), "KIND.QUANTITY such as nvme.devices")


def asked(columns: ListingColumns, used_mb: pl.Series | None, choices: Choices, tally: Tally) -> pl.DataFrame:
    """``tasks`` (null = not known), ``cores``, ``memory_mb``, ``devices.…`` and ``extra:gpu_models`` of each row.

    ``used_mb``: MB that each node of a job used, where that is known.
    """
    given, wanted = _Resources(columns, "alloctres"), _Resources(columns, "reqtres")
    given_first = choices.size == "allocated"
    first, second = (given, wanted) if given_first else (wanted, given)
    size = {}
    for what in ("cpus", "nodes"):
        had = [columns.whole(name) for name in (f"alloc{what}", f"n{what}") if name in columns]
        wished = [columns.whole(f"req{what}")]
        early, late = (had, wished) if given_first else (wished, had)
        size[what] = first_said(*early, first.amount(what), *late, second.amount(what))
    nodes = size["nodes"].fill_null(columns.column("nodelist", _hosts, pl.Int64))
    held = _devices(columns, first, second, nodes)
    table = pl.DataFrame({"cpus": size["cpus"], "nodes": nodes})
    gpus = held.get(GPU, _none(table.height)) if choices.gpus != "ignore" else _none(table.height)
    table = _tasks(table.with_columns(gpus=gpus), tally)
    made = [table["tasks"], table["cores"]]
    if choices.memory != "ignore":
        memory = _memory(columns, table, first, second, used_mb, choices.memory)
        refuse(memory >= MOST_MB, memory, "memory", columns.at, "an amount below 4 EB")
        made.append(memory.alias("memory_mb"))
    as_what = dict(choices.gres) | ({} if choices.gpus == "ignore" else {GPU: choices.gpus})
    for name, key in as_what.items():
        if name in held:
            each = pl.select((held[name] + table["tasks"] - 1) // table["tasks"]).to_series()
            uneven = (held[name] % table["tasks"] != 0).fill_null(False)
            tally.change("devices rounded up", int(uneven.sum()))
            made.append(each.alias(DEVICE + key))
    for name, amounts in held.items():
        if name not in as_what:
            made += unheeded([amounts.alias(name)], "other devices")
    made += _models(first, second)
    licensed = _licences(columns, first, second)
    if choices.licences:
        made += [amounts.alias(f"{DEVICE}counted.{name}") for name, amounts in licensed.items()]
    elif licensed:
        tally.change_where(pl.DataFrame(licensed), "licences ignored", pl.any_horizontal(pl.all() > 0))
    return pl.DataFrame(made)


class _Resources:
    def __init__(self, columns: ListingColumns, name: str) -> None:
        self.columns, self.name = columns, name
        self.found: dict[str, Tres] = columns.made(name, tres)

    def amount(self, what: str) -> pl.Series:
        amounts = {entry: getattr(said, what) or None for entry, said in self.found.items()}
        return self.columns.looked_up(self.name, amounts, pl.Int64)

    def of(self, kind: str) -> dict[str, pl.Series]:
        """Name → how many, of ``"gres"`` or ``"licences"``."""
        return self.columns.by_name(self.name, {entry: getattr(said, kind) for entry, said in self.found.items()})

    def models(self) -> pl.Series:
        models = {entry: "|".join(said.types.get(GPU, ())) or None for entry, said in self.found.items()}
        return self.columns.looked_up(self.name, models, pl.String)


def _hosts(entry: str) -> int | None:
    return None if entry.startswith("(") or "None assigned" in entry or entry.endswith("+") else len(expand(entry))


def _none(rows: int) -> pl.Series:
    return pl.Series([None], dtype=pl.Int64).new_from_index(0, rows)


def _tasks(table: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    """A task on each node; where GPUs do not come out even, one for each; without nodes, one for each core."""
    cpus, nodes, gpus = pl.col("cpus"), pl.col("nodes"), pl.col("gpus").fill_null(0)
    uneven = (gpus > nodes) & (gpus % nodes != 0)
    tally.change_where(table, "a task a GPU", uneven)
    tally.change_where(table, "nodes not said", nodes.is_null() & (cpus > 1))
    without_nodes = pl.when(gpus > 0).then(pl.lit(1, pl.Int64)).otherwise(cpus)
    table = table.with_columns(tasks=pl.when(uneven).then(gpus).otherwise(pl.coalesce(nodes, without_nodes)))
    tally.change_where(table, "cores rounded up", cpus % pl.col("tasks") != 0)
    return table.with_columns(cores=(cpus + pl.col("tasks") - 1) // pl.col("tasks")).with_columns(
        tasks=pl.when(cpus.is_not_null()).then(pl.col("tasks"))
    )


def _memory(
    columns: ListingColumns,
    table: pl.DataFrame,
    first: _Resources,
    second: _Resources,
    used_mb: pl.Series | None,
    which: str,
) -> pl.Series:
    """MB of each task, rounded up."""
    nodes = pl.coalesce("nodes", pl.lit(1, pl.Int64))
    ways = {"job": pl.lit(1, pl.Int64), "node": nodes, "core": pl.col("cores") * pl.col("tasks")}
    sources = [_spread(first.amount("mem_mb"), table, ways["job"])]
    for name, bare in (("reqmem", "job"), ("minmemorynode", "node"), ("minmemorycpu", "core")):
        if name not in columns:
            continue
        found = columns.made(name, amount_of_memory)
        for per, times in ways.items():
            amounts = {
                entry: said.mb
                for entry, said in found.items()
                if said is not None and said.mb and (bare if said.per == "job" else said.per) == per
            }
            sources.append(_spread(columns.looked_up(name, amounts, pl.Int64), table, times))
    sources.append(_spread(second.amount("mem_mb"), table, ways["job"]))
    requested = first_said(*sources)
    used = _none(table.height) if used_mb is None else _spread(used_mb, table, nodes)
    if which == "used":
        return used
    return requested if which == "requested" else pl.select(pl.max_horizontal(requested, used)).to_series()


def _spread(amounts: pl.Series, table: pl.DataFrame, times: pl.Expr) -> pl.Series:
    """MB of each task, of amounts of which a job has so many."""
    total = amounts.clip(upper_bound=MOST_MB) * times.clip(upper_bound=2**20)
    return table.select((total + pl.col("tasks") - 1) // pl.col("tasks")).to_series()


def _devices(columns: ListingColumns, first: _Resources, second: _Resources, nodes: pl.Series) -> dict[str, pl.Series]:
    """Name of a generic resource → how many the whole job has."""
    sources = [first.of("gres")]
    for name in PER_NODE:
        if name in columns:
            each = columns.by_name(name, {entry: said.gres for entry, said in columns.made(name, gres).items()})
            sources.append({kind: amounts * nodes.fill_null(1) for kind, amounts in each.items()})
    return _merged([*sources, second.of("gres")])


def _merged(sources: Sequence[Mapping[str, pl.Series]]) -> dict[str, pl.Series]:
    names = sorted({name for found in sources for name in found})
    return {name: first_said(*(found[name] for found in sources if name in found)) for name in names}


def _models(first: _Resources, second: _Resources) -> list[pl.Series]:
    models = first_said(first.models(), second.models())
    if models.null_count() == len(models):
        return []
    return [models.alias(f"{EXTRA}gpu_models"), *unheeded([models.alias("gpu_models")])]


def _licences(columns: ListingColumns, first: _Resources, second: _Resources) -> dict[str, pl.Series]:
    sources = [first.of("licences"), second.of("licences")]
    if "licenses" in columns:
        sources.append(columns.by_name("licenses", columns.made("licenses", licences)))
    merged: dict[str, pl.Series] = {}
    for name, amounts in _merged(sources).items():
        key = counter(name)
        merged[key] = amounts if key not in merged else first_said(merged[key], amounts)
    return merged


NAMES = ("jobid", "jobidraw")
"""Columns with the name of the job, the better one first."""
LIMITS = ("timelimitraw", "timelimit")
"""Columns with the time limit."""
STATE = f"{EXTRA}state"
RAN = "run:so far"
"""Column of how long jobs that run have run, µs; null of all others."""
TIMES = ("submit_us", "work_us", "request_us", "deadline_us")
NAMED = ("user", "account", "partition", "qos", "group", "constraints", "dependency", "reservation")
"""Columns with names by which jobs are told apart."""
BEGIN = "begin_us"
"""Column of the time before which a job was not to begin, µs since 1970; null: from its submission on."""
_ON_THE_LINE = {"dependency": "dependency", "req_nodes": "nodelist", "exc_nodes": "exclude", "constraint": "constraint"}
"""What jobs ask for → the option on their command line; only where nothing else in the list says it."""
_MADE = {*TIMES, RAN, BEGIN, "start_us", "endless", "row", "id", "step", "member", "lastschedeval"}


def timed(jobs: pl.DataFrame, found: Listing, arrival: str) -> pl.DataFrame:
    """Rows of the listing, with their ``row``, :data:`TIMES`, ``start_us``, :data:`BEGIN`, :data:`STATE`, ``endless``.

    ``work_us`` is how long a job ran, ``request_us`` its limit (null: none), ``endless`` whether it is said that there
    is no limit but, perhaps, that of the partition. ``arrival``: which time counts as the submission, ``"submit"`` or
    ``"eligible"``, and where that is not known ``submit``.
    """
    columns = found.columns(jobs)
    state = columns.column("state", job_state, pl.String)
    submit, start, end = (columns.moment_us(name) for name in ("submit", "start", "end"))
    eligible = columns.moment_us("eligible")
    if arrival == "eligible":
        submit = first_said(eligible, submit)
    run = first_said(columns.seconds_us("elapsedraw"), columns.span_us("elapsed"), end - start)
    words = [columns.text(name).str.to_lowercase().is_in([*ENDLESS, "partition_limit"]) for name in LIMITS]
    wait_s = (start - submit) / 1e6
    return pl.concat([jobs, pl.DataFrame([
        submit.alias("submit_us"),
        start.alias("start_us"),
        eligible.set(~(eligible > submit).fill_null(False), None).alias(BEGIN),
        run.alias("work_us"),
        first_said(*map(columns.span_us, LIMITS)).alias("request_us"),
        (words[0].fill_null(False) | words[1].fill_null(False)).alias("endless"),
        columns.moment_us("deadline").alias("deadline_us"),
        wait_s.set((wait_s < 0).fill_null(False), None).alias(f"{EXTRA}log_wait_s"),
        state.alias(STATE),
    ])], how="horizontal")  # fmt: skip


def described(
    jobs: pl.DataFrame, found: Listing, used_mb: pl.Series | None, choices: Choices, tally: Tally
) -> pl.DataFrame:
    """The columns of a workload, of jobs as of :func:`timed` with their ``id``; ``used_mb``: on each node."""
    columns = found.columns(jobs)
    times = ("id", RAN, BEGIN, "endless", *TIMES)
    ready = [name for name in jobs.columns if name in times or name.startswith((EXTRA, UNHEEDED))]
    users = columns.text("user").str.replace(r"\([0-9]+\)$", "")  # ann(1000), as scontrol has it, is ann
    parts = [jobs.select(ready), asked(columns, used_mb, choices, tally), pl.DataFrame([users.alias("user")])]
    others = [name for name in jobs.columns if name not in READ | _MADE and not name.startswith((EXTRA, UNHEEDED))]
    if others:
        parts.append(
            pl.DataFrame([typed(columns.text(name)).alias(EXTRA + RENAMED.get(name, name)) for name in others])
        )
    parts.append(_on_the_line(columns, jobs))
    if (in_vain := pl.DataFrame(unheeded(columns.text(name) for name in jobs.columns if name in ASKS))).width:
        parts.append(in_vain)
    if found.cut:
        ends = [columns.text(name).str.ends_with("+").fill_null(False) for name in NAMED if name in columns]
        tally.change("name cut off", int(pl.select(pl.any_horizontal(ends).sum()).item()) if ends else 0)
    return pl.concat(parts, how="horizontal")


def _on_the_line(columns: ListingColumns, jobs: pl.DataFrame) -> pl.DataFrame:
    """What the command lines of jobs ask for, where no column of the list is about it."""
    said = columns.made("submitline", submit_line)
    there = {RENAMED.get(name, name) for name in jobs.columns}
    found = {
        EXTRA + ours: columns.looked_up("submitline", {line: one.get(name) for line, one in said.items()}, pl.String)
        for ours, name in _ON_THE_LINE.items()
        if ours not in there and any(name in one for one in said.values())
    }
    return pl.DataFrame(found)


def _at_once(line: str) -> int | None:
    found = re.search("%([0-9]{1,9})$", submit_line(line).get("array", ""))
    return int(found[1]) if found else None


def begin_s(ours: pl.DataFrame, since_us: int | None) -> pl.DataFrame:
    """The jobs with ``extra:begin_s`` of their :data:`BEGIN`, counted from a time."""
    return ours.with_columns(((pl.col(BEGIN) - pl.lit(since_us, pl.Int64)) / 1e6).alias(f"{EXTRA}begin_s"))


def identified(jobs: pl.DataFrame, found: Listing, tally: Tally) -> pl.DataFrame:
    """The jobs with an ``id``; a row for each member of an array.

    Where some are of an array there are ``extra:array`` and ``extra:array_limit``; ``extra:het`` is the heterogeneous
    job of components. The id is a number where the names of all jobs are, or ``JobIDRaw`` gives one for each; else it
    is the name.
    """
    name = next(name for name in NAMES if name in jobs.columns)
    names = jobs[name]
    said = found.columns(jobs).made(name, job_id)
    numbers = names.replace_strict({text: one.job for text, one in said.items()}, default=None, return_dtype=pl.Int64)
    if not any(one.members or one.part is not None for one in said.values()):
        return jobs.with_columns(numbers.alias("id"))
    columns = found.columns(jobs)
    hets = {text: one.job for text, one in said.items() if one.part is not None}
    jobs = jobs.with_columns(columns.looked_up(name, hets, pl.Int64).alias(f"{EXTRA}het"))
    members = {text: list(one.members) for text, one in said.items() if one.members}
    listed = {text: many for text, many in members.items() if "[" in text}
    jobs = (
        jobs.with_columns(
            names.replace_strict(members, default=None, return_dtype=pl.List(pl.Int64)).alias("member"),
            pl.when(names.is_in(list(members)).fill_null(False)).then(numbers).alias(EXTRA + "array"),
        ).explode("member", empty_as_null=True)
        if members
        else jobs.with_columns(member=pl.lit(None, pl.Int64))
    )
    if members:
        at_most = columns.looked_up(name, {text: one.at_most for text, one in said.items()}, pl.Int64)
        limit = first_said(
            at_most, columns.whole("arraytaskthrottle"), columns.column("submitline", _at_once, pl.Int64)
        )
        of_all = pl.DataFrame({"array": numbers, "most": limit}).drop_nulls().group_by("array").max()
        limits = pl.col(EXTRA + "array").replace_strict(of_all["array"], of_all["most"], default=None)
        jobs = jobs.with_columns(limits.cast(pl.Int64).alias(EXTRA + "array_limit"))
        tally.change("member of an array", int(jobs[name].is_in(list(listed)).sum()) if listed else 0)
    raw = found.columns(jobs).whole("jobidraw") if not listed and name == "jobid" else None
    if raw is not None and not raw.null_count() and raw.n_unique() == len(raw):
        return jobs.with_columns(raw.alias("id"), pl.col(name).alias(EXTRA + "job_id"))
    number = pl.col(EXTRA + "array") if members else pl.lit(None, pl.Int64)
    text = pl.when(pl.col("member").is_null()).then(pl.col(name)).otherwise(pl.format("{}_{}", number, "member"))
    return jobs.with_columns(text.alias("id"))
