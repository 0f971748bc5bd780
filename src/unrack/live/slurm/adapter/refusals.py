"""Starts that Slurm did not allow: what it refused once is not tried again until something has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from unrack.cluster.formats.site import SaidSite
from unrack.cluster.spec import Cluster
from unrack.live.driver.contract import Problem
from unrack.live.slurm.jobs import nodes_for
from unrack.live.slurm.reading import Reading, SlurmJob
from unrack.slurm_text.hostlists import compress, expand
from unrack.units import SECOND_US
from unrack.workload.job import Job

FIRST_US, SLOWEST_US = 15 * SECOND_US, 300 * SECOND_US
"""After how long a start that was refused is tried again though nothing is seen to have changed."""
NOT_THERE = frozenset({"BadConstraints", "ReqNodeNotAvail", "NodeDown"})
"""Reasons that have to do with the nodes on which a job was placed."""
LATE = "late"
"""Where Slurm said nothing but that a job waits for what is free."""
OF_SEVERAL = ("QOS", "Assoc", "Account", "Partition", "Invalid", "Max")
"""How reasons begin that are the same for all jobs of a user and account that ask for as much."""


class Refusal(NamedTuple):
    """A start that Slurm did not allow."""

    reason: str  # Slurm's word
    group: tuple[str, ...]  # user, account, QOS and partition of the job
    asked: Mapping[str, Any]  # what the core was told that it asks
    running: tuple[int, ...]  # how many jobs of its user, its account and its QOS ran
    around: str  # its partition and the reservations, as Slurm told of them
    until_us: int  # until when it is not tried again
    # nodes, lapses_us: where it cannot start, as long as all around is as it was, and until when that is believed
    nodes: frozenset[str] = frozenset()
    lapses_us: int = 0


class Refusals:
    """The starts that Slurm did not allow, by the keys of their jobs.

    They are kept in memory alone: a driver that begins anew tries each job once more.
    """

    def __init__(self) -> None:
        self._refusals: dict[str, Refusal] = {}
        self._running: dict[tuple[str, str], int] = {}
        self._around: dict[str, str] = {}
        self._accounting: SaidSite | None = None
        self._limits = 0  # how often accounts and their limits have changed

    def read(self, reading: Reading) -> None:
        """Note what may lift a limit: how many jobs run, partitions, reservations, limits of accounts."""
        running: dict[tuple[str, str], int] = {}
        for job in reading.jobs:
            for owner in _owners(job) if job.runs else ():
                running[owner] = running.get(owner, 0) + 1
        self._running = running
        if reading.accounting is not self._accounting:  # the same object until it is read again
            self._limits += reading.accounting != self._accounting
            self._accounting = reading.accounting
        reserved = f"{self._limits}{reading.reservations!r}"
        nodes = repr([(node.name, node.usable, node.features, node.cores) for node in reading.nodes])
        self._around = {name: partition.said + reserved for name, partition in reading.partitions.items()}
        self._around = {name: around + nodes for name, around in self._around.items()}
        self._around[""] = reserved + nodes

    def note(
        self, key: str, job: SlurmJob, asked: Mapping[str, Any], tries: int, now: int, nodes: Iterable[str] = ()
    ) -> None:
        """Slurm did not allow a start on some nodes, for the ``tries``-th time; ``job``: as it asked."""
        until = now + min(FIRST_US << min(tries, 20), SLOWEST_US)
        reason = job.reason.partition(",")[0]
        never = frozenset(nodes) if reason in NOT_THERE else frozenset()
        made = Refusal(reason, _group(job), asked, self._counts(job), self._state(job), until, never, now + SLOWEST_US)
        own = self._refusals.get(key)
        if own is not None and own.around == made.around and own.reason != LATE:
            made = made._replace(nodes=own.nodes | never)
        self._refusals[key] = made

    def late(self, key: str, job: SlurmJob, asked: Mapping[str, Any], now: int, nodes: Iterable[str]) -> None:
        """A job was let go and did not start in time, though its nodes seem free: it is to go elsewhere, if it can.

        Slurm keeps nodes for reasons that it does not tell, such as for another user (``--exclusive=user``).
        """
        own, around = self._refusals.get(key), self._state(job)
        before = own.nodes if own is not None and own.around == around and now < own.lapses_us else frozenset[str]()
        without, lapses_us = before.union(nodes).difference(job.required_nodes), now + SLOWEST_US
        self._refusals[key] = Refusal(LATE, _group(job), asked, self._counts(job), around, now, without, lapses_us)

    def elsewhere(self, key: str, job: SlurmJob, asked: Job, now: int, cluster: Cluster) -> Job | Problem:
        """A job without the nodes on which Slurm could not start it, or why there is no other.

        Of components it is not known which could not.
        """
        own = self._refusals.get(key)
        if own is None or not own.nodes or asked.components or own.around != self._state(job) or now >= own.lapses_us:
            return asked
        there = nodes_for(cluster, asked.said)
        there = there & ~np.isin(np.arange(len(cluster)), [cluster.number_of.get(name, -1) for name in own.nodes])
        if np.count_nonzero(there) < asked.demand.tasks:  # all were tried
            if own.reason != LATE:
                return Problem(said(own.reason), again_us=own.lapses_us)
            self._refusals[key] = own._replace(nodes=frozenset())
            return asked
        listed = asked.said.get("exc_nodes", "")
        without = own.nodes.union(expand(listed) if listed else ())
        return replace(asked, said={**asked.said, "exc_nodes": compress(sorted(without))})

    def forget(self, key: str) -> None:
        """A job was started, or is gone."""
        self._refusals.pop(key, None)

    def until_us(self, key: str, now: int) -> int:
        """Until when a job is not tried again."""
        return self._refusals[key].until_us if key in self._refusals else now

    def lapses_us(self, key: str, now: int) -> int | None:
        """When a job is tried again where Slurm could not start it; ``None``: it may be now."""
        own = self._refusals.get(key)
        return own.lapses_us if own is not None and own.nodes and now < own.lapses_us else None

    def keep(self, keys: Iterable[str]) -> None:
        """Forget those of all other jobs."""
        wanted = set(keys)
        for key in [key for key in self._refusals if key not in wanted]:
            del self._refusals[key]

    def against(self, key: str, job: SlurmJob, asked: Mapping[str, Any], now: int) -> str:
        """Why a job is not to be started now; ``""``: nothing is known against it.

        One that was refused itself may be tried when something has changed, or after a while; until it has started,
        others of its user and account that ask for no less wait for it.
        """
        own = self._refusals.get(key)
        if own is not None:
            lifted = any(one < before for one, before in zip(self._counts(job), own.running, strict=True))
            changed = own.asked != asked or own.group != _group(job) or own.around != self._state(job)
            return "" if changed or lifted or now >= own.until_us else said(own.reason)
        group = _group(job)
        for other, one in self._refusals.items():
            if one.group == group and one.reason.startswith(OF_SEVERAL) and _no_less(asked, one.asked):
                return f"Slurm refuses job {other}, which asks for no more: {one.reason}"
        return ""

    def _counts(self, job: SlurmJob) -> tuple[int, ...]:
        return tuple(self._running.get(owner, 0) for owner in _owners(job))

    def _state(self, job: SlurmJob) -> str:
        return "".join(self._around.get(name, self._around.get("", "")) for name in job.partition.split(","))


def said(reason: str) -> str:
    """How a job is told that Slurm does not allow its start."""
    return f"Slurm refuses to start it: {reason}"


def _group(job: SlurmJob) -> tuple[str, ...]:
    return job.user, job.account, job.qos, job.partition


def _owners(job: SlurmJob) -> tuple[tuple[str, str], ...]:
    return ("user", job.user), ("account", job.account), ("qos", job.qos)


def _no_less(asked: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if a job asks for as much as another or more, of everything that limits are of."""
    keys = ("request", "tasks", "cores", "mb")
    return all(int(asked.get(key) or 0) >= int(other.get(key) or 0) for key in keys)
