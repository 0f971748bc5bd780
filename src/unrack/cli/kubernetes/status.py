"""``unrack kubernetes status``: what a driver of pods holds, what it waits for, how fast it decides."""

from __future__ import annotations

from unrack.cli.live.driver import Config, State, show, state_of
from unrack.cli.options import Json


def status(config: Config = None, state: State = None, as_json: Json = False) -> None:
    """Show what a driver holds and waits for, from its journal; it may be running or not."""
    from unrack.live.kubernetes.site import KubernetesSite

    show(state_of(config, state, KubernetesSite.load), as_json)
