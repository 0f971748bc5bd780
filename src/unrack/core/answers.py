"""What a policy answers: starts that can be made together, and those that cannot; when it wants to be asked next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unrack.errors import RefusedError
from unrack.events import Expired
from unrack.kernels.arrays import Ints
from unrack.ledger.changes import change_size, extend, reshape, resume, suspend
from unrack.ledger.lease import FIRST, LENDER, NODES, TASKS, Lease, Share, summed, together
from unrack.ledger.leases import on_nodes_alone
from unrack.ledger.memory_use import lacking_mb
from unrack.ledger.state import QUEUED, RUNNING, ClusterState
from unrack.policy.contract import (
    Ability,
    Decision,
    Extend,
    Hold,
    Policy,
    Reject,
    Requeue,
    Reshape,
    Resize,
    Resume,
    Start,
    Suspend,
    Used,
)
from unrack.reasons import Code, Reason
from unrack.resources.places import PLACE

if TYPE_CHECKING:
    from unrack.core.core import Core


MANY = 32
"""From how many starts on nodes alone on it is worth while to do them together."""


def parted(decisions: list[Decision]) -> tuple[list[Decision], list[Start]]:
    """Of a plan that only starts jobs those that hold more than nodes, and the others if they are many."""
    starts = [decision for decision in decisions if type(decision) is Start]
    if len(starts) < max(MANY, len(decisions)):
        return decisions, []
    alone = [on_nodes_alone(start.lease) for start in starts]
    if sum(alone) < MANY:
        return decisions, []
    others: list[Decision] = [start for start, plain in zip(starts, alone, strict=True) if not plain]
    return others, [start for start, plain in zip(starts, alone, strict=True) if plain]


def wanted_us(wanted: Any, name: str, now: int) -> int:
    """When the policy of that name wants to be asked next, µs.

    A RefusedError if that is not after ``now``, or no time.
    """
    if not isinstance(wanted, int | np.integer) or isinstance(wanted, bool):
        got = f"{wanted!r:.100} ({type(wanted).__name__})"
        raise RefusedError(f"policy {name} asks for a round at {got}, which is no time in whole µs")
    if wanted <= now:
        raise RefusedError(f"policy {name} asks for a round at {wanted} µs, and it is {now} µs")
    return int(wanted)


def exchanges(state: ClusterState, decisions: list[Decision]) -> list[Lease] | None:
    """The leases of a plan that only exchanges nodes and loans; ``None``: it does something else."""
    leases = []
    for decision in decisions:
        if type(decision) is not Resize or not decision.below or not state.keeps_the_rest(decision.lease):
            return None
        leases.append(decision.lease)
    return leases if state.memory is not None and not state.sizes else None


def change(state: ClusterState, decision: Decision, now: int, policy: Policy[Any]) -> None:
    """Do what a decision says that starts no job.

    A RefusedError if it contradicts the state; nothing has changed.
    """
    if isinstance(decision, Resize) and decision.lease.job in state.sizes:
        change_size(state, decision.lease, now)
    elif isinstance(decision, Resize):
        state.exchange([decision.lease], decision.below)
    elif isinstance(decision, Reshape):
        reshape(state, decision.job, decision.tasks)
    elif isinstance(decision, Requeue):
        state.requeue(decision.job, now, decision.keep_work)
    elif isinstance(decision, Reject):
        if state.condition(decision.job) != QUEUED:
            raise RefusedError(f"reject job {decision.job}: it is not queued")
        state.reject(decision.job)
    elif isinstance(decision, Suspend):
        suspend(state, decision.job, now)
    elif isinstance(decision, Resume):
        resume(state, decision.job, now)
    elif isinstance(decision, Extend):
        extend(state, decision.job, decision.until_us, now)
    elif isinstance(decision, Hold):
        if state.condition(decision.job) != RUNNING:
            raise RefusedError(f"hold job {decision.job}: it is not running")
    else:
        raise RefusedError(f"policy {policy.name} decided {decision!r}, which is not a decision")


def counting(state: ClusterState, lease: Lease) -> Lease:
    """A lease of a job, with what it counts for in limits and kept licences now in place of what is said of that."""
    claimed = state.claimed
    if claimed is None:
        return lease
    parts = [
        part for part in claimed.places.parts
        if part.installed.limits or any(part.places.start <= one < part.places.stop for one in claimed.places.kept)
    ]  # fmt: skip
    if not parts:
        return lease
    if lease.parts:
        return together(lease.job, [counting(state, part) for part in lease.parts])
    asked, limits, kept = np.zeros(len(claimed.asked), np.int64), np.zeros(len(claimed.free), np.bool_), lease.claims
    for part in parts:
        asked[part.quantities] = claimed.asked[part.quantities, lease.job]
        limits[part.places] = True
    if not asked.any() and not limits[kept[:, PLACE]].any():
        return lease
    own = claimed.places.claims(asked, lease.nodes, np.repeat(lease.rows[:, TASKS], lease.rows[:, NODES]), claimed.free)
    return lease._replace(claims=summed(np.concatenate([kept[~limits[kept[:, PLACE]]], own])))


def struck(state: ClusterState, nodes: Sequence[int]) -> dict[int, list[int]]:
    """Node → the running jobs that hold something of it or of a device in it, in order of id.

    A job that holds something of several of the nodes is named once, at the first of them. O(leases x log nodes).
    ``nodes``: those that fail, ascending.
    """
    found: dict[int, list[int]] = {}
    jobs = np.sort(state.running[1, : state.running_count])
    if not len(jobs) or not len(nodes):
        return found
    failing = np.array(nodes, np.int64)
    at, count = state.lease_at[:, jobs]
    place = np.arange(count.sum()) + np.repeat(at - (np.cumsum(count) - count), count)
    first = np.full(len(jobs), len(state.online), np.int64)
    np.minimum.at(first, np.repeat(np.arange(len(jobs)), count), first_of(failing, state.pool[place]))
    number = {int(job): i for i, job in enumerate(jobs)} if state.extra else {}
    for job, extra in state.extra.items():
        elsewhere = np.concatenate([extra.borrowed[:, LENDER], *_homes(state, extra.shares)])
        there = elsewhere[np.isin(elsewhere, failing)]
        if len(there):
            first[number[job]] = min(first[number[job]], there.min())
    for i in np.flatnonzero(first < len(state.online)).tolist():
        found.setdefault(int(first[i]), []).append(int(jobs[i]))
    return found


def first_of(failing: Ints, rows: Ints) -> Ints:
    """int64[rows]: the first of the failing nodes (ascending) in each row of a lease; ``2**62``: none of them.

    Examples
    --------
    >>> rows = np.array([[0, 4, 1, 1, 0], [6, 2, 1, 1, 0]])
    >>> first_of(np.array([2, 3, 8]), rows) < 2**62
    array([ True, False])
    """
    place = np.searchsorted(failing, rows[:, FIRST])
    node = np.append(failing, 2**62)[place]
    return np.where(node < rows[:, FIRST] + rows[:, NODES], node, 2**62)


def _homes(state: ClusterState, shares: Sequence[Share]) -> list[Ints]:
    if state.devices is None:
        return []
    home = state.devices.devices.home
    return [home[list(share.devices)] for share in shares]


class Provisions:
    """The part of a core that is about what running jobs lack; of most policies it only ends jobs that lack memory."""

    def __init__(self, core: Core) -> None:
        policy: Any = core.policy  # for methods beyond the contract, which its traits declare
        self.core = core
        self._adjusts = policy.adjust if Ability.ADJUST in core.traits.does else None
        self._extends = policy.extends if Ability.EXTENDS in core.traits.does else None
        self.reserves = policy.reserves_mb if Ability.RESERVES_MB in core.traits.does else None

    def _more_time(self, expired: Expired, now: int) -> list[Decision]:
        """Ask the policy whether a job that has used up its limit may run on."""
        core = self.core
        found = None if self._extends is None else self._extends(core.view, core.memory, expired.job, now)
        core.commit(done := [] if found is None else [found], now)
        return done

    def provision(self, used: Used | Expired, now: int) -> list[Decision]:
        """Ask the policy what to change, as long as jobs lack memory and it decides something; stop those that do."""
        if isinstance(used, Expired):
            return self._more_time(used, now)
        core = self.core
        for job in used.jobs.tolist():
            if core.state.condition(job) != RUNNING:
                raise RefusedError(f"use of job {job}: it is not running")
        done: list[Decision] = []
        core.state.withhold()
        while self._adjusts is not None:
            step, core.memory = self._adjusts(core.view, core.memory, used, now)
            done += self.stop(step, now)
            held = {decision.job for decision in step if isinstance(decision, Hold)}
            left = [i for i in self._lacking(used) if int(used.jobs[i]) not in held] if used.lacking else []
            if not left:
                return done
            used = used if len(left) == len(used.jobs) else used.of(left)
            if not any(isinstance(decision, Requeue | Hold) for decision in step):
                break
        for job in used.jobs[self._lacking(used)].tolist() if used.lacking else ():
            reason = Reason(Code.OUT_OF_MEMORY, "MB" if self._adjusts else "MB: more than it asked for")
            stopped: list[Decision] = [Requeue(job, reason)]
            if self._adjusts is None:
                stopped.append(Reject(job, reason))  # it would need as much again
            done += self.stop(stopped, now)
        return done

    def stop(self, decisions: list[Decision], now: int) -> list[Decision]:
        """Carry out decisions that may stop jobs, as of :meth:`reserved`."""
        self.core.commit(decisions, now)
        return self.reserved(decisions)

    def reserved(self, decisions: list[Decision]) -> list[Decision]:
        """The same decisions; jobs that were stopped and wait again are to be given as much as the policy now says."""
        for decision in list(decisions) if self.reserves is not None else ():
            if isinstance(decision, Requeue) and self.core.state.condition(decision.job) == QUEUED:
                decisions += self.reserve(decision.job)
        return decisions

    def reserve(self, job: int) -> list[Decision]:
        """A waiting job is to be given as much memory as the policy says; it is rejected if that is nowhere."""
        found, core = list[Decision](), self.core
        if self.reserves is not None:
            asked_mb = core.jobs.memory_mb[job] if job < len(core.jobs) else core.store.job(job).demand.memory_mb
            core.state.reserve(job, mb := self.reserves(core.view, core.memory, job, int(asked_mb)))
            if mb > asked_mb and (reason := core.admission.too_big(job, core.store, mb)) is not None:
                found.append(Reject(job, reason))
                core.commit(found, core.view.now)
        return found

    def _lacking(self, used: Used) -> list[int]:
        """Which of these jobs run and lack memory, by their places."""
        state, found = self.core.state, []
        for i, job in enumerate(used.jobs.tolist()):
            if state.condition(job) == RUNNING:
                lease = state.lease(job)
                if lacking_mb(lease.rows, lease.borrowed, used.mb[used.first[i] : used.first[i + 1]]):
                    found.append(i)
        return found
