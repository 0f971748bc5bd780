"""Times as Slurm writes them: spans such as ``1-02:03:04``, and moments such as ``2026-01-02T03:04:05``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

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
