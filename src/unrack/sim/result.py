"""What a run leaves: its log, the tables made of it, and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from unrack.cluster.pools.pool import Pace
from unrack.errors import InputError, RunError, check_choice
from unrack.facts import Fact, counted, line, table
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.lease import Sizes
from unrack.metric.audit.audit import violations
from unrack.metric.audit.tables import Tables
from unrack.metric.bound import Bound, bound
from unrack.metric.holdings import holdings
from unrack.metric.table import measure
from unrack.plots.accessor import ResultPlots, to_pandas
from unrack.policy.preemption.look import SUSPEND
from unrack.policy.preemption.preempting import preempts, site_of
from unrack.sim.faults import failures_frame
from unrack.sim.frames.held import (
    claims_frame,
    core_columns,
    cores_frame,
    loans_frame,
    placements_frame,
    shares_frame,
    size_columns,
)
from unrack.sim.frames.jobs import (
    jobs_frame,
    limit_columns,
    memory_frame,
    preemption_columns,
    rounds_frame,
    usage_frame,
    use_columns,
)
from unrack.sim.frames.power import energy_column, power_frame
from unrack.sim.frames.tiers import TierHolding, tier_columns, tier_holding, tiers_frame
from unrack.sim.log import RunLog
from unrack.slowdown.memory.speeds import ContentionNote
from unrack.slowdown.model import fastest
from unrack.units import SECOND_US, clock_start, seconds_text
from unrack.workload.sizing import COLUMN, least_times

_TIMES = {"wait_s_mean": "mean wait", "wait_s_p95": "p95 wait"}
_SHARES = {"missed_deadlines": "missed deadlines", "utilisation_cores": "cores in use"}


def result_facts(result: Result) -> list[Fact]:
    """Jobs, cluster, span and the main metrics; those that are not defined are left out."""
    jobs, cluster, metrics = len(result.log.jobs), result.log.cluster, result.measured
    span = seconds_text(result.log.end_us / SECOND_US - clock_start(result.log.jobs.submit_us[:1].sum() / SECOND_US))
    where = f"{cluster.name} ({counted(len(cluster), 'node')})"
    words = counted(jobs, "job")
    found = [
        Fact("cluster", where),
        Fact("jobs", f"{jobs:,}", f"{words} on {cluster.name!r} in {span}"),
        Fact("until the last end", span),
        *_not_finished(metrics, jobs),
    ]
    for name, noun in _TIMES.items():
        if (value := metrics.get(name)) is not None:
            found.append(Fact(noun, seconds_text(value), f"{noun} {seconds_text(value)}"))
    if (value := metrics.get("bounded_slowdown_mean")) is not None:
        found.append(Fact("bounded slowdown", f"{value:.3g}", f"bounded slowdown {value:.3g}"))
    for name, noun in _SHARES.items():
        if (value := metrics.get(name)) is not None:
            found.append(Fact(noun, f"{100 * value:.3g} %", f"{noun} {100 * value:.3g} %"))
    return found


def _not_finished(metrics: Mapping[str, float | None], jobs: int) -> list[Fact]:
    finished = int(metrics.get("jobs_finished") or 0)
    return [Fact("finished", f"{finished:,} of {jobs:,}", f"{finished:,} finished")] if finished < jobs else []


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
        How the cores of a node are chosen; ``None``: not asked for.
    notes
        What was asked for and could not change anything in this run, a sentence each.
    provisions
        Whether the memory of jobs followed what they used: they may begin with less than they ask.
    counts : int64[rounds, 7]
        The rounds of the policy, as of :class:`unrack.policy.around.RoundCount`; ``None``: it does not tell them.
    policy
        The policy as it was asked for, or its name.
    sizes
        Job → its sizes, under a policy that chooses among them or changes them.
    expects
        The column of the jobs table that says how long the policy expected jobs to run; ``""``: it is not known.
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
    counts: Ints | None = None
    policy: str = ""
    sizes: Mapping[int, Sizes] = field(default_factory=dict)
    expects: str = "request_s"

    def __repr__(self) -> str:
        return line("Result", self.policy, result_facts(self))

    def _repr_html_(self) -> str:
        return table("Result", self.policy, result_facts(self))

    def table(self, name: str) -> pl.DataFrame:
        """A table by its name, as ``docs/result-tables.md`` has it; it is made when it is first asked for.

        Parameters
        ----------
        name
            ``"jobs"``, ``"usage"``, ``"placements"``, ``"shares"``, ``"loans"``, ``"claims"``, ``"holdings"``,
            ``"memory"``, ``"failures"``, ``"rounds"``, ``"tiers"``, ``"power"`` or ``"cores"``. A table of holdings is
            empty where nothing of that kind was held.

        Raises
        ------
        InputError
            There is no such table, or the run has no rounds, tiers of memory, power or chosen cores.
        """
        check_choice("table", name, _TABLES)
        if name in ("rounds", "tiers", "power", "cores") and name not in self.tables:
            raise InputError("table", repr(name), f"a run that has {name}")
        if name not in self._made:
            self._made[name] = _TABLES[name](self)
        return self._made[name]

    @cached_property
    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The tables that the run has, by name; each is made when it is first asked for."""
        log, cluster = self.log, self.log.cluster
        there = {
            "shares": len(cluster.devices),
            "loans": len(log.loans),
            "claims": len(cluster.places.parts),
            "memory": log.jobs.usage is not None,
            "failures": self.failing or log.failures,
            "rounds": self.counts is not None,
            "tiers": cluster.tiers is not None,
            "power": "power" in cluster.places.installed,
            "cores": self.core_tiles is not None,
        }
        return _Tables(["jobs", "usage", "placements", *(name for name, has in there.items() if has)], self.table)

    @cached_property
    def _made(self) -> dict[str, pl.DataFrame]:
        return {}

    @property
    def jobs(self) -> pl.DataFrame:
        """One row a job, in order of (submission, id)."""
        return self.table("jobs")

    @property
    def usage(self) -> pl.DataFrame:
        """What was held and which jobs waited, as a step function of time."""
        return self.table("usage")

    @property
    def placements(self) -> pl.DataFrame:
        """Which nodes each attempt held, span by span, and what of each."""
        return self.table("placements")

    @property
    def holdings(self) -> pl.DataFrame:
        """All that each attempt held, span by span, whatever it is; see :func:`unrack.metric.holdings.holdings`."""
        return self.table("holdings")

    @cached_property
    def tier_holding(self) -> TierHolding:
        """What was held in each span of each tier of memory, on a cluster with tiers."""
        return tier_holding(self.log)

    @cached_property
    def fastest(self) -> Floats:
        """float64[jobs]: the best speed that each job could have on this hardware."""
        devices, jobs = self.log.cluster.devices, self.log.jobs
        if self.pace is None or not len(devices):
            return np.ones(len(jobs))
        return fastest(self.pace, devices, jobs, devices.wanted(jobs.devices, len(jobs)))

    @cached_property
    def measured(self) -> dict[str, float | None]:
        """As :attr:`metrics`, without the bound, which takes about as long as the run itself."""
        return measure(self.tables, self.log.cluster, self.window_us)

    @cached_property
    def bound(self) -> Bound | None:
        """What no policy could beat on this workload and hardware.

        ``None``: no job has a deadline, sizes change, or jobs may be stopped with work left, at limits.
        """
        log, jobs = self.log, self.log.jobs
        limited = log.extensions is not None and bool((jobs.work_us > jobs.request_us).any())
        if limited or log.cut or least_times(jobs) or self.sizes or not bool((jobs.deadline_us >= 0).any()):
            return None
        run_us = np.floor(jobs.left_us / np.maximum(self.fastest, 1e-9)).astype(np.int64)
        at_once = log.eligible_us is None
        return bound(log.cluster, jobs, run_us, self.pace, window_us=self.window_us, at_once=at_once)

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
        return ResultPlots(title, self.tables, cluster)

    def to_pandas(self, table: str = "jobs") -> Any:
        """One of the tables as a ``pandas.DataFrame``; PyArrow is not needed.

        Parameters
        ----------
        table
            Its name, as of :meth:`table`.

        Raises
        ------
        InputError
            As of :meth:`table`, or pandas is not installed.
        """
        return to_pandas(self.table(table))


