"""Any policy, around which the sizes of jobs are chosen (``molding``) and changed while they run (``resizing``).

A waiting job's size is what it asks: before the policy inside is asked, jobs are given the sizes that a rule says, and
it then starts, plans and promises as of any job. A job that was promised a start keeps the size that it was promised
with. When the policy inside starts no job any more, running jobs are resized, and it is asked again.

O(running x nodes) a shape of jobs that are molded, and a plan for each size where the policy promises starts.

Which size a moldable job is to have is said by a rule.

``earliest-end``: that with which it is expected to end first, of equal ones the fewest tasks. Where the policy promises
starts, it is asked for its promise to each size, once, when the job comes: the adaptive requests of Cirne and Berman
2002. Elsewhere the start is that at which enough is free if only those that run now are counted, and the choice is made
again until the job starts: the schedule-time choice of Srinivasan et al. 2002.

``working-set``: the most tasks, up to an equal share of the cluster among all jobs that wait or run, and up to the knee
of its speed-up S, where S²/n is largest: the processor working set of Ghosal, Serazzi and Tripathi 1991.

References
----------
See :mod:`unrack.policy.sizing.resizing` for what jobs become while they run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, PolicyError
from unrack.kernels.arrays import Bools
from unrack.ledger.jobs import Promises
from unrack.ledger.lease import Sizes
from unrack.ledger.state import QUEUED
from unrack.policy.around import AroundAnother, Rounds, anew, decided, heads_of, innermost, queue_of, traits_of, without
from unrack.policy.contract import Decision, Policy, Reshape, Resize, Start
from unrack.policy.discipline.reservations import Conservative, SlurmLike
from unrack.policy.discipline.skyline.columns import met
from unrack.policy.sizing.resizing import Openings, Scene, Trial, grown, shrunk, stirred
from unrack.resources.places import is_resource
from unrack.resources.power.resource import Power
from unrack.resources.site.installed import COUNTS, QUANTITIES
from unrack.view import Draft, View
from unrack.workload.job import ESTIMATE, TASKS, JobTable
from unrack.workload.site.sessions import components_of

EARLIEST, WORKING_SET = RULES = ("earliest-end", "working-set")


def knee(sizes: Sizes) -> int:
    """The processor working set: the size with the largest speed-up² per task; of equal ones the smallest.

    Examples
    --------
    >>> knee(Sizes((1, 2, 4, 8), (1.0, 1.9, 3.2, 4.0)))
    4
    """
    return max(sizes.tasks, key=lambda n: (sizes.speed_at(n) ** 2 / n, -n))


def working_set(sizes: Sizes, share: int) -> int:
    """The largest size up to the knee and an equal share; the smallest if that is more."""
    most = min(knee(sizes), share)
    return max((n for n in sizes.tasks if n <= most), default=sizes.tasks[0])


def first_to_end(openings: Openings, sizes: Sizes, job: int, own_us: int) -> int | None:
    """The size with which a job ends first by cores and memory; ``None``: none will ever fit."""
    starts = openings.starts_us(openings.shape(job), np.array(sizes.tasks, np.int64)).tolist()
    return earliest({n: start for n, start in zip(sizes.tasks, starts, strict=True) if start >= 0}, sizes, own_us)


def earliest(starts: dict[int, int], sizes: Sizes, own_us: int) -> int | None:
    """The size with the earliest end, from when a job would start with each."""
    return min(starts, key=lambda n: (starts[n] + sizes.time_us(own_us, n), n), default=None)


def first_promised(policy: Policy[Any], view: View, sizes: Sizes, job: int, own_us: int, now: int) -> int | None:
    """The size with which a job ends first by what the policy would promise; ``None``: it promises nothing."""
    starts = {}
    for tasks in sizes.tasks:
        draft = Draft(view, now)
        draft.reshape(job, tasks)
        memory = policy.begin(draft.view)
        decisions, memory = decided(policy, draft.view, memory, now)
        if any(isinstance(one, Start) and one.lease.job == job for one in decisions):
            starts[tasks] = now
        elif (start := cast(Any, policy).promised(draft.view, memory).start_us(job)) >= 0:
            starts[tasks] = start
    return earliest(starts, sizes, own_us)


DEPTH = 100
"""So many of those that wait are given sizes in a round; a job behind them keeps its own."""


@dataclass(slots=True)
class SizingNotes:
    """What is remembered."""

    inner: Any  # of the policy inside
    started: dict[int, int] = field(default_factory=dict)  # running job that may change → when it started, µs
    changed: tuple[int, ...] = ()  # jobs just reshaped or resized: what the policy inside remembers is made anew
    asked: bool = False  # whether the policy inside was asked in this round, and nothing was changed since
    once: set[int] = field(default_factory=set)  # jobs resized, or given a size to start at once, in this round
    scene: Scene | None = None  # at the end of the last round; ``None``: nothing is known of it


@dataclass(frozen=True)
class Sizing(AroundAnother):
    """Sizes of jobs around a policy."""

    molding: str | None = None  # how the size of a job that waits is chosen; ``None``: it is what it asks
    resizing: str | None = None  # how sizes change while jobs run; ``None``: they do not

    def smallest(self, jobs: JobTable, sizes: Mapping[int, Sizes]) -> JobTable:
        """The jobs at the smallest sizes that they may be given."""
        asks = jobs.asks.copy()
        for job, own in sizes.items() if self.molding else ():
            asks[TASKS, job] = own.tasks[0]
        return replace(jobs, asks=asks)

    def begin(self, view: View) -> SizingNotes:
        """Nothing was changed yet; a job that runs already is taken to have started at the time of the run's begin."""
        return SizingNotes(self.inner.begin(view), dict.fromkeys(filter(view.sizes.get, view.running_jobs.tolist()), 0))

    @cached_property
    def _plans(self) -> bool:
        """Whether the policy inside promises every job a start when it comes."""
        return isinstance(innermost(self.inner), Conservative)

    @cached_property
    def _whole(self) -> bool:
        return traits_of(self.inner).whole_nodes

    def promised(self, view: View, memory: SizingNotes) -> Promises:
        """As the policy inside says; it has promised nothing to jobs that were just given another size."""
        found = super().promised(view, memory)
        return without(found, memory.changed) if memory.changed else found

    def decide(self, view: View, memory: SizingNotes, now: int) -> tuple[list[Decision], SizingNotes]:
        """Sizes for those that wait; then as the policy inside decides; then sizes for those that run."""
        for job in [job for job in memory.started if view.status[job] == QUEUED]:  # stopped: it has its own size again
            memory.changed += (job,)
            del memory.started[job]
        plan = self._decided(view, memory, now) if view.sizes else self._inside(view, memory, now)
        if not plan:
            memory.asked = False
            memory.once.clear()
            memory.scene = Scene.of(view, now) if view.sizes else None
        return plan, memory

    def _inside(self, view: View, memory: SizingNotes, now: int) -> list[Decision]:
        if memory.asked and not self.stepwise_inside(memory):
            return []
        if memory.changed:
            memory.inner, memory.changed = anew(self.inner, memory.inner, view), ()
        decisions, memory.inner = self.inner.decide(view, memory.inner, now)
        memory.asked = True
        for decision in decisions:
            if isinstance(decision, Start) and decision.lease.job in view.sizes:
                memory.started[decision.lease.job] = now
        return decisions

    def _decided(self, view: View, memory: SizingNotes, now: int) -> list[Decision]:
        """The first of these that changes anything."""
        return (
            self._changed(memory, self._answered(view, memory, now) if self.resizing and view.wanted else [])
            or self._changed(memory, self._molded(view, memory, now) if self.molding and view.waiting else [])
            or self._inside(view, memory, now)
            or self._changed(memory, self._resized(view, memory, now) if self.resizing else [])
        )

    def _changed(self, memory: SizingNotes, plan: list[Decision]) -> list[Decision]:
        if plan:
            changes = [one for one in plan if isinstance(one, Reshape | Resize)]
            memory.changed = tuple(one.job if isinstance(one, Reshape) else one.lease.job for one in changes)
            memory.asked = False
        return plan

    # --- those that wait ----------------------------------------------------------------------------------------------

    def _molded(self, view: View, memory: SizingNotes, now: int) -> list[Decision]:
        sizes, openings, plan = view.sizes, Openings(view, now, self._whole), list[Decision]()
        queue, new = queue_of(self.inner, memory.inner, view, now)[:DEPTH], stirred(view, memory.scene, now)
        jobs = [job for job in queue.tolist() if job in sizes and new[job]]
        of, present = view.columns.set_of, np.concatenate((view.running_jobs, view.queue))
        meets = met(view.columns.open_to)
        share = (meets @ np.bincount(of[present], minlength=len(meets))).tolist()  # of each set: jobs that may use it
        for job in jobs:
            held, own_us = int(view.asks[TASKS, job]), view.own_us(job)
            if sizes[job].tasks == (held,) or job in memory.once or view.promises.start_us(job) >= 0:
                continue
            if self.molding != EARLIEST:
                size: int | None = working_set(sizes[job], openings.installed(openings.shape(job)) // share[of[job]])
            elif self._plans:
                size = first_promised(self.inner, view, sizes[job], job, own_us, now)
                if size is not None:
                    memory.once.add(job)
            else:
                size = first_to_end(openings, sizes[job], job, own_us)
            if size is not None and size != held:
                plan.append(Reshape(job, size))
                if self._plans and self.molding == EARLIEST:
                    return plan  # the next one's promises follow from this one's
        return plan

    def _answered(self, view: View, memory: SizingNotes, now: int) -> list[Decision]:
        """Those that ask for a smaller size have it at once."""
        trial, asks = Trial(view, now, self._whole), view.wanted
        for job in [job for job, tasks in asks.items() if tasks < view.asks[TASKS, job] and job not in memory.once]:
            trial.resize(job, asks[job])
        memory.once.update(trial.leases)
        return [Resize(lease) for _, lease in sorted(trial.leases.items())]

    # --- those that run -----------------------------------------------------------------------------------------------

    def _resized(self, view: View, memory: SizingNotes, now: int) -> list[Decision]:
        sizes, rule, new = view.sizes, str(self.resizing), stirred(view, memory.scene, now)
        running = [job for job in view.running_jobs.tolist() if job in sizes and job not in memory.once]
        jobs = [job for job in running if sizes[job].malleable]
        trial, plan = Trial(view, now, self._whole), list[Decision]()
        heads = heads_of(view, queue_of(self.inner, memory.inner, view, now)) if view.waiting else ()
        for head in [head for head in heads if new[head]]:
            decided, trial = self._room_for(trial, jobs, head, memory)
            plan += decided
        of, meets = view.columns.set_of, met(view.columns.open_to)
        # bool[sets]: whether a waiting job may use a node of each
        waits: Bools = np.asarray(meets[of[view.queue]].any(axis=0))
        for job, tasks in view.wanted.items():
            if tasks > view.asks[TASKS, job] and new[job] and not waits[of[job]] and job not in memory.once:
                trial.resize(job, tasks)
        grown(trial, [job for job in jobs if new[job] and not waits[of[job]]], rule, memory.started)
        if len(memory.started) > 2 * view.running_count + 256:
            memory.started = {job: at for job, at in memory.started.items() if job in running or at == now}
        memory.once.update(trial.leases)
        return [*plan, *(Resize(lease) for _, lease in sorted(trial.leases.items()))]

    def _room_for(self, trial: Trial, jobs: list[int], head: int, memory: SizingNotes) -> tuple[list[Decision], Trial]:
        """Let a head start, at the largest size up to its own for which there is room; with what then is free."""
        view, held, own = trial.view, int(trial.view.asks[TASKS, head]), trial.view.sizes.get(head)
        if head in memory.once:
            return [], trial
        may = [n for n in own.tasks if n <= max(held, own.own)] if own is not None and own.malleable else [held]
        longest_us = int(view.asks[ESTIMATE, head])
        if own is not None and may != [held]:
            longest_us = own.time_us(view.own_us(head), may[0])
        until = trial.now + longest_us
        tried = trial.copy()
        found = shrunk(tried, jobs, str(self.resizing), memory.started, head, may[0], until)
        if not found or not tried.left_for(head, may[0]):
            return [], trial
        size = max(n for n in may if n <= tried.room(head, until) and tried.left_for(head, n))
        memory.once.add(head)
        return [Reshape(head, size)] if size != held else [], tried


def sized(policy: Policy[Any], rules: Mapping[str, Any], where: str) -> Sizing:
    """A policy with sizes chosen or changed by some rules.

    A PolicyError if that does not go with what the policy is.
    """
    traits, keys = traits_of(policy), " and ".join(rules)
    for why, wrong in (
        ("places servers of one task in tiers of memory", traits.tiers),
        ("learns run times from jobs that had other sizes", traits.learns),
        ("changes the memory of running jobs", traits.monitor_us > 0),
        ("classes jobs by their size when they come", isinstance(innermost(policy), Rounds)),
        ("turns away jobs without a place", getattr(innermost(policy), "wait", True) is False),
        ("promises starts that jobs which shrink would delay",
         "resizing" in rules and isinstance(innermost(policy), Conservative | SlurmLike)),
        ("lends memory, which jobs that grow would need as well", "resizing" in rules and traits.lends),
    ):  # fmt: skip
        if wrong:
            raise PolicyError(f"{where}, {keys}", f"a policy that {why}", "another policy, or none of these keys")
    return Sizing(policy, **rules)


def check_sizes(policy: Sizing, cluster: Cluster, told: JobTable, jobs: JobTable, sizes: Mapping[int, Sizes]) -> None:
    """Refuse jobs of several sizes with what counts by their own size alone.

    ``cluster``: on which they are to run; ``told``, ``jobs``: the jobs as the trace has them, and as they are on the
    cluster. An InputError names the first job.
    """
    several = np.array([job for job, one in sizes.items() if len(one.tasks) > 1], np.int64)
    if jobs.usage is not None and len(several):
        raise InputError("workload", "jobs of several sizes with known use of memory by task", "either, not both")
    power = cluster.places.installed.get("power")
    if policy.resizing and isinstance(power, Power) and power.file.switch_off is not None:
        got = "resizing, and nodes that are switched off: a job that grows would have to wait until they are on"
        raise InputError("power.switch_off", got, "either, not both")
    parts = {row for rows in components_of(jobs).values() for row in rows}
    counts = jobs.devices.get(("site", QUANTITIES[COUNTS]))
    devices = np.zeros(len(jobs), np.bool_)
    for (kind, _), amounts in jobs.devices.items():
        devices |= (amounts > 0) & (not is_resource(kind))
    for job in several.tolist():
        where = f"job {jobs.ids[job]}, sizes"
        if job in parts:
            raise InputError(where, "several sizes of a component of a heterogeneous job", "one size of each component")
        if jobs.tasks[job] != told.tasks[job]:
            raise InputError(where, "several sizes in a partition of whole nodes", "tasks that are counted as they are")
        if counts is not None and counts[job]:
            got = "several sizes under limits, of an array too, or kept licences, which count a job by its own size"
            raise InputError(where, got, "one size, or no limits of its partition, account, QOS and array")
        if policy.resizing and sizes[job].changes and devices[job]:
            got = "pooled devices, which a running job cannot exchange"
            raise InputError(where, got, "flexibility moldable for it, or a policy without resizing")
