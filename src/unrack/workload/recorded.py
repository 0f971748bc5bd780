"""A workload whose jobs were changed, with a line about it in the record of where they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from unrack.workload.job import JobTable, Workload


def recorded(
    workload: Workload,
    jobs: JobTable,
    words: str,
    *,
    dropped: Mapping[str, int] | None = None,
    changed: Mapping[str, int] | None = None,
) -> Workload:
    """The workload with other jobs, and one more line under ``Filters`` in the header of its intake.

    Parameters
    ----------
    workload
        What was changed.
    jobs
        What it has become.
    words
        The line: what was done.
    dropped, changed
        The counts of the intake from now on; by default they stay.
    """
    header = dict(workload.intake.header)
    header["Filters"] = f"{header['Filters']}\n{words}" if "Filters" in header else words
    intake = replace(
        workload.intake,
        kept=len(jobs),
        header=header,
        dropped=workload.intake.dropped if dropped is None else dropped,
        changed=workload.intake.changed if changed is None else changed,
    )
    return replace(workload, jobs=jobs, intake=intake)
