"""Which words of a comment are for unrack: what follows ``unrack:`` up to the end of the line or a semicolon."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_WORD = 120
"""Longest word that can be an ask."""

_MARK = re.compile(r"(?<![^ \t\v\f\r\n;])unrack:", re.IGNORECASE | re.ASCII)
_END = re.compile(r"[\n;]")
_WORD = re.compile(r"[^ \t\v\f\r]+")


def is_marked(text: str) -> bool:
    """True if a comment says something to unrack, be it nothing.

    Examples
    --------
    >>> is_marked("see notes; unrack: app=amber"), is_marked("unracked: no")
    (True, False)
    """
    return _MARK.search(text) is not None


def words_of(text: str) -> Iterator[str]:
    r"""The words for unrack, in order; in time that grows with the length of the text alone.

    Examples
    --------
    >>> list(words_of("try 2; unrack: app=amber deadline=2h; ask Kim\nunrack: memory=8GB"))
    ['app=amber', 'deadline=2h', 'memory=8GB']
    """
    at = 0
    while (mark := _MARK.search(text, at)) is not None:
        end = _END.search(text, mark.end())
        at = len(text) if end is None else end.start()
        for word in _WORD.finditer(text, mark.end(), at):
            yield word[0]
