"""``unrack topology FILE``: a machine with GPUs as a table, a picture, or a file; the presets without a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
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
        str | None, typer.Option("--cpus", metavar="FILE", help="What numactl --hardware printed, beside nvidia-smi.")
    ] = None,
    svg: Annotated[str | None, typer.Option("--svg", metavar="OUT.svg", help="Draw it.")] = None,
    toml: Annotated[str | None, typer.Option("--toml", metavar="OUT.toml", help="Write it as a file to edit.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how the GPUs of a machine are connected; without a file: list the presets."""
    from unrack.errors import InputError
    from unrack.resources.gpus.machines.presets import PRESETS

    if file is None:
        if (given := next((n for n, v in (("--cpus", cpus), ("--svg", svg), ("--toml", toml)) if v), None)) is not None:
            raise InputError(given, "no machine", "a file or a preset before it")
        from unrack.cli.listing import show

        show({name: {"summary": words} for name, (words, _) in PRESETS.items()}, as_json)
        return
    from unrack.resources.gpus.machines.drawing import draw
    from unrack.resources.gpus.machines.reading.read import read_machine
    from unrack.resources.gpus.machines.written import written_toml

    for option, out in ((".svg", svg), (".toml", toml)):
        if out is not None and not out.endswith(option):
            raise InputError(f"--{option[1:]}", repr(out), f"a file that ends in {option}")
    machine = read_machine(file, cpus)
    if svg is not None:
        _write(svg, draw(machine))
    if toml is not None:
        _write(toml, written_toml(machine, f"unrack topology {Path(file).name}"))
    if as_json:
        typer.echo(json.dumps(as_table(machine), indent=1, ensure_ascii=False))
        return
    _print(machine)
    for out in (svg, toml):
        if out is not None:
            typer.echo(out)


def as_table(machine: Machine) -> dict[str, Any]:
    """The keys of a file with the machine, and the distances between its GPUs."""
    from unrack.resources.gpus.machines.machine import whole
    from unrack.resources.gpus.machines.written import written

    return {**written(machine), "distance": [[whole(one) for one in row] for row in machine.distance.tolist()]}


def _write(out: str, text: str) -> None:
    from unrack.errors import InputError

    try:
        Path(out).expanduser().write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(out, error.strerror or str(error), "a file that can be written") from None


def _print(machine: Machine) -> None:
    from rich.console import Console

    from unrack.cli.topology_page import machine_page

    console = Console()
    for part in machine_page(machine):
        console.print(part)
