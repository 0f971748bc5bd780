"""States of jobs and nodes, by their full names, abbreviated or cut off."""

from __future__ import annotations

import re

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
