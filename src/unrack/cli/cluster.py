"""``unrack cluster``: a description of a real system, or a published list of nodes, as a cluster file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from unrack.errors import ClusterError, InputError
from unrack.facts import counted

_HELP = "Turn a description of a real system, or a published list of nodes, into a cluster file."
app = typer.Typer(help=_HELP, no_args_is_help=True)


class Cpu(StrEnum):
    """The unit of cores."""

    WHOLE = "whole"
    MILLI = "milli"


@app.callback(help=_HELP)
def _group() -> None:
    pass


@app.command()
def convert(
    nodes: Annotated[
        str,
        typer.Argument(
            metavar="NODES",
            help="slurm.conf, scontrol show node (-o, --json), kubectl get nodes -o json, or CSV: "
            "sn,cpu_milli,memory_mib,gpu,model; also .gz.",
        ),
    ],
    out: Annotated[str, typer.Option(metavar="OUT.toml", help="The cluster file to write.")],
    cpu: Annotated[Cpu, typer.Option(help="Count whole cores, rounded down, or thousandths of a core.")] = Cpu.WHOLE,
    all_nodes: Annotated[
        bool, typer.Option("--all-nodes", help="Keep nodes that are down; of the CSV, nodes without GPUs.")
    ] = False,
    partition: Annotated[str | None, typer.Option(help="Keep the nodes of this partition of Slurm alone.")] = None,
) -> None:
    """Write nodes as a cluster file; what it cannot have is said."""
    from unrack.cluster.formats.reading import KNOWN, described, text_of

    if not out.endswith(".toml"):
        raise InputError("--out", repr(out), "a file that ends in .toml")
    text = text_of(Path(nodes), nodes)
    system = described(Path(nodes), text, nodes, milli=cpu is Cpu.MILLI)
    if system is None and text.split("\n", 1)[0].count(",") >= 2:
        _convert_list(nodes, out, cpu, all_nodes)
        return
    if system is None:
        raise ClusterError(nodes, "a file of another kind", KNOWN)
    from unrack.cluster.formats.described import cluster_text, converted
    from unrack.cluster.spec import Cluster

    made = converted(system, all_nodes=all_nodes, partition=partition)
    cluster = Cluster.from_dict(made.content, nodes)
    _write(out, cluster_text(made.content, [f"from {Path(nodes).name}", *made.notes]))
    gpus = sum(_size(entry["nodes"]) * entry["machine"]["gpus"] for entry in made.content.get("gpus", ()))
    licences = len(made.content.get("counted", ()))
    words = [counted(len(cluster), "node"), counted(cluster.total_cores, "core")] + [counted(gpus, "GPU")] * bool(gpus)
    typer.echo(f"{out}: {', '.join(words + [f'{licences} licences'] * bool(licences))}")
    for note in made.notes:
        typer.echo(f"note: {note}")


def _size(ids: str) -> int:
    first, _, last = ids.partition("-")
    return int(last or first) - int(first) + 1


def _convert_list(nodes: str, out: str, cpu: Cpu, all_nodes: bool) -> None:
    from unrack.cluster.formats.described import cluster_text
    from unrack.cluster.openb import cluster_content, openb_nodes

    runs = openb_nodes(nodes, cpu.value, gpu_nodes_only=not all_nodes)
    words = f"{Path(nodes).name}, {'thousandths of cores' if cpu is Cpu.MILLI else 'whole cores'}"
    _write(out, cluster_text(cluster_content(runs, Path(out).stem), [words]))
    total = sum(run["count"] for run in runs)
    gpus = sum(run["count"] * run["gpus"] for run in runs)
    every = total if all_nodes else sum(run["count"] for run in openb_nodes(nodes, cpu.value, gpu_nodes_only=False))
    left = f"; {counted(every - total, 'node')} without GPUs left out (--all-nodes keeps them)" if every > total else ""
    typer.echo(f"{out}: {counted(total, 'node')}, {counted(gpus, 'GPU')}{left}")


def _write(out: str, content: str) -> None:
    try:
        Path(out).expanduser().write_text(content, encoding="utf-8")
    except OSError as error:
        raise InputError(out, error.strerror or str(error), "a file that can be written") from None
