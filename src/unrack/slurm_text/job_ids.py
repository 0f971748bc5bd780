"""Slurm's names of jobs and steps, and its states.

Jobs are ``101``, ``101_7``, ``101_[3-9%2]`` or ``101+0``, steps ``101.batch``; states of jobs and nodes have full
names, abbreviated or cut off.
"""

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


JOB_STATES = {
    "PENDING": "PD", "RUNNING": "R", "SUSPENDED": "S", "COMPLETED": "CD", "CANCELLED": "CA", "FAILED": "F",
    "TIMEOUT": "TO", "NODE_FAIL": "NF", "PREEMPTED": "PR", "BOOT_FAIL": "BF", "DEADLINE": "DL", "OUT_OF_MEMORY": "OOM",
    "CONFIGURING": "CF", "COMPLETING": "CG", "RESIZING": "RS", "REQUEUED": "RQ", "REQUEUE_HOLD": "RH",
    "REQUEUE_FED": "RF", "RESV_DEL_HOLD": "RD", "REVOKED": "RV", "SIGNALING": "SI", "SPECIAL_EXIT": "SE",
    "STAGE_OUT": "SO", "STOPPED": "ST", "LAUNCH_FAILED": "LF", "RECONFIG_FAIL": "RFL",
}  # fmt: skip
"""State of a job → its abbreviation in ``squeue``."""

WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
"""States of jobs that wait to be started."""
HOLDING = frozenset(
    {"RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED"}
)
"""States of jobs that hold nodes."""

UNUSABLE = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "FUTURE", "UNKNOWN", "ERROR", "NOT_RESPONDING",
     "NO_RESPOND", "INVAL", "INVALID_REG", "MAINT"}
)  # fmt: skip
"""Words in the state of a node on which nothing is started."""

_SHORT = {short: name for name, short in JOB_STATES.items()}


def job_state(text: str) -> str | None:
    """The full name of a job's state; ``None`` = not said.

    A ValueError if there is not a such state.

    Examples
    --------
    >>> job_state("CANCELLED by 1000"), job_state("OUT_OF_ME+"), job_state("CD"), job_state("Unknown")
    ('CANCELLED', 'OUT_OF_MEMORY', 'COMPLETED', None)
    """
    words = text.strip().upper().split()
    if not words or words[0] in ("UNKNOWN", "N/A"):
        return None
    word = words[0]
    if word in JOB_STATES:
        return word
    if word in _SHORT:
        return _SHORT[word]
    cut = word.removesuffix("+")
    matches = [name for name in JOB_STATES if name.startswith(cut)] if cut != word and len(cut) > 2 else []
    if len(matches) == 1 or (matches and cut == "REQUEUE"):
        return matches[0]
    raise ValueError(f"{text!r} is not a state of a job such as COMPLETED, PENDING or CANCELLED by 1000")


def node_words(text: str) -> frozenset[str]:
    """The words of a node's state: ``IDLE+DRAIN*`` → DRAIN, IDLE, NOT_RESPONDING.

    Examples
    --------
    >>> sorted(node_words("IDLE+DRAIN*")), sorted(node_words("mixed~"))
    (['DRAIN', 'IDLE', 'NOT_RESPONDING'], ['MIXED'])
    """
    words = set(re.findall(r"[A-Z_]+", text.upper()))
    return frozenset(words | ({"NOT_RESPONDING"} if "*" in text else set()))
