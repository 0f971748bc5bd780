"""``unrack slurm compare`` and ``unrack kubernetes compare``: what really happened beside a simulation of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

State = Annotated[Path, typer.Argument(metavar="STATE", help="The state folder of a driver, as of `unrack slurm run`.")]
SHOWN = 20


def compare(
    state: State,
    at_once: Annotated[
        bool,
        typer.Option("--at-once", help="Starts of the simulation are acknowledged at once; else as late as really."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON.")] = False,
) -> None:
    """Simulate the journal's submissions with the real run times; list which jobs started in another order, and why."""
    from unrack.live.driver.history.order import compare as compared
    from unrack.live.driver.history.past import past_of

    found = compared(past_of(state), at_once)
    if as_json:
        typer.echo(json.dumps({**found._asdict(), "different": [one._asdict() for one in found.different]}, indent=1))
        return
    typer.echo(f"{found.jobs} jobs, {found.pairs} pairs that were not started in the same turn")
    if not found.different:
        typer.echo("started in the same order as in the simulation")
    else:
        typer.echo(f"{found.differing} pairs in another order than in the simulation:")
        for cause, count in found.causes.items():
            typer.echo(f"  {count:>6}  {cause}")
        for one in found.different[:SHOWN]:
            really, there = f"{one.live_s:.1f} s before", f"{one.simulated_s:.1f} s after"
            typer.echo(f"  job {one.first} {really} {one.second}, there {there}: {one.cause}")
    typer.echo(f"on other nodes: {found.elsewhere} jobs; starts differ by {found.shift_s:.1f} s at most")
    for note in found.notes:
        typer.echo(f"note: {note}")
