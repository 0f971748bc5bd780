"""Run a workload on a cluster under a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.cluster.pools.pool import Pace
from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import InputError, check_kinds
from unrack.facts import line, table
from unrack.metric.bound import Bound, bound
from unrack.metric.holdings import holdings
from unrack.metric.table import measure
from unrack.plots.accessor import ResultPlots
from unrack.plots.pandas_table import to_pandas
from unrack.policy.complete import complete
from unrack.policy.contract import Policy
from unrack.policy.members import told_rounds
from unrack.policy.placement.core_tiles import CoreTiles
from unrack.policy.table import parse_policy
from unrack.sim.audited import audit as audit_tables
from unrack.sim.brief import result_facts
from unrack.sim.effect import effects, notes_of, too_late
from unrack.sim.faults.failure import failures_frame
from unrack.sim.faults.fault import Fault
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
from unrack.sim.guard import PolicyAtWork
from unrack.sim.kernel import Kernel, Ties
from unrack.sim.log import RunLog
from unrack.sim.usage.memory_changes import MemoryChanges, make_memory_changes
from unrack.slowdown.combined import CombinedSpeeds, Together, make_together, together
from unrack.slowdown.contract import Slowdown
from unrack.slowdown.memory.apps import ContentionNote
from unrack.slowdown.memory.settings import MemoryContention, make_contention
from unrack.slowdown.memory.speeds import MemorySpeeds
from unrack.slowdown.model import Model, make_models
from unrack.slowdown.pools import PoolSpeeds, fastest, wants_of
from unrack.slowdown.table import by_resource
from unrack.workload.formats.rules import intake_notes
from unrack.workload.job import JobTable, Workload

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
        return fastest(self.pace, devices, jobs, wants_of(devices, jobs))

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


def simulate(
    cluster: Cluster,
    workload: Workload,
    policy: str | Policy[Any] = "easy",
    *,
    seed: int = 0,
    ties: str = "together",
    faults: Sequence[Fault] = (),
    models: Sequence[str | Mapping[str, Any] | Model] = (),
    contention: str | Sequence[str] | Mapping[str, Any] | MemoryContention | None = None,
    slowdowns: str | None = None,
    slowdown: Slowdown | None = None,
    memory_changes: Mapping[str, Any] | MemoryChanges | None = None,
    core_tiles: str | None = None,
    window_us: tuple[int, int] | None = None,
    progress: Callable[[int, int], None] | None = None,
    audit: bool = True,
) -> Result:
    """Run a workload on a cluster under a policy.

    Parameters
    ----------
    cluster
        What there is.
    workload
        What is asked.
    policy
        A name (``"easy"``), a name with parameters (``"easy(order=sjf)"``) or an object.
    seed
        Given to policies that draw random numbers (those with a ``seeded`` method); of the built-in ones, random-fit.
    ties
        What happens first at one time: ``"together"``, ``"finish-first"`` or ``"submit-first"``.
    faults
        Failures of nodes and of whole failure domains.
    models
        How jobs run on shared and composed devices: names of ``unrack models``, tables, or models; see
        :class:`unrack.slowdown.model.ModelTable`.
    contention
        How jobs that use each other's memory slow each other down: ``"synthetic"``, a folder of profiles, a table, or
        settings; see :func:`unrack.slowdown.memory.settings.make_contention`. ``None``: they do not.
    slowdowns
        How speeds combine where both models and contention set them: ``"add"`` (delays add, the default), ``"min"`` or
        ``"product"``; see :func:`unrack.slowdown.combined.combined`.
    slowdown
        How jobs slow each other down, in place of the models and of contention; ``None``: as these say, or not at all.
    memory_changes
        What it costs that memory changes while jobs run, and their checkpoints: a table with ``bandwidth``, ``pause``,
        ``checkpoint_every``, ``checkpoint_cost`` and ``restart_cost``; see
        :class:`unrack.sim.usage.memory_changes.MemoryChanges`. ``None``: nothing, and there are none.
    core_tiles
        Also choose which cores of a node a job has, where the nodes' ``torus`` is known: ``"best"``, ``"quick"`` or
        ``"first-fit"``; see :mod:`unrack.policy.placement.core_tiles`. This changes no schedule.
    window_us
        From when to when metrics of time are taken, µs.
    progress
        Told now and then how many jobs have been submitted, of how many.
    audit
        Check the tables of the run, from nothing but themselves, when it has ended: :func:`unrack.audit`.

    Raises
    ------
    PolicyError
        The policy does not exist, or needs what the workload lacks.
    ClusterError
        A fault names a domain that the cluster does not have.
    InputError
        ``ties``, ``window_us``, ``contention``, ``slowdowns`` or a time of a fault is wrong.
    FaultyPolicyError
        A policy of one's own raised something (the ``__cause__``), or returned what is no answer.
    RunError
        The policy decided something impossible, or the audit found something in the tables that cannot be.

    Examples
    --------
    >>> import unrack
    >>> cluster = unrack.Cluster.homogeneous(nodes=2, cores=1)
    >>> workload = unrack.generate({"jobs": 3, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 10}]}, seed=0)
    >>> unrack.simulate(cluster, workload, "fcfs").jobs["wait_s"].to_list()
    [0.0, 0.0, 8.0]
    """
    check_kinds("simulate", cluster=(cluster, Cluster), workload=(workload, Workload))
    if ties not in tuple(Ties):
        raise InputError("ties", repr(ties), f"one of {', '.join(Ties)}")
    if window_us is not None and not 0 <= window_us[0] < window_us[1]:
        raise InputError("window", repr(window_us), "a start of 0 or more and a later end")
    for fault in faults:
        if fault.at_us < 0 or fault.repair_us < 0:
            raise InputError("faults", repr(fault), "a time and a repair time of 0 or more")
    if core_tiles is not None:
        CoreTiles(cluster, core_tiles)  # an error now, not when all is done
    chosen = parse_policy(policy) if isinstance(policy, str) else complete(policy, "policy")
    settings = make_contention(contention)
    known, how, changes = make_models(models), make_together(slowdowns), make_memory_changes(memory_changes)
    with PolicyAtWork(chosen):
        kernel = prepared(
            cluster, workload.jobs, chosen, seed, ties, faults, known, settings, slowdown, how=how, changes=changes
        )
        core = kernel.core
        log = kernel.run(progress)
    late = faults if all(fault.at_us > log.end_us for fault in faults) else ()
    read = intake_notes(workload.name, asdict(workload.intake))
    notes = notes_of(effects(cluster, workload.jobs, chosen, known, settings, slowdowns, memory_changes))
    notes = (*read, *notes, *too_late(late[:1], window_us, log.end_us))
    parts = kernel.slowdown.parts if isinstance(kernel.slowdown, CombinedSpeeds) else (kernel.slowdown,)
    note = next((part.note for part in parts if isinstance(part, MemorySpeeds)), None)
    lends = core.traits.lends or len(log.loans) > 0
    telling = told_rounds(core.policy, core.memory)
    counts = None if telling is None else telling[0].rounds(telling[1])
    result = Result(
        log, window_us, core.pace, lends, note, bool(faults), core_tiles, notes, bool(core.traits.monitor_us), counts,
        policy if isinstance(policy, str) else chosen.name,
    )  # fmt: skip
    del core, kernel, parts, telling  # the tables are made and looked at without the ledger
    if audit:
        audit_tables(result)
    return result


def prepared(
    cluster: Cluster,
    jobs: JobTable,
    policy: Policy[Any],
    seed: int,
    ties: str,
    faults: Sequence[Fault],
    models: Sequence[Model],
    contention: MemoryContention | None = None,
    slowdown: Slowdown | None = None,
    arrivals: bool = False,
    how: Together = Together.ADD,
    changes: MemoryChanges | None = None,
    make: type[Kernel] | None = None,
) -> Kernel:
    """A run that is about to begin; parameters as in :func:`simulate`.

    Parameters
    ----------
    arrivals
        Whether the core is made without jobs and is brought them one by one, as in the live world. The run is the same.
    how
        How the speeds by devices and by memory combine.
    changes
        What it costs that memory changes while jobs run.
    make
        Which world drives it; ``None``: the usual one.
    """
    if hasattr(policy, "seeded"):
        policy = policy.seeded(seed)
    keeps = contention is not None or jobs.usage is not None
    core = Core(cluster, None if arrivals else jobs, policy, models, memory=keeps)
    if slowdown is None:
        parts: list[Slowdown] = [PoolSpeeds()] if core.paced else []
        if contention is not None:
            core.view.contention = memory = MemorySpeeds(contention, cluster, jobs)
            parts.append(memory)
        slowdown = together([*parts, *by_resource(cluster, jobs)], how)
    return (make or Kernel)(core, Ties(ties), faults, slowdown, jobs if arrivals else None, changes)
