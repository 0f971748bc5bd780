"""Commands about machines: ``unrack cluster`` and ``unrack topology``.

``cluster`` makes a cluster file of a description of a real system or of a published list of nodes, and draws up its
bill. ``topology FILE`` shows a machine with GPUs as a table, a picture or a file; without a file, the presets.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli.options import Json, facts, file_or_preset, need_ending, print_json, print_lines, print_page, write
from unrack.errors import ClusterError
from unrack.facts import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unrack.resources.gpus.machines.machine import Machine


app = typer.Typer(
    help="Turn a description of a real system, or a published list of nodes, into a cluster file.", no_args_is_help=True
)


class Cpu(StrEnum):
    """The unit of cores."""

    WHOLE = "whole"
    MILLI = "milli"


@app.command()
def convert(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...",
            help="slurm.conf, scontrol show node (-o, --json), kubectl get nodes -o json, or CSV: "
            "sn,cpu_milli,memory_mib,gpu,model; with these scontrol show partition or reservation, sacctmgr show "
            "assoc -P, sacctmgr show qos -P, sacctmgr dump; or "
            "kubectl get clusterqueues,resourceflavors,localqueues,cohorts -o json; also .gz.",
        ),
    ],
    out: Annotated[str, typer.Option("--out", "-o", metavar="OUT.toml", help="The cluster file to write.")],
    cpu: Annotated[Cpu, typer.Option(help="Count whole cores, rounded down, or thousandths of a core.")] = Cpu.WHOLE,
    all_nodes: Annotated[
        bool, typer.Option("--all-nodes", help="Keep nodes that are down; of the CSV, nodes without GPUs.")
    ] = False,
    partition: Annotated[str | None, typer.Option(help="Keep the nodes of this partition of Slurm alone.")] = None,
) -> None:
    """Write nodes, with their partitions, accounts and limits, as a cluster file; what it cannot have is said."""
    from unrack.cluster.formats.reading import KNOWN, described, text_of

    need_ending("--out", out, ".toml")
    systems = []
    for file in files:
        text = text_of(Path(file), file)
        system = described(Path(file), text, file, milli=cpu is Cpu.MILLI)
        if system is None:
            raise ClusterError(file, "a file of another kind", KNOWN)
        systems.append(system)
    from unrack.cluster.formats.described import cluster_text, converted, together
    from unrack.cluster.spec import Cluster

    made = converted(together(systems), all_nodes=all_nodes, partition=partition)
    names = ", ".join(files)
    cluster = Cluster.from_dict(made.content, names)
    write(out, cluster_text(made.content, [f"from {', '.join(Path(file).name for file in files)}", *made.notes]))
    gpus = sum(_size(entry["nodes"]) * entry["machine"]["gpus"] for entry in made.content.get("gpus", ()))
    licences = len(made.content.get("counted", ()))
    words = [counted(len(cluster), "node"), counted(cluster.total_cores, "core")] + [counted(gpus, "GPU")] * bool(gpus)
    words += [f"{licences} licences"] * bool(licences)
    for key, word in (("partitions", "partition"), ("accounts", "account")):
        if some := made.content.get("site", {}).get(key):
            words.append(counted(len(some), word))
    typer.echo(f"{out}: {', '.join(words)}")
    print_lines(f"note: {note}" for note in made.notes)


def _size(ids: str) -> int:
    first, _, last = ids.partition("-")
    return int(last or first) - int(first) + 1


@app.command()
def bill(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="A cluster file, or the name of a preset.")],
    prices: Annotated[
        str | None, typer.Option(metavar="NAME|FILE.toml", help="Other prices than the cluster's; see unrack prices.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what a cluster costs: to buy, to keep and to power, over the years that it is kept."""
    from unrack.cluster.prices.bill import bill_of
    from unrack.cluster.prices.prices import EXAMPLE, make_prices
    from unrack.plan.settings import read_prices

    made = file_or_preset(cluster)
    if prices is not None:
        made = made.priced(read_prices(prices), "--prices")
    found = bill_of(made, made.prices or make_prices(EXAMPLE))
    if as_json:
        print_json(found.record(), None)
        return
    from rich.table import Table

    money = found.prices.currency
    table = Table(title=f"{made.name}, over {found.prices.years:g} years", title_justify="left", show_footer=True)
    table.add_column("what", "in all")
    for heading in ("amount", f"to buy each, {money}", f"an hour each, {money}", "W each"):
        table.add_column(heading, justify="right")
    table.add_column(f"in all, {money}", f"{found.total:,.0f}", justify="right")
    for item in found.items:
        price = item.price
        numbers = (f"{item.amount:,.10g}", f"{price.capex:,.10g}", f"{price.per_hour:g}", f"{price.watts:g}")
        table.add_row(item.what, *numbers, f"{item.total:,.0f}")
    print_page([table])
    print_lines([f"{found.capex:,.0f} {money} to buy, {found.per_hour:,.4g} an hour, {found.watts:,.0f} W"])
    if found.unpriced:
        print_lines([f"without a price, counted as nothing: {', '.join(found.unpriced)}"])
    if found.prices.source:
        print_lines([f"prices: {found.prices.source}"])


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
