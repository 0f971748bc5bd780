"""``unrack tiles``: cores of a die that are close together; and dies laid out as a torus."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from unrack.cli import Json, print_json, say_when_compiling, seconds_of
from unrack.errors import ClusterError, InputError

if TYPE_CHECKING:
    from unrack import Cluster
    from unrack_papers.torus import TorusPlacement

LONGEST_SIDE = 32
"""The most rows, and the most columns, of cores on a die, as in cluster files."""


def tiles(
    torus: Annotated[str, typer.Argument(metavar="ROWSxCOLUMNS", help="The torus, such as 7x7.")],
    cores: Annotated[int, typer.Argument(metavar="CORES", help="How many cores are wanted.")],
    taken: Annotated[
        str, typer.Option(metavar="IDS", help="Cores in use, numbered row by row from 0, such as 0-3,7.")
    ] = "",
    rule: Annotated[str, typer.Option(help="best (proven), quick or first-fit.")] = "best",
    time_limit: Annotated[
        str | None, typer.Option(metavar="TIME", help="Of best: how long it may compute, such as '10 s'.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose cores of a die that are close together: the least sum of hops over all pairs, on a torus."""
    from unrack_papers.torus import best_tiles, first_fit_tiles, quick_tiles

    say_when_compiling()
    rows, columns = sides(torus, "ROWSxCOLUMNS")
    busy = numbers(taken, "--taken")
    if rule == "best":
        limit_s = None if time_limit is None else seconds_of("--time-limit", time_limit)
        found = best_tiles(rows, columns, cores, busy, limit_s=limit_s)
    elif rule in ("quick", "first-fit"):
        if time_limit is not None:
            raise InputError("--time-limit", repr(time_limit), "--rule best, which searches")
        found = (quick_tiles if rule == "quick" else first_fit_tiles)(rows, columns, cores, busy)
    else:
        raise InputError("--rule", repr(rule), "best, quick or first-fit")
    if as_json:
        known = {"distance": found.distance, "bound": found.bound, "optimal": found.optimal, "nodes": found.nodes}
        known |= {"cut": True} if found.cut else {}
        print_json({"tiles": found.tiles.tolist(), **known}, None)
        return
    _draw(found, rows, columns, busy)


def sides(text: str, where: str) -> tuple[int, int]:
    """Rows and columns, from text such as ``"4x7"``; anything else is an InputError."""
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdecimal() and len(part) < 9 for part in parts):
        raise InputError(where, repr(text), "ROWSxCOLUMNS, such as 4x7")
    return int(parts[0]), int(parts[1])


def numbers(text: str, where: str) -> list[int]:
    """Whole numbers, from text such as ``"0-3,7"``; anything else is an InputError."""
    found: list[int] = []
    for part in filter(None, text.replace(" ", "").split(",")):
        first, dash, last = part.partition("-")
        if not all(end.isdecimal() and len(end) < 9 for end in (first, last if dash else first)):
            raise InputError(where, repr(part), "numbers and ranges, such as 0-3,7")
        if dash and int(last) < int(first):
            raise InputError(where, repr(part), "a range from the lower to the higher number, such as 0-3")
        if dash and int(last) - int(first) > 10_000:
            raise InputError(where, repr(part), "a range of at most 10 000")
        found += range(int(first), int(last if dash else first) + 1)
    return found


def _draw(found: TorusPlacement, rows: int, columns: int, busy: list[int]) -> None:
    chosen, gone = set(found.tiles.tolist()), set(busy)
    marks = ["■" if tile in chosen else "×" if tile in gone else "·" for tile in range(rows * columns)]
    for row in range(rows):
        typer.echo(" ".join(marks[row * columns : (row + 1) * columns]))
    proof = "proven the least" if found.optimal else f"no set has less than {found.bound}"
    proof += "; the time limit cut the search: another run may have another answer" if found.cut else ""
    typer.echo(f"cores {','.join(map(str, sorted(chosen)))}: {found.distance} hops over all pairs, {proof}")


def with_torus(cluster: Cluster, rows: int, columns: int, where: str) -> Cluster:
    """The same cluster, with the cores of every die of every node on a torus.

    A ClusterError if a side is too long, or a node's cores are not a whole number of dies.
    """
    import numpy as np

    if not (1 <= rows <= LONGEST_SIDE and 1 <= columns <= LONGEST_SIDE):
        raise ClusterError(where, f"{rows} x {columns}", f"sides from 1 to {LONGEST_SIDE}")
    rest = np.flatnonzero(cluster.cores % (rows * columns))
    if len(rest):
        want = f"{rows * columns} cores on a die to divide the {cluster.cores[rest[0]]} of node {rest[0]}"
        raise ClusterError(where, f"{rows} x {columns}", want)
    torus = np.where((cluster.cores > 0)[:, None], np.array([rows, columns], np.int64), 0)
    return replace(cluster, torus=torus)
