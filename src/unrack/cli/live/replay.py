"""``unrack slurm replay`` and ``unrack kubernetes replay``: the decisions of a journal again, or where they differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def replay(
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL", help="The journal's folder, or the state folder.")],
    policy: Annotated[
        str | None, typer.Option(metavar="POLICY", help="What another policy would have decided on the same events.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON.")] = False,
) -> None:
    """Play a journal again; exits with 1 if decisions differ from those in it."""
    from unrack.live.driver.service.folders import journal_of
    from unrack.live.driver.state.replay import replay as play
    from unrack.live.journal.reading import read_journal

    found = play((record.value for record in read_journal(journal_of(journal))), policy)
    if as_json:
        told = {**found._asdict(), "differences": [one._asdict() for one in found.differences]}
        typer.echo(json.dumps(told, indent=2))
    else:
        typer.echo(f"{found.decisions} decisions in {found.turns} turns of {found.epochs} epochs played again")
        if not found.differences:
            typer.echo("all the same")
        for one in found.differences[:20]:
            typer.echo(f"turn {one.turn}, {one.now_us / 1e6:.3f} s after the driver first began:")
            typer.echo(f"  then {json.dumps(one.was)[:300]}")
            typer.echo(f"  now  {json.dumps(one.now)[:300]}")
    if found.differences and policy is None:
        raise typer.Exit(1)
