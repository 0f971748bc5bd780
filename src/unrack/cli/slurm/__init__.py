"""``unrack slurm``: a running Slurm as a study, predicted starts, and scheduling it; one file a command."""

from __future__ import annotations

import typer

from unrack.cli.live import compare, replay
from unrack.cli.slurm import predict, report, run, snapshot, status, unit

_HELP = "A running Slurm: take it as a study that begins now, predict starts, schedule its jobs."
app = typer.Typer(help=_HELP, no_args_is_help=True)

app.command("snapshot")(snapshot.snapshot)
app.command("predict")(predict.predict)
app.command("run")(run.run)
app.command("replay")(replay.replay)
app.command("status")(status.status)
app.command("unit")(unit.unit)
app.command("submit-script")(unit.submit_script)
app.command("compare")(compare.compare)
app.command("report")(report.report)
