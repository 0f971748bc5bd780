"""Values of Slurm's JSON, whichever way a version writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

LONGEST_TEXT = 65_536
"""Characters that are kept of a text."""
_NOT_SET = frozenset({2**32 - 2, 2**64 - 2})
_INFINITE = frozenset({2**32 - 1, 2**64 - 1})
_MOST = 2**62


def number(value: Any, absent: int = 0) -> int:
    """A number of what can be counted; ``absent`` if it is not set, or endless.

    A ValueError if it is no number, or negative.

    Examples
    --------
    >>> number(7), number(None), number({"set": True, "infinite": False, "number": 3}), number({"set": False}, -1)
    (7, 0, 3, -1)
    """
    if isinstance(value, Mapping):
        if not value.get("set", True) or value.get("infinite", False):
            return absent
        value = value.get("number")
    if value is None or value == "":
        return absent
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{repr(value)[:40]} is not a number")
    if value in _NOT_SET or value in _INFINITE:
        return absent
    if value > _MOST:
        raise ValueError(f"{value} is too large")
    return value


def small(value: Any, absent: int = 0) -> int:
    """A number that has 16 bits in Slurm, of which the two highest mean that it is not set."""
    found = number(value, absent)
    return absent if found in (2**16 - 2, 2**16 - 1) else found


def text(value: Any) -> str:
    """A text, cut at :data:`LONGEST_TEXT`, which can be written as UTF-8; nothing: ``""``.

    A ValueError if it is no text.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{repr(value)[:40]} is not a text")
    kept = value[:LONGEST_TEXT]
    return "" if kept == "(null)" else kept.encode("utf-8", "replace").decode("utf-8")


def words(value: Any) -> list[str]:
    """Words in capital letters, of a list of them or of one.

    A ValueError if it is neither.

    Examples
    --------
    >>> words("mixed"), words(["IDLE", "DRAIN"]), words(None)
    (['MIXED'], ['IDLE', 'DRAIN'], [])
    """
    listed = value if isinstance(value, list) else [value]
    return [text(word).upper() for word in listed if word not in (None, "")]


def table(value: Any) -> Mapping[str, Any]:
    """A table; nothing: an empty one. A ValueError if it is something else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{repr(value)[:40]} is not a table")
    return value


def listed(value: Any) -> list[Any]:
    """A list; nothing: an empty one. A ValueError if it is something else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{repr(value)[:40]} is not a list")
    return value


def said(value: Any) -> str:
    """A value as Slurm's tables print it: a number, a table of one with ``set``, or a list of which the first counts.

    Examples
    --------
    >>> said({"set": True, "infinite": False, "number": 3}), said({"set": False}), said({"set": True, "infinite": True})
    ('3', '', 'UNLIMITED')
    >>> said(2**32 - 1), said(2**32 - 2), said(["COMPLETED"]), said(None)
    ('UNLIMITED', '', 'COMPLETED', '')
    """
    if isinstance(value, Mapping):
        if value.get("infinite"):
            return "UNLIMITED"
        return said(value.get("number")) if value.get("set", True) else ""
    if isinstance(value, list):
        return said(value[0]) if value else ""
    if value is None or isinstance(value, bool) or value in _NOT_SET:
        return ""
    return "UNLIMITED" if value in _INFINITE else " ".join(str(value).split())[:10_000]


def documents(text: str) -> list[Any]:
    """The JSON documents of a text, one after the other.

    A ValueError if it is no JSON, or the last of them was cut off.

    Examples
    --------
    >>> documents('{"jobs": []} {"jobs": [1]}')
    [{'jobs': []}, {'jobs': [1]}]
    """
    found, decoder, rest = [], json.JSONDecoder(), text.strip("\ufeff \t\r\n")
    while rest:
        document, end = decoder.raw_decode(rest)
        found.append(document)
        rest = rest[end:].lstrip()
    return found
