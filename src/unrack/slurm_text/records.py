"""Records of ``key=value`` as ``scontrol show`` prints them: in blocks, or one on a line with ``-o``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

_KEY = re.compile(r"(?:^|(?<=\s))([A-Za-z][\w:/.-]*)=")
BY_NODE = ("NodeName", "CoreIDs")
"""Keys that reservations of some cores have once for each node."""


class Record(NamedTuple):
    """One record."""

    line: int  # where it begins, counted from 1
    # key → value, in the order of the text; of a key that comes twice, the first, or all with blanks between
    fields: dict[str, str]


def records(text: str, first_key: str, listed: Collection[str] = ()) -> Iterator[Record]:
    """The records of a text.

    Parameters
    ----------
    text
        What ``scontrol show`` printed.
    first_key
        The key with which each begins: ``JobId``, ``NodeName``. What stands before the first is passed over.
    listed
        Keys of which all values are kept.

    Examples
    --------
    >>> text = '''NodeName=n1 CPUTot=8
    ...    OS=Linux 6.1 #1 SMP
    ...    RealMemory=32000
    ...
    ... NodeName=n2 CPUTot=4 OS=Linux 6.1 State=IDLE+DRAIN'''
    >>> [(record.line, record.fields["NodeName"], len(record.fields)) for record in records(text, "NodeName")]
    [(1, 'n1', 4), (5, 'n2', 4)]
    """
    current: Record | None = None
    for number, line in enumerate(text.split("\n"), 1):
        begins = line.lstrip().startswith(f"{first_key}=")
        for place, (key, value) in enumerate(fields(line)):
            if begins and not place:
                if current is not None:
                    yield current
                current = Record(number, {})
            if current is not None:
                before = current.fields.get(key)
                current.fields[key] = value if before is None else f"{before} {value}" if key in listed else before
    if current is not None:
        yield current


def fields(line: str) -> Iterator[tuple[str, str]]:
    """Key and value of every field of a line; a value runs to the next key, so that it may have blanks in it."""
    found = list(_KEY.finditer(line))
    for place, match in enumerate(found):
        end = found[place + 1].start() if place + 1 < len(found) else len(line)
        yield match[1], line[match.end() : end].strip()
