"""Lists of CPUs as systems write them: ``0-7,16-23``."""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST_CPUS = 1 << 16

_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")


def numbers_of(text: str) -> tuple[int, ...]:
    """The numbers in a list such as ``0-7,16-23``, ascending; a stride, as in ``0-158:2``, is understood.

    Raises
    ------
    ValueError
        The text is no such list; it says what was wanted.

    Examples
    --------
    >>> numbers_of("0-3,8")
    (0, 1, 2, 3, 8)
    """
    found: set[int] = set()
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError("numbers of CPUs such as 0-7,16-23")
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        step = int(match[3]) if match[3] else 1
        if last < first or step < 1 or last >= MOST_CPUS:
            raise ValueError(f"ranges of CPUs from low to high, below {MOST_CPUS}")
        found.update(range(first, last + 1, step))
    return tuple(sorted(found))


def text_of(numbers: Sequence[int]) -> str:
    """The list as text, neighbours joined.

    Examples
    --------
    >>> text_of((0, 1, 2, 3, 8))
    '0-3,8'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
