"""``unrack slurm unit`` and ``unrack slurm submit-script``: what a site installs beside the driver."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

SiteFile = Annotated[Path, typer.Option("--config", metavar="SITE.toml", help="The site file.")]


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
