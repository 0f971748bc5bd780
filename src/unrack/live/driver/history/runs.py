"""A past as runs of a study: what really happened, and the same submissions simulated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from unrack.errors import RunError
from unrack.kernels.arrays import Ints
from unrack.ledger.state import FINISHED
from unrack.live.driver.history.columns import LATENCIES
from unrack.live.driver.history.past import Past, Ran
from unrack.live.records import job_of_record
from unrack.policy.contract import Traits
from unrack.sim.log import RunLog
from unrack.sim.recorder import Outcome, Recorder
from unrack.sim.result import Result, audit
from unrack.sim.world import World
from unrack.study.grid import Run
from unrack.study.input.inputs import Document, PolicySpec, make_policy_spec
from unrack.study.results.record import id_of_run
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Job, JobTable, Workload, job_table
from unrack.workload.site.settled import settled


def workload_of(past: Past, name: str) -> Workload:
    """The submissions of a past, as the driver saw them.

    A job is submitted when the driver put it into the queue. It runs for as long as it held its nodes: from the
    decision to the moment in which these were free again, which is longer than the job itself by what it takes to
    attach and detach devices, to give orders, and to see start and end.
    """
    jobs = [past.windows.asks(job_of_record(entry.job), entry.decided_us) for entry in past.jobs]
    seen = [entry.queued_us for entry in past.jobs]
    work = [max(entry.freed_us - entry.decided_us, 0) for entry in past.jobs]
    table = table_of(jobs, seen, work, _latencies(past.jobs))
    keys = pl.Series("job", [past.jobs[int(i)].key for i in table.ids.to_list()])
    intake = Intake("the journal", "journal", len(jobs) + past.others, len(jobs), {"never ran": past.others})
    return Workload(name, replace(table, ids=keys), intake)


def table_of(
    jobs: Sequence[Job], came_us: Sequence[int], work_us: Sequence[int], extra: pl.DataFrame | None = None
) -> JobTable:
    """Jobs as a table, with their places in the sequence as ids, and the times of the driver's clock.

    Time is not counted from the first job: some policies act at multiples of an interval.

    Parameters
    ----------
    jobs
        In the order in which the driver took them, which those that came together keep.
    came_us, work_us
        When each came by the driver's clock, and how long it runs.
    extra
        Further columns.
    """

    def column(values: Iterable[int]) -> Ints:
        return np.fromiter(values, np.int64)

    words = {
        name: pl.Series([job.said.get(name) or None for job in jobs], dtype=pl.String)
        for name in dict.fromkeys(name for job in jobs for name, said in job.said.items() if said)
    }
    extra = pl.concat(
        [part for part in (extra, pl.DataFrame(words)) if part is not None and part.width] or [pl.DataFrame()],
        how="horizontal",
    )
    devices: dict[tuple[str, str], Ints] = {}
    for i, job in enumerate(jobs):
        for kind, of in job.demand.devices.items():
            for quantity, amount in of.items():
                devices.setdefault((kind, quantity), np.zeros(len(jobs), np.int64))[i] = amount
    return job_table(
        ids=pl.Series(np.arange(len(jobs), dtype=np.int64)),
        submit_us=column(came_us),
        work_us=column(work_us),
        request_us=column(job.request_us for job in jobs),
        tasks=column(job.demand.tasks for job in jobs),
        cores=column(job.demand.cores for job in jobs),
        memory_mb=column(job.demand.memory_mb for job in jobs),
        priority=column(job.priority for job in jobs),
        deadline_us=column(-1 if job.deadline_us is None else job.deadline_us for job in jobs),
        user=pl.Series([job.user or None for job in jobs], dtype=pl.String),
        app=pl.Series([job.app or None for job in jobs], dtype=pl.String),
        devices=devices,
        extra=extra,
    )


def _latencies(entries: Sequence[Ran]) -> pl.DataFrame:
    """How long each step of a start took, and how much later than it was the driver saw the end."""
    rows = []
    for entry in entries:
        wall_end = entry.end_s - entry.start_s if entry.end_s and entry.start_s else None
        seen_run = (entry.ended_us - entry.started_us) / 1e6
        rows.append((
            (entry.decided_us - entry.seen_us) / 1e6, (entry.released_us - entry.decided_us) / 1e6,
            (entry.started_us - entry.released_us) / 1e6, None if wall_end is None else seen_run - wall_end,
        ))  # fmt: skip
    return pl.DataFrame(rows, schema=dict.fromkeys(LATENCIES, pl.Float64), orient="row")


def live_result(past: Past, workload: Workload) -> Result:
    """What really happened, as a result: each job held its lease from the decision to the moment its end was seen.

    If it breaks a rule of the audit, such as that of reservations, its notes say so first.
    """
    (cluster, jobs), recorder = settled(past.names.cluster, workload.jobs), Recorder()
    entries = {entry.key: entry for entry in past.jobs}
    groups = 0
    by_end = sorted(range(len(jobs)), key=lambda i: (entries[jobs.ids[i]].freed_us, i))
    for i in by_end:
        entry = entries[jobs.ids[i]]
        lease = past.names.lease(entry.lease, i)
        recorder.attempt(i, entry.decided_us, entry.freed_us, Outcome.FINISHED, lease.rows, lease.borrowed)
        if lease.shares:
            recorder.share(lease.shares, tuple(range(groups, groups + len(lease.shares))))
            groups += len(lease.shares)
        if len(lease.claims):
            recorder.claim(lease.claims)
    end_us = max(entry.freed_us for entry in past.jobs)
    state = np.full(len(jobs), FINISHED, np.int8)
    log = RunLog.of(recorder, cluster, jobs, state, {}, [], end_us)
    traits: Traits = spec_of(past).make().traits
    lends = traits.lends or len(log.loans) > 0
    result = Result(log, lends=lends, notes=notes_of(past), policy=spec_of(past).label, expects="")
    try:
        audit(result)
    except RunError as error:
        return replace(result, notes=(f"What really happened breaks a rule: {error}.", *result.notes))
    return result


def notes_of(past: Past) -> tuple[str, ...]:
    """What of a past no simulation here has, a sentence each."""
    found = []
    if past.foreign:
        found.append(f"{past.foreign} jobs of others held nodes of ours meanwhile; simulated runs are without them.")
    if past.drained:
        found.append(f"Nodes went out of service {past.drained} times; in simulated runs they do not.")
    if past.tries:
        found.append(f"Starts of {len(past.tries)} jobs failed and were tried again.")
    if past.again:
        found.append(f"{len(past.again)} jobs were started again; their last run counts.")
    if past.windows.lost:
        what = "reservations of before are left out, of nodes or counted places that are gone"
        found.append(f"{past.windows.lost} {what}.")
    if past.gaps_s > 1:
        found.append(f"The driver was away for {past.gaps_s:.0f} s in all.")
    return tuple(found)


def spec_of(past: Past) -> PolicySpec:
    """The policy of the last epoch."""
    return make_policy_spec(past.beginning.policy, Document("the journal", None, {}), 0, ("policy",))


def run_of(past: Past, workload: Workload, policy: PolicySpec, label: str) -> Run:
    """A run of the study of a past."""
    digest = workload.jobs.digest()
    cluster = past.names.cluster
    spec = replace(policy, label=label)
    return Run(
        id=id_of_run([cluster.name, workload.name, label], 0, [digest, cluster.digest(), policy.identity(), label]),
        cluster=cluster, workload=workload, workload_digest=digest, policy=spec, seed=past.beginning.seed,
        world=World(models=past.beginning.models), window_us=None, parameters={},
    )  # fmt: skip
