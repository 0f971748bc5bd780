"""What a workload says of itself in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.facts import Fact, counted, some
from unrack.units import SECOND_US, seconds_text

if TYPE_CHECKING:
    from unrack.workload.job import JobTable, Workload


def job_facts(jobs: JobTable) -> list[Fact]:
    """How many jobs over what time, and what they ask for."""
    found = [Fact("jobs", f"{len(jobs):,}", counted(len(jobs), "job"))]
    if not len(jobs):
        return found
    span = seconds_text(int(jobs.submit_us[-1] - jobs.submit_us[0]) / SECOND_US)
    found.append(Fact("submitted over", span, f"submitted over {span}"))
    hours = float((jobs.cores * (jobs.work_us / SECOND_US)).sum()) / 3600
    words = f"{hours:,.0f} core-hours" if hours >= 10 else f"{hours:.3g} core-hours"
    found.append(Fact("work", words, words))
    found.append(Fact("largest job", counted(int(jobs.cores.max()), "core")))
    if jobs.user_names:
        found.append(Fact("users", f"{len(jobs.user_names):,}"))
    if jobs.app_names:
        found.append(Fact("applications", some(list(jobs.app_names))))
    if jobs.devices:
        kinds = some(list(dict.fromkeys(kind for kind, _ in jobs.devices)))
        found.append(Fact("devices asked for", kinds, f"asks for {kinds}"))
    due = int((jobs.deadline_us >= 0).sum())
    if due:
        found.append(Fact("deadlines", counted(due, "job"), f"{due:,} with deadlines"))
    return found


def workload_facts(workload: Workload) -> list[Fact]:
    """Those of its jobs, and where they came from."""
    intake = workload.intake
    lost = intake.read - intake.kept
    dropped = [Fact("dropped", f"{lost:,} of {counted(intake.read, 'line')}", f"{lost:,} dropped")] if lost > 0 else []
    source = [Fact("source", intake.source)] if intake.source else []
    return [*job_facts(workload.jobs), *dropped, *source]
