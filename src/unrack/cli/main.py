"""The command ``unrack``: commands are loaded when they are called, so that ``--help`` answers at once."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from unrack.cli import cluster, execute, init, kubernetes, listing, profile, site, slurm
from unrack.cli.listing import plugins
from unrack.cli.study import plan, run
from unrack.cli.study.finished import explain, holdings, report
from unrack.cli.trace import trace, usage
from unrack.cli.what_if import what_if
from unrack.errors import InputError, UnrackError
from unrack.plugins.table import ELSEWHERE, PAPERS, Table

OF_A_NAME = (errno.ENAMETOOLONG, errno.ELOOP)
OF_THE_SYSTEM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG, *OF_A_NAME)
"""What a disk or its owner refuses: not a bug, so one line and no traceback."""

CLOSED_PIPE = 141
"""128 and the number of the signal SIGPIPE."""

ANYTHING = ("allow_extra_args", "ignore_unknown_options")
"""Of what stands in place of a command that is not installed."""

app = typer.Typer(
    name="unrack",
    help="Scheduling for disaggregated data centres: simulate workloads on clusters under policies, and compare.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _debug(wanted: bool) -> None:
    if wanted:
        os.environ["UNRACK_DEBUG"] = "1"  # worker processes have it too


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"unrack {version('unrack')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE.py",
            help="A file that adds readers, metrics, resources and so on, or the name of an installed metric, "
            "section or slowdown that is to take part; repeatable.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Print whole tracebacks, also those of policies.", callback=_debug)
    ] = False,
) -> None:
    """Scheduling for disaggregated data centres: simulate workloads on clusters under policies, and compare."""
    if plugin:
        from unrack.plugins.table import using

        context.with_resource(using(plugin))


COMMANDS: Table[Callable[..., Any]] = Table("commands", {}, lambda name, found: found)
"""What other distributions add, by name; ``GROUP.NAME`` is a command of a group."""


def plug(app: typer.Typer) -> None:
    """Add the commands that are installed, by name, and a hint in place of a known one that is not."""
    found = COMMANDS.added()
    groups = {"": app} | {str(group.name): group.typer_instance for group in app.registered_groups}
    own = {command.name for command in app.registered_commands} | groups.keys()

    def add(name: str, what: Callable[..., Any], **settings: Any) -> None:
        group, _, last = name.rpartition(".")
        if (home := groups.get(group)) is not None:
            home.command(last, **settings)(what)

    for name in sorted(found.keys() - own):
        try:
            add(name, COMMANDS[name])
        except InputError as error:  # other commands are to work
            add(name, _failing(error))
    for name in sorted(set(ELSEWHERE["commands"]) - found.keys()):
        missing = _failing(InputError(f"unrack {name.replace('.', ' ')}", "not installed", PAPERS))
        add(name, missing, hidden=True, context_settings=dict.fromkeys(ANYTHING, True))


def _failing(error: InputError) -> Callable[[], None]:
    def refuse() -> None:
        raise error

    return refuse


app.command("run")(run.run)
app.command("plan")(plan.plan)
app.command("report")(report)
app.command("explain")(explain)
app.command("what-if")(what_if)
app.command("holdings")(holdings)
app.command("topology")(cluster.topology)
app.command("exec", context_settings={"allow_interspersed_args": False})(execute.execute)
GROUPS = {
    "init": init, "trace": trace, "cluster": cluster, "site": site, "usage": usage, "slurm": slurm,
    "kubernetes": kubernetes, "profile": profile,
}  # fmt: skip
for name, group in GROUPS.items():
    app.add_typer(group.app, name=name)
for table in ("policies", "metrics", "presets", "prices", "models", "traces"):
    app.command(table)(getattr(listing, table))
app.command("plugins")(plugins)
plug(app)


def main() -> None:
    """Run the command; wrong input ends with one message and exit code 2, a failed run with 1, Ctrl-C with 130.

    A reader that closes the pipe (``unrack … | head``) ends it quietly with 141, as the shell says of other programs.
    """
    try:
        app(standalone_mode=True, prog_name="unrack")
    except SystemExit as ended:  # Typer makes a closed pipe a failure
        sys.exit(CLOSED_PIPE if isinstance(ended.__context__, BrokenPipeError) else ended.code)
    except UnrackError as error:
        if os.environ.get("UNRACK_DEBUG"):
            raise
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 -- the one place where errors become text
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    except OSError as error:
        if error.errno not in OF_THE_SYSTEM or os.environ.get("UNRACK_DEBUG"):
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror}", file=sys.stderr)  # noqa: T201
        sys.exit(2 if error.errno in OF_A_NAME else 1)
