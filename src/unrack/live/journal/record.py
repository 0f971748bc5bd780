"""One line of a journal: a record with its number, the batch that it is of, and a checksum over all of it.

::

    {"crc":"5f1a0c3e","n":18,"batch":17,"left":0,"record":{"kind":"plan", …}}

``batch`` is the number of the first record of the batch, ``left`` how many of the batch follow. The checksum, CRC-32,
is of everything behind it up to the end of the line; it is compared as text, so that no bit of a line changes unseen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from math import isfinite
from typing import Any, NamedTuple
from zlib import crc32

from unrack.errors import InputError

BYTES_MAX = 2**28
"""The longest line that is written or read: a snapshot of some million jobs."""
DEPTH_MAX = 100
"""How deep lists and tables may be nested in a record."""
DIGITS_MAX = 4000
"""The digits that a whole number may have; Python itself reads no more than 4300."""

_HEAD, _CRC, _BODY = b'{"crc":"', slice(8, 16), 18
_TOO_LONG = 10**DIGITS_MAX
_WANT = "whole numbers, finite floats, strings, booleans, None, and lists and tables of them"
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decode = json.JSONDecoder().raw_decode


class Record(NamedTuple):
    """A record of a journal."""

    number: int  # its place in the journal, from 1 on, without gaps
    batch: int  # the number of the first record that was written together with it
    left: int  # how many records that were written together with it follow
    value: dict[str, Any]  # What was written. Tuples come back as lists.


def line_of(number: int, batch: int, left: int, value: Mapping[str, Any]) -> bytes:
    """The line of a record, with its end.

    Raises
    ------
    InputError
        The record holds something that would not be read back as it is, or is too long.

    Notes
    -----
    Any string comes back as it was, half a surrogate pair too; only two halves that stand next to each other, which
    JSON cannot tell from the character that they mean, come back as that character.
    """
    _check(value, f"record {number}", DEPTH_MAX)
    body = f'"n":{number},"batch":{batch},"left":{left},"record":{_encode(dict(value))}}}'.encode("ascii")
    if len(body) + _BODY >= BYTES_MAX:
        raise InputError(f"record {number}", f"{len(body)} bytes", f"at most {BYTES_MAX}")
    return b'%s%08x",%s\n' % (_HEAD, crc32(body), body)


def record_of(line: bytes) -> Record | None:
    """The record of a line; ``None``: it is damaged, or not whole.

    Examples
    --------
    >>> line = line_of(7, 6, 0, {"kind": "plan"})
    >>> record_of(line)
    Record(number=7, batch=6, left=0, value={'kind': 'plan'})
    >>> record_of(line[:-1]), record_of(line.replace(b"plan", b"plam"))
    (None, None)
    """
    if line[:8] != _HEAD or line[16:18] != b'",' or line[-1:] != b"\n":
        return None
    body = line[_BODY:-1]
    if line[_CRC] != b"%08x" % crc32(body):
        return None
    try:
        whole, end = _decode("{" + body.decode("ascii"))
        record = Record(whole["n"], whole["batch"], whole["left"], whole["record"])
    except (ValueError, KeyError, TypeError, RecursionError):  # written by something else, with a checksum that fits
        return None
    counts = type(record.number) is type(record.batch) is type(record.left) is int
    if end != len(body) + 1 or not counts or not isinstance(record.value, dict):
        return None
    return record if 1 <= record.batch <= record.number and record.left >= 0 else None


def _check(value: object, where: str, depth: int) -> None:
    """Refuse what would not be read back as it is."""
    if isinstance(value, str) or value is None:
        return
    if isinstance(value, int):
        if not -_TOO_LONG < value < _TOO_LONG:
            raise InputError(where, f"a whole number of over {DIGITS_MAX} digits", f"at most {DIGITS_MAX}")
    elif isinstance(value, float):
        if not isfinite(value):
            raise InputError(where, str(value), _WANT)
    elif depth == 0:
        raise InputError(where, f"lists and tables nested over {DEPTH_MAX} deep", f"at most {DEPTH_MAX}")
    elif isinstance(value, Mapping):
        if not isinstance(value, dict) and depth != DEPTH_MAX:
            raise InputError(where, f"a {type(value).__name__}", "a dict")
        for key, one in value.items():
            if not isinstance(key, str):
                raise InputError(where, f"the key {key!r:.60}", "keys that are strings")
            _check(one, where, depth - 1)
        _refuse_equal_keys(value, where)
    elif isinstance(value, list | tuple):
        for one in value:
            _check(one, where, depth - 1)
    else:
        raise InputError(where, f"{type(value).__name__} {value!r:.60}", _WANT)


def _refuse_equal_keys(table: Mapping[str, Any], where: str) -> None:
    """Keys that differ only in how a surrogate pair is written would become one."""
    if all(key.isascii() for key in table):
        return
    read_back = sorted(key.encode("utf-16", "surrogatepass") for key in table)
    if any(one == other for one, other in pairwise(read_back)):
        raise InputError(where, "two keys that are the same but for a split surrogate pair", "keys that differ")
