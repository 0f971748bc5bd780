"""Whether a job that is held may be given to the core now: limits of Slurm, reservations, arrays, what was refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from unrack.live.records import job_record
from unrack.live.slurm.constraints import Partition
from unrack.live.slurm.driver.state.entry import Entry
from unrack.live.slurm.driver.state.seen import Member
from unrack.live.slurm.driver.state.stage import INTENDED, NOT_HELD
from unrack.live.slurm.driver.turns.apart import APART
from unrack.live.slurm.driver.turns.notes import Notes, Part
from unrack.live.slurm.driver.turns.refusals import said
from unrack.live.slurm.driver.turns.reserved import closed
from unrack.live.slurm.orders import JobKey
from unrack.live.slurm.reading import Reading, SlurmJob
from unrack.workload.job import Job

PLAIN_QOS = ("", "normal")
"""Jobs of any other QOS may be allowed more than their partition allows: Slurm is asked, by a start."""


class Admission(Part):
    """Which jobs the core is told of."""

    def __init__(self, notes: Notes) -> None:
        super().__init__(notes)
        self._partitions: Mapping[str, Partition] = {}
        self._nodes: dict[str, set[str]] = {}
        self._site: set[str] = set()
        self._limits: dict[int, int] = {}
        self._room: dict[int, int] = {}
        self._closes = notes.reserved.closes(notes.now)

    def read(self, reading: Reading, found: Mapping[str, Member]) -> None:
        """Note what a reading says of partitions and of the limits of arrays."""
        self._partitions = reading.partitions
        for node in reading.nodes:
            for name in node.partitions:
                self._nodes.setdefault(name, set()).add(node.name)
        self._site = set().union(*(self._nodes.get(name, ()) for name in self.terms.partitions))
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
        """A job with the time limit that its partition gives it if it says none."""
        partition = self._partitions.get(job.partition)
        if job.limit_s is not None or partition is None or partition.assumed_s is None:
            return job
        return replace(job, limit_s=partition.assumed_s)

    def take(self, key: JobKey) -> None:
        """A member of an array is in the core: others have less room."""
        if key.member >= 0 and key.id in self._room:
            self._room[key.id] -= 1

    def why_not(self, entry: Entry, member: Member, asked: Job) -> str:
        """Why a job is not given to the core now; ``""``: it is."""
        job = member.job
        return (
            self._beyond_partition(job, asked)
            or self._before_reservations(asked)
            or self.notes.refusals.against(entry.key, job, bare(job_record(asked)), self.now)
        )

    def _beyond_partition(self, job: SlurmJob, asked: Job) -> str:
        partition = self._partitions.get(job.partition)
        if partition is not None and partition.forbids_starts:
            return said(f"Partition{partition.state.capitalize()}")
        if partition is not None and job.qos in PLAIN_QOS:
            for reason in partition.refusals(job.limit_s, asked.demand.tasks, asked.demand.cores):
                return said(reason)
        own = self._nodes.get(job.partition, set())
        if self._site - own:
            return (
                f"its partition has {len(own & self._site)} of the {len(self._site)} nodes of the site's partitions: "
                "give partitions with other nodes a site file of their own"
            )
        return ""

    def _before_reservations(self, asked: Job) -> str:
        """Fewer nodes are left than it needs; or it would keep most of them empty until they are reserved."""
        shut = closed(self._closes, asked.request_us + self.terms.start_timeout_us) & self._site
        later = sum(self._closes[node] > 0 for node in shut)
        if len(self._site) - len(shut) >= asked.demand.tasks and 2 * later <= len(self._site):
            return ""
        return f"{len(shut)} of {len(self._site)} nodes are reserved, or will be before it could end" if shut else ""

    def beyond_array(self, key: JobKey) -> str:
        """Why a member of an array is not given to the core whatever it asks; ``""``: its array has room."""
        if key.member < 0 or self._room.get(key.id, 1) > 0:
            return ""
        limit = self._limits[key.id]
        return f"its array may run {limit} member{'s' * (limit != 1)} at a time"


def bare(asked: Mapping[str, object]) -> dict[str, object]:
    """What a job asks, without what keeps its tasks apart, which is the driver's own."""
    devices = asked.get("devices")
    kept = {key: value for key, value in asked.items() if key != "devices"}
    if isinstance(devices, Mapping) and (others := {key: of for key, of in devices.items() if key != APART}):
        kept["devices"] = others
    return kept
