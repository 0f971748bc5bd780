"""Names of jobs: ``101``, ``101_7``, ``101_[3-9%2]``, ``101+0``, and of steps, ``101.batch``."""

from __future__ import annotations

import re
from typing import NamedTuple

_JOB = re.compile(r"([0-9]{1,18})(?:_([0-9]{1,18})|_\[([^\]]*)\]?(?:%[0-9]+)?|\+([0-9]{1,9}))?")
_MEMBERS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
MOST_MEMBERS = 1_000_000
"""The longest array accepted: 4 000 001 is Slurm's own limit, of which one list shows a part."""


class JobId(NamedTuple):
    """What the name of a job says."""

    job: int  # its number; of an array or a heterogeneous job, the number of the whole
    members: tuple[int, ...] = ()  # members of the array that it stands for; empty = it is of no array
    part: int | None = None  # which component of a heterogeneous job it is, or ``None``
    at_most: int | None = None  # how many members may run at the same time, or ``None``


def job_id(text: str) -> JobId:
    """Read the name of a job.

    A ValueError if it is none, or was cut off.

    Examples
    --------
    >>> job_id("101").job, job_id("101_7").members, job_id("101+1").part
    (101, (7,), 1)
    >>> job_id("101_[3-5,9%2]")
    JobId(job=101, members=(3, 4, 5, 9), part=None, at_most=2)
    """
    match = _JOB.fullmatch(text.strip())
    if match is None or (match[3] is not None and "]" not in text):
        raise ValueError(f"{text!r} is not the name of a job such as 101, 101_7, 101_[3-9%2] or 101+0")
    job = int(match[1])
    if match[2] is not None:
        return JobId(job, (int(match[2]),))
    if match[4] is not None:
        return JobId(job, part=int(match[4]))
    if match[3] is None:
        return JobId(job)
    listed, percent, at_most = match[3].partition("%")
    if percent and not (at_most.isascii() and at_most.isdigit() and len(at_most) < 10):
        raise ValueError(f"{text!r} is not a name of a job with a number behind %")
    return JobId(job, members(listed), at_most=int(at_most) if percent else None)


def members(text: str) -> tuple[int, ...]:
    """Members of an array: ``3-9``, ``1,4,7``, ``0-20:5``.

    A ValueError if it is not a such list (one that ends in ``...`` was cut off), or is over :data:`MOST_MEMBERS` long.

    Examples
    --------
    >>> members("0-20:5,99")
    (0, 5, 10, 15, 20, 99)
    """
    found: list[int] = []
    for part in text.split(","):
        match = _MEMBERS.fullmatch(part.strip())
        if match is None:
            raise ValueError(
                f"{text!r} is not a list of members of an array such as 3-9 or 1,4,7 (SLURM_BITSTR_LEN=0 shows all)"
            )
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1, max(int(match[3] or 1), 1))
        if len(found) + len(numbers) > MOST_MEMBERS:
            raise ValueError(f"{text!r} are over {MOST_MEMBERS:,} members")
        found += numbers
    return tuple(found)
