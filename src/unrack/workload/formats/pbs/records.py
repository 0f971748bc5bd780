"""Lines of an accounting log: ``01/31/2026 03:04:05;E;123.server;user=ann queue=q …``."""

from __future__ import annotations

import re
from typing import NamedTuple

from unrack.workload.formats.quantities import shown
from unrack.workload.formats.source import Source, each, text_bytes

LINE = re.compile(r"([0-9]{2}/[0-9]{2}/[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2});([A-Za-z]+);([^;]*);?(.*)")
_FIELD = re.compile(r"""([A-Za-z][\w.\[\]-]*)=("[^"]*"|'[^']*'|\S*)""")
_ID = re.compile(r"([0-9]{1,18})(\[([0-9]{0,9})\])?(?:\.(\S+))?")
WANT = "MM/DD/YYYY HH:MM:SS;E;123.server;key=value …"


class Record(NamedTuple):
    """One line.

    Attributes
    ----------
    line
        Counted from 1.
    kind
        ``E`` for the end of a job, ``Q``, ``S``, ``D`` and so on for all else.
    job
        Its name.
    fields
        Key → value; of a key that comes twice, the last.
    """

    line: int
    kind: str
    job: str
    fields: dict[str, str]


class JobName(NamedTuple):
    """A name such as ``123[4].server``.

    Attributes
    ----------
    number
        123.
    member
        4; -1: it is the array as a whole; ``None``: it is of no array.
    """

    number: int
    member: int | None


def records(source: Source) -> list[Record]:
    """The lines of a log.

    Raises
    ------
    TraceError
        A line is none of an accounting log.
    """
    text = text_bytes(source).decode("utf-8", "replace")
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    return each(lines, lambda line: _record(source, *line))


def _record(source: Source, number: int, line: str) -> Record:
    match = LINE.fullmatch(line)
    if match is None:
        raise source.fault(number, "", shown(line), WANT)
    fields = {found[1]: found[2].strip("\"'") for found in _FIELD.finditer(match[4])} if match[2] == "E" else {}
    return Record(number, match[2], match[3].strip(), fields)


def job_name(text: str) -> JobName:
    """Read the name of a job.

    Raises
    ------
    ValueError
        It is none.

    Examples
    --------
    >>> job_name("123.server"), job_name("123[4].server"), job_name("123[].server").member
    (JobName(number=123, member=None), JobName(number=123, member=4), -1)
    """
    match = _ID.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not the name of a job such as 123.server or 123[4].server")
    if match[2] is None:
        return JobName(int(match[1]), None)
    return JobName(int(match[1]), int(match[3]) if match[3] else -1)
