"""Machines as tables again: what a file with the machine would hold."""

from __future__ import annotations

from typing import Any

import tomli_w

from unrack.errors import ClusterError
from unrack.resources.gpus.machines.cpu_list import text_of
from unrack.resources.gpus.machines.machine import GPU, MACHINE, NVSWITCH, SOCKET, SWITCH, Link, Machine, whole


def written(machine: Machine) -> dict[str, Any]:
    """The keys of a file with this machine; read again, it has the same parts, distances, sockets and cores.

    Every weight is written, so that files stay true should usual weights change.

    Raises
    ------
    ClusterError
        The graph is none that a file can hold: a part hangs on nothing, or there are several machines in it.

    Examples
    --------
    >>> from unrack.resources.gpus.machines.machine import preset
    >>> written(preset("minsky"))["sockets"][1]
    {'name': 'socket 1', 'weight': 20, 'gpus': [2, 3], 'gpu_weight': 1}
    """
    names = [vertex.name for vertex in machine.vertices]
    parent = _parents(machine)
    gpu_at = {vertex: number for number, vertex in enumerate(machine.gpus)}
    content: dict[str, Any] = {"name": machine.name}
    if machine.model:
        content["model"] = machine.model
    if machine.slices:
        content["slices"] = machine.slices
    used: set[int] = set()
    sockets: list[dict[str, Any]] = []
    switches: list[dict[str, Any]] = []
    nvswitches: list[dict[str, Any]] = []
    for vertex, (kind, name) in enumerate(machine.vertices):
        if kind in (SOCKET, SWITCH):
            place, link = parent[vertex]
            used.add(place)
            above = link.a + link.b - vertex
            entry: dict[str, Any] = {"name": name}
            entry |= {"weight": link.weight} if kind == SOCKET else {"on": names[above], "weight": link.weight}
            entry |= _gpus_of(machine, vertex, parent, gpu_at, used)
            (sockets if kind == SOCKET else switches).append(entry)
        elif kind == NVSWITCH:
            nvswitches.append({"name": name, "gpus": []})
    for place, cores in enumerate(machine.cores):
        sockets[place]["cores"] = text_of(cores)
    content["sockets"] = sockets
    content |= {key: value for key, value in (("switches", switches), ("nvswitches", nvswitches)) if value}
    links = [
        {
            "between": [_end(names, gpu_at, link.a), _end(names, gpu_at, link.b)],
            "weight": link.weight,
            "kind": link.kind,
            **({"width": whole(link.width)} if link.width else {}),
        }
        for place, link in enumerate(machine.links)
        if place not in used
    ]
    return content | ({"links": links} if links else {})


def written_toml(machine: Machine, made_by: str = "") -> str:
    """The text of a TOML file with the machine; ``made_by`` is a comment for its first line."""
    return (f"# {made_by}\n" if made_by else "") + tomli_w.dumps(written(machine))


def _end(names: list[str], gpu_at: dict[int, int], vertex: int) -> int | str:
    return gpu_at.get(vertex, names[vertex])


def _parents(machine: Machine) -> dict[int, tuple[int, Link]]:
    """For each socket, switch and GPU the link, and its place, that leads to the machine."""
    kinds = [vertex.kind for vertex in machine.vertices]
    if kinds.count(MACHINE) != 1:
        raise ClusterError(f"machine {machine.name}", f"{kinds.count(MACHINE)} machines in the graph", "one")
    allowed = {SOCKET: (MACHINE,), SWITCH: (SOCKET, SWITCH), GPU: (SOCKET, SWITCH)}
    found: dict[int, tuple[int, Link]] = {}
    for place, link in enumerate(machine.links):
        for below, above in ((link.a, link.b), (link.b, link.a)):
            outer = kinds[above] in allowed.get(kinds[below], ())
            before = kinds[below] != SWITCH or kinds[above] != SWITCH or above < below
            if outer and before:
                found.setdefault(below, (place, link))
    for vertex, (kind, name) in enumerate(machine.vertices):
        if kind in allowed and vertex not in found:
            raise ClusterError(f"machine {machine.name}", f"{name} on nothing", "a socket or a switch that it hangs on")
    return found


def _gpus_of(
    machine: Machine, vertex: int, parent: dict[int, tuple[int, Link]], gpu_at: dict[int, int], used: set[int]
) -> dict[str, Any]:
    """The GPUs on a part, and the weight of most links to them; links of other weights are written on their own."""
    own = [(gpu, *parent[gpu]) for gpu in machine.gpus if vertex in parent[gpu][1][:2]]
    if not own:
        return {}
    weights = [link.weight for _, _, link in own]
    usual = max(weights, key=weights.count)
    used.update(place for _, place, link in own if link.weight == usual)
    return {"gpus": [gpu_at[gpu] for gpu, _, _ in own], "gpu_weight": usual}
