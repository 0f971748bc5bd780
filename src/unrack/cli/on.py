"""What several commands share: the option ``--on``, where results go, and a word on kernels that are compiled."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unrack.study.workers.contract import Workers
import re
import sys
from pathlib import Path

WORDS = "compiling kernels for their first use: it takes up to a minute, once"
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


def out_folder(name: str, otherwise: str) -> Path:
    """``out/`` and the name of the study, as far as it can be a folder's.

    Examples
    --------
    >>> out_folder("a/b: c", "study").as_posix(), out_folder("...", "study").as_posix()
    ('out/a-b- c', 'out/study')
    """
    return Path("out") / (re.sub(r"[^\w .-]+", "-", name).strip(".-") or otherwise)


def words() -> str:
    """What is said when kernels are compiled, and where their machine code goes if not to a usual place."""
    from unrack.kernels.cache import note

    return f"{WORDS}\n{note()}".rstrip()


def say_when_compiling() -> None:
    """Print a line on the error stream, if that is a terminal, when this process first compiles a kernel."""
    from unrack.jit import on_first_compile

    if sys.stderr.isatty():
        on_first_compile(lambda: typer.echo(words(), err=True))
