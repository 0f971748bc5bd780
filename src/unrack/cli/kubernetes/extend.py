"""``unrack kubernetes extend``: a webhook of kube-scheduler, which places pods as a policy does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def extend(
    config: Annotated[Path, typer.Option(metavar="SITE.toml", help="The site file: docs/kubernetes-extender.md.")],
) -> None:
    """Answer the filter, prioritize and bind verbs of kube-scheduler, until SIGTERM or Ctrl-C."""
    from unrack.extras import needed_for

    with needed_for("a running Kubernetes"):
        from unrack.live.kubernetes.extender.service import serve
        from unrack.live.kubernetes.extender.site import ExtenderSite
    from unrack.live.watch.log import start_log

    site = ExtenderSite.load(config)
    start_log(site.log.level, site.log.form)
    serve(site)
