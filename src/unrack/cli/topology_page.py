"""What ``unrack topology`` shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from unrack.resources.gpus.machines.machine import Machine


def machine_page(machine: Machine) -> Iterator[RenderableType]:
    """The parts of the page: what there is, where each GPU hangs, and how far apart they are."""
    from unrack.resources.gpus.machines.cpu_list import text_of
    from unrack.resources.gpus.machines.machine import NVLINK, NVSWITCH

    direct = [link.width for link in machine.links if link.kind == NVLINK]
    widths = [f"{direct.count(width)} of width {width:g}" for width in sorted({*direct})]
    switches = sum(vertex.kind == NVSWITCH for vertex in machine.vertices)
    links = f"all {len(machine.gpus)} by NVSwitch" if switches else f"{len(direct)}" if direct else "none"
    yield Text(machine.name, style="bold")
    facts = Table(show_header=False, box=None)
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    slices = f", each in {machine.slices} slices" if machine.slices else ""
    facts.add_row("GPUs", f"{len(machine.gpus)}{f' × {escape(machine.model)}' if machine.model else ''}{slices}")
    facts.add_row("NVLinks", f"{links}: {', '.join(widths)}" if len(widths) > 1 else links)
    yield facts
    parts = Table(box=SIMPLE_HEAD)
    for name in ("socket", "GPUs, by switch", "CPUs"):
        parts.add_column(name, overflow="fold")
    for place, socket in enumerate(machine.sockets):
        cores = text_of(machine.cores[place]) if machine.cores else "not known"
        parts.add_row(escape(machine.vertices[socket].name), _by_switch(machine, place), cores)
    yield parts
    if len(machine.gpus) > 1:
        yield Text("distances: the least sum of weights from GPU to GPU", style="dim")
        for line in matrix(machine):
            yield Text(line, no_wrap=True, overflow="ignore")


def matrix(machine: Machine) -> list[str]:
    """The distances as lines of numbers, GPUs along both sides."""
    from unrack.resources.gpus.machines.machine import shown

    cells = [["", *(f"GPU{gpu}" for gpu in range(len(machine.gpus)))]]
    cells += [[f"GPU{gpu}", *map(shown, row)] for gpu, row in enumerate(machine.distance.tolist())]
    width = max(len(cell) for row in cells for cell in row)
    return ["  ".join(cell.rjust(width) for cell in row) for row in cells]


def _by_switch(machine: Machine, socket: int) -> str:
    """The GPUs of a socket, those of one switch between brackets where there are several."""
    groups: dict[int, list[int]] = {}
    for gpu in range(len(machine.gpus)):
        if machine.socket[gpu] == socket:
            groups.setdefault(int(machine.switch[gpu]), []).append(gpu)
    texts = [" ".join(map(str, gpus)) for gpus in groups.values()]
    return texts[0] if len(texts) == 1 else " ".join(f"({text})" for text in texts) or "none"
