"""How a record is written: a JSON object, or a line for people."""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime

from unrack.live.watch.log.cleaning import Plain, clean, clean_text

FIELDS = "unrack_fields"
"""The attribute of a record with the fields of an event."""
MOST_TRACE = 4000
_OWN = ("time", "level", "event", "trace")


def fields_of(record: logging.LogRecord) -> dict[str, Plain]:
    """The fields of a record, cleaned; those that would hide what is told of every event have an underscore."""
    given = getattr(record, FIELDS, None)
    found: dict[str, Plain] = {}
    for name, value in given.items() if isinstance(given, dict) else ():
        shown = clean_text(str(name), 80)
        found[f"{shown}_" if shown in _OWN else shown] = clean(str(name), value)
    return found


def _message(record: logging.LogRecord) -> str:
    try:
        return clean_text(record.getMessage())
    except (TypeError, ValueError, KeyError):  # arguments that do not fit the message, of whichever library
        return clean_text(str(record.msg))


def _trace(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    text = "".join(traceback.format_exception(record.exc_info[1]))
    return clean_text(text[-MOST_TRACE:], 8 * MOST_TRACE)[-MOST_TRACE:]  # how it ends says most


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonLines(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``event``, and the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        line: dict[str, Plain] = {"time": _time(record), "level": record.levelname.lower(), "event": _message(record)}
        line |= fields_of(record)
        if trace := _trace(record):
            line["trace"] = trace
        return json.dumps(line, ensure_ascii=False, allow_nan=False)


class TextLines(logging.Formatter):
    """A line for people: time of day, level, event, fields."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as a line."""
        parts = [_time(record)[11:-1], f"{record.levelname.lower():7}", _message(record)]
        parts += [f"{name}={_word(value)}" for name, value in fields_of(record).items()]
        if record.exc_info and record.exc_info[1] is not None:
            lines = "".join(traceback.format_exception(record.exc_info[1]))[-MOST_TRACE:].splitlines()
            parts += [f"\n    {clean_text(line)}" for line in lines]
        return " ".join(parts)


def _word(value: Plain) -> str:
    return value if isinstance(value, str) and value and " " not in value else json.dumps(value, ensure_ascii=False)
