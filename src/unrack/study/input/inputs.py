"""The inputs of a study, loaded and checked before the first run: clusters, workloads, policies."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from unrack.cluster.file import content_of, known_keys
from unrack.cluster.presets import PRESETS
from unrack.cluster.spec import Cluster
from unrack.cluster.systems import MemorySystem
from unrack.errors import ClusterError, InputError, PolicyError, StudyError, first_fault, got_and_want, nearest
from unrack.plugins.code import is_file
from unrack.policy.contract import Policy
from unrack.policy.file import load_policy, source_digest, with_name
from unrack.policy.table import POLICIES, canonical, make_policy, split_policy
from unrack.sim.faults import Fault, random_faults
from unrack.study.input.file import RandomFaultsTable, StudyTable, WorkloadTable
from unrack.study.world import RunTimes, labelled, make_world, split_world
from unrack.units import DAY_US, SECOND_US, clock_start
from unrack.workload.filters import FILTERS, filtered
from unrack.workload.formats.readers import read_trace
from unrack.workload.generate.generator import generate
from unrack.workload.ideal import window_us
from unrack.workload.job import Workload

Location = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


@dataclass(frozen=True)
class Document:
    """A TOML text and its table."""

    path: str  # the file, as errors and resolved studies call it
    folder: Path | None  # where relative paths in it are looked for first; ``None``: nowhere
    table: Mapping[str, Any]  # the content
    text: str = field(default="", repr=False)  # the text, for line numbers; ``""`` where there is none

    @classmethod
    def read(cls, path: str | Path, kind: str = "a study file") -> Document:
        """Read a TOML file, which should be ``kind``; of one that cannot be read a StudyError has the line."""
        where, file = str(path), Path(path)
        try:
            text = file.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            got = f"bytes that are not UTF-8 (at byte {error.start})"
            raise StudyError(where, got, "a TOML file in UTF-8") from None
        except (OSError, ValueError) as error:
            got = "a folder" if isinstance(error, IsADirectoryError) else getattr(error, "strerror", None) or str(error)
            copied = f"; unrack init study --example {file.stem} copies one" if file.parent.name == "examples" else ""
            raise StudyError(where, got, f"{kind} (TOML){copied}") from None
        text = text.replace("\r\n", "\n")
        try:
            return cls(where, file.parent, tomllib.loads(text), text)
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"at line (\d+)", str(error))
            at = f"{where}, line {line[1]}" if line else f"{where}, line {text.count(chr(10)) + 1}"
            raise StudyError(at, str(error), "valid TOML") from None
        except RecursionError:
            raise StudyError(where, "values nested too deeply", f"{kind} (TOML)") from None

    def fault(self, location: Location, got: str, want: str) -> StudyError:
        """An error at a key: the message names the file, the line where it is known, and the key."""
        return StudyError(self.where(location), got, want)

    @contextmanager
    def part(self, *location: str | int, kind: type[InputError] = InputError) -> Iterator[None]:
        """Within it the errors of a part of the study become errors of the study, at the key that names the part."""
        try:
            yield
        except kind as error:
            raise StudyError(f"{self.where(location)}: {error.where}", error.got, error.want) from None

    def where(self, location: Location) -> str:
        """File, line and key, as far as they are known."""
        line = line_of(self.text, location)
        parts = [self.path, *([f"line {line}"] if line else []), *([dotted(location)] if location else [])]
        return ", ".join(parts)

    def validated(self, model: type[Model], table: Mapping[str, Any], location: Location = ()) -> Model:
        """The table at a location as a model; a StudyError of the first thing wrong in it suggests the nearest key."""
        try:
            return model.model_validate(dict(table))
        except ValidationError as error:
            first = first_fault(error.errors())
        got, want = got_and_want(first)
        if first["type"] == "extra_forbidden":
            want = nearest(str(first["loc"][-1]), keys_at(model, first["loc"]))
        raise self.fault((*location, *first["loc"]), got, want) from None


def keys_at(kind: Any, location: Location) -> list[str]:
    """The keys that the table around a location may have: in a model, or in lists or a choice of models."""
    if not isinstance(kind, type) or not issubclass(kind, BaseModel):
        within = location[1:] if isinstance(location[0], int) else location
        return next((keys for one in get_args(kind) if (keys := keys_at(one, within))), [])
    if len(location) == 1:
        return [info.alias or name for name, info in kind.model_fields.items()]
    inner = (info.annotation for name, info in kind.model_fields.items() if location[0] in (name, info.alias))
    return keys_at(next(inner, None), location[1:])


def dotted(location: Sequence[str | int]) -> str:
    """A location as people write it.

    Examples
    --------
    >>> dotted(("workloads", 0, "trace"))
    'workloads[0].trace'
    """
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def line_of(text: str, location: Location) -> int | None:
    """The line of a key in a TOML text, from 1, or of the nearest key or table above it; ``None``: not found.

    Keys are found by how a person writes them: a table header or a key at the start of a line.
    """
    best, best_length = None, 0
    table: Location = ()
    counts: dict[Location, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            table = _absolute(_parts(header[2]), counts)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            found = table
        elif key := _KEY.match(line):
            found = (*table, *_parts(key[1]))
        else:
            continue
        if len(found) > best_length and location[: len(found)] == found:
            best, best_length = number, len(found)
    return best


def _parts(key: str) -> Location:
    return tuple(part.strip("\"'") for part in _PART.findall(key))


def _absolute(parts: Location, counts: Mapping[Location, int]) -> Location:
    """The parts of a header with the numbers of the array items that it continues put in."""
    found: Location = ()
    for place, part in enumerate(parts):
        found = (*found, part)
        if place < len(parts) - 1 and found in counts:
            found = (*found, counts[found])
    return found


@dataclass(frozen=True)
class PolicySpec:
    """How to make a policy, also in another process.

    Attributes
    ----------
    name, parameters
        Of a built-in policy; or
    file
        ``FILE.py:NAME``, with the path as found.
    label
        What reports call it; it says the world, where that is not the study's.
    world
        In which its jobs run.
    """

    label: str
    name: str = ""
    parameters: tuple[tuple[str, Any], ...] = ()
    file: str = ""
    world: RunTimes = RunTimes.STUDY

    def make(self) -> Policy[Any]:
        """The policy.

        Raises
        ------
        PolicyError
            It cannot be made.
        """
        return load_policy(self.file) if self.file else make_policy(self.name, dict(self.parameters), self.label)

    def written(self) -> dict[str, Any]:
        """As a table of a study file; a file by its name only."""
        rest = {"label": self.label, **({} if self.world == RunTimes.STUDY else {"world": str(self.world)})}
        if self.file:
            path, _, name = self.file.rpartition(":")
            return {"file": f"{Path(path).name}:{name}", **rest}
        return {"name": self.name, **dict(self.parameters), **rest}

    def identity(self) -> str:
        """A text that differs where decisions may differ."""
        if self.file:
            text = f"{self.file.rpartition(':')[2]} from {source_digest(self.file)}"
        else:
            origin = POLICIES.distribution(self.name)
            text = canonical(self.make()) + (f" of {origin}" if origin else "")
        return labelled(text, self.world)


def make_cluster(table: Mapping[str, Any], document: Document, index: int) -> Cluster:
    """The cluster of a ``[[clusters]]`` table: ``preset``, ``file``, or the keys of a cluster file; or a StudyError.

    In place of the key ``nodes`` there may be ``memory_system``.
    """
    at = ("clusters", index)
    choices = ("preset", "file", "nodes", "memory_system")
    sources = [key for key in choices if key in table]
    if len(sources) != 1:
        raise document.fault(at, ", ".join(sources) or "none of them", f"exactly one of {', '.join(choices)}")
    source = sources[0]
    known = ["preset", "file", "memory_system", *known_keys()]
    if unknown := sorted(set(table) - set(known)):
        raise document.fault((*at, unknown[0]), "an unknown key", nearest(unknown[0], known))
    if source in ("preset", "file") and not isinstance(table[source], str):
        raise document.fault((*at, source), repr(table[source]), "some text")
    if source == "memory_system":
        if not isinstance(table[source], Mapping):
            raise document.fault((*at, source), repr(table[source]), "a table such as { nodes = 1024 }")
        system = document.validated(MemorySystem, table[source], (*at, source))
        table = {"nodes": system.classes, **{key: value for key, value in table.items() if key != source}}
    with document.part(*at, kind=ClusterError):
        if "nodes" in table:
            return Cluster.from_dict({"name": f"cluster{index + 1}", **table}, "clusters")
        if extra := sorted(set(table) - {source, "name", "prices"}):
            raise document.fault((*at, extra[0]), "this key", f"only name and prices beside {source}")
        where = "preset" if source == "preset" else _beside(str(table["file"]), document)
        return Cluster.from_dict(written_out(table, document, index), where)


def written_out(table: Mapping[str, Any], document: Document, index: int) -> dict[str, Any]:
    """A ``[[clusters]]`` table with the keys of a cluster file in place of ``preset`` or ``file``.

    A StudyError if there is no such preset, a ClusterError if the file cannot be read.
    """
    own = {key: value for key, value in table.items() if key not in ("preset", "file")}
    if "preset" in table:
        if table["preset"] not in PRESETS:
            at = ("clusters", index, "preset")
            raise document.fault(at, repr(table["preset"]), nearest(str(table["preset"]), PRESETS))
        return {"name": table["preset"], **PRESETS[table["preset"]].content, **own}
    return {**(content_of(_beside(str(table["file"]), document)) if "file" in table else {}), **own}


def make_policy_spec(
    entry: str | Mapping[str, Any], document: Document, index: int, key: Location | None = None
) -> PolicySpec:
    """The policy of an entry of ``policies``: text, or a table with ``name`` or ``file``, and perhaps ``world``.

    An ``index`` below 0 stands for one that was added on the command line; ``key`` is where it stands if elsewhere. One
    that cannot be made is a StudyError.
    """
    at: Location = key or (("policies", index) if index >= 0 else ("--policy",))
    with document.part(*at, kind=PolicyError):
        if isinstance(entry, str):
            text, world = split_world(entry)
            if is_file(text):
                return policy_from_file(text, None, document, world)
            name, parameters = split_policy(text)
            label: str | None = text.strip() if parameters else name
        else:
            parameters = {key: value for key, value in entry.items() if key not in ("name", "label", "file", "world")}
            world = make_world(entry.get("world", RunTimes.STUDY))
            label = entry.get("label")
            if label is not None and (not isinstance(label, str) or not label):
                raise document.fault((*at, "label"), repr(label), "some text")
            if ("name" in entry) == ("file" in entry):
                raise document.fault(at, f"a table with {', '.join(entry)}", "either name or file")
            if "file" in entry:
                if parameters:
                    raise document.fault((*at, next(iter(parameters))), "this key", "only label and world beside file")
                return policy_from_file(str(entry["file"]), label, document, world)
            name = str(entry["name"])
        if name not in POLICIES:
            raise document.fault(at, repr(name), nearest(name, POLICIES))
        label = label or make_policy(name, parameters).name
        spec = PolicySpec(labelled(label, world), name, tuple(parameters.items()), world=world)
        spec.make()
    return spec


def policy_from_file(spec: str, label: str | None, document: Document, world: RunTimes = RunTimes.STUDY) -> PolicySpec:
    """The policy of ``FILE.py:NAME`` or ``FILE.py``, looked for beside the study and in the working folder."""
    path, colon, name = (spec, "", "") if spec.endswith(".py") else spec.rpartition(":")
    found = with_name(f"{_beside(path, document)}{colon}{name}")
    loaded = load_policy(found)
    return PolicySpec(labelled(label or loaded.name, world), file=found, world=world)


def make_workload(table: WorkloadTable, document: Document, index: int, seed: int) -> Workload:
    """The workload of a ``[[workloads]]`` table, filters applied; a StudyError if no job is left."""
    with document.part("workloads", index):
        if table.generate is not None:
            workload = generate(table.generate, seed, folder=document.folder)
        else:
            trace = str(table.trace)
            options = dict(table.options)
            for key in ("profiles", "limits"):
                if isinstance(options.get(key), str):
                    options[key] = _beside(options[key], document)
            workload = read_trace(_beside(trace, document), table.format, **options)
        wanted = {name: getattr(table, name) for name in FILTERS if getattr(table, name) is not None}
        if "usage" in wanted:
            wanted["usage"] = _usage_beside(wanted["usage"], document)
        workload = filtered(workload, wanted, seed)
    if len(workload) == 0:
        raise document.fault(("workloads", index), "no job left after reading and filtering", "at least one job")
    return Workload(table.name, workload.jobs, workload.intake) if table.name else workload


def _usage_beside(value: Any, document: Document) -> Any:
    if isinstance(value, str):
        return _beside(value, document)
    if not isinstance(value, Mapping):
        return value
    files = {key: value[key] for key in ("file", "shapes") if isinstance(value.get(key), str)}
    return {**value, **{key: _beside(path, document) for key, path in files.items()}}


def _beside(path: str, document: Document) -> str:
    if document.folder is not None and (document.folder / path).is_file():
        return str(document.folder / path)
    return path


def window_of(table: StudyTable, cluster: Cluster, workload: Workload, document: Document) -> tuple[int, int] | None:
    """The window of the metrics, µs."""
    measure = table.measure
    if measure is None:
        return None
    if measure.ideal_load is None:
        assert measure.end is not None
        return measure.start, measure.end
    window = window_us(cluster, workload.jobs, measure.ideal_load)
    if window is None or window[0] >= window[1]:
        got = f"{workload.name} never loads the cores of {cluster.name} that much"
        raise document.fault(("measure", "ideal_load"), f"{measure.ideal_load:g}, but {got}", "a load that is reached")
    return window


def fixed_faults(table: StudyTable, document: Document, clusters: Sequence[Cluster]) -> tuple[Fault, ...]:
    """The failures that the study lists; a StudyError if one of the clusters does not have a domain."""
    fixed = tuple(Fault(fault.domain, fault.at, fault.repair_after) for fault in table.faults)
    for cluster in clusters:
        for i, fault in enumerate(fixed):
            with document.part("faults", i, "domain", kind=ClusterError):
                cluster.domain(fault.domain)
    return fixed


def random_levels(table: StudyTable, document: Document, clusters: Sequence[Cluster]) -> tuple[RandomFaultsTable, ...]:
    """The levels of failure domains at which the study draws failures.

    A StudyError if one of the clusters does not have a level, or a level is named twice.
    """
    found: list[RandomFaultsTable] = []
    single = not isinstance(document.table.get("random_faults"), list)
    for i, entry in enumerate(table.random_faults):
        at = ("random_faults",) if single else ("random_faults", i)
        level = document.validated(RandomFaultsTable, entry, at)
        if any(level.level == other.level for other in found):
            raise document.fault((*at, "level"), f"a second {level.level!r}", "every level once")
        for cluster in clusters:
            if level.level not in cluster.levels:
                want = f"a level of {cluster.name}: {', '.join(cluster.levels)}"
                raise document.fault((*at, "level"), repr(level.level), want)
        found.append(level)
    return tuple(found)


def drawn_faults(
    levels: Sequence[RandomFaultsTable], cluster: Cluster, workload: Workload, seed: int
) -> tuple[Fault, ...]:
    """Random failures up to twice the time of the last submission (dates: since the first) plus a day."""
    submit_us = workload.jobs.submit_us
    begin = round(clock_start(submit_us[0] / SECOND_US) * SECOND_US)
    until = 2 * (int(submit_us[-1]) - begin) + DAY_US
    drawn = [random_faults(cluster, level.mtbf, level.mttr, until, seed, level.level) for level in levels]
    return tuple(fault._replace(at_us=fault.at_us + begin) for faults in drawn for fault in faults)
