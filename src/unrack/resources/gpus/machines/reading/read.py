"""Machines from files of every known format, which is recognised by what stands in them; or presets by name.

Also what ``numactl --hardware`` prints: NUMA nodes with their CPUs, and how far apart they are.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from unrack.errors import ClusterError
from unrack.resources.gpus.machines.machine import PRESETS, Machine, preset
from unrack.resources.gpus.machines.reading.from_file import machine_from
from unrack.resources.gpus.machines.reading.hwloc import is_xml, read_xml
from unrack.resources.gpus.machines.reading.nvidia_smi import is_matrix, read_matrix
from unrack.resources.gpus.machines.reading.words import Found, Pair, machine_of

_CPUS = re.compile(r"\s*node (\d+) cpus:([\d\s]*)")
_ROW = re.compile(r"\s*(\d+):\s+([\d\s]+)")


@dataclass(frozen=True)
class Nodes:
    """NUMA nodes by number: their CPUs, and for each pair of them how far apart they are (10: local)."""

    cpus: dict[int, tuple[int, ...]]
    apart: dict[Pair, int]


def is_hardware(text: str) -> bool:
    """True if the text holds what ``numactl --hardware`` prints."""
    return re.search(r"^\s*node \d+ cpus:", text, re.MULTILINE) is not None


def _read_hardware(text: str, where: str) -> Nodes:
    """The nodes that have CPUs; nodes without, such as the memory of GPUs, are left out."""
    cpus: dict[int, tuple[int, ...]] = {}
    apart: dict[Pair, int] = {}
    columns: list[int] | None = None
    announced = False
    for number, line in enumerate(text.splitlines(), 1):
        if match := _CPUS.fullmatch(line):
            cpus[int(match[1])] = tuple(sorted(map(int, match[2].split())))
        elif line.strip() == "node distances:":
            announced = True
        elif announced and columns is None and re.fullmatch(r"\s*node[\s\d]+", line):
            columns = [int(word) for word in line.split()[1:]]
        elif columns is not None and (match := _ROW.fullmatch(line)):
            values = [int(word) for word in match[2].split()]
            if len(values) != len(columns):
                got = f"{len(values)} distances of node {match[1]}"
                raise ClusterError(f"{where}, line {number}", got, f"{len(columns)}, one for each node")
            for other, value in zip(columns, values, strict=True):
                pair = (min(int(match[1]), other), max(int(match[1]), other))
                if pair[0] != pair[1]:
                    apart[pair] = max(value, apart.get(pair, 0))
    if not any(cpus.values()):
        raise ClusterError(where, "no node with CPUs", "what numactl --hardware prints")
    with_cpus = {node: found for node, found in cpus.items() if found}
    return Nodes(with_cpus, {pair: d for pair, d in apart.items() if pair[0] in with_cpus and pair[1] in with_cpus})


def _with_nodes(found: Found, nodes: Nodes, where: str) -> Found:
    """What is known of GPUs, with sockets as NUMA nodes: their CPUs, those without GPUs too, and their distances."""
    home = {}
    for gpu, socket in found.home.items():
        cores = found.sockets[socket]
        same = [node for node, cpus in nodes.cpus.items() if cores and set(cores) <= set(cpus)]
        if socket in nodes.cpus and (not cores or set(cores) & set(nodes.cpus[socket])):
            home[gpu] = socket
        elif same:
            home[gpu] = same[0]
        else:
            got = f"GPU {gpu} near node {socket}" + (f" with CPU {cores[0]}" if cores else "")
            raise ClusterError(where, got, f"nodes {', '.join(map(str, nodes.cpus))} with their CPUs")
    return replace(found, home=home, sockets=nodes.cpus, apart=nodes.apart)


KNOWN = "what nvidia-smi topo -m, numactl --hardware or lstopo --of xml prints, or a TOML file with a machine"
MOST_BYTES = 1 << 24


def read_machine(source: str | os.PathLike[str], cpus: str | os.PathLike[str] | None = None) -> Machine:
    """The machine in a file, or the preset of that name.

    Parameters
    ----------
    source
        A file, or one of :data:`unrack.resources.gpus.machines.machine.PRESETS` where there is no such file.
    cpus
        A file with what ``numactl --hardware`` printed, where ``source`` does not hold that too.

    Raises
    ------
    ClusterError
        The file cannot be read, is in no known format, or is wrong; with the line where there is one.

    Examples
    --------
    >>> read_machine("minsky").name
    'minsky'
    """
    name = os.fspath(source)
    if name in PRESETS and not Path(name).exists():
        if cpus is not None:
            raise ClusterError("--cpus", f"a file beside the preset {name}", "it beside what nvidia-smi printed")
        return preset(name)
    if not Path(name).exists() and os.sep not in name and "." not in name:
        raise ClusterError("machine", repr(name), f"a file, or one of {', '.join(PRESETS)}")
    more = None if cpus is None else _text(os.fspath(cpus))
    return machine_in(_text(name), name, Path(name).stem, more, "" if cpus is None else os.fspath(cpus))


def machine_in(
    text: str, where: str = "text", name: str = "machine", cpus: str | None = None, cpus_where: str = "--cpus"
) -> Machine:
    """The machine that a text describes.

    ``text``: as of a file: see :func:`read_machine`; ``where``, ``name``: what errors call the text; what to call the
    machine; ``cpus``, ``cpus_where``: the output of ``numactl --hardware``, where ``text`` does not hold it, and what
    errors call it. Errors as of :func:`read_machine`.
    """
    if is_xml(text):
        return _without(cpus, machine_of(read_xml(text, where, name)))
    if is_matrix(text):
        found = read_matrix(text, where, name)
        if cpus is not None:
            return machine_of(_with_nodes(found, _read_hardware(cpus, cpus_where), cpus_where))
        return machine_of(_with_nodes(found, _read_hardware(text, where), where) if is_hardware(text) else found)
    if is_hardware(text):
        nodes = _read_hardware(text, where)
        return _without(cpus, machine_of(Found(name, 0, 0, sockets=nodes.cpus, apart=nodes.apart)))
    return _without(cpus, machine_from(_toml(text, where), where, name))


def _without(cpus: str | None, machine: Machine) -> Machine:
    if cpus is not None:
        raise ClusterError("--cpus", "a file beside one that says all of its CPUs", "it beside what nvidia-smi printed")
    return machine


def _toml(text: str, where: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        if where.endswith(".toml"):
            raise ClusterError(where, str(fault), "a TOML file") from None
        line = next((line.strip() for line in text.splitlines() if line.strip()), "nothing")
        raise ClusterError(where, repr(line[:60]), KNOWN) from None


def _text(path: str) -> str:
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ClusterError(path, error.strerror or str(error), "a file that can be read") from None
    if len(content) > MOST_BYTES:
        raise ClusterError(path, f"more than {MOST_BYTES:,} bytes", KNOWN)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ClusterError(path, str(error), "text") from None
