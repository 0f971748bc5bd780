"""One machine as a graph: sockets, switches and GPUs, and the links between them with their weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from unrack.errors import ClusterError, check_choice
from unrack.kernels.arrays import Floats, Ints

MOST_CPUS = 1 << 16

_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")


def numbers_of(text: str) -> tuple[int, ...]:
    """The numbers in a list such as ``0-7,16-23``, ascending; a stride, as in ``0-158:2``, is understood.

    A ValueError if the text is no such list; it says what was wanted.

    Examples
    --------
    >>> numbers_of("0-3,8")
    (0, 1, 2, 3, 8)
    """
    found: set[int] = set()
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError("numbers of CPUs such as 0-7,16-23")
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        step = int(match[3]) if match[3] else 1
        if last < first or step < 1 or last >= MOST_CPUS:
            raise ValueError(f"ranges of CPUs from low to high, below {MOST_CPUS}")
        found.update(range(first, last + 1, step))
    return tuple(sorted(found))


def text_of(numbers: Sequence[int]) -> str:
    """The list as text, neighbours joined.

    Examples
    --------
    >>> text_of((0, 1, 2, 3, 8))
    '0-3,8'
    """
    ids = np.sort(np.array(numbers, np.int64))
    runs = np.split(ids, np.flatnonzero(np.diff(ids) != 1) + 1) if len(ids) else []
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


CUBE_MESH = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 2, (0, 4): 2, (1, 5): 2,
    (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2, (2, 6): 1, (3, 7): 1,
}  # fmt: skip
"""The hybrid cube mesh: the edges of a cube, and the diagonals of two of its faces (paper 001, ch. 4) → how many of the
six NVLinks of each V100 join the two."""

PRESETS: dict[str, tuple[str, Callable[[], Machine]]] = {
    "minsky": (
        "IBM S822LC, POWER8: two sockets with two P100 each, NVLink within a socket",
        lambda: tree("minsky", [[2], [2]], [(0, 1), (2, 3)], model="P100"),
    ),
    "dgx-1": (
        "NVIDIA DGX-1: eight V100 on four PCIe switches, hybrid cube mesh of NVLink",
        lambda: tree("dgx-1", [[2, 2], [2, 2]], CUBE_MESH, model="V100"),
    ),
    "dgx-2": (
        "NVIDIA DGX-2: sixteen V100, all joined by NVSwitch",
        lambda: tree("dgx-2", [[4, 4], [4, 4]], model="V100", nvswitch=True),
    ),
    "hgx-h100": (
        "HGX H100: eight H100, all joined by NVSwitch",
        lambda: tree("hgx-h100", [[2, 2], [2, 2]], model="H100", nvswitch=True),
    ),
    "hgx-h100-mig": (
        "HGX H100 with each GPU in eight slices of memory (MIG)",
        lambda: tree("hgx-h100-mig", [[2, 2], [2, 2]], model="H100", nvswitch=True, slices=8),
    ),
    "pcie-8": (
        "A server of two sockets with eight GPUs on four PCIe switches and no direct links",
        lambda: tree("pcie-8", [[2, 2], [2, 2]], model=""),
    ),
    "pcie-4": (
        "A server of two sockets with two GPUs each and no direct links",
        lambda: tree("pcie-4", [[2], [2]], model=""),
    ),
}
"""Name → one line of words, and how it is made."""

MACHINE, SOCKET, SWITCH, NVSWITCH, GPU = "machine", "socket", "switch", "nvswitch", "gpu"
KINDS = (MACHINE, SOCKET, SWITCH, NVSWITCH, GPU)
"""Kinds of vertices, from the outside to the inside."""
PCIE, NVLINK, BUS = "pcie", "nvlink", "bus"
LINKS = (PCIE, NVLINK, BUS)
"""Kinds of links: of a tree of switches; direct ones between GPUs or to an NVSwitch; between sockets."""
NEAR, ACROSS, BEYOND = 1, 20, 40
"""Weights of links: beside a GPU, at a socket, and from a machine to its network (Amaral 2019, Fig. 15)."""
REFERENCE_GB_S = 1000
"""A link of so many GB/s has the weight 1; one of a tenth has the weight 10."""


class Vertex(NamedTuple):
    """A part of a machine: its kind, one of ``KINDS``, and its name, such as ``GPU0``."""

    kind: str
    name: str


class Link(NamedTuple):
    """A link between two vertices, by number, and its kind, one of ``LINKS``."""

    a: int
    b: int
    weight: int  # what it costs to cross it, if no NVLink of the machine is wider
    kind: str = PCIE
    # how many NVLinks it consists of, or any measure to the same effect; 0: not known, or not to count
    width: float = 0


@dataclass(frozen=True)
class Machine:
    """GPUs of one machine and how they are connected. It never changes."""

    name: str  # what it is called, such as ``minsky``
    # vertices, links: The graph. Every GPU must have a path to every other one.
    vertices: tuple[Vertex, ...]
    links: tuple[Link, ...]
    model: str = ""  # of its GPUs, such as ``P100``; ``""``: not known
    # of each socket, in order: the numbers of its CPUs as the system counts them; ``()``: not known
    cores: tuple[tuple[int, ...], ...] = ()
    slices: int = 0  # into how many equal slices of memory each of its GPUs is divided (MIG); 0: it is not

    def __post_init__(self) -> None:
        """Check the graph.

        A ClusterError if a link leads nowhere or has no weight above 0, a GPU cannot be reached, or a CPU is on two
        sockets.
        """
        count = len(self.vertices)
        for link in self.links:
            if not (0 <= link.a < count and 0 <= link.b < count and link.a != link.b):
                raise ClusterError(f"machine {self.name}", f"a link from {link.a} to {link.b}", f"two of {count} parts")
            if link.weight < 1:
                raise ClusterError(f"machine {self.name}", f"a link of weight {link.weight}", "1 or more")
        self._check_cores()
        if len(self.gpus) and (self.distance >= FAR).any():
            i, j = (int(found[0]) for found in np.nonzero(self.distance >= FAR))
            raise ClusterError(f"machine {self.name}", f"no path from GPU {i} to GPU {j}", "links that join all GPUs")

    def _check_cores(self) -> None:
        if self.cores and len(self.cores) != len(self.sockets):
            raise ClusterError(f"machine {self.name}", f"CPUs of {len(self.cores)} sockets", f"{len(self.sockets)}")
        seen: set[int] = set()
        for core in (core for cores in self.cores for core in cores):
            if core in seen:
                raise ClusterError(f"machine {self.name}", f"CPU {core} on two sockets", "each on one")
            if not 0 <= core < MOST_CPUS:
                raise ClusterError(f"machine {self.name}", f"CPU {core}", f"0 to {MOST_CPUS - 1}")
            seen.add(core)

    @cached_property
    def gpus(self) -> tuple[int, ...]:
        """The vertices that are GPUs, in order: GPU i of the machine is ``vertices[gpus[i]]``."""
        return self._of(GPU)

    @cached_property
    def sockets(self) -> tuple[int, ...]:
        """The vertices that are sockets, in order."""
        return self._of(SOCKET)

    def cost(self, link: Link) -> float:
        """What it costs to cross a link: its weight, and the more of that again the narrower it is than the widest.

        A link of half the width costs one and a half times its weight, none as much as twice: two steps over a switch
        stay further. It is a multiple of 1/64 of the weight, so that sums have no rounding errors.
        """
        widest = max(one.width for one in self.links)
        return link.weight * (1 + (int(64 * (1 - link.width / widest)) / 64 if link.width else 0))

    @cached_property
    def between(self) -> Floats:
        """float64[vertices, vertices]: the least sum of costs from one to another; ``FAR``: there is no path.

        No path leads through a GPU: GPUs do not forward what others send.
        """
        count = len(self.vertices)
        found = np.full((count, count), FAR, np.float64)
        np.fill_diagonal(found, 0)
        for link in self.links:
            found[link.a, link.b] = found[link.b, link.a] = min(self.cost(link), float(found[link.a, link.b]))
        for middle in range(count):
            if self.vertices[middle].kind == GPU:
                continue
            np.minimum(found, found[:, [middle]] + found[[middle], :], out=found)
        return found

    @cached_property
    def distance(self) -> Floats:
        """float64[gpus, gpus]: the least sum of costs between GPUs (paper 001, §4.1.1)."""
        at = np.array(self.gpus, np.int64)
        return self.between[np.ix_(at, at)]

    @cached_property
    def socket(self) -> Ints:
        """int64[gpus]: the nearest socket of each GPU, by its place in :attr:`sockets`; 0 where there is none."""
        return self._nearest(self.sockets)

    @cached_property
    def switch(self) -> Ints:
        """int64[gpus]: the nearest PCIe switch of each GPU, counted from 0; where there is none, its socket."""
        switches = self._of(SWITCH)
        return self._nearest(switches) if switches else self.socket

    @cached_property
    def outward(self) -> float:
        """The least cost from a GPU to the edge of the machine, the link to the network not counted."""
        top = self._of(MACHINE) or self.sockets or self.gpus
        return float(self.between[np.ix_(list(self.gpus), list(top))].min()) if self.gpus else 0

    @cached_property
    def hangs_by(self) -> dict[int, int]:
        """For each socket, switch and GPU of the tree the place in :attr:`links` of the link to what it hangs on."""
        outer = {SOCKET: (MACHINE,), SWITCH: (SOCKET, SWITCH), GPU: (SWITCH, SOCKET)}
        found: dict[int, int] = {}
        for place, link in enumerate(self.links):
            for below, above in ((link.a, link.b), (link.b, link.a)):
                kinds = self.vertices[below].kind, self.vertices[above].kind
                if kinds[1] in outer.get(kinds[0], ()) and (kinds != (SWITCH, SWITCH) or above < below):
                    found.setdefault(below, place)
        return found

    def above(self, vertex: int) -> int:
        """The part that a socket, switch or GPU hangs on."""
        link = self.links[self.hangs_by[vertex]]
        return link.a + link.b - vertex

    def _of(self, kind: str) -> tuple[int, ...]:
        return tuple(i for i, vertex in enumerate(self.vertices) if vertex.kind == kind)

    def _nearest(self, vertices: Sequence[int]) -> Ints:
        if not vertices or not self.gpus:
            return np.zeros(len(self.gpus), np.int64)
        found: Ints = self.between[np.ix_(list(self.gpus), list(vertices))].argmin(axis=1)
        return found


FAR = 1 << 40
"""A distance where there is no path."""


def shown(distance: float) -> str:
    """A distance for people: two places after the point at most.

    Examples
    --------
    >>> shown(42.0), shown(1.5), shown(1 + 21 / 64)
    ('42', '1.5', '1.33')
    """
    return f"{distance:.2f}".rstrip("0").rstrip(".")


def whole(distance: float) -> float:
    """A distance as a whole number where it is one, as JSON shows it."""
    return int(distance) if distance == int(distance) else distance


def weight_of(gb_s: float) -> int:
    """The weight of a link with a measured bandwidth, GB/s: the less it carries, the more it costs to cross."""
    return max(1, round(REFERENCE_GB_S / gb_s))


class Parts:
    """Parts of a machine to come and the links between them, from the machine itself on."""

    def __init__(self, name: str) -> None:
        self.vertices = [Vertex(MACHINE, name)]
        self.links: list[Link] = []
        self._switches = 0

    def loose(self, kind: str, name: str) -> int:
        """A part that hangs on nothing; its number."""
        self.vertices.append(Vertex(kind, name))
        return len(self.vertices) - 1

    def hang(self, kind: str, name: str, parent: int, weight: int = NEAR) -> int:
        """A part that hangs on another; its number."""
        number = self.loose(kind, name)
        self.links.append(Link(parent, number, weight, BUS if kind == SOCKET else PCIE))
        return number

    def switch(self, parent: int) -> int:
        """A PCIe switch more; its number."""
        self._switches += 1
        return self.hang(SWITCH, f"switch {self._switches - 1}", parent)


def tree(
    name: str,
    sockets: Sequence[Sequence[int]],
    nvlinks: Mapping[tuple[int, int], float] | Sequence[tuple[int, int]] = (),
    *,
    model: str = "",
    nvswitch: bool = False,
    cores: Sequence[Sequence[int]] = (),
    slices: int = 0,
) -> Machine:
    """A machine of sockets with PCIe switches, each with some GPUs, with direct links between some GPUs.

    Parameters
    ----------
    sockets
        For each socket the numbers of GPUs on each of its PCIe switches; a single entry: no switch, the GPUs hang on
        the socket itself.
    nvlinks
        Pairs of GPUs, counted from 0, with a direct link; by pair how many NVLinks that is, where it is known.
    nvswitch
        Whether all GPUs are joined by one NVSwitch.
    """
    parts = Parts(name)
    gpus: list[int] = []
    for number, groups in enumerate(sockets):
        socket = parts.hang(SOCKET, f"socket {number}", 0, ACROSS)
        for group in groups:
            parent = parts.switch(socket) if len(groups) > 1 else socket
            gpus += [parts.hang(GPU, f"GPU{len(gpus) + i}", parent) for i in range(group)]
    widths = nvlinks if isinstance(nvlinks, Mapping) else dict.fromkeys(nvlinks, 0)
    links = parts.links + [Link(gpus[a], gpus[b], NEAR, NVLINK, width) for (a, b), width in widths.items()]
    if nvswitch:
        middle = parts.loose(NVSWITCH, "NVSwitch")
        links += [Link(middle, gpu, NEAR, NVLINK) for gpu in gpus]
    return Machine(name, tuple(parts.vertices), tuple(links), model, tuple(map(tuple, cores)), slices)


def preset(name: str, where: str = "machine") -> Machine:
    """The preset of that name.

    A ClusterError if there is none.

    Examples
    --------
    >>> len(preset("minsky").gpus)
    4
    """
    check_choice(where, name, PRESETS, ClusterError)
    return PRESETS[name][1]()