class _Tables(Mapping[str, pl.DataFrame]):
    """Tables by name, made on demand."""

    def __init__(self, names: Sequence[str], make: Callable[[str], pl.DataFrame]) -> None:
        self._names, self._make = names, make

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self._names:
            raise KeyError(name)
        return self._make(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _jobs(result: Result) -> pl.DataFrame:
    log, more = result.log, list[pl.Series]()
    if "tiers" in result.tables:
        more += tier_columns(log, result.tier_holding)
    if "memory" in result.tables:
        more += use_columns(log)
    if preempts(log.cluster):
        site = site_of(log.cluster)
        suspends = site is not None and site.ranks is not None and SUSPEND in site.ranks.mode
        more += preemption_columns(log, suspends)
    if COLUMN in log.jobs.extra.columns or log.extensions is not None:
        more += limit_columns(log)
    if "power" in result.tables:
        more += [energy_column(log)]
    if result.sizes:
        more += size_columns(log, result.sizes)
    if "cores" in result.tables:
        more += core_columns(log, result.table("cores"))
    return jobs_frame(log, result.fastest, result.lends, more)


_TABLES: dict[str, Callable[[Result], pl.DataFrame]] = {
    "jobs": _jobs,
    "usage": lambda result: usage_frame(result.log, result.lends, bool(result.sizes)),
    "placements": lambda result: placements_frame(result.log),
    "shares": lambda result: shares_frame(result.log),
    "loans": lambda result: loans_frame(result.log),
    "claims": lambda result: claims_frame(result.log),
    "holdings": lambda result: holdings(result.log.cluster, result.tables),
    "memory": lambda result: memory_frame(result.log),
    "failures": lambda result: failures_frame(result.log),
    "rounds": lambda result: rounds_frame(result.counts),
    "tiers": lambda result: tiers_frame(result.log, result.tier_holding),
    "power": lambda result: power_frame(result.log),
    "cores": lambda result: cores_frame(result.log, str(result.core_tiles)),
}


def audit(result: Result) -> None:
    """Check the tables of a run against each other and against the cluster; nothing else is looked at.

    At every moment no more is held than installed, on every node (cores, memory, lent memory) and device, and nothing
    of what is down; no more is claimed of the places of resources than there is; spans and attempts of a job do not
    overlap; gangs are whole; every attempt begins with all that its job asked for; the tables over time are what
    placements and loans add up to; the jobs table is what placements say; and so are the rounds that a policy tells.
    :func:`unrack.simulate` does this at the end of every run, unless it is told not to.

    Parameters
    ----------
    result
        A finished run.

    Raises
    ------
    RunError
        The tables cannot be true: what is wrong, where, and when first.
    """
    found = violations(Tables(result.log.cluster, result.tables, result.pace, result.provisions, result.expects))
    if found:
        first = min(found, key=lambda violation: (violation.at_us < 0, violation.at_us))
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise RunError(f"the audit of the run's tables failed: {first}{more}")
