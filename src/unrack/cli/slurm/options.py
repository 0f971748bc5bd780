"""Options that several commands of ``unrack slurm`` have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unrack.errors import InputError

Partitions = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="NAME", help="Only the nodes and jobs of this partition; repeatable."),
]
Unlimited = Annotated[
    str, typer.Option(metavar="TIME", help="How long a job without a time limit is taken to run, such as '7 d'.")
]
HeldByAdmin = Annotated[
    bool,
    typer.Option(
        "--held-by-admin",
        help="Jobs that an administrator or a job_submit plugin holds wait in the queue, as where unrack schedules.",
    ),
]
Timeout = Annotated[float, typer.Option(metavar="S", min=0.1, max=600, help="How long a command of Slurm may take.")]


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


def state_of(config: Path | None, state: Path | None) -> Path:
    """The folder of the driver's state, by a site file or itself; an InputError if neither or both are given."""
    from unrack.live.slurm.site.site import Site

    if (config is None) == (state is None):
        raise InputError("--config and --state", "both" if config else "neither", "one of them")
    if state is not None:
        return state
    assert config is not None
    return Site.load(config).state
