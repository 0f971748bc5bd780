"""What may be varied: a key of the study and the values that it may take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from unrack.errors import InputError

MOST_VALUES = 10_000
_RANGE = re.compile(
    r"(-?\d+(?:\.\d+)?)\s*([A-Za-z%]*)\s*\.\.\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z%]*)\s*(?:([/*])\s*(\d+(?:\.\d+)?))?\s*"
)
_NUMBER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?")


class Vary(NamedTuple):
    """A key and its values."""

    key: str  # dotted, as in ``[sweep]``: ``clusters.0.pools.0.count``
    values: tuple[Any, ...]  # in the order given, each once


def read_vary(text: str, where: str = "--vary") -> Vary:
    """A key and values, ``KEY=VALUES``, as people write them on the command line; an InputError if it is none.

    Examples
    --------
    >>> read_vary("clusters.0.pools.0.count=1..4")
    Vary(key='clusters.0.pools.0.count', values=(1, 2, 3, 4))
    """
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise InputError(where, repr(text), "KEY=VALUES, such as clusters.0.pools.0.count=1..20")
    return Vary(key.strip(), values_of(values.strip(), where))


def values_of(given: str | Sequence[Any], where: str) -> tuple[Any, ...]:
    """Values from a list, or from text; an InputError if there is none, one is there twice, or there are too many.

    Text: ``1..20``, with steps ``0..100/25``, growing ``16..512*2``, with a unit ``64..256 GB/64`` or ``0..100 %/10``;
    or values with commas between them: ``32 GB, 64 GB``.

    Examples
    --------
    >>> values_of("16..128*2", "x"), values_of("64..192 GB/64", "x"), values_of("0..100 %/50", "x")
    ((16, 32, 64, 128), ('64 GB', '128 GB', '192 GB'), (0.0, 0.5, 1.0))
    >>> values_of("rack, all", "x"), values_of("0.5,1", "x")
    (('rack', 'all'), (0.5, 1))
    """
    if isinstance(given, str):
        ranged = _RANGE.fullmatch(given)
        found = _range(ranged, given, where) if ranged else [_value(part.strip()) for part in given.split(",")]
        if "" in found:
            raise InputError(where, repr(given), "a value between any two commas")
    else:
        found = list(given)
    if not found:
        raise InputError(where, "no value", "at least one value")
    for i, value in enumerate(found):
        if value in found[:i]:
            raise InputError(where, f"{value!r} twice", "every value once")
    return tuple(found)


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        return int(text)
    if text.endswith("%") and _FLOAT.fullmatch(text[:-1].strip()):
        return float(text[:-1]) / 100
    return float(text) if _FLOAT.fullmatch(text) else text.strip("\"'")


def _range(match: re.Match[str], text: str, where: str) -> list[Any]:
    first, unit, last, other, way, step = match.groups()
    if unit and other and unit != other:
        raise InputError(where, repr(text), "the same unit on both sides, such as 64 GB..256 GB/64")
    unit = other or unit
    low, high = float(first), float(last)
    by = 1.0 if step is None else float(step)
    if high < low:
        raise InputError(where, repr(text), "a range that goes up, such as 1..20")
    if (way == "*" and (by <= 1 or low <= 0)) or by <= 0:
        raise InputError(where, repr(text), "steps above 0 (1..20/2), or a factor above 1 from above 0 (16..512*2)")
    numbers, at = list[float](), low
    while at <= high * (1 + 1e-12) and len(numbers) <= MOST_VALUES:
        numbers.append(at)
        at = at * by if way == "*" else low + len(numbers) * by
    if len(numbers) > MOST_VALUES:
        raise InputError(where, repr(text), f"at most {MOST_VALUES} values: take larger steps, as in 1..1000000*2")
    if unit == "%":
        return [round(number / 100, 12) for number in numbers]
    plain = [int(number) if number == int(number) else round(number, 12) for number in numbers]
    return [f"{number} {unit}" for number in plain] if unit else list(plain)


def read_varies(table: Mapping[str, Any], where: str) -> tuple[Vary, ...]:
    """The ``vary`` table of a study: key → values, as a list or as text."""
    return tuple(
        Vary(key, values_of(values if isinstance(values, str | list) else [values], f"{where}.{key}"))
        for key, values in table.items()
    )
