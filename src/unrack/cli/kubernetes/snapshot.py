"""``unrack kubernetes snapshot``: a running Kubernetes as a study that begins now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unrack.cli.live.options import longest_us
from unrack.errors import InputError
from unrack.facts import counted


def snapshot(
    out: Annotated[Path, typer.Option(metavar="NOW.toml", help="The study file to write; its pods go beside it.")],
    kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Default: KUBECONFIG, ~/.kube/config, or the pod that this is.")
    ] = None,
    context: Annotated[str | None, typer.Option(metavar="NAME", help="Which context of the kubeconfig.")] = None,
    scheduler: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Of the pods that wait only those of this scheduler; repeatable."),
    ] = None,
    unlimited: Annotated[
        str, typer.Option(metavar="TIME", help="How long a pod without activeDeadlineSeconds is taken to run: '7 d'.")
    ] = "7 d",
    timeout: Annotated[float, typer.Option(metavar="S", min=0.1, max=600, help="How long an answer may take.")] = 30.0,
) -> None:
    """Write the nodes and the pods of a running Kubernetes as a study; it only reads."""
    import asyncio
    import time

    from unrack.extras import needed_for

    with needed_for("a running Kubernetes"):
        from unrack.live.kubernetes.client.access import access_here
        from unrack.live.kubernetes.client.connection import Connection
        from unrack.live.kubernetes.snapshot import Reading, read_now, snapshot_of

    if out.suffix != ".toml":
        raise InputError("--out", repr(str(out)), "a file that ends in .toml")
    longest, access = longest_us(unlimited), access_here(kubeconfig, context)

    async def read() -> Reading:
        async with Connection(access, timeout_s=timeout) as connection:
            return await read_now(connection, time.time())

    taken = snapshot_of(asyncio.run(read()), schedulers=scheduler, longest_us=longest)
    pods = taken.write(out)
    runs, aside = int(taken.table["on"].is_not_null().sum()), int(taken.table["submit"].null_count())
    typer.echo(f"{out}: {counted(len(taken.cluster), 'node')}")
    typer.echo(f"{pods}: {runs} pods run, {len(taken.table) - runs - aside} wait, {aside} wait for something else")
    for note in taken.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"next: unrack run {out}")
