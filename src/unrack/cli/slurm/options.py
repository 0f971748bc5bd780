"""Options that several commands of ``unrack slurm`` have."""

from __future__ import annotations

from typing import Annotated

import typer

Partitions = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="NAME", help="Only the nodes and jobs of this partition; repeatable."),
]
HeldByAdmin = Annotated[
    bool,
    typer.Option(
        "--held-by-admin",
        help="Jobs that an administrator or a job_submit plugin holds wait in the queue, as where unrack schedules.",
    ),
]
Timeout = Annotated[float, typer.Option(metavar="S", min=0.1, max=600, help="How long a command of Slurm may take.")]
