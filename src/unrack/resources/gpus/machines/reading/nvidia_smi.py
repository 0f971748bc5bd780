"""What ``nvidia-smi topo -m`` prints: a matrix of words; with ``nvidia-smi -L`` before or after it, also the model.

The words: ``X`` the device itself; ``NV#`` direct links, so many; ``PIX`` one PCIe switch; ``PXB`` several; ``PHB`` a
host bridge; ``NODE`` several host bridges of one NUMA node; ``SYS`` (``SOC`` in old versions) across sockets. Network
cards do not become parts of the machine, but say which GPUs share a switch where GPUs are joined by NVLink, as then
the matrix does not say it of the GPUs themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from unrack.errors import ClusterError
from unrack.resources.gpus.machines.machine import numbers_of
from unrack.resources.gpus.machines.reading.words import LEVELS, NODE, PHB, PIX, PXB, SYS, Found, Pair

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


def read_matrix(text: str, where: str, name: str) -> Found:
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
    return Found(
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
