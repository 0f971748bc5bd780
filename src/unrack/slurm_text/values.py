"""How Slurm writes values: in JSON, as times, as records of ``key=value``, and on command lines.

Versions differ in JSON. Times are spans such as ``1-02:03:04`` and moments such as ``2026-01-02T03:04:05``. Records are
those of ``scontrol show``, in blocks, or one on a line with ``-o``. The command line of a job is the field SubmitLine
of ``sacct``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

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


UNKNOWN = frozenset({"", "unknown", "none", "n/a", "(null)", "invalid", "not_set"})
"""Words for a time that is not known, in small letters."""
ENDLESS = frozenset({"unlimited", "infinite"})
"""Words for a time without end."""

_SPAN = re.compile(r"(?:([0-9]{1,9})-)?([0-9]{1,9})(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?(\.[0-9]{1,9})?")
_MOMENT = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def span_s(text: str) -> float | None:
    """Seconds in a span as Slurm prints it: ``[days-]hours:minutes:seconds`` or ``minutes:seconds``.

    A plain number is a number of minutes, as in ``TimelimitRaw`` and on the command line; after days, of hours. Returns
    ``None``: not known, without end, or the limit of the partition, whatever it is. A ValueError if it is not a span.

    Examples
    --------
    >>> span_s("1-02:03:04"), span_s("01:00:00"), span_s("02:30"), span_s("90"), span_s("2-12"), span_s("UNLIMITED")
    (93784.0, 3600.0, 150.0, 5400.0, 216000.0, None)
    """
    word = text.strip()
    if word.lower() in UNKNOWN | ENDLESS or word.lower() == "partition_limit":
        return None
    match = _SPAN.fullmatch(word)
    if match is None:
        raise ValueError(f"{text!r} is not a time such as 1-02:03:04 or UNLIMITED")
    days, first, second, third, part = match.groups()
    if days is not None:
        hours, minutes, seconds = int(first), int(second or 0), int(third or 0)
    elif third is not None:
        hours, minutes, seconds = int(first), int(second), int(third)
    elif second is not None:
        hours, minutes, seconds = 0, int(first), int(second)
    else:
        hours, minutes, seconds = 0, int(first), 0
    return int(days or 0) * 86_400.0 + hours * 3_600.0 + minutes * 60.0 + seconds + float(part or 0)


def week_day(text: str) -> int:
    """The day of the week of a moment, from 0, Monday: of a timestamp by its date; of seconds on the clock of here.

    A ValueError if it is not a moment.

    Examples
    --------
    >>> week_day("2026-03-01T12:00:00")
    6
    """
    seconds = moment_s(text)
    if seconds is None:
        raise ValueError(f"{text!r} is not a time such as 2026-01-02T03:04:05")
    return datetime.fromtimestamp(seconds, None if text.strip().isdigit() else UTC).weekday()


def moment_s(text: str) -> int | None:
    """Seconds since 1970 of a moment: a timestamp, the clock of which is taken for UTC, or a number of such seconds.

    ``None``: not known. A ValueError if it is not a moment.

    Examples
    --------
    >>> moment_s("1970-01-02T00:00:01"), moment_s("1735689600"), moment_s("Unknown"), moment_s("None")
    (86401, 1735689600, None, None)
    """
    word = text.strip()
    if word.lower() in UNKNOWN or word == "0":
        return None
    if word.isascii() and word.isdigit() and 6 <= len(word) <= 11:
        return int(word)
    match = _MOMENT.fullmatch(word)
    if match is not None:
        try:
            year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
            moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
            return round((moment - _EPOCH) / timedelta(seconds=1))
        except ValueError:
            pass  # no such day or hour
    raise ValueError(f"{text!r} is not a time such as 2026-01-02T03:04:05, Unknown or None")


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


_SHORT = {"d": "dependency", "w": "nodelist", "x": "exclude", "a": "array", "C": "constraint"}
_FLAGS = frozenset({
    "hold", "requeue", "no-requeue", "overcommit", "quiet", "verbose", "test-only", "wait", "contiguous", "spread-job",
    "use-min-nodes", "no-kill", "oversubscribe", "share", "parsable", "exclusive", "get-user-env", "ignore-pbs",
    "reboot", "pty", "label", "unbuffered", "preserve-env", "overlap", "exact", "whole", "immediate", "propagate",
    "nice",
})  # fmt: skip
"""Long options that take no value, or one behind ``=`` alone."""


def submit_line(text: str) -> dict[str, str]:
    """Long names of options of ``sbatch``, ``salloc`` or ``srun`` → values; what the script is given is not its own.

    Examples
    --------
    >>> submit_line("sbatch -p long -w n[1-2] --depend=afterok:12 --hold job.sh -x 7")
    {'nodelist': 'n[1-2]', 'dependency': 'afterok:12'}
    """
    words, found, place = text.split()[1:], dict[str, str](), 0
    while place < len(words) and words[place].startswith("-"):
        word, value = words[place], ""
        place += 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = next((whole for whole in _SHORT.values() if len(name) > 2 and whole.startswith(name)), name)
            bare = not equals and name not in _FLAGS
        else:
            name, value = _SHORT.get(word[1:2], ""), word[2:].removeprefix("=")
            bare = not value and not re.fullmatch("-[HOQvWskX]+", word)
        if bare and place < len(words):
            value = words[place]
            place += 1
        if name in _SHORT.values():
            found[name] = value
    return found
