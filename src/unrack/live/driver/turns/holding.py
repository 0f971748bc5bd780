"""Jobs that hold something: starts that are acknowledged, jobs that others started, ends that are expected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from unrack.events import Adopted, Expected, Started, Withdrawn
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES, TASKS, Lease
from unrack.live.driver.seen import SeenJob, Shown
from unrack.live.driver.state.entry import Entry, Said, Trouble
from unrack.live.driver.state.stage import (
    ASIDE,
    INTENDED,
    Grant,
    Phase,
    is_short,
    started_us_of,
)
from unrack.live.driver.state.steps import acknowledged, elsewhere, granted, recalled
from unrack.live.driver.turns.notes import Part
from unrack.live.records import job_of_record, job_record
from unrack.reasons import Code, Reason
from unrack.resources.places import NO_CLAIMS
from unrack.units import SECOND_US
from unrack.workload.job import Job

LATER_US = 30 * SECOND_US
"""How much longer a job that runs beyond its expected end is expected to run, again and again."""


class Holding(Part):
    """What jobs hold, told to the core."""

    def acknowledge(self, entry: Entry, job: SeenJob) -> None:
        """The start of a job is seen."""
        entry.said = entry.said._replace(start_s=job.start_s, restarts=job.restarts, state="")
        if entry.number is None:  # it came back after its end, and started before it could be held
            if job.shown == Shown.RUNS:
                self._adopt(entry, job)
            return
        planned, held = set(entry.nodes), job.nodes
        some_left = job.completing and held <= planned  # it has ended, and is seen for the first time
        if job.shown == Shown.RUNS and held and planned != held and not some_left:
            self.elsewhere(entry, job)
            return
        entry.trouble = Trouble()
        self.orchestrator.started(entry.key)
        entry.said = entry.said._replace(limit_s=job.limit_s)
        self.epoch.tell(Started(entry.number), self.now)
        runs = acknowledged(entry.stage, self.now)
        self.table.move(entry, runs)
        self.notes.count("started")
        if entry.said.restarts == 0 and runs.released_us is not None:
            self.notes.steps.append((entry.seen_us, runs.intent.decided_us, runs.released_us, self.now))

    def runs(self, entry: Entry, job: SeenJob) -> None:
        """A running job: its limit may have changed, it may run beyond it, and more may be free for what it holds."""
        if job.limit_s != entry.said.limit_s:
            entry.said = entry.said._replace(limit_s=job.limit_s)
            self.table.touch(entry)
            if entry.number is not None:
                self.epoch.tell(Expected(entry.number, self.now + self._left_us(entry)), self.now)
        if job.in_parts and not job.completing and not entry.operations and job.nodes != set(entry.nodes):
            self.elsewhere(entry, job)  # a part has ended, or was started, before the others
        elif is_short(entry.stage) and self._has_room(entry):
            self.withdraw(entry, "counted anew")
            self._adopt(entry, job)

    def withdraw(self, entry: Entry, why: str) -> None:
        """Give back what the core holds for a job, if it holds anything, and its number."""
        if entry.number is not None:
            self.epoch.tell(Withdrawn(entry.number, Reason(Code.WITHDRAWN, why)), self.now)
        self.table.number(entry, None)

    def _has_room(self, entry: Entry) -> bool:
        """True if something is free on the nodes of a job."""
        names, free = self.epoch.names.node_of, self.epoch.core.state.free
        return any(bool(free[:, names[node]].any()) for node in entry.nodes if node in names)

    def late(self) -> None:
        """Expect the ends of jobs that run beyond theirs a little later."""
        state = self.epoch.core.state
        count = state.running_count
        for number, end in zip(state.running[1, :count].tolist(), state.running[0, :count].tolist(), strict=True):
            if end > self.now:
                break
            self.epoch.tell(Expected(number, self.now + LATER_US), self.now)

    def _left_us(self, entry: Entry) -> int:
        """How much longer a job may run: by its limit, or, until its start is acknowledged, by what it asked."""
        started_us, limit_s = started_us_of(entry.stage), entry.said.limit_s
        if started_us is None and "request" in entry.job:
            return int(entry.job["request"])
        limit = self.orchestrator.longest_us if limit_s is None else limit_s * SECOND_US
        ran = 0 if started_us is None else self.now - started_us
        return limit - ran if ran < limit else SECOND_US

    def elsewhere(self, entry: Entry, job: SeenJob) -> None:
        """Somebody made a job run on other nodes than those that were decided: it holds what it holds."""
        self.notes.count("started-elsewhere")
        self.withdraw(entry, "started elsewhere")
        self._adopt(entry, job)
        entry.ours = True

    def foreign(self, job: SeenJob) -> None:
        """A job runs that we did not start: what it holds of our nodes is not free."""
        ours = self.table.ended_as(job) is not None  # it was forgotten that it is over
        entry = Entry(job.key, self.now, ASIDE, ours, Said(job.submit_s))
        if self._adopt(entry, job):
            self.table.add(entry)
            self.notes.count("foreign")

    def _adopt(self, entry: Entry, job: SeenJob) -> bool:
        """Tell the core what a job holds that others started; False: it holds nothing of our nodes."""
        stands = self.orchestrator.stands(job, self.epoch.names)
        if stands is None:
            return False
        asked, lease = stands
        lease = self._with_claims(asked, lease)
        ran_us = 0 if not job.start_s else max(0, self.now - self._moment_us(job.start_s))
        entry.said = entry.said._replace(start_s=job.start_s, limit_s=job.limit_s, restarts=job.restarts)
        entry.stage = elsewhere(entry.stage, self.now - ran_us)
        self.adopt(entry, job_record(asked), lease)
        if is_short(entry.stage):
            self._recall_from(entry)
        return True

    def _with_claims(self, asked: Job, lease: Lease) -> Lease:
        """A lease with what its job claims of places, wherever these are free."""
        claimed, places = self.epoch.core.state.claimed, self.epoch.names.cluster.places
        if claimed is None or not asked.demand.devices:
            return lease
        amounts = {
            (kind, name): np.array([amount], np.int64)
            for kind, of in asked.demand.devices.items()
            for name, amount in of.items()
        }
        claims = places.claims(places.asked(amounts, 1)[:, 0], lease.nodes, lease.rows[:, TASKS], claimed.free)
        return lease._replace(claims=claims)

    def _recall_from(self, entry: Entry) -> None:
        """Starts that were decided on what somebody else's job holds now will not come about."""
        taken = set(entry.nodes)
        for other in self.table.in_phase(INTENDED):
            if other is not entry and taken & set(other.nodes) and other.phase != Phase.RECALLING:
                self.table.move(other, recalled(other.stage, f"job {entry.key} took its place"))

    def _moment_us(self, at_s: int) -> int:
        return self.now - max(0, round((self.notes.wall_s - at_s) * SECOND_US))

    def adopt(self, entry: Entry, asked: dict[str, Any], lease: Lease) -> None:
        """Tell the core that a job runs on a lease, or on what is free of it."""
        core = self.epoch.core
        left = self._left_us(entry)
        for lease_now, record, short in self._down_to(asked, lease):
            number = core.state.jobs
            if self.epoch.attempt(Adopted(job_of_record(record), lease_now.numbered(number), left), self.now):
                grant = Grant(self.epoch.names.portable(core.state.lease(number)), short)
                entry.stage, entry.known = granted(entry.stage, grant), entry.known._replace(job=record)
                self.table.number(entry, number)
                return
        self.table.number(entry, None)

    def _down_to(self, asked: dict[str, Any], lease: Lease) -> Iterable[tuple[Lease, dict[str, Any], bool]]:
        """The lease; then, as it may be outside of where the job may run now; then what is free of cores and memory."""
        yield lease, asked, False
        if not lease.parts:
            asked = {key: value for key, value in asked.items() if key != "said"}
            yield lease, asked, False
        free = self.epoch.core.state.free
        rows = lease.rows.copy()
        rows = rows[(rows[:, NODES] == 1)]
        for row in rows:
            row[CORES] = max(0, min(int(row[CORES]), int(free[0, row[FIRST]])))
            row[LOCAL_MB] = max(0, min(int(row[LOCAL_MB]), int(free[1, row[FIRST]])))
        plain = {key: value for key, value in asked.items() if key not in ("devices", "said", "components")}
        plain |= {
            "tasks": int(rows[:, TASKS].sum()),
            "cores": 1 if len(rows) and rows[:, CORES].min() > 0 else 0,
            "mb": 0,
        }
        if len(rows):
            yield Lease(-1, rows, claims=NO_CLAIMS), plain, True
