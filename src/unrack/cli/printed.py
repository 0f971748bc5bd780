"""How commands answer: JSON, pages of tables, files that they write, lists that are cut short."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unrack.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from unrack.workload.generate.batch.fit import Marginal


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


def print_lines(lines: Iterable[str]) -> None:
    """Print texts, a line each."""
    for line in lines:
        typer.echo(line)


def need_ending(option: str, path: str | Path | None, *endings: str) -> None:
    """Refuse a file to be written with another ending to its name; ``None``: the option was not given."""
    if path is not None and not str(path).endswith(endings):
        listed = ", ".join(endings[:-1]) + " or " if len(endings) > 1 else ""
        raise InputError(option, repr(str(path)), f"a file that ends in {listed}{endings[-1]}")


def write(path: str | Path, content: str | bytes, option: str = "") -> None:
    """Write a file; the InputError names the ``option`` that asked for it, if one is given."""
    try:
        Path(path).expanduser().write_bytes(content.encode() if isinstance(content, str) else content)
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
