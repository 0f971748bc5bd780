"""Whether a job that is held may be given to the core now: limits of Slurm, reservations, arrays, what was refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.stage import INTENDED, NOT_HELD, Phase
from unrack.live.driver.turns.apart import APART
from unrack.live.driver.turns.notes import Notes, Part
from unrack.live.records import job_record
from unrack.live.slurm.adapter.refusals import said
from unrack.live.slurm.adapter.seen import Member
from unrack.live.slurm.adapter.terms import Problem
from unrack.live.slurm.adapter.together import for_each
from unrack.live.slurm.constraints import Partition
from unrack.live.slurm.jobs import said as printed
from unrack.live.slurm.orders import JobKey
from unrack.live.slurm.reading import Reading, SlurmJob
from unrack.workload.job import Job

MOST_WAYS = 32
"""In how many ways the jobs of one user that wait may ask for nodes: each of them costs time in every plan."""
PLAIN_QOS = ("", "normal")
"""Jobs of any other QOS may be allowed more than their partition allows: Slurm is asked, by a start."""


class Admission(Part):
    """Which jobs the core is told of."""

    def __init__(self, notes: Notes) -> None:
        super().__init__(notes)
        self._partitions: Mapping[str, Partition] = {}
        self._reservations: dict[str, int] = {}
        self._ways: dict[str, set[tuple[str, ...]]] = {}
        self._limits: dict[int, int] = {}
        self._room: dict[int, int] = {}

    def read(self, reading: Reading, found: Mapping[str, Member]) -> None:
        """Note what a reading says of partitions and of the limits of arrays."""
        self._partitions = reading.partitions
        self._reservations = {one.name: one.opens_s for one in reading.reservations}
        for entry in self.table.in_phase(NOT_HELD | INTENDED | {Phase.WAITING}):
            every = entry.job, *entry.job.get("components", ())
            self._ways.setdefault(entry.job.get("user", ""), set()).update(_way(one.get("said", {})) for one in every)
        for job in reading.jobs:
            if job.array_limit:
                array = job.array or job.id
                self._limits[array] = max(job.array_limit, self._limits.get(array, 0))
        self._room = dict(self._limits)
        for key, member in found.items():
            if member.key.id in self._room and member.key.member >= 0:
                self._room[member.key.id] -= self._is_started(self.table.get(key), member.job)

    @staticmethod
    def _is_started(entry: Entry | None, job: SlurmJob) -> bool:
        """True if a member of an array runs, or its start is decided or may be."""
        return job.runs or (job.waits and entry is not None and entry.phase in INTENDED | NOT_HELD)

    def limited(self, job: SlurmJob) -> SlurmJob:
        """A job with the time limit that its partition gives it if it says none; of several, the longest."""
        return for_each(job, self._limited)

    def _limited(self, job: SlurmJob) -> SlurmJob:
        found = [self._partitions.get(name) for name in job.partition.split(",")]
        assumed = [one.assumed_s for one in found if one is not None and one.assumed_s is not None]
        if job.limit_s is not None or not assumed or len(assumed) < len(found):
            return job
        return replace(job, limit_s=max(assumed))

    def unlike_others(self, asked: Job) -> str:
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

    def why_not(self, entry: Entry, job: SlurmJob, asked: Job) -> str:
        """Why a job is not given to the core now; ``""``: it is."""
        return self.notes.refusals.against(entry.key, job, bare(job_record(asked)), self.now)

    def allowed(self, job: SlurmJob, asked: Job) -> Job | Problem:
        """A job in those of its partitions that allow it; or why none does, or none of a component."""
        every: list[Job] = []
        for part, one in zip(job.every, asked.every, strict=True):
            found = self._allowed(part, one)
            if isinstance(found, Problem):
                return found
            every.append(found)
        return replace(every[0], components=tuple(every[1:]))

    def _allowed(self, job: SlurmJob, asked: Job) -> Job | Problem:
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

    def unreserved(self, job: SlurmJob) -> tuple[str, int]:
        """Why the reservation of a job does not let it start, ``""``: it does; and from when on, s since 1970."""
        if len({part.reservation for part in job.every}) > 1:
            return "its components are in several reservations, or some in none", 0
        if not job.reservation:
            return "", 0
        start_s = self._reservations.get(job.reservation)
        if start_s is None:
            return f"there is no reservation {printed(job.reservation)}", 0
        late = start_s > self.notes.wall_s
        return ("its reservation has not begun", start_s) if late else ("", 0)

    def beyond_array(self, key: JobKey) -> str:
        """Why a member of an array is not given to the core whatever it asks; ``""``: its array has room."""
        if key.member < 0 or self._room.get(key.id, 1) > 0:
            return ""
        limit = self._limits[key.id]
        return f"its array may run {limit} member{'s' * (limit != 1)} at a time"


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
