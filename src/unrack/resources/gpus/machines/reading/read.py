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
from unrack.resources.gpus.machines.machine import PRESETS, Machine, numbers_of, preset
from unrack.resources.gpus.machines.reading.from_file import machine_from
from unrack.resources.gpus.machines.reading.hwloc import (
    LEVELS,
    NODE,
    PHB,
    PIX,
    PXB,
    SYS,
    MachineWords,
    Pair,
    is_xml,
    machine_of,
    read_xml,
)

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_HEADING = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID|\S+")
_AFFINITY = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_MODEL = re.compile(r"^GPU \d+: (.+?) \(UUID:", re.MULTILINE)
_MIG = re.compile(r"^\s+MIG \S+\s+Device\s+\d+:", re.MULTILINE)
_WORDS = {PIX: PIX, PXB: PXB, PHB: PHB, NODE: NODE, SYS: SYS, "SOC": SYS, "PSB": PXB}
_MIG_SLICES = 8
"""Slices of memory of a GPU with MIG; an A30 has half as many."""


def plain(text: str) -> str:
    """The text without the escapes for terminals."""
    return _ESCAPE.sub("", text)


def is_matrix(text: str) -> bool:
    """True if the text holds a matrix of ``nvidia-smi topo -m``."""
    return re.search(r"^\s*GPU0\s+(X\s|GPU1\s|CPU Affinity|\S+.*CPU Affinity|NIC0|mlx)", plain(text), re.M) is not None


@dataclass(frozen=True)
class _Row:
    """A row of the matrix: its line, the words, and what stands in the columns of affinity."""

    line: int
    name: str
    words: tuple[str, ...]
    tail: dict[str, str]


def read_matrix(text: str, where: str, name: str) -> MachineWords:
    """What the matrix says.

    ``text``: what the tool printed, with or without escapes for terminals, legend and other text around it; ``where``:
    what errors call the source; ``name``: what to call the machine. A ClusterError if there is no matrix, a row is
    missing or too short, or a word is not known; with the line.
    """
    text = plain(text)
    columns, rows = _table(text, where)
    gpus = sum(1 for column in columns if re.fullmatch(r"GPU\d+", column))
    if columns[:gpus] != [f"GPU{i}" for i in range(gpus)]:
        raise ClusterError(where, f"columns {' '.join(columns[:gpus])}", "GPU0, GPU1 … in order, before all others")
    words, nvlinks = _pairs(columns, rows, gpus, where)
    home, sockets = _affinity(rows[:gpus], where)
    model = _MODEL.search(text)
    slices = _MIG_SLICES // 2 if model and "A30" in model[1].split() else _MIG_SLICES
    return MachineWords(
        name, gpus, len(columns), words, nvlinks, home=home, sockets=sockets,
        model=model[1] if model else "", slices=slices if _MIG.search(text) else 0,
    )  # fmt: skip


def _table(text: str, where: str) -> tuple[list[str], list[_Row]]:
    """The columns of devices, and their rows in the same order."""
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if re.match(r"\s*GPU\d+(\s|$)", line)), None)
    if first is None:
        raise ClusterError(where, "no line that begins with GPU0", "what nvidia-smi topo -m prints")
    heads = _HEADING.findall(lines[first])
    columns = [head for head in heads if head not in _AFFINITY]
    tails = [head for head in heads if head in _AFFINITY]
    rows: dict[str, _Row] = {}
    for number, line in enumerate(lines[first + 1 :], first + 2):
        cells = line.split()
        if not cells or cells[0] not in columns:
            break
        if cells[0] in rows:
            raise ClusterError(f"{where}, line {number}", f"a second row for {cells[0]}", "one row for each device")
        if len(cells) < len(columns) + 1:
            got = f"{len(cells) - 1} words for {cells[0]}"
            raise ClusterError(f"{where}, line {number}", got, f"{len(columns)}, one for each column")
        tail = dict(zip(tails, cells[len(columns) + 1 :], strict=False))
        rows[cells[0]] = _Row(number, cells[0], tuple(cells[1 : len(columns) + 1]), tail)
    missing = [column for column in columns if column not in rows]
    if missing:
        raise ClusterError(f"{where}, line {first + 1}", f"no row for {missing[0]}", "one row for each column")
    return columns, [rows[column] for column in columns]


