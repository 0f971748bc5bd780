"""Jobs that hold something: starts that are acknowledged, jobs that others started, ends that are expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from unrack.core import Core
from unrack.events import Adopted, Expected, Expired, Started, Withdrawn
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES, TASKS, Lease, together
from unrack.ledger.state import RUNNING
from unrack.live.driver.seen import SeenJob, Shown
from unrack.live.driver.state.entry import Entry, Said, Trouble
from unrack.live.driver.state.stage import (
    ASIDE,
    INTENDED,
    Foreign,
    Grant,
    MoreTime,
    Phase,
    Running,
    is_short,
    started_us_of,
)
from unrack.live.driver.state.steps import acknowledged, elsewhere, granted, recalled
from unrack.live.driver.turns.notes import Participant
from unrack.live.records import job_of_record, job_record
from unrack.policy.contract import Ability, Decision, Extend
from unrack.reasons import Code, Reason
from unrack.resources.places import NO_CLAIMS
from unrack.units import SECOND_US
from unrack.workload.job import Job

LATER_US = 30 * SECOND_US
"""How much longer a job that runs beyond its expected end is expected to run, again and again."""
AHEAD_US = 30 * SECOND_US
"""How long before a job has used up its limit the policy is asked whether it gets more time, and it can be told."""


class Holding(Participant):
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
        entry.said = entry.said._replace(holding=job.parts)
        otherwise = self.orchestrator.holds_otherwise(entry, job, self.epoch.names)
        self.epoch.tell(Started(entry.number), self.now)
        runs = acknowledged(entry.stage, self.now)
        self.table.move(entry, runs)
        self._limited_to(entry, job)
        if otherwise is not None:
            self._take_over(entry, *otherwise)
        self.notes.count("started")
        if entry.said.restarts == 0 and runs.released_us is not None:
            self.notes.steps.append((entry.seen_us, runs.intent.decided_us, runs.released_us, self.now))

    def runs(self, entry: Entry, job: SeenJob) -> None:
        """A running job: its limit, or what it holds, may have changed, or more is free for what it holds."""
        self._limited_to(entry, job)
        changed = job.nodes != set(entry.nodes) or job.parts != entry.said.holding
        if job.in_parts and not job.completing and not entry.operations and changed:
            self.elsewhere(entry, job)  # a part has ended, or was started, before the others
        elif is_short(entry.stage) and not self._has_room(entry):
            return
        elif (otherwise := self.orchestrator.holds_otherwise(entry, job, self.epoch.names)) is not None:
            self._take_over(entry, *otherwise)
        elif is_short(entry.stage):
            self.withdraw(entry, "counted anew")
            self._adopt(entry, job)

    def _limited_to(self, entry: Entry, job: SeenJob) -> None:
        """A job that runs may have another time limit than was known, which may count from later on.

        While its nodes wake up for it, a job holds them, and its time does not count yet.
        """
        said, stage = entry.said, entry.stage
        later = 0 < said.start_s < job.start_s and job.restarts == said.restarts
        if later and isinstance(stage, Running | Foreign):
            self.table.move(entry, replace(stage, started_us=max(0, self._moment_us(job.start_s))))
        if later or job.limit_s != said.limit_s:
            entry.said = said._replace(limit_s=job.limit_s, start_s=job.start_s)
            self.table.touch(entry)
            if entry.number is not None:
                self.epoch.tell(Expected(entry.number, self.now + self._left_us(entry)), self.now)

    def _take_over(self, entry: Entry, asked: Job, lease: Lease) -> None:
        """A job that runs holds something else than the core was told, of what was decided for it."""
        self.notes.count("holds-otherwise")
        self.withdraw(entry, "holds something else")
        self.adopt(entry, job_record(asked), with_claims(self.epoch.core, asked, lease))
        if is_short(entry.stage):
            self._recall_from(entry)

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
        over = int(np.searchsorted(state.running[0, : state.running_count], self.now, "right"))
        for number in state.running[1, :over].tolist():
            self.epoch.tell(Expected(number, self.now + LATER_US), self.now)

    def more_time(self) -> list[Decision]:
        """Ask the policy about jobs of ours that will soon have used up their limits, each once; what it gives them."""
        found: list[Decision] = []
        for entry, ends_us in self._limited():
            stage, limit_s = entry.stage, entry.said.limit_s
            assert isinstance(stage, Running)
            assert entry.number is not None
            assert limit_s is not None
            if ends_us - self.now > AHEAD_US:
                continue
            if self.epoch.core.state.booked_end(entry.number) != ends_us:
                self.epoch.tell(Expected(entry.number, ends_us), self.now)
            more = replace(stage.more, asked_s=limit_s)
            for decision in self.epoch.tell(Expired(entry.number), self.now):
                assert isinstance(decision, Extend)
                more_us = decision.until_us - ends_us
                minutes = -(-(limit_s * SECOND_US + more_us) // (60 * SECOND_US))
                more = MoreTime(limit_s, 60 * minutes, (more.more_us or 0) + more_us)
                known, again = entry.known, entry.known.raised_s == limit_s
                before_s = known.before_s if again else limit_s
                entry.known = known._replace(raised_s=more.given_s, before_s=before_s)
                found.append(decision)
                self.notes.count("extended")
            self.table.move(entry, replace(stage, more=more))
        return found

    def next_limit_us(self) -> int | None:
        """When the policy is to be asked next whether a job gets more time; ``None``: not as far as is known."""
        return min((ends_us - AHEAD_US for _, ends_us in self._limited()), default=None)

    def _limited(self) -> Iterator[tuple[Entry, int]]:
        """The jobs of ours about which the policy has not been asked at their limits, and when these are used up, µs.

        Parts that have several limits are left as they are: there is one order for all of them.
        """
        if Ability.EXTENDS not in self.epoch.core.traits.does:
            return
        for entry in self.table.in_phase(Phase.RUNNING):
            stage, limit_s = entry.stage, entry.said.limit_s
            assert isinstance(stage, Running)
            requests = {one["request"] for one in (entry.job, *entry.job.get("components", ()))}
            if entry.number is None or limit_s is None or stage.more.asked_s == limit_s or len(requests) > 1:
                continue
            if self.epoch.core.state.condition(entry.number) == RUNNING:
                yield entry, self.now + self._left_us(entry)

    def _left_us(self, entry: Entry) -> int:
        """How much longer a job may run: by its limit, or, until its start is acknowledged, by what it asked."""
        started_us, limit_s = started_us_of(entry.stage), entry.said.limit_s
        if started_us is None and "request" in entry.job:
            return int(entry.job["request"])
        limit = self.orchestrator.longest_us if limit_s is None else limit_s * SECOND_US
        ran = 0 if started_us is None else self.now - started_us
        return limit - ran if ran < limit else SECOND_US

    def elsewhere(self, entry: Entry, job: SeenJob) -> None:
        """A job was made to run on other nodes than those that were decided: it holds what it holds."""
        self.notes.count("started-elsewhere")
        self.withdraw(entry, "started elsewhere")
        self._adopt(entry, job)
        entry.ours = True

    def recall(self, entry: Entry, job: SeenJob) -> bool:
        """Whether a job that is not known is one of ours that was over: then its place is ours, as far as it has one.

        What the adapter kept with it comes back with it.
        """
        ended = self.table.ended_as(job)
        if ended is not None and (job.told or ended.asked):
            entry.own = self.orchestrator.own_of(ended.asked)
            if job.told:
                entry.place(job.told)
                entry.own = self.orchestrator.placed(entry, None, self.epoch.names)
        return ended is not None

    def foreign(self, job: SeenJob) -> None:
        """A job runs that we did not start: what it holds of our nodes is not free."""
        entry = Entry(job.key, self.now, ASIDE, said=Said(job.submit_s))
        entry.ours = self.recall(entry, job)  # it was forgotten that it is over
        if self._adopt(entry, job):
            self.table.add(entry)
            self.notes.count("foreign")

    def _adopt(self, entry: Entry, job: SeenJob) -> bool:
        """Tell the core what a job holds that others started; False: it holds nothing of our nodes."""
        stands = self.orchestrator.stands(job, self.epoch.names)
        if stands is None:
            return False
        asked, lease = stands
        lease = with_claims(self.epoch.core, asked, lease)
        ran_us = 0 if not job.start_s else max(0, self.now - self._moment_us(job.start_s))
        said = entry.said._replace(start_s=job.start_s, limit_s=job.limit_s, restarts=job.restarts, holding=job.parts)
        entry.said = said
        entry.stage = elsewhere(entry.stage, self.now - ran_us)
        self.adopt(entry, job_record(asked), lease)
        if is_short(entry.stage):
            self._recall_from(entry)
        return True

    def _recall_from(self, entry: Entry) -> None:
        """Starts that were decided on what another's job holds now will not come about."""
        taken = set(entry.nodes)
        for other in self.table.in_phase(INTENDED):
            if other is not entry and taken & set(other.nodes) and other.phase != Phase.RECALLING:
                self.table.move(other, recalled(other.stage, f"job {entry.key} took its place"))

    def _moment_us(self, at_s: int) -> int:
        """A moment that is over, µs, of s since 1970: below 0 before the driver's clock began."""
        return self.now - max(0, round((self.notes.wall_s - at_s) * SECOND_US))

    def adopt(self, entry: Entry, asked: dict[str, Any], lease: Lease) -> None:
        """Tell the core that a job runs on a lease, or on what is free of it."""
        core = self.epoch.core
        left = self._left_us(entry)
        more_us = (entry.stage.more.more_us or 0) if isinstance(entry.stage, Running) else 0
        for lease_now, record, short in self._down_to(asked, lease):
            number = core.state.jobs
            adopted = Adopted(job_of_record(record), lease_now.numbered(number), left, extended_us=more_us)
            if self.epoch.attempt(adopted, self.now):
                grant = Grant(self.epoch.names.portable(core.state.lease(number)), short)
                lacking = entry.known.lacking or record is not asked
                entry.known = entry.known._replace(job=record, lacking=lacking)
                entry.stage = granted(entry.stage, grant)
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
        if lease.shares and not lease.parts:
            yield lease._replace(rows=rows), asked, True
        plain = {key: value for key, value in asked.items() if key not in ("devices", "said", "components")}
        plain |= {
            "tasks": int(rows[:, TASKS].sum()),
            "cores": 1 if len(rows) and rows[:, CORES].min() > 0 else 0,
            "mb": 0,
        }
        if len(rows):
            yield Lease(-1, rows, claims=NO_CLAIMS), plain, True


def with_claims(core: Core, asked: Job, lease: Lease) -> Lease:
    """A lease with what its job claims of places, wherever these are free; it keeps those that it has of a resource."""
    if lease.parts:
        each = [with_claims(core, *one) for one in zip(asked.every, lease.parts, strict=True)]
        return together(lease.job, each)
    claimed, places = core.state.claimed, core.state.cluster.places
    if claimed is None or not asked.demand.devices:
        return lease
    amounts = {
        (kind, name): np.array([amount], np.int64)
        for kind, of in asked.demand.devices.items()
        for name, amount in of.items()
    }
    claims = places.claims(places.asked(amounts, 1)[:, 0], lease.nodes, lease.rows[:, TASKS], claimed.free)
    of = [(part, part.own(lease.claims)) for part in places.parts]
    each = [(own if len(own) else part.own(claims)) + np.array([part.first, 0]) for part, own in of]
    return lease._replace(claims=np.ascontiguousarray(np.concatenate(each)))
