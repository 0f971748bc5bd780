"""Machines as tables again: what a file with the machine would hold."""

from __future__ import annotations

from typing import Any

import tomli_w

from unrack.errors import ClusterError
from unrack.resources.gpus.machines.machine import GPU, MACHINE, NVSWITCH, SOCKET, SWITCH, Machine, text_of, whole


def written(machine: Machine) -> dict[str, Any]:
    """The keys of a file with this machine; read again, it has the same parts, distances, sockets and cores.

    Every weight is written, so that files stay true should usual weights change. A ClusterError if the graph is none
    that a file can hold: a part hangs on nothing, or there are several machines in it.

    Examples
    --------
    >>> from unrack.resources.gpus.machines.machine import preset
    >>> written(preset("minsky"))["sockets"][1]
    {'name': 'socket 1', 'weight': 20, 'gpus': [2, 3], 'gpu_weight': 1}
    """
    names = [vertex.name for vertex in machine.vertices]
    _check(machine)
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
            place = machine.hangs_by[vertex]
            used.add(place)
            on = {} if kind == SOCKET else {"on": names[machine.above(vertex)]}
            entry: dict[str, Any] = {"name": name, **on, "weight": machine.links[place].weight}
            entry |= _gpus_of(machine, vertex, gpu_at, used)
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


def _check(machine: Machine) -> None:
    """Refuse several machines, and a part that hangs on nothing."""
    kinds = [vertex.kind for vertex in machine.vertices]
    if kinds.count(MACHINE) != 1:
        raise ClusterError(f"machine {machine.name}", f"{kinds.count(MACHINE)} machines in the graph", "one")
    for vertex, (kind, name) in enumerate(machine.vertices):
        if kind in (SOCKET, SWITCH, GPU) and vertex not in machine.hangs_by:
            raise ClusterError(f"machine {machine.name}", f"{name} on nothing", "a socket or a switch that it hangs on")


def _gpus_of(machine: Machine, vertex: int, gpu_at: dict[int, int], used: set[int]) -> dict[str, Any]:
    """The GPUs on a part, and the weight of most links to them; links of other weights are written on their own."""
    own = [gpu for gpu in machine.gpus if machine.above(gpu) == vertex]
    if not own:
        return {}
    places = [machine.hangs_by[gpu] for gpu in own]
    weights = [machine.links[place].weight for place in places]
    usual = max(weights, key=weights.count)
    used.update(place for place, weight in zip(places, weights, strict=True) if weight == usual)
    return {"gpus": [gpu_at[gpu] for gpu in own], "gpu_weight": usual}
