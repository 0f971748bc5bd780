"""What several commands share: options, names that a shell completes, and a word on kernels that are compiled."""

from __future__ import annotations

import os
import re
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrack.errors import InputError
from unrack.units import SECOND_US, time_us

if TYPE_CHECKING:
    from unrack.study.workers.contract import Workers

WORDS = "compiling kernels for their first use: it takes up to a minute, once"


def policies(incomplete: str) -> list[str]:
    """Policies with names that begin so."""
    from unrack.policy.table import POLICIES

    return [name for name in POLICIES if name.startswith(incomplete)]


def presets(incomplete: str) -> list[str]:
    """Named clusters with names that begin so."""
    from unrack.cluster.presets import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Runs of the study in the folder that stands before, by their ids."""
    folder = Path(str(context.params.get("directory") or "."), "runs")
    return sorted(one.parent.name for one in folder.glob(f"{incomplete}*/run.json"))


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
All = Annotated[bool, typer.Option("--all", help="Print long lists whole.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the random numbers.")]
StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study file.")]
RunOption = Annotated[
    str | None,
    typer.Option("--run", help="Which run: its policy, or its id or the start of it.", autocompletion=runs),
]
OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="DIR", help="Where to write (default: out/ and its name).")
]
JobsOption = Annotated[int, typer.Option("--jobs", "-j", min=0, help="Processes; 0: one a core.")]
NoAudit = Annotated[
    bool, typer.Option("--no-audit", help="Do not check the tables of finished runs against the cluster.")
]
OnOption = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="WHERE",
        help="Where runs are run: processes, dask or ray; with an address, a cluster that runs already "
        "('dask tcp://node1:8786', 'ray auto'), else one that is started on this machine.",
    ),
]
BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="auto|LENGTH",
        help="Intervals where there is one seed: blocks of the log's time are drawn anew, a block so long ('7 d').",
    ),
]


def count_of(jobs: int) -> int:
    """How many workers ``--jobs`` asks for; 0: one a core."""
    return jobs or os.cpu_count() or 1


def workers_on(on: str, jobs: int) -> AbstractContextManager[Workers]:
    """The workers that ``--on`` and ``--jobs`` ask for, to be used in a ``with`` statement."""
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


def seconds_of(option: str, text: str) -> float:
    """A time, s, from text such as ``"5 min"``; anything else is an InputError."""
    try:
        return time_us(text) / SECOND_US
    except ValueError:
        raise InputError(option, repr(text), "a time such as '30 s' or '5 min'") from None


def words() -> str:
    """What is said when kernels are compiled, and where their machine code goes if not to a usual place."""
    from unrack.kernels.cache import note

    return f"{WORDS}\n{note()}".rstrip()


def say_when_compiling() -> None:
    """Print a line on the error stream, if that is a terminal, when this process first compiles a kernel."""
    from unrack.jit import on_first_compile

    if sys.stderr.isatty():
        on_first_compile(lambda: typer.echo(words(), err=True))
