"""Workloads in which jobs with large memory do a given share of the node-hours.

References
----------
The thesis on disaggregated memory, section 5.2.1: jobs that need a large node and jobs that do not are sampled without
replacement so that the node-hours of the two are in a given ratio.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unrack.errors import InputError
from unrack.workload.generate.distributions import Floats
from unrack.workload.job import Ints, Workload

SHARES = (0.0, 0.15, 0.25, 0.5, 0.75, 1.0)
"""The thesis's mixes."""

_CLOSE = 0.002
_SHUFFLES = 16


def mix(workload: Workload, large_share: float, normal_mb: int, seed: int = 0, jobs: int | None = None) -> Workload:
    """Some of the jobs of a workload, such that large jobs do a given share of the node-hours.

    Parameters
    ----------
    workload
        Jobs whose tasks take a node each.
    large_share
        Node-hours of large jobs over those of all, 0 to 1.
    normal_mb
        A job of more MB per task is large.
    seed
        Of the choice.
    jobs
        How many to choose; by default as many as the shares allow.

    Returns
    -------
    Workload
        The jobs chosen, at the times they have; :func:`unrack.workload.filters.scale_load` restores a load.

    Raises
    ------
    InputError
        The share is not from 0 to 1, or there are too few jobs of a kind.
    """
    table = workload.jobs
    hours = table.tasks * (table.work_us / 3.6e9)
    rng = np.random.Generator(np.random.PCG64(seed))
    chosen = chosen_for_share(rng, hours, table.memory_mb > normal_mb, large_share, jobs)
    words = f"large jobs (over {normal_mb} MB a task) do {large_share:.4g} of the node-hours"
    header = {**workload.intake.header, "Mix": words}
    intake = replace(
        workload.intake, kept=len(chosen), header=header,
        dropped={**workload.intake.dropped, "not in the mix": len(table) - len(chosen)},
    )  # fmt: skip
    return Workload(workload.name, table.take(np.sort(chosen)), intake)


def chosen_for_share(
    rng: np.random.Generator, node_hours: Floats, large: np.ndarray, share: float, jobs: int | None
) -> Ints:
    """``int64[chosen]``: rows drawn without replacement, those that are large first.

    Parameters
    ----------
    rng
        Shuffles rows; of up to 16 shuffles the one closest to the share is taken, the first within 0.002 of it.
    node_hours : float64[rows]
        0 or more.
    large : bool[rows]
        Which are large.
    share
        Of the node-hours, by large rows.
    jobs
        How many rows; ``None``: as many as there can be.

    Raises
    ------
    InputError
        The share is not from 0 to 1, or there are too few rows of a kind.
    """
    if not 0 <= share <= 1:
        raise InputError("share of large jobs", repr(share), "a number from 0 to 1")
    kinds = [np.flatnonzero(large), np.flatnonzero(~large)]
    if not len(kinds[0]) and share > 0:
        raise InputError("share of large jobs", "no large job", "jobs with more memory than a normal node has")
    if not len(kinds[1]) and share < 1:
        raise InputError("share of large jobs", "no normal job", "jobs with no more memory than a normal node has")
    best, closest = np.empty(0, np.int64), np.inf
    for _ in range(_SHUFFLES):
        first, second = (rng.permutation(rows) for rows in kinds)
        counts = _counts(np.cumsum(node_hours[first]), np.cumsum(node_hours[second]), share, jobs)
        rows = np.concatenate([first[: counts[0]], second[: counts[1]]])
        total = float(node_hours[rows].sum())
        off = abs(float(node_hours[first[: counts[0]]].sum()) / total - share) if total > 0 else 0.0
        if off < closest:
            best, closest = rows, off
        if closest <= _CLOSE:
            break
    return best


def _counts(large: Floats, normal: Floats, share: float, jobs: int | None) -> tuple[int, int]:
    """How many of each kind, from their cumulative node-hours in the order they would be taken."""
    if share in (0, 1):
        there = len(large) if share else len(normal)
        if jobs is not None and there < jobs:
            raise InputError("share of large jobs", f"{there} {'large' if share else 'normal'} jobs", f"{jobs} of them")
        count = there if jobs is None else jobs
        return (count, 0) if share else (0, count)
    large, normal = np.concatenate([[0.0], large]), np.concatenate([[0.0], normal])
    if jobs is None:
        if large[-1] * (1 - share) <= normal[-1] * share:
            return len(large) - 1, _nearest(normal, large[-1] * (1 - share) / share)
        return _nearest(large, normal[-1] * share / (1 - share)), len(normal) - 1
    counts = np.arange(max(0, jobs - len(normal) + 1), min(jobs, len(large) - 1) + 1)
    if not len(counts):
        raise InputError("share of large jobs", f"{len(large) + len(normal) - 2} jobs", f"{jobs} to choose")
    total = large[counts] + normal[jobs - counts]
    found = np.divide(large[counts], total, out=np.zeros(len(counts)), where=total > 0)
    place = int(np.abs(found - share).argmin())
    return int(counts[place]), jobs - int(counts[place])


def _nearest(cumulative: Floats, goal: float) -> int:
    return int(np.abs(cumulative - goal).argmin())
