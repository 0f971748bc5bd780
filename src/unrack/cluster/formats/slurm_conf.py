"""``slurm.conf`` as a cluster: its nodes, partitions and licences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from unrack.cluster.formats.described import Described, DescribedNode, parsed
from unrack.errors import ClusterError
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.states import UNUSABLE, node_words
from unrack.slurm_text.tres import gres, licences

_PAIR = re.compile(r"""([A-Za-z]\w*)\s*=\s*("[^"]*"|[^\s"]*)""")
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*", re.IGNORECASE)
_DEEPEST = 10
GIVEAWAY = re.compile(
    r"^\s*(NodeName|PartitionName|ClusterName|SlurmctldHost|ControlMachine|NodeSet)\s*=|^\s*include\s+\S+\s*$",
    re.IGNORECASE | re.MULTILINE,
)
"""What a line of such a file looks like."""


class _Line(NamedTuple):
    where: str
    fields: dict[str, str]  # keys in small letters


def slurm_conf(path: Path, text: str, where: str) -> Described:
    """Read a configuration; files that it includes are looked for beside it.

    Parameters
    ----------
    path
        The file.
    text
        What is in it.
    where
        What errors call it.

    Raises
    ------
    ClusterError
        A line about nodes or partitions is not what it should be, or there are no nodes.
    """
    notes: list[str] = []
    lines = list(_lines(path, text, where, notes, 0))
    settings = {key: value for line in lines for key, value in line.fields.items()}
    nodes: dict[str, dict[str, Any]] = {}
    defaults: dict[str, str] = {}
    for line in lines:
        if "nodename" in line.fields:
            names = line.fields["nodename"]
            if names.upper() == "DEFAULT":
                defaults |= line.fields
                continue
            made = _node({**defaults, **line.fields}, line.where)
            for name in parsed(names, f"{line.where}, NodeName", expand):
                nodes[name] = dict(made)
        elif "downnodes" in line.fields:
            for name in parsed(line.fields["downnodes"], f"{line.where}, DownNodes", expand):
                if name in nodes:
                    nodes[name]["down"] = line.fields.get("state", "down").lower()
    if not nodes:
        also = f" ({'; '.join(notes)})" if notes else ""
        raise ClusterError(where, f"no line NodeName=…{also}", "one or more")
    partitions = _partitions(lines, nodes)
    found = tuple(
        DescribedNode(name=name, partitions=frozenset(partitions.get(name, ())), **node) for name, node in nodes.items()
    )
    notes += _facts(lines, settings)
    held = parsed(settings.get("licenses", ""), f"{where}, Licenses", licences)
    return Described(where, settings.get("clustername", path.stem), found, held, tuple(notes))


def _lines(path: Path, text: str, where: str, notes: list[str], depth: int) -> Iterator[_Line]:
    """Lines with their keys; comments are gone, continued lines are joined, included files are read."""
    number, joined, begin = 0, "", 1
    for line in [*text.split("\n"), ""]:
        number += 1
        bare = re.sub(r"(?<!\\)#.*", "", line).rstrip()
        begin = begin if joined else number
        joined += bare.removesuffix("\\")
        if bare.endswith("\\"):
            continue
        at = f"{where}, line {begin}"
        if match := _INCLUDE.fullmatch(joined):
            yield from _included(path, match[1], at, notes, depth)
        elif found := {match[1].lower(): match[2].strip('"') for match in _PAIR.finditer(joined)}:
            yield _Line(at, found)
        joined = ""


def _included(path: Path, name: str, at: str, notes: list[str], depth: int) -> Iterator[_Line]:
    if depth >= _DEEPEST:
        raise ClusterError(at, f"files that include each other over {_DEEPEST} deep", "fewer")
    for file in (path.parent / name, path.parent / Path(name).name):
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError):
            continue
        yield from _lines(file, text, str(file), notes, depth + 1)
        return
    notes.append(f"{name} is included and was not there")


def _node(fields: Mapping[str, str], where: str) -> dict[str, Any]:
    """What a line says of each of its nodes."""

    def number(key: str, default: int) -> int:
        text = fields.get(key.lower(), "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise ClusterError(f"{where}, {key}", repr(text), "a whole number")
        return int(text)

    sockets = number("Sockets", 0) or number("SocketsPerBoard", 1) * number("Boards", 1)
    threads = number("ThreadsPerCore", 1)
    cpus = number("CPUs", 0) or number("Procs", 0) or sockets * number("CoresPerSocket", 1) * threads
    cpus -= number("CoreSpecCount", 0) * threads
    if listed := fields.get("cpuspeclist"):
        cpus -= len(parsed(f"c[{listed}]", f"{where}, CpuSpecList", expand))
    memory = number("RealMemory", 0) or None
    said = parsed(fields.get("gres", ""), f"{where}, Gres", gres)
    words = node_words(fields.get("state", "")) & (UNUSABLE - {"UNKNOWN"})
    return {
        "cores": cpus,
        "memory_mb": None if memory is None else max(memory - number("MemSpecLimit", 0), 0),
        "gpus": said.gres.get("gpu", 0),
        "model": "+".join(said.types.get("gpu", ())),
        "down": ", ".join(sorted(words)).lower(),
        "others": {name: count for name, count in said.gres.items() if name != "gpu" and count},
    }


def _partitions(lines: list[_Line], nodes: Mapping[str, Any]) -> dict[str, set[str]]:
    """Node → its partitions."""
    sets = {
        line.fields["nodeset"]: line.fields.get("nodes", "") for line in lines if "nodeset" in line.fields
    }  # fmt: skip
    found: dict[str, set[str]] = {}
    default = "ALL"
    for line in lines:
        name = line.fields.get("partitionname", "")
        if name.upper() == "DEFAULT":
            default = line.fields.get("nodes", default)
        elif name:
            given = line.fields.get("nodes", default)
            given = sets.get(given, given)
            members = (
                list(nodes)
                if given.upper() == "ALL"
                else parsed(given, f"{line.where}, Nodes", expand)
                if given
                else []
            )
            for node in members:
                found.setdefault(node, set()).add(name)
    return found


def _facts(lines: list[_Line], settings: Mapping[str, str]) -> Iterator[str]:
    """What changes the meaning of the numbers."""
    select, parameters = settings.get("selecttype", ""), settings.get("selecttypeparameters", "")
    if "linear" in select:
        yield "SelectType=select/linear gives jobs whole nodes; here several jobs share a node."
    elif parameters and "memory" not in parameters.lower():
        yield f"SelectTypeParameters={parameters} does not count memory; here the memory of nodes is counted."
    threads = [line.fields.get("threadspercore", "1") for line in lines if "nodename" in line.fields]
    if any(count not in ("1", "") for count in threads):
        yield "A core is a CPU as Slurm counts them (AllocCPUS): a hardware thread where ThreadsPerCore is over 1."
    limits = [f"{key}={settings[key]}" for key in ("defmempercpu", "defmempernode", "maxmempernode") if key in settings]
    if limits:
        yield f"Limits of memory are not applied: {', '.join(limits)}."
    partitions = [line for line in lines if line.fields.get("partitionname", "DEFAULT").upper() != "DEFAULT"]
    if len(partitions) > 1:
        yield f"{len(partitions)} partitions are one cluster here; --partition NAME takes the nodes of one."
    shared = [line for line in partitions if line.fields.get("oversubscribe", "").upper() == "EXCLUSIVE"]
    if shared:
        names = ", ".join(line.fields["partitionname"] for line in shared)
        yield f"Partitions that give jobs whole nodes (OverSubscribe=EXCLUSIVE) share them here: {names}."
