"""Machines with GPUs from what their own tools print: ``lstopo --of xml`` and ``nvidia-smi topo -m``.

``lstopo`` (hwloc 1 and 2) writes sockets, bridges, PCI devices, and NVLink bandwidths where known. ``nvidia-smi`` has a
word for each pair of devices. It prints no tree, but one follows: devices that reach each other over one PCIe switch
form a group, those groups that reach each other over several switches form larger ones, and so on up to the socket. The
levels that occur are the levels of the tree, each a link of weight 1 above the one below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from xml.etree import ElementTree

from unrack.errors import ClusterError
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


_OF_GPUS = re.compile(r"(nvml|cuda|rsmi|opencl\d+d|ze)\d+(\.\d+)?")
_MAKERS = ("10de", "1002")
_SOCKETS = ("Package", "Socket", "NUMANode")


def is_xml(text: str) -> bool:
    """True if the text is XML as hwloc writes it."""
    return re.search(r"<topology[\s>]", text[:4000]) is not None


def read_xml(text: str, where: str, name: str) -> MachineWords:
    """What the file says; GPUs are numbered in the order of their PCI addresses, as CUDA is told to.

    A ClusterError if it is not XML of hwloc.
    """
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as fault:
        raise ClusterError(
            f"{where}, line {fault.position[0]}", str(fault), "XML as lstopo --of xml writes it"
        ) from None
    if root.tag != "topology" or root.find("object") is None:
        raise ClusterError(where, f"a {root.tag} without objects", "XML as lstopo --of xml writes it")
    gpus = sorted(_gpus(root), key=lambda gpu: gpu.address)
    packages = [one for one, above in _walk(root) if one.get("type") in _SOCKETS and _outermost(above) is None]
    places = {id(package): number for number, package in enumerate(packages)}
    home = {}
    for number, gpu in enumerate(gpus):
        package = _outermost(gpu.above)
        if package is not None:
            home[number] = places[id(package)]
    words = {(a, b): _word(gpus[a], gpus[b]) for a, b in combinations(range(len(gpus)), 2)}
    nvlinks, nvswitch = _nvlinks(root, gpus, where)
    models = {gpu.model for gpu in gpus}
    return MachineWords(
        name, len(gpus), len(gpus), words, nvlinks, nvswitch, home,
        {number: _cpus(package, where) for number, package in enumerate(packages)},
        model=models.pop() if len(models) == 1 else "",
    )  # fmt: skip


@dataclass(frozen=True)
class _Gpu:
    """A PCI device that is a GPU: its address, what is above it from the outside, ids of it and its parts, its name."""

    address: str
    above: tuple[ElementTree.Element, ...]
    ids: frozenset[str]
    model: str


def _walk(
    element: ElementTree.Element, above: tuple[ElementTree.Element, ...] = ()
) -> Iterator[tuple[ElementTree.Element, tuple[ElementTree.Element, ...]]]:
    """Every object with those above it, from the outside."""
    for child in element.findall("object"):
        yield child, above
        yield from _walk(child, (*above, child))


def _gpus(root: ElementTree.Element) -> list[_Gpu]:
    devices = [(one, above) for one, above in _walk(root) if one.get("type") == "PCIDev"]
    named = [
        (one, above)
        for one, above in devices
        if any(
            part.get("type") == "OSDev" and _OF_GPUS.fullmatch(part.get("name", "")) for part in one.findall("object")
        )
    ]
    if not named:
        named = [(one, above) for one, above in devices if _is_gpu_class(one.get("pci_type", ""))]
    found = []
    for one, above in named:
        parts = [one, *one.findall("object")]
        ids = frozenset(f"{part.get('type')}:{part.get('gp_index')}" for part in parts if part.get("gp_index"))
        models = [info.get("value", "") for part in parts for info in part.findall("info")
                  if info.get("name") in ("GPUModel", "PCIDevice")]  # fmt: skip
        found.append(_Gpu(one.get("pci_busid", ""), above, ids, models[-1] if models else ""))
    return found


def _is_gpu_class(kind: str) -> bool:
    """True for a 3D controller, and for a display of a maker of GPUs; not for the display of a management board."""
    return kind.startswith("0302") or (kind[:4] in ("0300", "0380") and kind[6:10].lower() in _MAKERS)


def _outermost(above: tuple[ElementTree.Element, ...]) -> ElementTree.Element | None:
    return next((one for one in above if one.get("type") in _SOCKETS), None)


def _word(a: _Gpu, b: _Gpu) -> str:
    """How two GPUs reach each other, in the words of ``nvidia-smi``."""
    shared = [one for one, other in zip(a.above, b.above, strict=False) if one is other]
    last = shared[-1] if shared else None
    if last is not None and last.get("type") == "Bridge":
        if last.get("bridge_type", "").startswith("0-"):
            return PHB
        below = len(shared)
        return PXB if _crossed(a.above[below:]) or _crossed(b.above[below:]) else PIX
    return SYS if _outermost(tuple(shared)) is None else NODE


def _crossed(bridges: tuple[ElementTree.Element, ...]) -> bool:
    """True if there is a further switch among these: a bridge below which several things are."""
    return any(len(bridge.findall("object")) > 1 for bridge in bridges)


def _cpus(package: ElementTree.Element, where: str) -> tuple[int, ...]:
    units = [one.get("os_index", "") for one, _ in _walk(package) if one.get("type") == "PU"]
    wrong = next((unit for unit in units if not re.fullmatch(r"[0-9]{1,9}", unit)), None)
    if wrong is not None:
        raise ClusterError(f"{where}, os_index of a PU", repr(wrong), "the number of a CPU")
    return tuple(sorted(map(int, units))) if units else _of_mask(package.get("cpuset", ""))


def _of_mask(mask: str) -> tuple[int, ...]:
    """The CPUs in a mask such as ``0x000000ff,0xffffffff``: words of 32 bits, the highest first."""
    if not re.fullmatch(r"(0x[0-9a-fA-F]{1,8}|)(,(0x[0-9a-fA-F]{1,8}|))*", mask):
        return ()
    bits = 0
    for word in mask.split(","):
        bits = bits << 32 | (int(word, 16) if word else 0)
    return tuple(i for i in range(bits.bit_length()) if bits >> i & 1)


def _nvlinks(root: ElementTree.Element, gpus: list[_Gpu], where: str) -> tuple[dict[Pair, float], bool]:
    """Pairs of GPUs with NVLink, and its width beside the narrowest; and whether they reach an NVSwitch."""
    place = {one: number for number, gpu in enumerate(gpus) for one in gpu.ids}
    switches = {f"PCIDev:{one.get('gp_index')}" for one, _ in _walk(root) if one.get("subtype") == "NVSwitch"}
    pairs: dict[Pair, int] = {}
    reaches_switch = False
    for matrix in (*root.findall("distances2"), *root.findall("distances2hetero")):
        if matrix.get("name") != "NVLinkBandwidth":
            continue
        kind = matrix.get("type")
        ids = [word if ":" in word else f"{kind}:{word}" for word in _words_of(matrix, "indexes")]
        values = _words_of(matrix, "u64values")
        if len(values) != len(ids) ** 2 or not all(value.isdecimal() for value in values):
            raise ClusterError(f"{where}, NVLinkBandwidth", f"{len(values)} values", f"{len(ids) ** 2} whole numbers")
        for (i, a), (j, b) in combinations(enumerate(ids), 2):
            carries = max(int(values[i * len(ids) + j]), int(values[j * len(ids) + i]))
            if not carries:
                continue
            if a in place and b in place and place[a] != place[b]:
                pair = min(place[a], place[b]), max(place[a], place[b])
                pairs[pair] = max(carries, pairs.get(pair, 0))
            reaches_switch |= (a in place and b in switches) or (b in place and a in switches)
    least = min(pairs.values(), default=1)
    return {pair: round(carries / least, 2) for pair, carries in sorted(pairs.items())}, reaches_switch


def _words_of(matrix: ElementTree.Element, tag: str) -> list[str]:
    return [word for part in matrix.findall(tag) for word in (part.text or "").split()]
