"""``unrack slurm``: a running Slurm as a study, predicted starts, scheduling it, what to install, and reports."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrack.cli.live.driver import (
    Config,
    DriverState,
    State,
    Unlimited,
    compare,
    drive,
    longest_us,
    replay,
    show,
    state_of,
)
from unrack.cli.live.prediction import Draws, From, History, OfDraws, Policies, Save, Shown, Since, tell
from unrack.cli.options import DryJson, DryRun, Json
from unrack.errors import InputError
from unrack.facts import counted

if TYPE_CHECKING:
    from unrack.live.driver.service.rehearsal import Rehearsal
    from unrack.live.prediction.forecast import Forecast

_HELP = "A running Slurm: take it as a study that begins now, predict starts, schedule its jobs."
app = typer.Typer(help=_HELP, no_args_is_help=True)


SiteFile = Annotated[Path, typer.Option("--config", metavar="SITE.toml", help="The site file.")]
Partitions = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="NAME", help="Only the nodes and jobs of this partition; repeatable."),
]
HeldByAdmin = Annotated[
    bool,
    typer.Option(
        "--held-by-admin",
        help="Jobs that an administrator or a job_submit plugin holds wait in the queue, as where unrack schedules.",
    ),
]
Timeout = Annotated[float, typer.Option(metavar="S", min=0.1, max=600, help="How long a command of Slurm may take.")]


@app.command()
def snapshot(
    out: Annotated[Path, typer.Option(metavar="NOW.toml", help="The study file to write; its jobs go beside it.")],
    partition: Partitions = None,
    unlimited: Unlimited = "7 d",
    held_by_admin: HeldByAdmin = False,
    timeout: Timeout = 30.0,
) -> None:
    """Write the nodes, the jobs and the present policy of a running Slurm as a study; it only reads."""
    from unrack.live.slurm.commands.client import CommandClient
    from unrack.live.slurm.snapshot.scheduler import read_scheduler
    from unrack.live.slurm.snapshot.snapshot import snapshot_of

    if out.suffix != ".toml":
        raise InputError("--out", repr(str(out)), "a file that ends in .toml")
    longest = longest_us(unlimited)
    reading = CommandClient(timeout).read()
    taken = snapshot_of(
        reading, read_scheduler(timeout), partitions=partition, longest_us=longest, held_by_admin=held_by_admin
    )
    jobs = taken.write(out)
    running = sum(row.runs for row in taken.rows)
    aside = sum(row.submit_s is None for row in taken.rows)
    nodes = len(taken.cluster)
    typer.echo(
        f"{out}: {counted(nodes, 'node')}, {counted(taken.cluster.total_cores, 'core')}, policy {taken.policy['label']}"
    )
    typer.echo(f"{jobs}: {running} jobs run, {len(taken.rows) - running - aside} wait, {aside} wait for something else")
    for note in taken.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"next: unrack run {out}, or unrack slurm predict --from {out}")


@app.command()
def predict(
    policy: Policies = None,
    from_: From = None,
    history: History = None,
    save: Save = None,
    since: Since = None,
    partition: Partitions = None,
    draws: Draws = 50,
    seed: OfDraws = 0,
    jobs: Shown = 40,
    unlimited: Unlimited = "7 d",
    held_by_admin: HeldByAdmin = False,
    timeout: Timeout = 30.0,
    as_json: Json = False,
) -> None:
    """Tell when each waiting job will start, with a range. Needs no rights, and changes nothing in Slurm."""
    if from_ is not None and (partition or held_by_admin):
        raise InputError("--from", "beside --partition or --held-by-admin", "a snapshot that was taken with these")
    longest = longest_us(unlimited)

    def made() -> Forecast:
        from unrack.live.prediction.forecast import forecast_from
        from unrack.live.slurm.prediction.forecast import forecast_now

        if from_ is not None:
            return forecast_from(from_, policy or [], history, draws=draws, seed=seed)
        return forecast_now(
            policy or [], history, save, partitions=partition, longest_us=longest,
            held_by_admin=held_by_admin, timeout_s=timeout, draws=draws, seed=seed,
        )  # fmt: skip

    tell(made, save, since, jobs, as_json)


@app.command()
def run(
    config: Annotated[Path, typer.Option(metavar="SITE.toml", help="The site file: docs/slurm-site.md.")],
    dry_run: DryRun = False,
    as_json: DryJson = False,
) -> None:
    """Schedule the held jobs of the partitions of a site file, until SIGTERM or Ctrl-C."""
    from unrack.live.slurm.site.site import Site

    site = Site.load(config)

    def rehearsed() -> Rehearsal:
        from unrack.live.slurm.commands.client import CommandClient
        from unrack.live.slurm.service import rehearse

        return rehearse(site, CommandClient(site.command_timeout_us / 1e6))

    def served() -> None:
        from unrack.live.slurm.service import serve

        serve(site)

    drive(site, dry_run, as_json, rehearsed, served)


app.command()(replay)


@app.command()
def status(config: Config = None, state: State = None, as_json: Json = False) -> None:
    """Show what a driver holds and waits for, from its journal; it may be running or not."""
    from unrack.live.slurm.site.site import Site

    show(state_of(config, state, Site.load), as_json)


@app.command()
def unit(
    config: SiteFile,
    user: Annotated[
        str, typer.Option(metavar="NAME", help="The account that it runs as: a Slurm operator.")
    ] = "unrack",
) -> None:
    """Print a systemd unit for `unrack slurm run`."""
    from unrack.live.slurm.site.site import Site
    from unrack.live.watch.unit import unit_text

    site = Site.load(config)
    executable = Path(shutil.which("unrack") or Path(sys.executable).parent / "unrack").absolute()
    folder = site.fabric.get("folder")
    writable = [Path(folder).absolute()] if isinstance(folder, str) else []
    typer.echo(
        unit_text(config.absolute(), Path(executable).absolute(), user, site.state.absolute(), writable), nl=False
    )


@app.command()
def submit_script(
    config: SiteFile,
    operator: Annotated[
        list[int] | None, typer.Option(metavar="UID", help="A user id that may release jobs, beside root; repeatable.")
    ] = None,
) -> None:
    """Print a job_submit.lua that holds the jobs of the site's partitions and checks what they ask."""
    from unrack.live.driver.service.folders import WAKE
    from unrack.live.slurm.asks.script import script_text
    from unrack.live.slurm.site.site import Site

    site = Site.load(config)
    wake = (site.wake or site.state / WAKE).absolute()
    text = script_text(site.partitions, None, [0, *(operator or [])], site.user_priority_most, wake)
    typer.echo(text, nl=False)


app.command()(compare)


@app.command()
def report(
    state: DriverState,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the study and its page are written.")],
    policy: Annotated[
        list[str] | None, typer.Option(metavar="POLICY", help="Also simulate this policy; repeatable.")
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
