"""``unrack profile``: measure applications on this machine for the models; one file a command."""

from __future__ import annotations

import typer

from unrack.cli.profile import check, clean, fit, probe, report, run, write

_HELP = "Measure applications on this machine: the curves and tables that the models read."
app = typer.Typer(help=_HELP, no_args_is_help=True)

app.command("probe")(probe.probe)
app.command("run")(run.run)
app.command("fit")(fit.fit)
app.command("write")(write.write)
app.command("report")(report.report)
app.command("check")(check.check)
app.command("clean")(clean.clean)
