"""What ``numactl --hardware`` prints: NUMA nodes with their CPUs, and how far apart they are."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from unrack.errors import ClusterError
from unrack.resources.gpus.machines.reading.words import Found, Pair, Socket

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


def read_hardware(text: str, where: str) -> Nodes:
    """The nodes that have CPUs. Nodes without, such as the memory of GPUs, are left out.

    Raises
    ------
    ClusterError
        There are no nodes, or the table of distances does not fit them; with the line.
    """
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


def with_nodes(found: Found, nodes: Nodes, where: str) -> Found:
    """What is known of GPUs, with sockets as NUMA nodes: their CPUs, those without GPUs too, and their distances.

    Raises
    ------
    ClusterError
        A GPU is near a node, or near CPUs, that these nodes do not have.
    """
    home = {}
    for gpu, socket in found.home.items():
        cores = found.sockets[socket].cores
        same = [node for node, cpus in nodes.cpus.items() if cores and set(cores) <= set(cpus)]
        if socket in nodes.cpus and (not cores or set(cores) & set(nodes.cpus[socket])):
            home[gpu] = socket
        elif same:
            home[gpu] = same[0]
        else:
            got = f"GPU {gpu} near node {socket}" + (f" with CPU {cores[0]}" if cores else "")
            raise ClusterError(where, got, f"nodes {', '.join(map(str, nodes.cpus))} with their CPUs")
    sockets = {node: Socket(cpus) for node, cpus in nodes.cpus.items()}
    return replace(found, home=home, sockets=sockets, apart=nodes.apart)
