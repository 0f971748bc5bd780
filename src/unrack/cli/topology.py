"""``unrack topology FILE``: a machine with GPUs as a table, a picture, or a file; the presets without a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli.options import Json, facts, need_ending, print_json, print_lines, print_page, write

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unrack.resources.gpus.machines.machine import Machine


def topology(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|PRESET",
            help="What nvidia-smi topo -m, lstopo --of xml or numactl --hardware printed; a TOML file; or a preset.",
            show_default=False,
        ),
    ] = None,
    cpus: Annotated[
        str | None, typer.Option(metavar="FILE", help="What numactl --hardware printed, beside nvidia-smi.")
    ] = None,
    svg: Annotated[str | None, typer.Option(metavar="OUT.svg", help="Draw it.")] = None,
    toml: Annotated[str | None, typer.Option(metavar="OUT.toml", help="Write it as a file to edit.")] = None,
    as_json: Json = False,
) -> None:
    """Show how the GPUs of a machine are connected; without a file: list the presets."""
    from unrack.errors import InputError
    from unrack.resources.gpus.machines.machine import PRESETS

    if file is None:
        if (given := next((n for n, v in (("--cpus", cpus), ("--svg", svg), ("--toml", toml)) if v), None)) is not None:
            raise InputError(given, "no machine", "a file or a preset before it")
        from unrack.cli.listing import show

        show({name: {"summary": words} for name, (words, _) in PRESETS.items()}, as_json)
        return
    from unrack.resources.gpus.machines.drawing import draw
    from unrack.resources.gpus.machines.reading.read import read_machine
    from unrack.resources.gpus.machines.written import written_toml

    need_ending("--svg", svg, ".svg")
    need_ending("--toml", toml, ".toml")
    machine = read_machine(file, cpus)
    if svg is not None:
        write(svg, draw(machine))
    if toml is not None:
        write(toml, written_toml(machine, f"unrack topology {Path(file).name}"))
    if as_json:
        print_json(as_table(machine))
        return
    print_page(machine_page(machine))
    print_lines(filter(None, (svg, toml)))


def as_table(machine: Machine) -> dict[str, Any]:
    """The keys of a file with the machine, and the distances between its GPUs."""
    from unrack.resources.gpus.machines.machine import whole
    from unrack.resources.gpus.machines.written import written

    return {**written(machine), "distance": [[whole(one) for one in row] for row in machine.distance.tolist()]}


def machine_page(machine: Machine) -> Iterator[RenderableType]:
    """The parts of the page: what there is, where each GPU hangs, and how far apart they are."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    from unrack.resources.gpus.machines.machine import NVLINK, NVSWITCH, text_of

    direct = [link.width for link in machine.links if link.kind == NVLINK]
    widths = [f"{direct.count(width)} of width {width:g}" for width in sorted({*direct})]
    switches = sum(vertex.kind == NVSWITCH for vertex in machine.vertices)
    links = f"all {len(machine.gpus)} by NVSwitch" if switches else f"{len(direct)}" if direct else "none"
    yield Text(machine.name, style="bold")
    table = facts()
    slices = f", each in {machine.slices} slices" if machine.slices else ""
    table.add_row("GPUs", f"{len(machine.gpus)}{f' × {escape(machine.model)}' if machine.model else ''}{slices}")
    table.add_row("NVLinks", f"{links}: {', '.join(widths)}" if len(widths) > 1 else links)
    yield table
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
    groups: dict[int, list[int]] = {}
    for gpu in range(len(machine.gpus)):
        if machine.socket[gpu] == socket:
            groups.setdefault(int(machine.switch[gpu]), []).append(gpu)
    texts = [" ".join(map(str, gpus)) for gpus in groups.values()]
    return texts[0] if len(texts) == 1 else " ".join(f"({text})" for text in texts) or "none"
