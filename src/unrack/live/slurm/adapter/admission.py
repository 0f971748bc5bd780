"""Whether a job that is held may be given to the core now: limits of Slurm, reservations, arrays, what was refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from unrack.cluster.spec import Cluster
from unrack.live.driver.contract import AskedJob, Problem
from unrack.live.driver.portable import Names
from unrack.live.driver.seen import Seen
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.epoch import APART
from unrack.live.driver.state.stage import INTENDED, NOT_HELD, Phase
from unrack.live.driver.state.table import KnownJobs
from unrack.live.records import job_record
from unrack.live.slurm.adapter.asked import as_asked
from unrack.live.slurm.adapter.refusals import Refusals, said
from unrack.live.slurm.adapter.seen import Member, not_now
from unrack.live.slurm.adapter.together import broken, for_each
from unrack.live.slurm.agreed import Agreed
from unrack.live.slurm.jobs import said as printed
from unrack.live.slurm.orders import JobKey
from unrack.live.slurm.reading import Reading, SlurmJob
from unrack.units import SECOND_US
from unrack.workload.job import Job

MOST_WAYS = 32
"""In how many ways the jobs of one user that wait may ask for nodes: each of them costs time in every plan."""
PLAIN_QOS = ("", "normal")
"""Jobs of any other QOS may be allowed more than their partition allows: Slurm is asked, by a start."""


class Admission:
    """Which jobs the core is told of in one turn.

    Parameters
    ----------
    terms, refusals
        What the site agreed on, and starts that Slurm did not allow.
    seen, table, now
        As of :meth:`unrack.live.driver.contract.Orchestrator.turn`.
    """

    def __init__(self, terms: Agreed, refusals: Refusals, seen: Seen, table: KnownJobs, now: int) -> None:
        self.terms, self.refusals, self.now, self.at_s = terms, refusals, now, seen.at_s
        reading: Reading = seen.own
        self._partitions = reading.partitions
        self._reservations = {one.name: one.opens_s for one in reading.reservations}
        self._ways: dict[str, set[tuple[str, ...]]] = {}
        self._limits: dict[int, int] = {}
        for entry in table.in_phase(NOT_HELD | INTENDED | {Phase.WAITING}):
            every = entry.job, *entry.job.get("components", ())
            self._ways.setdefault(entry.job.get("user", ""), set()).update(_way(one.get("said", {})) for one in every)
        for job in reading.jobs:
            if job.array_limit:
                array = job.array or job.id
                self._limits[array] = max(job.array_limit, self._limits.get(array, 0))
        self._room = dict(self._limits)
        for key, one in seen.jobs.items() if self._room else ():
            member: Member = one.own
            if member.key.id in self._room and member.key.member >= 0:
                self._room[member.key.id] -= self._is_started(table.get(key), member.job)

    def asked(self, entry: Entry, member: Member, names: Names) -> AskedJob | Problem:
        """What a job asks that may be given to the core now; or why it may not."""
        not_yet = not_now(member.job, self.terms.take, self.at_s)
        since_us = self._since_us(entry, member.job, bool(not_yet))
        found = Problem(not_yet) if not_yet else self._asked(entry, member, names, since_us)
        if isinstance(found, Problem):
            found = replace(found, since_us=since_us)
            begins_s = max(member.job.eligible_s, self._unreserved(member.job)[1])
            late_us = round((begins_s - self.at_s) * SECOND_US)
            return replace(found, again_us=self.now + late_us) if begins_s > self.at_s else found
        apart = could_share(found, names.cluster)
        return AskedJob(found, apart, self.refusals.lapses_us(entry.key, self.now))

    def _since_us(self, entry: Entry, job: SlurmJob, not_yet: bool) -> int:
        """Since when a job could start but for what is free, µs: Slurm says that of none that is held for us.

        A job that is queued again keeps its age, as it does in a simulation.
        """
        if not_yet:
            return self.now
        if entry.known.since_us is None and entry.phase == Phase.WAITING:  # in a journal that says nothing of it
            return int(entry.job["submit"])
        if entry.known.since_us is None:
            at_s = max(job.submit_s, 0 if job.restarts else job.eligible_s)
            return self.now - max(0, round((self.at_s - at_s) * SECOND_US)) if at_s else entry.seen_us
        return entry.known.since_us

    def _asked(self, entry: Entry, member: Member, names: Names, since_us: int) -> Job | Problem:
        if why := broken(member.job) or self._beyond_array(member.key):
            return Problem(why)
        job = for_each(as_asked(entry, member.job), self._limited)
        if why := self._unreserved(job)[0]:
            return Problem(why)
        asked = asks_of(job, member.key, self.terms, names, entry.seen_us)
        if isinstance(asked, Problem) or isinstance(asked := self._allowed(job, asked), Problem):
            return asked
        asked = replace(asked, submit_us=since_us)
        if why := self.refusals.against(entry.key, job, bare(job_record(asked)), self.now):
            return Problem(why)
        found = self.refusals.elsewhere(entry.key, job, asked, self.now, names.cluster)
        if isinstance(found, Problem):
            return found
        return Problem(why) if (why := self._unlike_others(found)) else found

    @staticmethod
    def _is_started(entry: Entry | None, job: SlurmJob) -> bool:
        """True if a member of an array runs, or its start is decided or may be."""
        return job.runs or (job.waits and entry is not None and entry.phase in INTENDED | NOT_HELD)

    def _limited(self, job: SlurmJob) -> SlurmJob:
        """A job with the time limit that its partition gives it if it says none; of several, the longest."""
        found = [self._partitions.get(name) for name in job.partition.split(",")]
        assumed = [one.assumed_s for one in found if one is not None and one.assumed_s is not None]
        if job.limit_s is not None or not assumed or len(assumed) < len(found):
            return job
        return replace(job, limit_s=max(assumed))

    def _unlike_others(self, asked: Job) -> str:
        """Why the way in which a job asks for nodes is one too many of its user's; ``""``: it is not."""
        ways, own = self._ways.get(asked.user, set()), {_way(one.said) for one in asked.every}
        if len(ways) < MOST_WAYS or not any(any(way) for way in own - ways):
            return ""
        return f"jobs of its user wait that ask for nodes in {MOST_WAYS} other ways"

    def take(self, key: JobKey, asked: Job) -> None:
        """A job is in the core: others of its user, and of its array, have less room."""
        self._ways.setdefault(asked.user, set()).update(_way(one.said) for one in asked.every)
        if key.member >= 0 and key.id in self._room:
            self._room[key.id] -= 1

    def _allowed(self, job: SlurmJob, asked: Job) -> Job | Problem:
        """A job in those of its partitions that allow it; or why none does, or none of a component."""
        every: list[Job] = []
        for part, one in zip(job.every, asked.every, strict=True):
            found = self._allowed_in(part, one)
            if isinstance(found, Problem):
                return found
            every.append(found)
        return replace(every[0], components=tuple(every[1:]))

    def _allowed_in(self, job: SlurmJob, asked: Job) -> Job | Problem:
        names = job.partition.split(",")
        found = {name: self._beyond_partition(name, job, asked) for name in names}
        if open_to := [name for name, why in found.items() if not why]:
            several = {"partition": ",".join(open_to)} if len(open_to) < len(names) else {}
            return replace(asked, said={**asked.said, **several}) if several else asked
        return Problem(next(iter(found.values())))

    def _beyond_partition(self, name: str, job: SlurmJob, asked: Job) -> str:
        partition = self._partitions.get(name)
        if partition is not None and partition.forbids_starts:
            return said(f"Partition{partition.state.capitalize()}")
        if partition is not None and job.qos in PLAIN_QOS:
            for reason in partition.refusals(job.limit_s, asked.demand.tasks, asked.demand.cores):
                return said(reason)
        return ""

    def _unreserved(self, job: SlurmJob) -> tuple[str, int]:
        """Why the reservation of a job does not let it start, ``""``: it does; and from when on, s since 1970."""
        if len({part.reservation for part in job.every}) > 1:
            return "its components are in several reservations, or some in none", 0
        if not job.reservation:
            return "", 0
        start_s = self._reservations.get(job.reservation)
        if start_s is None:
            return f"there is no reservation {printed(job.reservation)}", 0
        late = start_s > self.at_s
        return ("its reservation has not begun", start_s) if late else ("", 0)

    def _beyond_array(self, key: JobKey) -> str:
        """Why a member of an array is not given to the core whatever it asks; ``""``: its array has room."""
        if key.member < 0 or self._room.get(key.id, 1) > 0:
            return ""
        limit = self._limits[key.id]
        return f"its array may run {limit} member{'s' * (limit != 1)} at a time"


