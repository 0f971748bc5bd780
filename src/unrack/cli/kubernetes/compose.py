"""``unrack kubernetes compose``: devices behind a fabric are published, attached when allocated, and detached after."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compose(
    config: Annotated[Path, typer.Option(metavar="SITE.toml", help="The site file: docs/kubernetes-composer.md.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print as JSON what would be published, attached and detached now.")
    ] = False,
) -> None:
    """Publish the pools of a cluster file, and attach what claims are given, until SIGTERM or Ctrl-C."""
    import json

    from unrack.extras import needed_for

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
