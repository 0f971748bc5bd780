"""Where the parts of a machine are in a picture: a tree from the top down, GPUs in one row, direct links below them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from unrack.resources.gpus.machines.machine import GPU, MACHINE, NVSWITCH, SOCKET, SWITCH, Link, Machine

CELL = 58
"""From one GPU to the next."""
GAP, PAD, EDGE = 18, 12, 24
"""Between sockets; inside them; the length of a link of the tree."""
TOP, BAR, HEAD = 40, 20, 26
LEAST_SOCKET, WIDE_SOCKET = 110, 220
"""Without words about its CPUs, and with them."""
GPU_SIDE = 40


class Box(NamedTuple):
    """A rectangle, and how deep in the tree its part is."""

    x: float
    y: float
    width: float
    height: float
    depth: int


@dataclass(frozen=True)
class Layout:
    """Places in a picture.

    Attributes
    ----------
    boxes
        Vertex → rectangle, of the machine, sockets, switches and NVSwitches.
    gpu_x, gpu_y
        Vertex of a GPU → the middle; the top of all.
    hangs_by
        Vertex → the link of the tree by which it hangs on another.
    direct
        Links between GPUs, and from GPUs to NVSwitches.
    width, height
        Of all.
    """

    boxes: dict[int, Box]
    gpu_x: dict[int, float]
    gpu_y: float
    hangs_by: dict[int, Link]
    direct: tuple[Link, ...]
    width: float
    height: float

    def edge(self, machine: Machine, vertex: int) -> tuple[float, float, float]:
        """The vertical line from a part's parent to it: x, top, bottom."""
        link = self.hangs_by[vertex]
        above = self.boxes[link.a + link.b - vertex]
        in_socket = machine.vertices[link.a + link.b - vertex].kind == SOCKET
        top = above.y + (HEAD if in_socket else above.height)
        if vertex in self.gpu_x:
            return self.gpu_x[vertex], top, self.gpu_y
        own = self.boxes[vertex]
        return own.x + own.width / 2, top, own.y

    def depth(self, link: Link) -> float:
        """How far below the GPUs the curve of a direct link goes: further, the more GPUs are between its ends."""
        return 12 + 15 * round(abs(self.gpu_x[link.a] - self.gpu_x[link.b]) / CELL)

    def shift(self, link: Link) -> tuple[float, float]:
        """How far from the middle of its GPUs a curve begins and ends, so that those of one GPU do not touch."""
        return self._place(link, left=True), self._place(link, left=False)

    def _place(self, link: Link, left: bool) -> float:
        ends = sorted((link.a, link.b), key=lambda one: self.gpu_x[one])
        gpu, other = ends if left else reversed(ends)
        others = sorted(
            (one for a, b, *_ in self.direct for one in (a, b)
             if gpu in (a, b) and one != gpu and one in self.gpu_x),
            key=lambda one: ((self.gpu_x[one] > self.gpu_x[gpu]), -self.gpu_x[one]),
        )  # fmt: skip
        step = min(9.0, (GPU_SIDE - 8) / max(1, len(others) - 1))
        return (others.index(other) - (len(others) - 1) / 2) * step


def laid_out(machine: Machine) -> Layout:
    """Places for all parts of a machine."""
    hangs_by = _tree(machine)
    children: dict[int, list[int]] = {}
    for vertex, link in sorted(hangs_by.items(), key=lambda item: (machine.vertices[item[0]].kind == GPU, item[0])):
        children.setdefault(link.a + link.b - vertex, []).append(vertex)
    place = _Place(machine, children)
    sockets = list(machine.sockets)
    for socket in sockets:
        place.socket(socket)
    return place.finish(hangs_by)


def _tree(machine: Machine) -> dict[int, Link]:
    """For each socket, switch and GPU the link to the part that it hangs on."""
    outer = {SOCKET: (MACHINE,), SWITCH: (SOCKET, SWITCH), GPU: (SWITCH, SOCKET)}
    found: dict[int, Link] = {}
    for link in machine.links:
        for below, above in ((link.b, link.a), (link.a, link.b)):
            kinds = machine.vertices[below].kind, machine.vertices[above].kind
            if kinds[1] in outer.get(kinds[0], ()) and (kinds != (SWITCH, SWITCH) or above < below):
                found.setdefault(below, link)
    return found


