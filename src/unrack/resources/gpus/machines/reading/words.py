"""A machine from what is known of pairs of devices: the words of ``nvidia-smi topo -m``.

A tree is not printed by that tool, but it follows: devices that reach each other over one PCIe switch form a group,
those groups that reach each other over several switches form larger ones, and so on up to the socket. The levels that
occur are the levels of the tree, each a link of weight 1 above the one below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from unrack.resources.gpus.machines.machine import (
    ACROSS,
    BUS,
    GPU,
    NEAR,
    NVLINK,
    NVSWITCH,
    SOCKET,
    Link,
    Machine,
    Parts,
)

PIX, PXB, PHB, NODE, SYS = "PIX", "PXB", "PHB", "NODE", "SYS"
LEVELS = (PIX, PXB, PHB, NODE)
"""One switch; several switches; one host bridge; several host bridges of one socket. ``SYS``: across sockets."""
LOCAL = 10
"""What systems call the distance of a socket to itself."""
SWITCHED_FROM = 8
"""So many GPUs, each with NVLink to every other one, are joined by an NVSwitch: no GPU has ports for so many links."""

Pair = tuple[int, int]


@dataclass(frozen=True)
class MachineWords:
    """What a tool says of a machine."""

    # as of a `Machine`
    name: str
    # how many GPUs; how many devices in all: GPUs first, then those that only tell how GPUs are connected
    gpus: int
    devices: int
    # pair of devices, the lower number first → one of `LEVELS` or `SYS`; pairs of which nothing is known are left out
    words: Mapping[Pair, str] = field(default_factory=dict)
    # pair of GPUs with a direct link → its width: how many NVLinks it is, or its bandwidth in any unit
    nvlinks: Mapping[Pair, float] = field(default_factory=dict)
    nvswitch: bool = False  # whether all GPUs are joined by an NVSwitch
    # GPU → the number of its socket as the system counts; GPUs of which it is not known are left out
    home: Mapping[int, int] = field(default_factory=dict)
    # the CPUs of the sockets by the system's number; those without GPUs as well
    sockets: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    # pair of sockets → how far apart the system says they are: 10 is local, as `numactl --hardware` counts
    apart: Mapping[Pair, int] = field(default_factory=dict)
    model: str = ""
    slices: int = 0


def machine_of(found: MachineWords) -> Machine:
    """The machine with the least tree that agrees with what is known of pairs."""
    parts = Parts(found.name)
    homes = _homes(found)
    levels = _levels(found, homes)
    parents: dict[tuple[int, int, int], int] = {}
    sockets = _sockets(found, homes, parts)
    gpus = []
    for gpu in range(found.gpus):
        parent = sockets[homes[gpu]]
        for depth in reversed(range(len(levels))):
            key = (homes[gpu], depth, levels[depth][gpu])
            if key not in parents:
                parents[key] = parts.switch(parent)
            parent = parents[key]
        gpus.append((gpu, parent))
    at = {gpu: parts.hang(GPU, f"GPU{gpu}", parent) for gpu, parent in gpus}
    all_joined = found.gpus >= SWITCHED_FROM and len(found.nvlinks) == found.gpus * (found.gpus - 1) // 2
    if found.nvswitch or all_joined:
        middle = parts.loose(NVSWITCH, "NVSwitch")
        own = [max((width for pair, width in found.nvlinks.items() if gpu in pair), default=0) for gpu in at]
        parts.links += [Link(middle, at[gpu], NEAR, NVLINK, width) for gpu, width in enumerate(own)]
    else:
        parts.links += [Link(at[a], at[b], NEAR, NVLINK, width) for (a, b), width in sorted(found.nvlinks.items())]
    known = [found.sockets.get(number, ()) for number in sockets]
    cores = tuple(known) if any(known) else ()
    return Machine(found.name, tuple(parts.vertices), tuple(parts.links), found.model, cores, found.slices)


def _sockets(found: MachineWords, homes: Mapping[int, int], parts: Parts) -> dict[int, int]:
    """The vertices of the sockets by the system's numbers, linked to the machine and to those that are nearer."""
    numbers = sorted({*homes.values(), *found.sockets}) or [0]
    at = {number: parts.hang(SOCKET, f"socket {place}", 0, ACROSS) for place, number in enumerate(numbers)}
    far = {pair: apart for pair, apart in found.apart.items() if pair[0] in at and pair[1] in at}
    most = max(far.values(), default=0)
    for (a, b), apart in sorted(far.items()):
        if apart < most:
            parts.links.append(
                Link(at[a], at[b], max(1, round(2 * ACROSS * (apart - LOCAL) / max(1, most - LOCAL))), BUS)
            )
    return at


def _levels(found: MachineWords, homes: Mapping[int, int]) -> list[list[int]]:
    """The levels between GPUs and sockets, from the inside: for each GPU the least GPU in its group.

    A level is left out that joins no GPUs, or those of the level before; one of host bridges also where it joins all
    GPUs of the sockets, as it then is the socket.
    """
    of_socket = [min(gpu for gpu in homes if homes[gpu] == homes[one]) for one in range(found.gpus)]
    kept: list[list[int]] = []
    for number, level in enumerate(LEVELS):
        groups = _groups(found, LEVELS[: number + 1])[: found.gpus]
        before = kept[-1] if kept else list(range(found.gpus))
        if groups != before and (groups != of_socket or level in (PIX, PXB)):
            kept.append(groups)
    return kept


def _groups(found: MachineWords, joining: Sequence[str]) -> list[int]:
    """For each device the least device that it reaches over pairs with these words."""
    first = list(range(found.devices))
    for a, b in combinations(range(found.devices), 2):
        if first[a] != first[b] and found.words.get((a, b)) in joining:
            first = _joined(first, a, b)
    return first


def _joined(group: list[int], a: int, b: int) -> list[int]:
    """The groups with those of two devices as one."""
    low, high = sorted((group[a], group[b]))
    return [low if one == high else one for one in group]


def _homes(found: MachineWords) -> dict[int, int]:
    """The socket of each GPU: as the system says; else that of its group; else one that no known socket has."""
    group = _groups(found, LEVELS)[: found.gpus]
    group = _joined_by_nvlink(found, group)
    homes = dict(found.home)
    by_group = {group[gpu]: homes[gpu] for gpu in sorted(homes, reverse=True)}
    alone = next(iter(found.sockets)) if len(found.sockets) == 1 else None
    unused = max([-1, *found.sockets, *homes.values()]) + 1
    for gpu in range(found.gpus):
        if gpu in homes:
            continue
        if group[gpu] not in by_group:
            by_group[group[gpu]] = unused if alone is None else alone
            unused += 1
        homes[gpu] = by_group[group[gpu]]
    return homes


def _joined_by_nvlink(found: MachineWords, group: list[int]) -> list[int]:
    """Groups with a direct link between them become one if no pair of them is known to be on different sockets."""
    for a, b in sorted(found.nvlinks):
        if group[a] == group[b]:
            continue
        ones, others = ([i for i, one in enumerate(group) if one == group[gpu]] for gpu in (a, b))
        if all(found.words.get((min(i, j), max(i, j))) != SYS for i in ones for j in others):
            group = _joined(group, a, b)
    return group
