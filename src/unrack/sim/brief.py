"""What a finished run says of itself in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unrack.facts import Fact, counted
from unrack.units import SECOND_US, seconds_text

if TYPE_CHECKING:
    from unrack.sim.result import Result

_TIMES = {"wait_s_mean": "mean wait", "wait_s_p95": "p95 wait"}
_SHARES = {"missed_deadlines": "missed deadlines", "utilisation_cores": "cores in use"}


def result_facts(result: Result) -> list[Fact]:
    """Jobs, cluster, span and the main metrics; those that are not defined are left out."""
    jobs, cluster, metrics = len(result.log.jobs), result.log.cluster, result.measured
    span = seconds_text(result.log.end_us / SECOND_US)
    where = f"{cluster.name} ({counted(len(cluster), 'node')})"
    words = counted(jobs, "job")
    found = [
        Fact("cluster", where),
        Fact("jobs", f"{jobs:,}", f"{words} on {cluster.name!r} in {span}"),
        Fact("until the last end", span),
        *_not_finished(metrics, jobs),
    ]
    for name, noun in _TIMES.items():
        if (value := metrics.get(name)) is not None:
            found.append(Fact(noun, seconds_text(value), f"{noun} {seconds_text(value)}"))
    if (value := metrics.get("bounded_slowdown_mean")) is not None:
        found.append(Fact("bounded slowdown", f"{value:.3g}", f"bounded slowdown {value:.3g}"))
    for name, noun in _SHARES.items():
        if (value := metrics.get(name)) is not None:
            found.append(Fact(noun, f"{100 * value:.3g} %", f"{noun} {100 * value:.3g} %"))
    return found


def _not_finished(metrics: Mapping[str, float | None], jobs: int) -> list[Fact]:
    finished = int(metrics.get("jobs_finished") or 0)
    return [Fact("finished", f"{finished:,} of {jobs:,}", f"{finished:,} finished")] if finished < jobs else []
