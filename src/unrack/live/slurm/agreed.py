"""What a site file and a reading of Slurm say together: the terms under which the driver works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from unrack.ledger.lease import Lease
from unrack.live.asks.asks import Askable, AskError
from unrack.live.driver.contract import Problem
from unrack.live.driver.portable import Names
from unrack.live.driver.state.epoch import Beginning
from unrack.live.slurm.asks.comments import asks_of_job
from unrack.live.slurm.jobs import JobReading, job_of, stands
from unrack.live.slurm.machines import LONGEST_S, machines_of
from unrack.live.slurm.orders import JobKey
from unrack.live.slurm.reading import Reading, SlurmJob
from unrack.live.slurm.site.site import Site
from unrack.live.slurm.site.tables import MemoryUse
from unrack.live.watch.log import Events
from unrack.policy.orders import MULTIFACTOR
from unrack.units import SECOND_US
from unrack.workload.job import Job

LONGEST_US = LONGEST_S * SECOND_US
"""How long a job without a time limit is expected to run."""


log = Events("slurm")


class Agreed:
    """What a site has agreed on: which jobs are the driver's, what they ask, which nodes there are.

    Parameters
    ----------
    site
        The site file.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.partitions, self.take = frozenset(site.partitions), site.take
        self.start_timeout_us, self.longest_us = site.start_timeout_us, LONGEST_US
        self._how = JobReading(LONGEST_US, site.memory == MemoryUse.REQUESTED)
        self._seen: Any = None
        self._said: set[str] = set()  # what has been told of what is not taken over
        self._beginning: Beginning | None = None
        self._askable: tuple[Names, Askable] | None = None

    def beginning(self, reading: Reading, origin_s: float) -> Beginning:
        """The nodes of the site's partitions, and which jobs may use them when, as Slurm and the site file say.

        A job may take :attr:`start_timeout_us` to start, so that reservations keep their nodes for as long before.

        Raises
        ------
        InputError
            There are no such partitions or nodes, or what the site adds cannot be.
        """
        nodes = [node for node in reading.nodes if node.partitions & self.partitions]
        seen = (
            [(node.name, node.cores, node.memory_mb, sorted(node.gres.items()), node.types) for node in nodes],
            [(sorted(node.partitions & self.partitions), node.features) for node in nodes],
            sorted((name, one.said) for name, one in reading.partitions.items() if name in self.partitions),
            [(one.name, one.record) for one in reading.reservations],
            sorted((name, licence.total) for name, licence in reading.licences.items()),
            reading.accounting,
        )
        if self._beginning is None or seen != self._seen:
            early_s = self.start_timeout_us / SECOND_US
            found = machines_of(reading, partitions=self.site.partitions, origin_s=origin_s, early_s=early_s)
            content = self.site.additions.joined(found.content, found.names)
            parameters = dict(self.site.policy_spec.parameters)
            notes = (*found.notes, *_by_usage(parameters, content, reading))
            for note in [note for note in notes if note not in self._said]:
                log.info("not all that Slurm says is taken over", what=note)
            self._said |= set(notes)
            self._how = self._how._replace(together=found.together, shares=found.shares)
            self._beginning = Beginning(content, found.names, self.site.spec, self.site.performance_models)
            self._seen = seen
        return self._beginning._replace(cluster=dict(self._beginning.cluster))

    def job(self, job: SlurmJob, key: JobKey, names: Names, now_us: int) -> Job | Problem:
        """What a job asks of Slurm, and in its comment beyond that."""
        asked = job_of(job, names.cluster, self._how, key=key, now_us=now_us)
        if isinstance(asked, Problem):
            return asked
        if self._askable is None or self._askable[0] is not names:
            self._askable = names, Askable.of(names.cluster)
        try:
            asks = asks_of_job(job, self._askable[1], self.site.user_priority_most)
        except AskError as error:
            return Problem(str(error)[:300], misread=True)
        demand = asked.demand
        devices = {kind: dict(of) for kind, of in demand.devices.items()}
        for (kind, quantity), amount in asks.devices.items():
            known = devices.setdefault(kind, {}).get(quantity, 0)
            if amount < known:
                return _too_little(f"{kind}.{quantity}", str(amount), f"{known}, which Slurm was asked for")
            devices[kind][quantity] = amount
        memory_mb = demand.memory_mb if asks.memory_mb is None else asks.memory_mb
        if memory_mb < demand.memory_mb:
            is_said = job.node_memory_mb or job.cpu_memory_mb or job.gpu_memory_mb
            source = "which Slurm was asked for" if is_said else "which Slurm gives a job that does not say --mem"
            return _too_little("memory", f"{memory_mb} MB", f"{demand.memory_mb} MB, {source}")
        return replace(
            asked,
            priority=asks.priority or 0,
            deadline_us=None if asks.deadline_us is None else now_us + asks.deadline_us,
            app=asks.app or asked.app,
            demand=replace(demand, memory_mb=memory_mb, devices=devices),
        )

    def stands(self, job: SlurmJob, names: Names) -> tuple[Job, Lease] | None:
        """What a job that was not started here holds of the site's nodes."""
        return stands(job, names.node_of, names.cluster, self._how)


def _by_usage(parameters: Mapping[str, Any], content: Mapping[str, Any], reading: Reading) -> list[str]:
    """What the order by multifactor priority lacks."""
    if parameters.get("order") != MULTIFACTOR:
        return []
    if "priority" not in content.get("site", {}):
        return ["No weights of priorities: jobs go by tier, then first come, first served."]
    return [] if reading.used is not None else ["What was used is not known: usage counts from zero."]


def _too_little(key: str, got: str, least: str) -> Problem:
    """A comment cannot ask for less than Slurm gives the job: the ledger would give the rest to others."""
    return Problem(str(AskError(f"comment, {key}", got, f"at least {least}"))[:300], misread=True)
