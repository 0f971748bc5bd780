"""What an object says of itself in a few words: one line for a terminal, a small table for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_CELL = "padding:2px 12px 2px 0;text-align:left;border:0;background:none"


class Fact(NamedTuple):
    """One thing worth knowing."""

    noun: str  # what it is, for the table: ``"mean wait"``
    words: str  # how much or which, for the table: ``"3 h 20 min"``
    brief: str = ""  # both, for the line: ``"mean wait 3 h 20 min"``; ``""``: the line goes without


def line(kind: str, name: str, facts: Sequence[Fact | str]) -> str:
    """One line; a text stands in it as it is.

    Examples
    --------
    >>> line("Cluster", "small", [Fact("nodes", "8", "8 nodes"), Fact("racks", "1")])
    "<Cluster 'small': 8 nodes>"
    """
    briefs = [fact if isinstance(fact, str) else fact.brief for fact in facts]
    words = ", ".join(brief for brief in briefs if brief)
    return f"<{kind} {name!r}: {words}>" if words else f"<{kind} {name!r}>"


def table(kind: str, name: str, facts: Sequence[Fact]) -> str:
    """A table in HTML that needs no style sheet; every text is escaped.

    Examples
    --------
    >>> "&lt;b&gt;" in table("Cluster", "<b>", [])
    True
    """
    rows = "".join(
        f'<tr><th scope="row" style="{_CELL};font-weight:normal;opacity:.7">{escape(fact.noun)}</th>'
        f'<td style="{_CELL}">{escape(fact.words)}</td></tr>'
        for fact in facts
    )
    head = f'<caption style="text-align:left"><b>{escape(kind)}</b> {escape(name)}</caption>'
    return f'<table style="border-collapse:collapse;margin:4px 0">{head}<tbody>{rows}</tbody></table>'


def memory_words(mb: int) -> str:
    """An amount of memory for people.

    Examples
    --------
    >>> memory_words(512), memory_words(1536), memory_words(3 * 2**20)
    ('512 MB', '1.5 GB', '3 TB')
    """
    for unit, size in (("PB", 2**30), ("TB", 2**20), ("GB", 2**10)):
        if mb >= size:
            return f"{mb / size:.4g} {unit}"
    return f"{mb:,} MB"


def some(names: Sequence[str], most: int = 6) -> str:
    """The first names, and how many more there are.

    Examples
    --------
    >>> some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    Examples
    --------
    >>> counted(1, "node"), counted(4000, "job")
    ('1 node', '4,000 jobs')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
