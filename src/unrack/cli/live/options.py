"""Options that commands of several orchestrators have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrack.errors import InputError

if TYPE_CHECKING:
    from unrack.live.driver.service.tables import ServiceTable

Config = Annotated[Path | None, typer.Option(metavar="SITE.toml", help="The site file, which names the state folder.")]
State = Annotated[Path | None, typer.Option(metavar="DIR", help="The state folder itself.")]
Unlimited = Annotated[
    str, typer.Option(metavar="TIME", help="How long a job without a time limit is taken to run, such as '7 d'.")
]


def longest_us(text: str) -> int:
    """The option ``--unlimited`` in µs; an InputError if it is no time of 1 s or more."""
    from unrack.units import time_us

    try:
        found = time_us(text)
    except ValueError:
        found = 0
    if not 1_000_000 <= found <= 2**52:
        raise InputError("--unlimited", repr(text), "a time of 1 s or more, such as '7 d'")
    return found


def state_of(config: Path | None, state: Path | None, load: Callable[[Path], ServiceTable]) -> Path:
    """The folder of the driver's state, by a site file, which ``load`` reads, or itself; both or neither is refused."""
    if (config is None) == (state is None):
        raise InputError("--config and --state", "both" if config else "neither", "one of them")
    if state is not None:
        return state
    assert config is not None
    return load(config).state
