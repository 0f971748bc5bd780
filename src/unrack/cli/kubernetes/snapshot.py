"""``unrack kubernetes snapshot``: a running Kubernetes as a study that begins now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unrack.cli.kubernetes.options import Context, Kubeconfig, Schedulers, Timeout, Unlimited, read_server
from unrack.cli.live.driver import longest_us
from unrack.cli.options import write
from unrack.errors import InputError
from unrack.facts import counted


def snapshot(
    out: Annotated[Path, typer.Option(metavar="NOW.toml", help="The study file to write; its pods go beside it.")],
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler: Schedulers = None,
    unlimited: Unlimited = "7 d",
    timeout: Timeout = 30.0,
) -> None:
    """Write the nodes and the pods of a running Kubernetes as a study; it only reads."""
    if out.suffix != ".toml":
        raise InputError("--out", repr(str(out)), "a file that ends in .toml")
    longest, reading = longest_us(unlimited), read_server(kubeconfig, context, timeout)
    from unrack.live.kubernetes.manifest import written
    from unrack.live.kubernetes.snapshot import snapshot_of

    taken = snapshot_of(reading, schedulers=scheduler, longest_us=longest)
    pods, objects = taken.write(out), out.with_suffix(".objects.json")
    write(objects, written(reading))
    runs, aside = int(taken.table["on"].is_not_null().sum()), int(taken.table["submit"].null_count())
    typer.echo(f"{out}: {counted(len(taken.cluster), 'node')}")
    typer.echo(f"{pods}: {runs} pods run, {len(taken.table) - runs - aside} wait, {aside} wait for something else")
    for note in taken.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"next: unrack run {out}, unrack kubernetes predict --from {out}, or unrack what-if {objects} POD.yaml")
