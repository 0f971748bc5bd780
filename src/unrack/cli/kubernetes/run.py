"""``unrack kubernetes run``: schedule the pods that name it, or say what would be decided."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unrack.cli.live.driver import drive
from unrack.cli.options import DryJson, DryRun


def run(
    config: Annotated[Path, typer.Option(metavar="SITE.toml", help="The site file: docs/kubernetes.md.")],
    dry_run: DryRun = False,
    as_json: DryJson = False,
) -> None:
    """Schedule the pods with the schedulerName of a site file, until SIGTERM or Ctrl-C."""
    from unrack.extras import needed_for

    with needed_for("a running Kubernetes"):
        from unrack.live.kubernetes.service import rehearse, serve
        from unrack.live.kubernetes.site import KubernetesSite

    site = KubernetesSite.load(config)
    drive(site, dry_run, as_json, lambda: rehearse(site), lambda: serve(site))
