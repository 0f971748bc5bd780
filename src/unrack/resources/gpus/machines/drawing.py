"""A picture of a machine, as SVG: sockets, switches in them, GPUs, links with their weights, and what is held.

A tree from the top down, GPUs in one row, direct links below them.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import NamedTuple

from unrack.resources.gpus.machines.machine import (
    GPU,
    MACHINE,
    NVLINK,
    NVSWITCH,
    SOCKET,
    SWITCH,
    Link,
    Machine,
    shown,
    text_of,
)
from unrack.resources.use import COLOURS

STYLE = """
.ground{fill:#fff}.socket{fill:#f4f5f7;stroke:#8a8f98}.switch{fill:#dfe3e8;stroke:#8a8f98}.gpu{fill:#fff;stroke:#444}
.nvswitch{fill:#d7ecd9;stroke:#2e7d32}text{fill:#1c1c1c}.quiet{fill:#5a5f66}.on{fill:#fff}.dark{fill:#1c1c1c}
.pcie,.bus{stroke:#8a8f98;fill:none}.nvlink{stroke:#2e7d32;fill:none}.of-nvlink{fill:#2e7d32}.slice{stroke:#999}
.weight{stroke:#fff;stroke-width:3px;paint-order:stroke}.weight.in{stroke:#f4f5f7}
"""
DARK = """
.ground{fill:#15181c}.socket{fill:#20252b;stroke:#7d858f}.switch{fill:#323a43;stroke:#7d858f}
.gpu{fill:#15181c;stroke:#c8ccd2}.nvswitch{fill:#1f3a23;stroke:#7cc781}text{fill:#eceff2}.quiet{fill:#a5adb7}
.on{fill:#fff}.dark{fill:#1c1c1c}.nvlink{stroke:#7cc781}.of-nvlink{fill:#7cc781}
.weight{stroke:#15181c}.weight.in{stroke:#20252b}
"""
CELL = 58
"""From one GPU to the next."""
GAP, PAD, EDGE = 18, 12, 24
"""Between sockets; inside them; the length of a link of the tree."""
TOP, BAR, HEAD = 40, 20, 26
LEAST_SOCKET, WIDE_SOCKET = 110, 220
"""Without words about its CPUs, and with them."""
GPU_SIDE = 40
_ON_LIGHT = ("#ccbb44", "#66ccee", "#ee8866", "#ee6677")


def draw(machine: Machine, held: Mapping[int, str] | None = None) -> str:
    """The machine as SVG, for light and dark pages.

    Parameters
    ----------
    machine
        What to draw.
    held
        GPU by number → the job that holds it; GPUs of a job have a colour of their own, named below the picture.

    Examples
    --------
    >>> from unrack.resources.gpus.machines.machine import preset
    >>> draw(preset("minsky")).startswith("<svg ")
    True
    """
    held = held or {}
    layout = Layout(machine)
    parts = [
        *_boxes(machine, layout),
        *_tree(machine, layout),
        *_direct(machine, layout),
        *_gpus(machine, layout, held),
    ]
    below = _legend(machine, layout, held)
    height = layout.height + 18 * len(below) + 8
    title = _title(machine)
    width = max(layout.width, 20 + 8.2 * len(title), *(38 + 6.6 * len(words) for words, _ in below))
    for line, (words, colour) in enumerate(below):
        y = layout.height + 18 * line + 8
        shift = 0
        if colour:
            parts.append(f'<rect x="12" y="{y - 10}" width="12" height="12" rx="2" fill="{colour}"/>')
            shift = 18
        parts.append(f'<text x="{12 + shift}" y="{y}" class="quiet">{escape(words)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}@media (prefers-color-scheme:dark){{{DARK}}}</style>\n"
        f'<rect width="{width:.0f}" height="{height:.0f}" class="ground"/>\n'
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _title(machine: Machine) -> str:
    model = f" {machine.model}" if machine.model else ""
    one = len(machine.gpus) == 1
    slices = f"{'' if one else ', each'} in {machine.slices} slices" if machine.slices else ""
    return f"{machine.name}: {len(machine.gpus) or 'no'}{model} GPU{'' if one else 's'}{slices}"


def _boxes(machine: Machine, layout: Layout) -> list[str]:
    """The machine's bar, sockets as boxes, and switches as bars."""
    found = []
    for vertex, box in sorted(layout.boxes.items(), key=lambda item: item[1].depth):
        kind, name = machine.vertices[vertex]
        if kind == SOCKET:
            cores = machine.cores[machine.sockets.index(vertex)] if machine.cores else ()
            words = name + (f" · CPU {_short(text_of(cores), 16)}" if cores else "")
            label = (
                f'<path d="M{box.x:.1f} {box.y + HEAD}h{box.width:.1f}" class="pcie"/>'
                f'<text x="{box.x + 10:.1f}" y="{box.y + 17}">{escape(words)}</text>'
            )
        else:
            words = "machine" if kind == MACHINE else name
            label = (
                f'<text x="{box.x + box.width / 2:.1f}" y="{box.y + box.height / 2 + 4}" text-anchor="middle" '
                f'font-size="11">{escape(words)}</text>'
            )
        shape = {SOCKET: "socket", NVSWITCH: "nvswitch"}.get(kind, "switch")
        found.append(
            f'<rect x="{box.x:.1f}" y="{box.y}" width="{box.width:.1f}" height="{box.height}" rx="5" class="{shape}"/>'
            + label
        )
    return found


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _tree(machine: Machine, layout: Layout) -> list[str]:
    """The links of the tree, from a part down to what hangs on it, with their weights."""
    found = []
    for vertex, place in machine.hangs_by.items():
        link = machine.links[place]
        x, top, bottom = layout.edge(vertex)
        inside = " in" if machine.vertices[vertex].kind != SOCKET else ""
        at = f'x="{x + 4:.1f}" y="{(top + bottom) / 2 + 3.5}" font-size="10" class="quiet weight{inside}"'
        found.append(f'<path d="M{x:.1f} {top}V{bottom}" class="{link.kind}"/><text {at}>{link.weight}</text>')
    return found


def _direct(machine: Machine, layout: Layout) -> list[str]:
    """Links between GPUs as curves below them; those to an NVSwitch as lines down to its bar."""
    found, labels = [], []
    several = len({link.weight for link in layout.direct}) > 1
    widths = {link.width for link in layout.direct}
    for link in layout.direct:
        ends = sorted((link.a, link.b), key=lambda one: layout.gpu_x.get(one, 0.0))
        switch = next((one for one in ends if machine.vertices[one].kind == NVSWITCH), None)
        if switch is not None:
            gpu = next(one for one in ends if one != switch)
            x = layout.gpu_x[gpu]
            found.append(f'<path d="M{x:.1f} {layout.gpu_y + GPU_SIDE}V{layout.boxes[switch].y}" class="nvlink"/>')
            at = (x + 4, (layout.gpu_y + GPU_SIDE + layout.boxes[switch].y) / 2 + 12)
        else:
            a, b = (layout.gpu_x[end] for end in ends)
            depth = layout.depth(link)
            y = layout.gpu_y + GPU_SIDE
            a, b = a + layout.shift(*ends), b + layout.shift(*reversed(ends))
            thick = f'stroke-width="{3 * link.width / max(widths):.1f}" ' if link.width and len(widths) > 1 else ""
            found.append(
                f'<path d="M{a:.1f} {y}C{a:.1f} {y + depth * 4 / 3:.1f} {b:.1f} {y + depth * 4 / 3:.1f} {b:.1f} {y}" '
                f'{thick}class="{link.kind}"/>'
            )
            at = ((a + b) / 2, y + depth - 3)
        if several:
            anchor = "middle" if switch is None else "start"
            place = f'x="{at[0]:.1f}" y="{at[1]:.1f}" font-size="10" text-anchor="{anchor}" class="of-nvlink weight"'
            labels.append(f"<text {place}>{link.weight}</text>")
    return found + labels


def _gpus(machine: Machine, layout: Layout, held: Mapping[int, str]) -> list[str]:
    colour = _colours(held)
    found = []
    half = GPU_SIDE / 2
    for number, vertex in enumerate(machine.gpus):
        x, y = layout.gpu_x[vertex] - half, layout.gpu_y
        fill = f' style="fill:{colour[held[number]]}"' if number in held else ""
        words = f"GPU {number}" + (f": {held[number]}" if number in held else "")
        parts = [
            f"<title>{escape(words)}</title>",
            f'<rect x="{x:.1f}" y="{y}" width="{GPU_SIDE}" height="{GPU_SIDE}" rx="4" class="gpu"{fill}/>',
        ]
        for i in range(1, machine.slices):
            at = x + GPU_SIDE * i / machine.slices
            parts.append(f'<path d="M{at:.1f} {y + GPU_SIDE - 9}v9" class="slice"/>')
        ink = "" if number not in held else ' class="dark"' if colour[held[number]] in _ON_LIGHT else ' class="on"'
        lift = 2 if machine.slices else 5
        parts.append(
            f'<text x="{x + half:.1f}" y="{y + half + lift}" text-anchor="middle" font-size="14"{ink}>{number}</text>'
        )
        found.append("<g>" + "".join(parts) + "</g>")
    return found


def _colours(held: Mapping[int, str]) -> dict[str, str]:
    jobs = list(dict.fromkeys(held[gpu] for gpu in sorted(held)))
    return {job: COLOURS[i % len(COLOURS)] for i, job in enumerate(jobs)}


def _legend(machine: Machine, layout: Layout, held: Mapping[int, str]) -> list[tuple[str, str]]:
    """Lines below the picture: words, and a colour or ``""``."""
    lines = []
    direct = [link for link in machine.links if link.kind == NVLINK]
    if direct:
        weights, costs = {link.weight for link in direct}, sorted({machine.cost(link) for link in direct})
        shape = "lines to the NVSwitch" if any(v.kind == NVSWITCH for v in machine.vertices) else "curves"
        of = f"weight {direct[0].weight} each" if len(weights) == 1 else "weights beside them"
        if len(weights) == 1 < len(costs):
            of = f"as thick as wide: from the widest, weight {' or '.join(map(shown, costs))}"
        lines.append((f"green {shape}: NVLink, {of}", ""))
    lines += [(words, "") for words in _in_words(machine, layout)]
    gpus: dict[str, list[int]] = {}
    for gpu in sorted(held):
        gpus.setdefault(held[gpu], []).append(gpu)
    return lines + [
        (f"{_short(job, 60)}: GPU {', '.join(map(str, gpus[job]))}", colour) for job, colour in _colours(held).items()
    ]


def _in_words(machine: Machine, layout: Layout) -> list[str]:
    """Links that are not drawn, such as those from socket to socket: those of one weight together."""
    drawn = {*(machine.links[place] for place in machine.hangs_by.values()), *layout.direct}
    by_weight: dict[int, list[str]] = {}
    for link in machine.links:
        if link not in drawn:
            names = [machine.vertices[end].name for end in (link.a, link.b)]
            by_weight.setdefault(link.weight, []).append("–".join(names))
    return [
        f"{', '.join(pairs[start : start + 8])}: weight {weight}"
        for weight, pairs in sorted(by_weight.items())
        for start in range(0, len(pairs), 8)
    ]


class Box(NamedTuple):
    """A rectangle, and how deep in the tree its part is."""

    x: float
    y: float
    width: float
    height: float
    depth: int


class Layout:
    """Places of all parts of a machine in a picture.

    Attributes
    ----------
    boxes
        Vertex → rectangle, of the machine, sockets, switches and NVSwitches.
    gpu_x, gpu_y
        Vertex of a GPU → its middle; the top of all.
    direct
        Links between GPUs, and from GPUs to NVSwitches.
    width, height
        Of all.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.children: dict[int, list[int]] = {}
        for vertex in sorted(machine.hangs_by, key=lambda one: (machine.vertices[one].kind == GPU, one)):
            self.children.setdefault(machine.above(vertex), []).append(vertex)
        self.boxes: dict[int, Box] = {}
        self.gpu_x: dict[int, float] = {}
        self.x = float(PAD)
        self.top = TOP + BAR + EDGE
        levels = max((self._height(socket) for socket in machine.sockets), default=0)
        self.gpu_y = self.top + HEAD + EDGE + levels * (BAR + EDGE)
        for socket in machine.sockets:
            self._socket(socket)
        right = self.x - GAP
        self.boxes |= {vertex: Box(PAD, TOP, right - PAD, BAR, 0) for vertex in self._of(MACHINE)}
        bottom = max(box.y + box.height for box in self.boxes.values())
        self.direct = tuple(
            link for link in machine.links
            if {machine.vertices[link.a].kind, machine.vertices[link.b].kind} in ({GPU}, {GPU, NVSWITCH})
        )  # fmt: skip
        y: float = bottom + EDGE
        for vertex in self._of(NVSWITCH):
            ends = [self.gpu_x[link.a + link.b - vertex] for link in self.direct if vertex in (link.a, link.b)]
            self.boxes[vertex] = Box(min(ends) - 20, y, max(ends) - min(ends) + 40, BAR, 9)
            y += BAR + EDGE / 2
        curves = [self.depth(link) for link in self.direct if link.a in self.gpu_x and link.b in self.gpu_x]
        lowest = max(bottom, *(box.y + box.height for box in self.boxes.values()))
        self.width = right + PAD
        self.height = max(lowest, self.gpu_y + GPU_SIDE + max(curves) + 8 if curves else 0) + 16

    def edge(self, vertex: int) -> tuple[float, float, float]:
        """The vertical line from a part's parent to it: x, top, bottom."""
        parent = self.machine.above(vertex)
        above = self.boxes[parent]
        top = above.y + (HEAD if self.machine.vertices[parent].kind == SOCKET else above.height)
        if vertex in self.gpu_x:
            return self.gpu_x[vertex], top, self.gpu_y
        own = self.boxes[vertex]
        return own.x + own.width / 2, top, own.y

    def depth(self, link: Link) -> float:
        """How far below the GPUs the curve of a direct link goes: further, the more GPUs are between its ends."""
        return 12 + 15 * round(abs(self.gpu_x[link.a] - self.gpu_x[link.b]) / CELL)

    def shift(self, gpu: int, other: int) -> float:
        """How far from the middle of a GPU its curve to another one is, so that those of one GPU do not touch."""
        others = sorted(
            (one for a, b, *_ in self.direct for one in (a, b)
             if gpu in (a, b) and one != gpu and one in self.gpu_x),
            key=lambda one: ((self.gpu_x[one] > self.gpu_x[gpu]), -self.gpu_x[one]),
        )  # fmt: skip
        step = min(9.0, (GPU_SIDE - 8) / max(1, len(others) - 1))
        return (others.index(other) - (len(others) - 1) / 2) * step

    def _of(self, kind: str) -> list[int]:
        return [number for number, vertex in enumerate(self.machine.vertices) if vertex.kind == kind]

    def _socket(self, socket: int) -> None:
        start = self.x
        self.x += PAD
        for child in self.children.get(socket, []):
            self._part(child, 0)
        width = max(self.x + PAD - start, WIDE_SOCKET if self.machine.cores else LEAST_SOCKET)
        self._move(socket, (width - (self.x + PAD - start)) / 2)
        height = (self.gpu_y + GPU_SIDE + PAD if self.machine.gpus else self.top + HEAD) - self.top
        self.boxes[socket] = Box(start, self.top, width, height, 1)
        self.x = start + width + GAP

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
