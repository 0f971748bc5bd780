"""``unrack profile``: measure applications on this machine for the models."""

from __future__ import annotations

import typer

from unrack.cli.profile.commands import check, clean, fit, probe, report, run, write

_HELP = "Measure applications on this machine: the curves and tables that the models read."
app = typer.Typer(help=_HELP, no_args_is_help=True)

app.command("probe")(probe)
app.command("run")(run)
app.command("fit")(fit)
app.command("write")(write)
app.command("report")(report)
app.command("check")(check)
app.command("clean")(clean)
