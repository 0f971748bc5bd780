"""The audit of a finished run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.errors import RunError
from unrack.metric.audit.audit import violations
from unrack.metric.audit.tables import Tables

if TYPE_CHECKING:
    from unrack.sim.result import Result


def audit(result: Result) -> None:
    """Check the tables of a run against each other and against the cluster; nothing else is looked at.

    At every moment no more is held than installed, on every node (cores, memory, lent memory) and device, and nothing
    of what is down; no more is claimed of the places of resources than there is; spans and attempts of a job do not
    overlap; gangs are whole; every attempt begins with all that its job asked for; the tables over time are what
    placements and loans add up to; the jobs table is what placements say; and so are the rounds that a policy tells.
    :func:`unrack.simulate` does this at the end of every run, unless it is told not to.

    Parameters
    ----------
    result
        A finished run.

    Raises
    ------
    RunError
        The tables cannot be true: what is wrong, where, and when first.
    """
    found = violations(Tables(result.log.cluster, result.tables, result.pace, result.provisions))
    if found:
        first = min(found, key=lambda violation: (violation.at_us < 0, violation.at_us))
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise RunError(f"the audit of the run's tables failed: {first}{more}")
