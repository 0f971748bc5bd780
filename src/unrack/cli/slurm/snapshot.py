"""``unrack slurm snapshot``: a running Slurm as a study that begins now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unrack.cli.live.driver import Unlimited, longest_us
from unrack.cli.slurm.options import HeldByAdmin, Partitions, Timeout
from unrack.errors import InputError
from unrack.facts import counted


def snapshot(
    out: Annotated[Path, typer.Option(metavar="NOW.toml", help="The study file to write; its jobs go beside it.")],
    partition: Partitions = None,
    unlimited: Unlimited = "7 d",
    held_by_admin: HeldByAdmin = False,
    timeout: Timeout = 30.0,
) -> None:
    """Write the nodes, the jobs and the present policy of a running Slurm as a study; it only reads."""
    from unrack.live.slurm.commands.client import CommandClient
    from unrack.live.slurm.snapshot.scheduler import read_scheduler
    from unrack.live.slurm.snapshot.snapshot import snapshot_of

    if out.suffix != ".toml":
        raise InputError("--out", repr(str(out)), "a file that ends in .toml")
    longest = longest_us(unlimited)
    reading = CommandClient(timeout).read()
    taken = snapshot_of(
        reading, read_scheduler(timeout), partitions=partition, longest_us=longest, held_by_admin=held_by_admin
    )
    jobs = taken.write(out)
    running = sum(row.runs for row in taken.rows)
    aside = sum(row.submit_s is None for row in taken.rows)
    nodes = len(taken.cluster)
    typer.echo(
        f"{out}: {counted(nodes, 'node')}, {counted(taken.cluster.total_cores, 'core')}, policy {taken.policy['label']}"
    )
    typer.echo(f"{jobs}: {running} jobs run, {len(taken.rows) - running - aside} wait, {aside} wait for something else")
    for note in taken.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"next: unrack run {out}, or unrack slurm predict --from {out}")
