"""``unrack slurm run``: schedule the jobs of some partitions, or say what would be decided."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrack.cli.live.driver import drive

if TYPE_CHECKING:
    from unrack.live.driver.service.rehearsal import Rehearsal


def run(
    config: Annotated[Path, typer.Option(metavar="SITE.toml", help="The site file: docs/slurm-site.md.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be decided now, and why the others wait; change nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: JSON.")] = False,
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
