"""Lists of hosts as Slurm writes them: ``cn[001-003,7],gpu-a[0-1]b[2-3],login``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product

MOST_HOSTS = 1_000_000
"""The longest list accepted."""

_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_NUMBER = re.compile(r"[0-9]{1,18}")
_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,18})", re.DOTALL)
_WANT = "such as cn[001-003,7] or a1,a2"


def expand(text: str) -> list[str]:
    """The names in a list, in its order; repetitions stay.

    A ValueError if it is no such list, or has over :data:`MOST_HOSTS` names.

    Parameters
    ----------
    text
        Names between commas. Brackets hold numbers and ranges; leading zeros set the width; several brackets in one
        name give all combinations.

    Examples
    --------
    >>> expand("cn[008-010,42],login"), expand("r[1-2]n[1-2]")
    (['cn008', 'cn009', 'cn010', 'cn42', 'login'], ['r1n1', 'r1n2', 'r2n1', 'r2n2'])
    """
    names: list[str] = []
    for entry in _entries(text):
        parts = [_numbers(found[1]) if found[1] is not None else [found[2]] for found in _PIECE.finditer(entry)]
        total = len(names)
        for part in parts:
            total = max(total, 1) * len(part)
        if total > MOST_HOSTS:
            raise ValueError(f"{_short(text)} is not a list of up to {MOST_HOSTS:,} names")
        names += map("".join, product(*parts))
    return names


def compress(names: Iterable[str]) -> str:
    """A list that :func:`expand` turns into these names, in this order: runs of numbers at their ends in brackets.

    Slurm's own tools refuse names that go on behind a bracket, so none are made. A ValueError if a name is empty, or
    has a comma, a bracket or a blank in it.

    Examples
    --------
    >>> compress(["cn001", "cn002", "cn003", "cn7", "login"]), compress(["a9", "a10"])
    ('cn[001-003,7],login', 'a[9-10]')
    """
    groups: list[tuple[str | None, list[str]]] = []
    for name in names:
        if not name or re.search(r"[\[\],\s]", name):
            raise ValueError(f"{name!r} is not a name of a host")
        match = _LAST_NUMBER.fullmatch(name)
        key = None if match is None else match[1]
        if groups and match is not None and groups[-1][0] == key:
            groups[-1][1].append(match[2])
        else:
            groups.append((key, [name if match is None else match[2]]))
    return ",".join(_written(key, numbers) for key, numbers in groups)


def _written(key: str | None, numbers: list[str]) -> str:
    if key is None:
        return numbers[0]
    if len(numbers) == 1:
        return f"{key}{numbers[0]}"
    runs: list[list[str]] = []
    for number in numbers:
        if runs and _follows(runs[-1][-1], number):
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return f"{key}[{','.join('-'.join(run) for run in runs)}]"


def _follows(before: str, after: str) -> bool:
    return int(after) == int(before) + 1 and str(int(before) + 1).zfill(len(before)) == after


def _entries(text: str) -> Iterator[str]:
    """What stands between the commas that are in no brackets."""
    depth, entry = 0, ""
    for character in text.strip():
        depth += (character == "[") - (character == "]")
        if depth not in (0, 1):
            break
        if character == "," and not depth:
            yield _checked(entry, text)
            entry = ""
        else:
            entry += character
    if depth:
        raise ValueError(f"{_short(text)} is not a list of hosts (brackets), {_WANT}")
    yield _checked(entry, text)


def _checked(entry: str, text: str) -> str:
    if not entry or re.search(r"\s", entry):
        raise ValueError(f"{_short(text)} is not a list of hosts, {_WANT}")
    return entry


def _numbers(text: str) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not _NUMBER.fullmatch(low) or (dash and not _NUMBER.fullmatch(high)) or (dash and int(high) < int(low)):
            raise ValueError(f"{_short('[' + text + ']')} is not a list of numbers of hosts, {_WANT}")
        count = int(high) - int(low) + 1 if dash else 1
        if len(numbers) + count > MOST_HOSTS:
            raise ValueError(f"{_short('[' + text + ']')} is not a list of up to {MOST_HOSTS:,} numbers")
        numbers += (str(number).zfill(len(low)) for number in range(int(low), int(low) + count))
    return numbers


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
