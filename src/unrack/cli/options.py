"""What several commands share: options, names that a shell completes, and a word on kernels that are compiled."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.errors import ClusterError, InputError
from unrack.units import SECOND_US, time_us

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from unrack.cluster.spec import Cluster
    from unrack.study.workers.shared import Workers
    from unrack.workload.generate.batch.fit import Marginal


WORDS = "compiling kernels for their first use: it takes up to a minute, once"


def policies(incomplete: str) -> list[str]:
    """Policies with names that begin so."""
    from unrack.policy.table import POLICIES

    return [name for name in POLICIES if name.startswith(incomplete)]


def presets(incomplete: str) -> list[str]:
    """Named clusters with names that begin so."""
    from unrack.cluster.presets import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def file_or_preset(name: str) -> Cluster:
    """The cluster in a file or, where there is none of that name, the preset; a ClusterError if there is neither."""
    from unrack.cluster.presets import PRESETS
    from unrack.cluster.spec import Cluster

    if Path(name).exists() or Path(name).name != name or "." in name:
        return Cluster.load(name)
    if name not in PRESETS:
        raise ClusterError("cluster", repr(name), f"a file, or one of {', '.join(PRESETS)}")
    return Cluster.preset(name)


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Runs of the study in the folder that stands before, by their ids."""
    folder = Path(str(context.params.get("directory") or "."), "runs")
    return sorted(one.parent.name for one in folder.glob(f"{incomplete}*/run.json"))


DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be decided now, and why the others wait; change nothing.")
]
DryJson = Annotated[bool, typer.Option("--json", help="With --dry-run: JSON.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
All = Annotated[bool, typer.Option("--all", help="Print long lists whole.")]
Seed = Annotated[int, typer.Option(min=0, help="The seed of the random numbers.")]
StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study file.")]
RunOption = Annotated[
    str | None, typer.Option("--run", help="The run: its policy, its id, or the start of its id.", autocompletion=runs)
]
OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="DIR", help="Where to write (default: out/ and its name).")
]
JobsOption = Annotated[int, typer.Option("--jobs", "-j", min=0, help="Worker processes; 0: one for each core.")]
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
        help="Give intervals with one seed, by a block bootstrap over time: the length of a block ('7 d'), or auto.",
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


def print_json(
    content: Any, indent: int | None = 1, other: Callable[[Any], Any] | None = None, err: bool = False
) -> None:
    """Print plain tables and lists as JSON; ``other`` makes plain what is not, ``err``: on the error stream."""
    typer.echo(json.dumps(content, indent=indent, ensure_ascii=False, default=other), err=err)


def print_page(parts: Iterable[RenderableType]) -> None:
    """Print tables and texts, top to bottom."""
    from rich.console import Console

    console = Console()
    for part in parts:
        console.print(part)


def print_lines(lines: Iterable[str], indent: int = 0) -> None:
    """Print texts, a line each; on a terminal one that is too long goes on below, so many characters to the right."""
    room = width_or(sys.maxsize)
    layout = TextWrapper(room, "", " " * min(indent, room // 2), break_long_words=False, break_on_hyphens=False)
    for line in lines:
        typer.echo(line if len(line) <= room else layout.fill(line))


def need_ending(option: str, path: str | Path | None, *endings: str) -> None:
    """Refuse a file to be written with another ending to its name; ``None``: the option was not given."""
    if path is not None and not str(path).endswith(endings):
        listed = ", ".join(endings[:-1]) + " or " if len(endings) > 1 else ""
        raise InputError(option, repr(str(path)), f"a file that ends in {listed}{endings[-1]}")


def write(path: str | Path, content: str | bytes, option: str = "") -> None:
    """Write a file, or leave what was there; the InputError names the ``option`` that asked for it, if one is given."""
    from unrack.workload.formats.writers import write_whole

    try:
        write_whole(Path(path).expanduser(), content)
    except OSError as error:
        where = f"{option} {path}".strip()
        raise InputError(where, error.strerror or str(error), "a file that can be written") from None


def facts(title: str | None = None) -> Table:
    """A table without a head: names, and what there is to say of each."""
    from rich.table import Table

    table = Table(title=title, title_style="bold", title_justify="left", show_header=False, box=None)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    return table


def grid(title: str | None, names: Sequence[str], numbers: Sequence[str]) -> Table:
    """A table with a head: columns of names, then columns of numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in names:
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def agreement(
    title: str,
    sides: tuple[str, str],
    marginals: Iterable[Marginal],
    parts: Sequence[float],
    text: Callable[[Marginal, float], str],
) -> Table:
    """How a fitted model agrees with what it was fitted to, property by property.

    ``sides``: what the two rows of a property are called: what was given, and what was drawn; ``parts``: quantiles that
    have a column; ``text``: words for a value of a property.
    """
    from numpy import quantile

    table = grid(title, ["", "of"], [*(f"p{part * 100:g}" for part in parts), "mean", "KS distance"])
    for marginal in marginals:
        for row, (side, values) in enumerate(zip(sides, (marginal.log, marginal.drawn), strict=True)):
            found = [*quantile(values, parts, method="inverted_cdf").tolist(), float(values.mean())]
            cells = [text(marginal, value) for value in found]
            table.add_row("" if row else marginal.name, side, *cells, f"{marginal.distance:.3f}" if row else "")
    return table


def width_or(otherwise: int) -> int:
    """The width of the terminal or of ``COLUMNS``, in characters; a pipe has none."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal or "COLUMNS" in os.environ else otherwise


def shortened(lines: list[str], most: int | None) -> list[str]:
    """The first and the last lines, and between them how many are left out; ``None``: all.

    Examples
    --------
    >>> shortened(["a", "b", "c", "d"], 2)
    ['a', '    … 2 more (--all)', 'd']
    """
    if most is None or len(lines) <= most:
        return lines
    half = most // 2
    return [*lines[:half], f"    … {len(lines) - 2 * half} more (--all)", *lines[len(lines) - half :]]
