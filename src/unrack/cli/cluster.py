"""``unrack cluster``: a published list of nodes as a cluster file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from unrack.errors import InputError

app = typer.Typer(help="Turn a published list of nodes into a cluster file.", no_args_is_help=True)


class Cpu(StrEnum):
    """The unit of cores."""

    WHOLE = "whole"
    MILLI = "milli"


@app.callback()
def _group() -> None:
    """Turn a published list of nodes into a cluster file."""


@app.command()
def convert(
    nodes: Annotated[str, typer.Argument(metavar="NODES", help="CSV: sn,cpu_milli,memory_mib,gpu,model; also .gz.")],
    out: Annotated[str, typer.Option(metavar="OUT.toml", help="The cluster file to write.")],
    cpu: Annotated[Cpu, typer.Option(help="Count whole cores, rounded down, or thousandths of a core.")] = Cpu.WHOLE,
    all_nodes: Annotated[bool, typer.Option("--all-nodes", help="Keep nodes without GPUs, too.")] = False,
) -> None:
    """Write a list of nodes with GPUs as a cluster file; nodes without GPUs stay out unless asked for."""
    from unrack.cluster.openb_nodes import cluster_toml, openb_nodes

    if not out.endswith(".toml"):
        raise InputError("--out", repr(out), "a file that ends in .toml")
    runs = openb_nodes(nodes, cpu.value, gpu_nodes_only=not all_nodes)
    words = f"{Path(nodes).name}, {'thousandths of cores' if cpu is Cpu.MILLI else 'whole cores'}"
    content = cluster_toml(runs, Path(out).stem, words)
    try:
        Path(out).expanduser().write_text(content, encoding="utf-8")
    except OSError as error:
        raise InputError(out, error.strerror or str(error), "a file that can be written") from None
    total = sum(run["count"] for run in runs)
    gpus = sum(run["count"] * run["gpus"] for run in runs)
    every = total if all_nodes else sum(run["count"] for run in openb_nodes(nodes, cpu.value, gpu_nodes_only=False))
    left = f"; {every - total} nodes without GPUs left out (--all-nodes keeps them)" if every > total else ""
    typer.echo(f"{out}: {total} nodes, {gpus} GPUs{left}")