def _pairs(columns: list[str], rows: list[_Row], gpus: int, where: str) -> tuple[dict[Pair, str], dict[Pair, int]]:
    """What joins two devices in words, and how many NVLinks join two GPUs."""
    words: dict[Pair, str] = {}
    nvlinks: dict[Pair, int] = {}
    for a, row in enumerate(rows):
        for b, word in enumerate(row.words):
            at = f"{where}, line {row.line}, {row.name} to {columns[b]}"
            if a == b:
                if word != "X":
                    raise ClusterError(at, word, "X, as it is the device itself")
                continue
            is_direct = re.fullmatch(r"NV[1-9]\d?", word) is not None
            if not is_direct and word not in _WORDS:
                raise ClusterError(at, word, f"one of {', '.join((*LEVELS, SYS))} or NV with a number")
            if rows[b].words[a] != word:
                raise ClusterError(at, f"{word}, but {rows[b].words[a]} the other way", "the same word both ways")
            if a < b and is_direct and b < gpus:
                nvlinks[a, b] = int(word[2:])
            elif a < b and not is_direct:
                words[a, b] = _WORDS[word]
    return words, nvlinks


def _affinity(rows: list[_Row], where: str) -> tuple[dict[int, int], dict[int, tuple[int, ...]]]:
    """The NUMA node of each GPU and the CPUs of each node; without numbers of nodes, equal CPUs make a node."""
    home: dict[int, int] = {}
    sockets: dict[int, tuple[int, ...]] = {}
    seen: dict[tuple[int, ...], int] = {}
    numbered = any(_first_number(row.tail.get("NUMA Affinity", "")) is not None for row in rows)
    for gpu, row in enumerate(rows):
        cpus = row.tail.get("CPU Affinity", "N/A")
        try:
            cores = numbers_of(cpus) if cpus != "N/A" else ()
        except ValueError as fault:
            raise ClusterError(f"{where}, line {row.line}, CPU Affinity", cpus, str(fault)) from None
        node = _first_number(row.tail.get("NUMA Affinity", ""))
        if not numbered and cores:
            node = seen.setdefault(cores, len(seen))
        if node is not None:
            home[gpu] = node
            sockets[node] = tuple(sorted({*sockets.get(node, ()), *cores}))
    return home, sockets


def _first_number(text: str) -> int | None:
    """The first of the nodes that a cell names; ``None``: it names none, as with ``N/A``."""
    found = re.match(r"\d+", text)
    return int(found[0]) if found else None


_CPUS = re.compile(r"\s*node (\d+) cpus:([\d\s]*)")
_ROW = re.compile(r"\s*(\d+):\s+([\d\s]+)")


@dataclass(frozen=True)
class NumaNodes:
    """NUMA nodes by number: their CPUs, and for each pair of them how far apart they are (10: local)."""

    cpus: dict[int, tuple[int, ...]]
    apart: dict[Pair, int]


def is_hardware(text: str) -> bool:
    """True if the text holds what ``numactl --hardware`` prints."""
    return re.search(r"^\s*node \d+ cpus:", text, re.MULTILINE) is not None


def _read_hardware(text: str, where: str) -> NumaNodes:
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
    return NumaNodes(with_cpus, {pair: d for pair, d in apart.items() if pair[0] in with_cpus and pair[1] in with_cpus})


def _with_nodes(found: MachineWords, nodes: NumaNodes, where: str) -> MachineWords:
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
        return _without(cpus, machine_of(MachineWords(name, 0, 0, sockets=nodes.cpus, apart=nodes.apart)))
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
