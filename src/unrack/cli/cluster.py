"""``unrack cluster``: a description of a real system, or a published list of nodes, as a cluster file; and its bill."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from unrack.cli.options import Json, need_ending, print_json, print_page, write
from unrack.errors import ClusterError
from unrack.facts import counted

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
    for note in made.notes:
        typer.echo(f"note: {note}")


def _size(ids: str) -> int:
    first, _, last = ids.partition("-")
    return int(last or first) - int(first) + 1


@app.command()
def bill(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="A cluster file, or the name of a preset.")],
    prices: Annotated[
        str | None, typer.Option(metavar="NAME|FILE.toml", help="In place of the cluster's own; see unrack prices.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what a cluster costs: to buy, to keep and to power, over the years that it is kept."""
    from unrack.cluster.presets import PRESETS
    from unrack.cluster.prices.bill import bill_of
    from unrack.cluster.prices.prices import EXAMPLE, make_prices
    from unrack.cluster.spec import Cluster
    from unrack.plan.settings import read_prices

    made = Cluster.preset(cluster) if cluster in PRESETS and not Path(cluster).exists() else Cluster.load(cluster)
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
    typer.echo(f"{found.capex:,.0f} {money} to buy, {found.per_hour:,.4g} an hour, {found.watts:,.0f} W")
    if found.unpriced:
        typer.echo(f"without a price, counted as nothing: {', '.join(found.unpriced)}")
    if found.prices.source:
        typer.echo(f"prices: {found.prices.source}")
