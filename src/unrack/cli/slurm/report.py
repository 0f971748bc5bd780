"""``unrack slurm report``: what really happened and simulations of it, as one study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unrack.cli.live.driver import Told


def report(
    state: Told,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the study and its page are written.")],
    policy: Annotated[
        list[str] | None, typer.Option(metavar="POLICY", help="Simulate another one, too; repeatable.")
    ] = None,
) -> None:
    """Write one report of what really happened and of simulations of the same submissions, side by side."""
    from unrack.live.driver.history.past import past_of
    from unrack.live.driver.history.starts import starts_frame
    from unrack.live.driver.history.study import keep_past
    from unrack.report.page import write_report
    from unrack.slurm_text.hostlists import compress

    past = past_of(state)
    keep_past(past, out, policy or [])
    starts_frame(past.told, "slurm", compress).write_csv(out / "starts.csv")
    typer.echo(write_report(out))
