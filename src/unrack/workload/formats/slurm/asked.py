"""What a job of Slurm asks for or was given: tasks, cores, memory, GPUs, other devices and licences of each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from unrack.cluster.formats.described import counter
from unrack.errors import InputError
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.tres import Tres, gres, licences, tres
from unrack.workload.formats.ignored import unheeded
from unrack.workload.formats.intake import DEVICE, EXTRA, Tally
from unrack.workload.formats.quantities import DEVICE_KEY, MOST_MB, asked_as, boolean, choice, refuse
from unrack.workload.formats.slurm.parsing import Columns, first_said

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

    @property
    def as_what(self) -> dict[str, str]:
        """Name of a generic resource → KIND.QUANTITY."""
        return dict(self.gres) | ({} if self.gpus == "ignore" else {GPU: self.gpus})


def asked(columns: Columns, used_mb: pl.Series | None, choices: Choices, tally: Tally) -> pl.DataFrame:
    """Tasks, cores, memory and devices of each row.

    Parameters
    ----------
    columns
        The jobs.
    used_mb
        MB that each node of a job used, where that is known.

    Returns
    -------
    pl.DataFrame
        ``tasks`` (null = not known), ``cores``, ``memory_mb``, ``devices.…`` and ``extra:gpu_models``.

    Raises
    ------
    TraceError
        A field is not what it should be.
    """
    given, wanted = _Resources(columns, "alloctres"), _Resources(columns, "reqtres")
    first, second = (given, wanted) if choices.size == "allocated" else (wanted, given)
    given_first = choices.size == "allocated"
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
    memory = None
    if choices.memory != "ignore":
        memory = _memory(columns, table, first, second, used_mb, choices.memory)
        refuse(memory >= MOST_MB, memory, "memory", columns.at, "an amount below 4 EB")
    made = [table["tasks"], table["cores"]]
    if memory is not None:
        made.append(memory.alias("memory_mb"))
    for name, key in choices.as_what.items():
        if name in held:
            each = pl.select((held[name] + table["tasks"] - 1) // table["tasks"]).to_series()
            uneven = (held[name] % table["tasks"] != 0).fill_null(False)
            tally.change("devices rounded up", int(uneven.sum()))
            made.append(each.alias(DEVICE + key))
    for name, amounts in held.items():
        if name not in choices.as_what:
            made += unheeded([amounts.alias(name)], "other devices")
    made += _models(first, second)
    licensed = _licences(columns, first, second)
    if choices.licences:
        made += [amounts.alias(f"{DEVICE}counted.{name}") for name, amounts in licensed.items()]
    elif licensed:
        tally.change(
            "licences ignored", int(pl.DataFrame(licensed).select(pl.any_horizontal(pl.all() > 0).sum()).item())
        )
    return pl.DataFrame(made)


class _Resources:
    """A column of trackable resources."""

    def __init__(self, columns: Columns, name: str) -> None:
        self.columns, self.name = columns, name
        self.found: dict[str, Tres] = columns.made(name, tres)

    def amount(self, what: str) -> pl.Series:
        attribute = {"cpus": "cpus", "nodes": "nodes", "memory": "mem_mb"}[what]
        amounts = {entry: getattr(said, attribute) or None for entry, said in self.found.items()}
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
    tasks = (
        pl.when(uneven)
        .then(gpus)
        .when(nodes.is_not_null())
        .then(nodes)
        .when(gpus > 0)
        .then(pl.lit(1, pl.Int64))
        .otherwise(cpus)
    )
    table = table.with_columns(tasks=tasks)
    tally.change_where(table, "cores rounded up", cpus % pl.col("tasks") != 0)
    return table.with_columns(cores=(cpus + pl.col("tasks") - 1) // pl.col("tasks")).with_columns(
        tasks=pl.when(cpus.is_not_null()).then(pl.col("tasks"))
    )


def _memory(
    columns: Columns, table: pl.DataFrame, first: _Resources, second: _Resources, used_mb: pl.Series | None, which: str
) -> pl.Series:
    """MB of each task, rounded up."""
    nodes = pl.coalesce("nodes", pl.lit(1, pl.Int64))
    ways = {"job": pl.lit(1, pl.Int64), "node": nodes, "core": pl.col("cores") * pl.col("tasks")}
    sources = [_spread(first.amount("memory"), table, ways["job"])]
    for name, bare in (("reqmem", "job"), ("minmemorynode", "node"), ("minmemorycpu", "core")):
        if name not in columns:
            continue
        found = columns.memories(name)
        for per, times in ways.items():
            amounts = {
                entry: said.mb
                for entry, said in found.items()
                if said is not None and said.mb and (bare if said.per == "job" else said.per) == per
            }
            sources.append(_spread(columns.looked_up(name, amounts, pl.Int64), table, times))
    sources.append(_spread(second.amount("memory"), table, ways["job"]))
    requested = first_said(*sources)
    used = _none(table.height) if used_mb is None else _spread(used_mb, table, nodes)
    if which == "used":
        return used
    return requested if which == "requested" else pl.select(pl.max_horizontal(requested, used)).to_series()


def _spread(amounts: pl.Series, table: pl.DataFrame, times: pl.Expr) -> pl.Series:
    """MB of each task, of amounts of which a job has so many."""
    total = amounts.clip(upper_bound=MOST_MB) * times.clip(upper_bound=2**20)
    return table.select((total + pl.col("tasks") - 1) // pl.col("tasks")).to_series()


def _devices(columns: Columns, first: _Resources, second: _Resources, nodes: pl.Series) -> dict[str, pl.Series]:
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


def _licences(columns: Columns, first: _Resources, second: _Resources) -> dict[str, pl.Series]:
    """Name → how many the job holds."""
    sources = [first.of("licences"), second.of("licences")]
    if "licenses" in columns:
        sources.append(columns.by_name("licenses", columns.made("licenses", licences)))
    merged: dict[str, pl.Series] = {}
    for name, amounts in _merged(sources).items():
        key = counter(name)
        merged[key] = amounts if key not in merged else first_said(merged[key], amounts)
    return merged
