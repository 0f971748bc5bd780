"""What a run leaves: its log, the tables made of it, and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.cluster.pools.pool import Pace
from unrack.errors import InputError
from unrack.facts import line, table
from unrack.metric.bound import Bound, bound
from unrack.metric.holdings import holdings
from unrack.metric.table import measure
from unrack.plots.accessor import ResultPlots
from unrack.plots.pandas_table import to_pandas
from unrack.sim.brief import result_facts
from unrack.sim.faults.failure import failures_frame
from unrack.sim.frames.claims import claims_frame
from unrack.sim.frames.cores import core_columns, cores_frame
from unrack.sim.frames.jobs import jobs_frame, usage_frame
from unrack.sim.frames.loans import loans_frame
from unrack.sim.frames.memory_use import memory_frame, use_columns
from unrack.sim.frames.rounds import rounds_frame
from unrack.sim.frames.shares import shares_frame
from unrack.sim.frames.spans import placements_frame
from unrack.sim.frames.tier_holding import TierHolding, tier_holding
from unrack.sim.frames.tiers import tier_columns, tiers_frame
from unrack.sim.log import RunLog
from unrack.slowdown.memory.apps import ContentionNote
from unrack.slowdown.pools import fastest

TABLES = (
    "jobs", "usage", "placements", "shares", "loans", "claims", "holdings", "memory", "failures", "rounds", "tiers",
    "cores",
)  # fmt: skip
"""Tables of a result; some are there only for runs that have such things."""


@dataclass(frozen=True, eq=False)
class Result:
    """A finished run.

    Attributes
    ----------
    log
        Everything that happened, in columns of integers.
    window_us
        The part of time over which metrics of time are taken; ``None``: from the first submission to the last end.
    pace
        The models in force; ``None``: none.
    lends
        Whether the policy lends memory of nodes to others; then the tables say what was lent.
    contention
        What the profiles of the run did not cover; ``None``: memory was not contended.
    failing
        Whether there were faults that could strike; then there are metrics of failures.
    core_tiles
        How the cores of a node are chosen; ``None``: nobody asked.
    notes
        What was asked for and could not change anything in this run, a sentence each.
    provisions
        Whether the memory of jobs followed what they used: they may begin with less than they ask.
    counts : int64[rounds, 7]
        The rounds of the policy, as of :class:`unrack.policy.rounds.RoundCount`; ``None``: it does not tell them.
    policy
        The policy as it was asked for, or its name.
    """

    log: RunLog
    window_us: tuple[int, int] | None = None
    pace: Pace | None = None
    lends: bool = False
    contention: ContentionNote | None = None
    failing: bool = False
    core_tiles: str | None = None
    notes: tuple[str, ...] = ()
    provisions: bool = False
    counts: NDArray[np.int64] | None = None
    policy: str = ""

    def __repr__(self) -> str:
        return line("Result", self.policy, result_facts(self))

    def _repr_html_(self) -> str:
        """For a notebook."""
        return table("Result", self.policy, result_facts(self))

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """One row a job, in order of (submission, id); see ``docs/file-formats.md``."""
        more = [] if self.log.cluster.tiers is None else tier_columns(self.log, self.held)
        if self.log.jobs.usage is not None:
            more = [*more, *use_columns(self.log)]
        if self.core_tiles is not None:
            more = [*more, *core_columns(self.log, self.cores)]
        return jobs_frame(self.log, self.fastest, self.lends, more)

    @cached_property
    def held(self) -> TierHolding:
        """What was held in each span of each tier of memory, on a cluster with tiers."""
        return tier_holding(self.log)

    @cached_property
    def tiers(self) -> pl.DataFrame:
        """What was used, stranded and paid of tiers of memory, as a step function of time; on a cluster with tiers."""
        return tiers_frame(self.log, self.held)

    @cached_property
    def cores(self) -> pl.DataFrame:
        """Which cores of its nodes each attempt had, span by span; in a run with ``core_tiles``.

        Raises
        ------
        InputError
            The run was without.
        """
        if self.core_tiles is None:
            raise InputError("core tiles", "a run that did not choose cores", "simulate(..., core_tiles='best')")
        return cores_frame(self.log, self.core_tiles)

    @cached_property
    def fastest(self) -> NDArray[np.float64]:
        """float64[jobs]: the best speed that each job could have on this hardware."""
        devices, jobs = self.log.cluster.devices, self.log.jobs
        if self.pace is None or not len(devices):
            return np.ones(len(jobs))
        return fastest(self.pace, devices, jobs, devices.wanted(jobs.devices, len(jobs)))

    @cached_property
    def usage(self) -> pl.DataFrame:
        """What was held and who waited, as a step function of time."""
        return usage_frame(self.log, self.lends)

    @cached_property
    def placements(self) -> pl.DataFrame:
        """Which nodes each attempt held, span by span, and what of each."""
        return placements_frame(self.log)

    @cached_property
    def shares(self) -> pl.DataFrame:
        """Which devices each attempt held, span by span, and in which composition."""
        return shares_frame(self.log)

    @cached_property
    def loans(self) -> pl.DataFrame:
        """Which memory of other nodes each attempt had borrowed, span by span."""
        return loans_frame(self.log)

    @cached_property
    def claims(self) -> pl.DataFrame:
        """What each attempt claimed of the places of resources, span by span."""
        return claims_frame(self.log)

    @cached_property
    def holdings(self) -> pl.DataFrame:
        """All that each attempt held, span by span, whatever it is; see :func:`unrack.metric.holdings.holdings`."""
        log = self.log
        return holdings(
            log.cluster, self.placements, self.loans if len(log.loans) else None, self.shares if log.shares else None,
            self.claims if len(log.claims) else None,
        )  # fmt: skip

    @cached_property
    def memory(self) -> pl.DataFrame:
        """What running jobs used, held and asked of memory whenever it was looked at; in runs that know use."""
        return memory_frame(self.log)

    @cached_property
    def failures(self) -> pl.DataFrame:
        """What failed before the run ended, and which jobs each failure stopped."""
        return failures_frame(self.log)

    @cached_property
    def rounds(self) -> pl.DataFrame | None:
        """The rounds of the policy in numbers; ``None``: it does not tell them."""
        return None if self.counts is None else rounds_frame(self.counts)

    @cached_property
    def measured(self) -> dict[str, float | None]:
        """As :attr:`metrics`, without the bound, which takes about as long as the run itself."""
        failures = self.failures if self.failing else None
        cluster = self.log.cluster
        shares = self.shares if len(cluster.devices) else None
        placements = self.placements if len(cluster.devices) or len(cluster.places) else None
        tiers = None if cluster.tiers is None else self.tiers
        claims = self.claims if len(cluster.places) else None
        memory = None if self.log.jobs.usage is None else self.memory
        return measure(
            self.jobs, self.usage, cluster, self.window_us, shares, placements, failures, tiers, claims, memory
        )

    @cached_property
    def bound(self) -> Bound | None:
        """What no policy could beat on this workload and hardware; ``None`` where no job has a deadline."""
        jobs = self.log.jobs
        if not bool((jobs.deadline_us >= 0).any()):
            return None
        run_us = np.floor(jobs.left_us / np.maximum(self.fastest, 1e-9)).astype(np.int64)
        return bound(self.log.cluster, jobs, run_us, self.pace, window_us=self.window_us)

    @cached_property
    def metrics(self) -> dict[str, float | None]:
        """Metric name → value; units and definitions in :func:`unrack.metrics`."""
        share = None if self.bound is None else self.bound.share
        return {**self.measured, "bound_missed_deadlines": share}

    @property
    def plot(self) -> ResultPlots:
        """Charts in Python: ``plot.gantt()``, ``plot.utilisation()``, ``plot.waits()``; they need Altair."""
        cluster = self.log.cluster
        title = f"{self.policy} on {cluster.name}" if self.policy else cluster.name
        return ResultPlots(title, self.jobs, self.usage, self.placements, cluster.cores, cluster.total_mb)

    def to_pandas(self, table: str = "jobs") -> Any:
        """One of the tables for pandas; PyArrow is not needed.

        Parameters
        ----------
        table
            The name of a table of this result: ``"jobs"``, ``"usage"``, ``"placements"``, ``"shares"``, ``"loans"``,
            ``"claims"``, ``"holdings"``, ``"memory"``, ``"failures"``, ``"rounds"``, ``"tiers"`` or ``"cores"``.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        InputError
            There is no such table, or pandas is not installed.
        """
        if table not in TABLES:
            raise InputError("table", repr(table), f"one of {', '.join(TABLES)}")
        if (table == "rounds" and self.counts is None) or (table == "tiers" and self.log.cluster.tiers is None):
            raise InputError("table", repr(table), f"a run that has {table}")
        return to_pandas(getattr(self, table))
