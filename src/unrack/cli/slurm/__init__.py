"""``unrack slurm``: a running Slurm as a study, predicted starts, and scheduling it."""

from __future__ import annotations

import typer

from unrack.cli.live.driver import compare, replay
from unrack.cli.slurm.predict import predict
from unrack.cli.slurm.report import report
from unrack.cli.slurm.run import run
from unrack.cli.slurm.snapshot import snapshot
from unrack.cli.slurm.status import status
from unrack.cli.slurm.unit import submit_script, unit

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
