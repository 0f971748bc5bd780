"""Pods of gangs as jobs: those that wait are one job as soon as enough of them are there, and stay one until they end.

Which pods are one job is open while they wait. As soon as their start is decided it is written down with the job
(:class:`KeptPods`), and they stay together until all have ended or were taken back. Later pods join one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from unrack.live.driver.seen import SeenJob, Shown
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.stage import Phase
from unrack.live.driver.state.table import KnownJobs
from unrack.live.kubernetes.client.objects import Pod
from unrack.live.kubernetes.client.others import JOB_SETS
from unrack.live.kubernetes.gangs.naming import GangName, Groups

OPEN = frozenset({Phase.WAITING, Phase.ASIDE})
"""Phases of jobs of which nothing has been decided."""
STARTING = frozenset({Phase.ATTACHING, Phase.ORDERING, Phase.RELEASED, Phase.RECALLING})
"""Phases of gangs that run as soon as all of their pods are bound."""
ANEW = "its pods are to be looked at anew"
ENDED_WELL = "Succeeded"


class KeptPods(NamedTuple):
    """What is kept with a job: of a gang the keys of its pods, each with its node, ``""`` before that is decided."""

    members: tuple[tuple[str, str], ...] = ()


class Gang(NamedTuple):
    """What is known of the pods of a gang that wait."""

    keys: tuple[str, ...]
    pods: tuple[Pod, ...]
    since_s: int  # when the last of them was made, s since 1970
    why: str = ""  # why they are not to be started now
    comes: bool = False  # whether that is but that others are to come
    alike: tuple[str, ...] = ()  # labels of which the nodes of all of them have the same values


def kept_of(record: Mapping[str, Any]) -> KeptPods | None:
    """What a record of the journal has of it; ``None``: nothing."""
    found = record.get("members")
    return KeptPods(tuple((str(key), str(node)) for key, node in found)) if found else None


def members_of(entry: Entry) -> tuple[tuple[str, str], ...]:
    """The pods of a gang with a decided start; none: it is no gang, or waits."""
    return entry.own.members if isinstance(entry.own, KeptPods) and entry.phase not in OPEN else ()


class Gathering:
    """Gathers pods into gangs.

    Parameters
    ----------
    shown, gone
        All pods as jobs by themselves; those that are gone, as they were.

    Attributes
    ----------
    keys
        By gang, the keys of its pods.
    behind
        Keys of pods that wait until their gang has been started.
    """

    def __init__(self, shown: Mapping[str, SeenJob]) -> None:
        self.groups, self.keys = Groups(), dict[GangName, dict[str, None]]()
        self.behind: dict[str, str] = {}
        self._shown = shown
        self._before: dict[str, Gang] = {}

    def forget(self, name: GangName, key: str) -> None:
        """A pod of a gang is gone."""
        if (keys := self.keys.get(name)) is not None:
            keys.pop(key, None)
            if not keys:
                del self.keys[name]

    def unknown(self) -> list[str]:
        """What is not known of gangs that there are, a sentence for each."""
        lacking, of = self.groups.lacks_job_sets, (name.kind for name in self.keys)
        return [f"pods of JobSets start one by one{lacking}"] if lacking and JOB_SETS in of else []

    def gathered(self, table: KnownJobs, gone: Mapping[str, SeenJob]) -> tuple[set[str], dict[str, SeenJob]]:
        """The pods that are no jobs by themselves, and the gangs that are, by key."""
        taken, found = set[str](), dict[str, SeenJob]()
        self.behind = {}
        for entry in table.in_order(table.keeping):
            if members := members_of(entry):
                taken.update(key for key, _ in members)
                if (job := self._begun(entry, members, gone)) is not None:
                    found[entry.key] = job
        before, self._before = self._before, {}
        for name, keys in self._parts():
            job = self._waiting(name, keys, taken, table, before)
            if job is not None:
                taken.update(job.own.keys)
                found[job.key] = job
        return taken, found

    def _parts(self) -> Iterator[tuple[GangName, Collection[str]]]:
        """The pods that start together, by key."""
        for name, keys in self.keys.items():
            found = dict[str, list[str]]()
            for key in keys:
                if (job := self._shown.get(key)) is not None:
                    found.setdefault(self.groups.part(name, job.own), []).append(key)
            yield from ((name, some) for some in found.values())

    def _waiting(
        self, name: GangName, keys: Collection[str], taken: set[str], table: KnownJobs, before: Mapping[str, Gang]
    ) -> SeenJob | None:
        """The job of those pods of a gang that start together; ``None``: all of them may start alone."""
        held, waiting = 0, list[SeenJob]()
        for key in keys:
            job = self._shown.get(key)
            if key in taken:
                held += 1
            elif job is not None and job.ours and job.shown == Shown.HELD and _is_open(table.get(key)):
                waiting.append(job)
            elif job is not None and (job.shown != Shown.OVER or job.state == ENDED_WELL):
                held += 1
        if not waiting:
            return None
        waiting.sort(key=lambda job: (job.submit_s, job.key))
        least = self.groups.least(name, waiting[0].own)
        if isinstance(least, int) and least <= max(held, 1):
            return None
        some, why, comes = waiting, least if isinstance(least, str) else "", False
        if isinstance(least, int):
            ready = [job for job in waiting if not job.own.spec.scheduling_gates]
            missing = least - held
            if len(ready) >= missing:
                some = ready[:missing]
                own = {job.key for job in some}
                self.behind |= {job.key: f"its gang {name.name} starts first" for job in waiting if job.key not in own}
            else:
                gated = f", {len(waiting) - len(ready)} are gated" if len(waiting) > len(ready) else ""
                why = f"of the {missing} pods that gang {name.name} starts with {len(ready)} wait{gated}"
                comes = True
        named = [f"{name.namespace}/{name.name}/gang-{job.own.metadata.uid}" for job in some]
        key = next((one for one in named if table.get(one) is not None), named[0])
        first = some[named.index(key)]
        gang = Gang(
            tuple(job.key for job in some),
            tuple(job.own for job in some),
            max(job.submit_s for job in some),
            why,
            comes,
            self.groups.alike(name),
        )
        if (was := before.get(key)) is not None and was[2:] == gang[2:] and _same(was.pods, gang.pods):
            gang = was
        self._before[key] = gang
        return SeenJob(
            key, Shown.HELD, min(job.rank for job in some), gang, submit_s=first.submit_s,
            limit_s=_longest(some), state="Pending", in_parts=True,
        )  # fmt: skip

    def _begun(self, entry: Entry, members: Sequence[tuple[str, str]], gone: Mapping[str, SeenJob]) -> SeenJob | None:
        """A gang with a decided start, as its pods are now; ``None``: nothing is known of any of them."""
        jobs = [self._shown.get(key) or gone.get(key) for key, _ in members]
        known = [job for job in jobs if job is not None]
        if not known:
            return None
        runs = [job for job in known if job.shown == Shown.RUNS]
        waits = [job for job in known if job.shown in (Shown.HELD, Shown.FREE)]
        starting, planned = entry.phase in STARTING, sorted({node for _, node in members})
        nodes = frozenset(node for job in runs for node in job.nodes)
        shown, told = Shown.RUNS, tuple[str, ...]()
        if not runs and not waits:
            shown = Shown.OVER
        elif not runs and not starting:
            shown = Shown.HELD
        elif starting:
            ending = any(job.own.metadata.deletion_timestamp for job in runs)
            lost = any(job.shown == Shown.OVER and not job.ran for job in known)  # so it cannot be finished
            if waits or lost or (entry.phase == Phase.RECALLING and ending):
                of = dict(members)
                under_way = any(of[job.key] in (job.told or job.nodes) for job in (*runs, *waits))
                shown, told, nodes = (Shown.FREE, tuple(planned), frozenset()) if under_way else (Shown.HELD, (), nodes)
            elif runs:  # those that are over already had their nodes, too
                nodes |= {node for job, (_, node) in zip(jobs, members, strict=True) if job is None or job.ran}
        states = sorted({job.state for job in known} - {ENDED_WELL})
        return SeenJob(
            entry.key, shown, min(job.rank for job in known), Begun(tuple(job.own for job in runs)),
            submit_s=entry.said.submit_s, start_s=max(job.start_s for job in known),
            limit_s=_longest(known), state=states[0] if states else ENDED_WELL, told=told,
            nodes=nodes, ran=shown == Shown.OVER and any(job.ran for job in known), in_parts=True,
            parts=len(members) if starting else len(runs), broken=ANEW,
        )  # fmt: skip


class Begun(NamedTuple):
    """What is known of a gang with a decided start: the pods that have nodes."""

    pods: tuple[Pod, ...]


def _longest(jobs: Sequence[SeenJob]) -> int | None:
    """How long the last of some may run, s; ``None``: as long as it likes."""
    limits = [job.limit_s for job in jobs if job.limit_s is not None]
    return max(limits) if len(limits) == len(jobs) else None


def _is_open(entry: Entry | None) -> bool:
    return entry is None or entry.phase in OPEN


def _same(some: Sequence[Pod], others: Sequence[Pod]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))
