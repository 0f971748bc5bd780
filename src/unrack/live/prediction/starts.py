"""When jobs that wait will start, by simulation: as requested, and over many draws of learnt run times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Ints
from unrack.live.driver.state.epoch import policy_of
from unrack.live.prediction.learnt import Learnt
from unrack.sim.simulate import simulate
from unrack.units import NEVER_US, SECOND_US, time_us
from unrack.workload.job import JobTable, Workload

DRAWS = 50
QUANTILES = (0.1, 0.5, 0.9)
DEPTH, PLANS = 100, 60_000
"""Of simulations with drawn run times: how deep backfill looks, and how many jobs all backfills of one plan for."""
_SEED = 0x5351
"""Beside the seed of the user, so that these draws are no generator's."""


class Start(NamedTuple):
    """When a job is expected to start, s from now; ``None``: never, or not in so many draws.

    Attributes
    ----------
    job
        What Slurm calls it.
    requested_s
        If all jobs run for as long as they ask.
    early_s, middle_s, late_s
        The quantiles 10, 50 and 90 % over draws of learnt run times; as ``requested_s`` where nothing was learnt.
    runs
        From how many runs it was learnt how long the job itself runs.
    of_user
        Whether these are the user's own; else they are of all users.
    why
        Why it is expected never to start; ``""``: it starts.
    """

    job: str
    requested_s: float | None
    early_s: float | None
    middle_s: float | None
    late_s: float | None
    runs: int
    of_user: bool
    why: str = ""


@dataclass(frozen=True)
class Prediction:
    """The starts of all jobs that wait, under one policy."""

    policy: str  # what reports call it
    starts: tuple[Start, ...]  # in order of the table


def predicted(
    cluster: Cluster,
    workload: Workload,
    policy: str | Mapping[str, Any],
    learnt: Learnt,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    label: str = "",
) -> Prediction:
    """When the waiting jobs of a workload start under a policy.

    Parameters
    ----------
    cluster, workload
        A system as it is now: with the jobs that run.
    policy
        Its name, with parameters; a file; or a table as a study has it.
    learnt
        What runs of the past tell.
    draws
        How often run times are drawn; without runs of the past they are not.
    seed
        Of the draws.
    label
        What reports call the policy; ``""``: what it calls itself.

    Raises
    ------
    InputError
        There is no such policy, or it needs what the jobs do not say.
    RunError
        The policy decided something impossible.
    """
    jobs = workload.jobs
    waits = np.flatnonzero(~jobs.standing.runs)
    first, reasons, name = _starts(cluster, workload, policy, jobs.work_us)
    quick = quicker(policy, cluster, jobs)
    drawn = [
        _starts(cluster, workload, quick, drawn_us(jobs, learnt, seed, draw))[0]
        for draw in range(draws if learnt.runs else 0)
    ]
    spread = np.quantile(np.array(drawn or [first]), QUANTILES, axis=0, method="inverted_cdf")
    begin = int(jobs.submit_us[0]) if len(jobs) else 0
    starts = []
    for job in waits.tolist():
        known, of_user = learnt.shares(_user(jobs, job))
        early, middle, late = (_seconds(int(column[job]), begin) for column in spread)
        asked = _seconds(int(first[job]), begin)
        why = reasons.get(job, "") if asked is None else ""
        starts.append(Start(str(jobs.ids[job]), asked, early, middle, late, len(known), of_user, why))
    return Prediction(label or name, tuple(starts))


def quicker(policy: str | Mapping[str, Any], cluster: Cluster, jobs: JobTable) -> str | Mapping[str, Any]:
    """A Slurm-like policy as it is simulated many times: of a long queue, fewer backfills that look less deep.

    A simulation then plans for ``PLANS`` jobs or so in all its backfills. Short queues keep what is configured.
    """
    if isinstance(policy, str) or policy.get("name") != "slurm" or not len(jobs):
        return policy
    depth = min(int(policy.get("depth", DEPTH)), DEPTH)
    interval_us = time_us(policy.get("interval", "30 s"))
    area = float((jobs.left_us * (jobs.tasks * jobs.cores).astype(np.float64)).sum())
    horizon_us = area / max(cluster.total_cores, 1) + float(jobs.left_us.max())
    rounds = max(PLANS // max(min(depth, int((~jobs.standing.runs).sum())), 1), 1)
    times = max(1, math.ceil(horizon_us / rounds / interval_us))
    return {**policy, "depth": depth, "interval": times * interval_us / SECOND_US}


def drawn_us(jobs: JobTable, learnt: Learnt, seed: int, draw: int) -> Ints:
    """int64[jobs]: a run time of each job, drawn from what is learnt; of those that run, longer than they have."""
    random = np.random.default_rng([_SEED, seed, draw])
    ran, limits = jobs.standing.ran_us.tolist(), jobs.request_us.tolist()
    return np.array(
        [learnt.draw_us(random, _user(jobs, job), limits[job], ran[job]) for job in range(len(jobs))], np.int64
    )


def _starts(
    cluster: Cluster, workload: Workload, policy: str | Mapping[str, Any], work_us: Ints
) -> tuple[Ints, dict[int, str], str]:
    """int64[jobs]: when each first starts, µs; NEVER_US: never; and why not, and what the policy is called."""
    chosen = policy_of(policy)
    run = replace(workload, jobs=replace(workload.jobs, work_us=work_us))
    log = simulate(cluster, run, chosen, audit=False).log
    found = np.full(len(run.jobs), NEVER_US, np.int64)
    np.minimum.at(found, log.attempt_job, log.attempt_start_us)
    return found, {job: str(reason) for job, reason in log.reasons.items()}, chosen.name


def _user(jobs: JobTable, job: int) -> str:
    return jobs.user_names[jobs.user[job]] if jobs.user[job] >= 0 else ""


def _seconds(at_us: int, begin_us: int) -> float | None:
    return None if at_us >= NEVER_US else (at_us - begin_us) / SECOND_US
