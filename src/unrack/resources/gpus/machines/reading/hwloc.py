"""What ``lstopo --of xml`` writes (hwloc 1 and 2): sockets, bridges, PCI devices, and NVLink bandwidths where known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from xml.etree import ElementTree

from unrack.errors import ClusterError
from unrack.resources.gpus.machines.reading.words import NODE, PHB, PIX, PXB, SYS, MachineWords, Pair

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