def could_share(job: Job, cluster: Cluster) -> bool:
    """True if a job has several tasks, and two of them could be on one node, or it has several components.

    Slurm starts no heterogeneous job of which two components are placed on one node: its backfill scheduler plans a
    component on whole nodes.
    """
    demand = job.demand
    if job.components:
        return True
    two = (cluster.cores >= 2 * demand.cores) & (cluster.memory_mb >= 2 * demand.memory_mb)
    return demand.tasks > 1 and bool(two.any())


def asks_of(job: SlurmJob, key: JobKey, terms: Agreed, names: Names, now_us: int) -> Job | Problem:
    """What a job asks of the core, with all of its components; or why it cannot be scheduled by us."""
    if not job.components:
        return terms.job(job, key, names, now_us)
    every: list[Job] = []
    for part in job.components:
        if not terms.partitions.issuperset(part.partition.split(",")):
            return Problem(f"component {part.component} of it is in partitions that are not scheduled here")
        asked = terms.job(part, key, names, now_us)
        if isinstance(asked, Problem):
            return Problem(f"component {part.component}: {asked.why}"[:300], asked.misread)
        every.append(replace(asked, id=f"{key}+{part.component}") if every else asked)
    return replace(every[0], components=tuple(every[1:]))


def _way(said: Mapping[str, str]) -> tuple[str, ...]:
    """The way in which a job asks for nodes; empty words: it asks for none in particular."""
    return tuple(said.get(name, "") for name in ("constraint", "req_nodes", "exc_nodes"))


def bare(asked: Mapping[str, object]) -> dict[str, object]:
    """What a job asks, without what is the driver's own: what keeps its tasks apart, nodes that Slurm has refused."""
    devices, words = asked.get("devices"), asked.get("said")
    kept = {key: value for key, value in asked.items() if key not in ("devices", "said")}
    if isinstance(words, Mapping):
        kept["said"] = {key: text for key, text in words.items() if key != "exc_nodes"}
    if isinstance(devices, Mapping) and (others := {key: of for key, of in devices.items() if key != APART}):
        kept["devices"] = others
    if isinstance(parts := asked.get("components"), list):
        kept["components"] = list(map(bare, parts))
    return kept