class _Place:
    """Goes from socket to socket, from left to right."""

    def __init__(self, machine: Machine, children: dict[int, list[int]]) -> None:
        self.machine = machine
        self.children = children
        self.boxes: dict[int, Box] = {}
        self.gpu_x: dict[int, float] = {}
        self.x = float(PAD)
        self.top = TOP + BAR + EDGE
        self.levels = max((self._height(socket) for socket in machine.sockets), default=0)
        self.gpu_y = self.top + HEAD + EDGE + self.levels * (BAR + EDGE)

    def socket(self, socket: int) -> None:
        start = self.x
        self.x += PAD
        for child in self.children.get(socket, []):
            self._part(child, 0)
        width = max(self.x + PAD - start, WIDE_SOCKET if self.machine.cores else LEAST_SOCKET)
        slack = width - (self.x + PAD - start)
        if slack:
            self._move(socket, slack / 2)
        has_gpus = bool(self.machine.gpus)
        height = (self.gpu_y + GPU_SIDE + PAD if has_gpus else self.top + HEAD) - self.top
        self.boxes[socket] = Box(start, self.top, width, height, 1)
        self.x = start + width + GAP

    def finish(self, hangs_by: dict[int, Link]) -> Layout:
        machine = self.machine
        right = self.x - GAP
        for vertex, (kind, _) in enumerate(machine.vertices):
            if kind == MACHINE:
                self.boxes[vertex] = Box(PAD, TOP, right - PAD, BAR, 0)
        bottom = max(box.y + box.height for box in self.boxes.values())
        direct = tuple(
            link for link in machine.links
            if {machine.vertices[link.a].kind, machine.vertices[link.b].kind} in ({GPU}, {GPU, NVSWITCH})
        )  # fmt: skip
        y = bottom + EDGE
        for vertex, (kind, _) in enumerate(machine.vertices):
            if kind == NVSWITCH:
                ends = [link.a + link.b - vertex for link in direct if vertex in (link.a, link.b)]
                left, last = min(self.gpu_x[one] for one in ends), max(self.gpu_x[one] for one in ends)
                self.boxes[vertex] = Box(left - 20, y, last - left + 40, BAR, 9)
                y += BAR + EDGE / 2
        layout = Layout(self.boxes, self.gpu_x, self.gpu_y, hangs_by, direct, right + PAD, 0)
        curves = [layout.depth(link) for link in direct if link.a in self.gpu_x and link.b in self.gpu_x]
        lowest = max(bottom, max((box.y + box.height for box in self.boxes.values()), default=0))
        if curves:
            lowest = max(lowest, self.gpu_y + GPU_SIDE + max(curves) + 8)
        return Layout(self.boxes, self.gpu_x, self.gpu_y, hangs_by, direct, right + PAD, lowest + 16)

    def _part(self, vertex: int, depth: int) -> None:
        if self.machine.vertices[vertex].kind == GPU:
            self.gpu_x[vertex] = self.x + CELL / 2
            self.x += CELL
            return
        start = self.x
        for child in self.children.get(vertex, []):
            self._part(child, depth + 1)
        self.x = max(self.x, start + CELL)
        y = self.top + HEAD + EDGE + depth * (BAR + EDGE)
        self.boxes[vertex] = Box(start + 3, y, self.x - start - 6, BAR, depth + 2)

    def _height(self, vertex: int) -> int:
        """How many levels of switches are below a part."""
        switches = [one for one in self.children.get(vertex, []) if self.machine.vertices[one].kind == SWITCH]
        return max((1 + self._height(one) for one in switches), default=0)

    def _move(self, vertex: int, by: float) -> None:
        for child in self.children.get(vertex, []):
            if child in self.gpu_x:
                self.gpu_x[child] += by
            else:
                self.boxes[child] = self.boxes[child]._replace(x=self.boxes[child].x + by)
                self._move(child, by)
