"""What a resource tells of finished runs: its metrics by name, and tables of the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

if TYPE_CHECKING:
    from unrack.resources.contract import Nodes


class Told(NamedTuple):
    """A metric: name, unit, ``"low"``, ``"high"`` or ``""`` as what is better, a line of words, and the formula."""

    name: str
    unit: str
    better: str
    summary: str
    formula: str


class Kept(NamedTuple):
    """A finished run as a section of the report sees it."""

    # policy, seed: which run
    policy: str
    seed: int
    written: Any  # what :meth:`Installed.written` gave
    metrics: dict[str, float | None]  # all metrics of the run
    claims: pl.DataFrame  # the rows of the table of claims that are of the resource
    nodes: Nodes | None = None  # those of the cluster; ``None``: not known
    # reads one of the other tables of the run, ``jobs`` or ``placements``
    table: Callable[[str], pl.DataFrame] | None = None


class Table(NamedTuple):
    """A table of the report: its title, a sentence or two, the heads of its columns, and rows of texts.

    ``picture``: an SVG above it, where there is one; a table without rows is a picture alone.
    """

    title: str
    words: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    picture: str = ""


def mean_share(values: Sequence[float | None]) -> str:
    """The mean of the shares that are known, in words of a section.

    Examples
    --------
    >>> mean_share([0.5, None, 0.25]), mean_share([None])
    ('37.5 %', '–')
    """
    known = [value for value in values if value is not None]
    return f"{100 * sum(known) / len(known):.1f} %" if known else "–"


def rows_by_policy(
    runs: Sequence[Kept], row: Callable[[str, Sequence[Kept]], tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    """A row of each policy and its runs, in order of their first ones."""
    policies = dict.fromkeys(run.policy for run in runs)
    return tuple(row(policy, [run for run in runs if run.policy == policy]) for policy in policies)
