"""A Slurm as the driver sees it and tells it what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unrack.ledger.lease import Lease
from unrack.live.driver.contract import Acknowledgement, AskedJob, Order, Problem
from unrack.live.driver.portable import Names
from unrack.live.driver.seen import Seen, SeenJob, Shown
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.epoch import Beginning
from unrack.live.driver.state.stage import Foreign, Phase, Released
from unrack.live.driver.state.table import KnownJobs
from unrack.live.records import job_record
from unrack.live.slurm.adapter.admission import Admission, asks_of, bare, could_share
from unrack.live.slurm.adapter.asked import Placing, as_asked, changed_since, noted, placed, placing_of
from unrack.live.slurm.adapter.orders import carried_out, ready_us
from unrack.live.slurm.adapter.otherwise import amounts, held_otherwise
from unrack.live.slurm.adapter.refusals import Refusals
from unrack.live.slurm.adapter.restored import Restored
from unrack.live.slurm.adapter.seen import NOT_OPEN, Member, not_now, seen_of
from unrack.live.slurm.agreed import Agreed
from unrack.live.slurm.client import Client
from unrack.live.slurm.reading import SlurmJob
from unrack.workload.job import Job


class SlurmAdapter:
    """Some partitions of a Slurm: see :class:`unrack.live.driver.contract.Orchestrator`.

    Its own record of a job is a :class:`unrack.live.slurm.adapter.seen.Member`, that of all a
    :class:`unrack.live.slurm.reading.Reading`; with an entry it keeps what the job asked for before it was placed.

    Parameters
    ----------
    client, terms
        How Slurm is reached; what the site agreed on.
    """

    name = "Slurm"
    cut_short = frozenset({"CANCELLED", "NODE_FAIL"})

    def __init__(self, client: Client, terms: Agreed) -> None:
        self.client, self.terms = client, terms
        self.start_timeout_us, self.longest_us = terms.start_timeout_us, terms.longest_us
        self.refusals, self.restored = Refusals(), Restored()
        self._admission: Admission | None = None
        self._now, self._at_s, self._ready_us = 0, 0.0, dict[str, int]()
        # by the keys of jobs: what they asked for when they were held back for that; what they hold as the core has it
        self._asked, self._held = dict[str, Any](), dict[str, tuple[Any, ...]]()

    def changed(self, now: int) -> bool:
        """Whether anything may have changed, or is to be looked at."""
        self._now = now
        return self.restored.due(now) or self.client.changed()

    def read(self, table: KnownJobs) -> Seen:
        """All that there is now."""
        booted_s = self.client.booted_s() if self.restored.watches(table) else None
        reading = self.client.read()
        if booted_s is not None and booted_s != self.client.booted_s():
            booted_s = None
        self.restored.booted_s = booted_s
        known = {entry.key: (entry.job or {}).get("said", {}).get("reservation", "") for entry in table}
        return seen_of(reading, self.terms.partitions, self.terms.take, known)

    def beginning(self, seen: Seen, origin_s: float) -> Beginning:
        """The cluster and the policy."""
        return self.terms.beginning(seen.own, origin_s)

    def turn(self, seen: Seen, table: KnownJobs, now: int) -> None:
        """A turn begins."""
        self.refusals.read(seen.own)
        self.refusals.keep(entry.key for entry in table)
        for kept in (self._asked, self._held):
            for key in [key for key in kept if table.get(key) is None]:
                del kept[key]
        self.restored.look(seen, table, now)
        for entry in table.in_phase((Phase.RELEASED, Phase.RECALLING)):
            job = seen.jobs.get(entry.key)
            if job is None or job.shown != Shown.FREE:
                continue
            if (own := changed_since(entry, job.own.job)) != entry.own:
                entry.own = own
                table.touch(entry)
            if isinstance(entry.stage, Released) and now - entry.stage.released_us > self.start_timeout_us:
                asked = as_asked(entry, job.own.job)
                self.refusals.late(entry.key, asked, bare(entry.job), now, entry.nodes)
        self._admission = Admission(self.terms, self.refusals, seen, table, now)
        self._now, self._at_s, self._ready_us = now, seen.at_s, ready_us(seen, now)

    def asked(self, entry: Entry, job: SeenJob, names: Names) -> AskedJob | Problem:
        """What a job asks that may be started now."""
        assert self._admission is not None
        return self._admission.asked(entry, job.own, names)

    def takes(self, job: SeenJob, asked: Job) -> None:
        """A job is in the core's queue."""
        assert self._admission is not None
        self._admission.take(job.own.key, asked)

    def wants_apart(self, job: SeenJob, names: Names) -> bool:
        """True if each node that it asks for is to be another."""
        asked = asks_of(job.own.job, job.own.key, self.terms, names, 0)
        return not isinstance(asked, Problem) and could_share(asked, names.cluster)

    def stands(self, job: SeenJob, names: Names) -> tuple[Job, Lease] | None:
        """What a job that runs holds."""
        return self.terms.stands(job.own.job, names)

    def asks_otherwise(self, entry: Entry, job: SeenJob, names: Names) -> bool:
        """Its user, or an operator, has changed what it asks; what Slurm only counts otherwise is seen again."""
        member: Member = job.own
        asked = asks_of(as_asked(entry, member.job), member.key, self.terms, names, 0)
        found = asked.why if isinstance(asked, Problem) else amounts(bare(job_record(asked)))
        if found == amounts(bare(entry.job)) or self._asked.get(entry.key) == found:
            return False
        self._asked[entry.key] = found
        return True

    def holds_otherwise(self, entry: Entry, job: SeenJob, names: Names) -> tuple[Job, Lease] | None:
        """Slurm gives a job something else than was decided, or has changed what it has."""
        seen: SlurmJob = job.own.job
        now = names, seen.holds, seen.licences, seen.gpus
        if self._held.get(entry.key) == now or job.completing or (stands := self.stands(job, names)) is None:
            return None
        foreign = isinstance(entry.stage, Foreign)
        asked = stands[0] if foreign else asks_of(seen, job.own.key, self.terms, names, 0)
        found = held_otherwise(entry, *stands, names, None if isinstance(asked, Problem) else asked.demand.devices)
        if found is None:
            self._held[entry.key] = now
        return found

    def own_of(self, record: Mapping[str, Any]) -> Placing:
        """What a record of the journal says that a job asked for before it was placed."""
        return placing_of(record)

    def queued(self, entry: Entry, job: SeenJob) -> Placing:
        """What a job asks for that comes into the queue."""
        return noted(entry, as_asked(entry, job.own.job))

    def placed(self, entry: Entry, lease: Lease | None, names: Names) -> Placing:
        """The same once its start is decided."""
        return placed(entry, lease, names)

    def carry_out(self, orders: Sequence[Order]) -> Iterator[Sequence[Acknowledgement]]:
        """Give orders, in at most two steps."""
        return carried_out(self.client, orders, {key for key, at_us in self._ready_us.items() if self._now < at_us})

    def forgotten(self, key: str) -> bool:
        """Slurm, which was killed, has forgotten what the user of a held job wants."""
        return key in self.restored.forgotten

    def refused(self, entry: Entry, job: SeenJob, now: int) -> None:
        """Slurm does not allow a start.

        What is seen beforehand as long as it lasts need not be remembered: a job that waits for others, or for its
        begin time, and a node that is no longer open.
        """
        if job.reason == NOT_OPEN or not_now(job.own.job, self.terms.take, self._at_s):
            return
        asked, tries = bare(entry.job), entry.trouble.tries
        self.refusals.note(entry.key, as_asked(entry, job.own.job), asked, tries, now, entry.nodes)

    def refused_until_us(self, key: str, now: int) -> int:
        """When it is tried again."""
        return self.refusals.until_us(key, now)

    def started(self, key: str) -> None:
        """Slurm has started a job."""
        self.refusals.forget(key)
        self._asked.pop(key, None)
        self._held.pop(key, None)
