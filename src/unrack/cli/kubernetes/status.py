"""``unrack kubernetes status``: what a driver of pods holds, what it waits for, how fast it decides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def status(
    config: Annotated[
        Path | None, typer.Option(metavar="SITE.toml", help="The site file, which names the state folder.")
    ] = None,
    state: Annotated[Path | None, typer.Option(metavar="DIR", help="The state folder itself.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON.")] = False,
) -> None:
    """Show what a driver holds and waits for, from its journal; it may be running or not."""
    from unrack.cli.slurm.status import status as of_driver
    from unrack.live.kubernetes.site import KubernetesSite

    if config is not None and state is None:
        state = KubernetesSite.load(config).state
        config = None
    of_driver(config, state, as_json)
