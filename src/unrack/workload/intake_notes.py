"""What is said first of a workload: what jobs ask for in vain, what was left out, and what had to be assumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unrack.facts import counted
from unrack.workload.formats.rules import RULES

ASSUMED = ("request from run", "limit not known", "limit of the partition", "name cut off")
"""Rules that change what jobs ask for in a way that policies notice."""
LEFT_OUT = ("bad row",)
"""Rules by which jobs are lost that the file has."""


def intake_notes(name: str, intake: Mapping[str, Any]) -> list[str]:
    """A sentence for each rule that a user has to know before the results.

    Parameters
    ----------
    name
        Of the workload.
    intake
        Its :class:`unrack.workload.job.Intake`, as a table; one that an earlier version wrote may lack keys.

    Examples
    --------
    >>> intake_notes("log", {"ignored": {"begin ignored": 2}, "examples": {"begin ignored": "job 7: begin 60"}})
    ['log: begin ignored, 2 jobs, such as job 7: begin 60. A time before which a job is not to begin is not honoured.']
    """
    examples = intake.get("examples") or {}
    found = []
    for key, rules, noun in (("dropped", LEFT_OUT, "row"), ("ignored", None, "job"), ("changed", ASSUMED, "job")):
        for rule, count in (intake.get(key) or {}).items():
            if rules is None or rule in rules:
                example = f", such as {examples[rule]}" if rule in examples else ""
                found.append(f"{name}: {rule}, {counted(count, noun)}{example}. {RULES.get(rule, '')}".rstrip())
    return found
