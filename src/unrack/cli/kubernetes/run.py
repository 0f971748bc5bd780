"""``unrack kubernetes run``: schedule the pods that name it, or say what would be decided."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unrack.cli.live.driver import drive


def run(
    config: Annotated[Path, typer.Option(metavar="SITE.toml", help="The site file: docs/kubernetes.md.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be decided now, and why the others wait; change nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: JSON.")] = False,
) -> None:
    """Schedule the pods with the schedulerName of a site file, until SIGTERM or Ctrl-C."""
    from unrack.extras import needed_for

    with needed_for("a running Kubernetes"):
        from unrack.live.kubernetes.service import rehearse, serve
        from unrack.live.kubernetes.site import KubernetesSite

    site = KubernetesSite.load(config)
    drive(site, dry_run, as_json, lambda: rehearse(site), lambda: serve(site))
