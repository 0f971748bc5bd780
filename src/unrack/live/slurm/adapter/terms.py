"""What a site has agreed on: which jobs are the driver's, what they ask, which nodes there are."""

from __future__ import annotations

from typing import Protocol

from unrack.ledger.lease import Lease
from unrack.live.driver.contract import Problem
from unrack.live.driver.portable import Names
from unrack.live.driver.state.epoch import Beginning
from unrack.live.slurm.adapter.seen import Take
from unrack.live.slurm.orders import JobKey
from unrack.live.slurm.reading import Reading, SlurmJob
from unrack.workload.job import Job


class Terms(Protocol):
    """What a site has agreed on."""

    partitions: frozenset[str]  # their jobs are the driver's; no others are ever touched
    take: Take  # which of their jobs
    start_timeout_us: int  # how long Slurm may take to start a job that was released
    longest_us: int  # how long a job without a limit is expected to run

    def beginning(self, reading: Reading, origin_s: float) -> Beginning:
        """The cluster that a reading shows, and the policy; ``origin_s``: when the driver's clock begins.

        Raises
        ------
        InputError
            There are no nodes of the site, or they make no cluster with what the site adds.
        """
        ...

    def job(self, job: SlurmJob, key: JobKey, names: Names, now_us: int) -> Job | Problem:
        """What a job asks of the core, which came ``now_us``."""
        ...

    def stands(self, job: SlurmJob, names: Names) -> tuple[Job, Lease] | None:
        """A job that somebody else has started: what it asks, and what it holds of these nodes; ``None``: nothing."""
        ...
