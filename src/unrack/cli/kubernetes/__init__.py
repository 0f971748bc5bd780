"""``unrack kubernetes``: a running Kubernetes as a study, or scheduled; one file a command."""

from __future__ import annotations

import typer

from unrack.cli.kubernetes import compose, extend, predict, run, snapshot, status
from unrack.cli.live.driver import compare, replay

_HELP = "A running Kubernetes: take it as a study that begins now, predict starts, schedule its pods."
app = typer.Typer(help=_HELP, no_args_is_help=True)

app.command("snapshot")(snapshot.snapshot)
app.command("predict")(predict.predict)
app.command("run")(run.run)
app.command("status")(status.status)
app.command("replay")(replay)
app.command("compose")(compose.compose)
app.command("extend")(extend.extend)
app.command("compare")(compare)
