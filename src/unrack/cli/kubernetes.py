"""``unrack kubernetes``: a running Kubernetes as a study, predicted starts, and what schedules and composes for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrack.cli.live.driver import Config, State, compare, drive, longest_us, replay, show, state_of
from unrack.cli.live.prediction import Draws, From, History, OfDraws, Policies, Save, Shown, Since, tell
from unrack.cli.options import DryJson, DryRun, Json, write
from unrack.errors import InputError
from unrack.extras import needed_for
from unrack.facts import counted

if TYPE_CHECKING:
    from unrack.live.kubernetes.snapshot import Reading
    from unrack.live.prediction.forecast import Forecast

_HELP = "A running Kubernetes: take it as a study that begins now, predict starts, schedule its pods."
app = typer.Typer(help=_HELP, no_args_is_help=True)

Kubeconfig = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Default: KUBECONFIG, ~/.kube/config, or the pod that unrack is in.")
]
Context = Annotated[str | None, typer.Option(metavar="NAME", help="Which context of the kubeconfig.")]
Schedulers = Annotated[
    list[str] | None,
    typer.Option("--scheduler", metavar="NAME", help="Only the waiting pods of this scheduler; repeatable."),
]
Unlimited = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="How long a pod without activeDeadlineSeconds or unrack.io/run-time is taken to run: '7 d'.",
    ),
]
Timeout = Annotated[float, typer.Option(metavar="S", min=0.1, max=600, help="How long an answer may take.")]


def read_server(kubeconfig: Path | None, context: str | None, timeout_s: float) -> Reading:
    """All nodes and pods of the server."""
    with needed_for("a running Kubernetes"):
        from unrack.live.kubernetes.client.access import access_here
        from unrack.live.kubernetes.snapshot import reading_of

    return reading_of(access_here(kubeconfig, context), timeout_s)


@app.command()
def snapshot(
    out: Annotated[Path, typer.Option(metavar="NOW.toml", help="The study file to write; its pods go beside it.")],
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler: Schedulers = None,
    unlimited: Unlimited = "7 d",
    timeout: Timeout = 30.0,
) -> None:
    """Write the nodes and the pods of a running Kubernetes as a study; it only reads."""
    if out.suffix != ".toml":
        raise InputError("--out", repr(str(out)), "a file that ends in .toml")
    longest, reading = longest_us(unlimited), read_server(kubeconfig, context, timeout)
    from unrack.live.kubernetes.manifest import written
    from unrack.live.kubernetes.snapshot import snapshot_of

    taken = snapshot_of(reading, schedulers=scheduler, longest_us=longest)
    pods, objects = taken.write(out), out.with_suffix(".objects.json")
    write(objects, written(reading))
    runs, aside = int(taken.table["on"].is_not_null().sum()), int(taken.table["submit"].null_count())
    typer.echo(f"{out}: {counted(len(taken.cluster), 'node')}")
    typer.echo(f"{pods}: {runs} pods run, {len(taken.table) - runs - aside} wait, {aside} wait for something else")
    for note in taken.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"next: unrack run {out}, unrack kubernetes predict --from {out}, or unrack what-if {objects} POD.yaml")


@app.command()
def predict(
    policy: Policies = None,
    from_: From = None,
    history: History = None,
    save: Save = None,
    since: Since = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler: Schedulers = None,
    draws: Draws = 50,
    seed: OfDraws = 0,
    jobs: Shown = 40,
    unlimited: Unlimited = "7 d",
    timeout: Timeout = 30.0,
    as_json: Json = False,
) -> None:
    """Tell when each waiting pod will start, with a range where a history is given; it only reads."""
    if from_ is not None and (kubeconfig or context or scheduler):
        raise InputError(
            "--from", "--kubeconfig, --context or --scheduler, too", "a snapshot that was taken with these"
        )
    longest = longest_us(unlimited)

    def made() -> Forecast:
        if from_ is not None:
            from unrack.live.prediction.forecast import forecast_from

            return forecast_from(from_, policy or [], history, draws=draws, seed=seed)
        reading = read_server(kubeconfig, context, timeout)
        from unrack.live.kubernetes.forecast import forecast_of

        return forecast_of(
            reading, policy or [], history, schedulers=scheduler, longest_us=longest, draws=draws, seed=seed
        )

    tell(made, save, since, jobs, as_json)


@app.command()
def run(
    config: Annotated[Path, typer.Option(metavar="SITE.toml", help="The site file: docs/kubernetes.md.")],
    dry_run: DryRun = False,
    as_json: DryJson = False,
) -> None:
    """Schedule the pods with the schedulerName of a site file, until SIGTERM or Ctrl-C."""
    with needed_for("a running Kubernetes"):
        from unrack.live.kubernetes.service import rehearse, serve
        from unrack.live.kubernetes.site import KubernetesSite

    site = KubernetesSite.load(config)
    drive(site, dry_run, as_json, lambda: rehearse(site), lambda: serve(site))


@app.command()
def status(config: Config = None, state: State = None, as_json: Json = False) -> None:
    """Show what a driver holds and waits for, from its journal; it may be running or not."""
    from unrack.live.kubernetes.site import KubernetesSite

    show(state_of(config, state, KubernetesSite.load), as_json)


app.command()(replay)


@app.command()
def compose(
    config: Annotated[Path, typer.Option(metavar="SITE.toml", help="The site file: docs/kubernetes-composer.md.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print as JSON what would be published, attached and detached now.")
    ] = False,
) -> None:
    """Publish the pools of a cluster file, and attach what claims are given, until SIGTERM or Ctrl-C."""
    with needed_for("a running Kubernetes"):
        from unrack.live.kubernetes.composer.service import rehearse, serve
        from unrack.live.kubernetes.composer.site import ComposerSite
    from unrack.live.watch.log import start_log

    site = ComposerSite.load(config)
    start_log(site.log.level, site.log.form)
    if dry_run:
        typer.echo(json.dumps(rehearse(site), indent=2))
    else:
        serve(site)


@app.command()
def extend(
    config: Annotated[Path, typer.Option(metavar="SITE.toml", help="The site file: docs/kubernetes-extender.md.")],
) -> None:
    """Answer the filter, prioritize and bind verbs of kube-scheduler, until SIGTERM or Ctrl-C."""
    with needed_for("a running Kubernetes"):
        from unrack.live.kubernetes.extender.service import serve
        from unrack.live.kubernetes.extender.site import ExtenderSite
    from unrack.live.watch.log import start_log

    site = ExtenderSite.load(config)
    start_log(site.log.level, site.log.form)
    serve(site)


app.command()(compare)
