"""The option ``--on``: where runs are run."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unrack.study.workers.contract import Workers

OnOption = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="WHERE",
        help="Where runs are run: processes, dask or ray; with an address, a cluster that runs already "
        "('dask tcp://node1:8786', 'ray auto'), else one that is started on this machine.",
    ),
]


def count_of(jobs: int) -> int:
    """How many workers ``--jobs`` asks for; 0: one a core."""
    return jobs or os.cpu_count() or 1


def workers_on(on: str, jobs: int) -> AbstractContextManager[Workers]:
    """The workers that ``--on`` and ``--jobs`` ask for, to be used in a ``with`` statement.

    Raises
    ------
    InputError
        There are no such workers.
    """
    from unrack.study.workers.table import open_workers, parse_on

    return open_workers(parse_on(on), count_of(jobs))
