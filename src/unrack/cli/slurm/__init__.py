"""``unrack slurm``: a running Slurm as a study, predicted starts, and scheduling it."""

from __future__ import annotations

import typer

from unrack.cli.live.driver import compare, replay
from unrack.cli.slurm.commands import predict, report, run, snapshot, status, submit_script, unit

_HELP = "A running Slurm: take it as a study that begins now, predict starts, schedule its jobs."
app = typer.Typer(help=_HELP, no_args_is_help=True)

app.command("snapshot")(snapshot)
app.command("predict")(predict)
app.command("run")(run)
app.command("replay")(replay)
app.command("status")(status)
app.command("unit")(unit)
app.command("submit-script")(submit_script)
app.command("compare")(compare)
app.command("report")(report)
