"""One job's life, or one round: the run is simulated once more, and the policy is asked after every round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.cluster.tiers import LOCAL
from unrack.core import Core
from unrack.errors import InputError, PolicyError
from unrack.facts import some
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import LENDER, LOAN_MB, LOCAL_MB, NODES
from unrack.ledger.state import HELD, QUEUED
from unrack.policy.around import RoundStory, told_rounds
from unrack.policy.contract import Policy
from unrack.policy.discipline.list_scheduler import short_of
from unrack.reasons import Code, Reason
from unrack.sim.explained.waits import Waits
from unrack.sim.faults import held_elsewhere
from unrack.sim.log import RunLog
from unrack.sim.recorder import OUTCOME_NAMES, Extension, MemoryStop, Preemption
from unrack.sim.simulate import prepared
from unrack.sim.world import NOTHING_SPECIAL, PolicyAtWork, World
from unrack.units import SECOND_US
from unrack.vocabulary import Need
from unrack.workload.job import Job, JobTable
from unrack.workload.site.sessions import first_of

MOST_LENDERS = 4
"""So many lenders are named."""


@dataclass(frozen=True)
class Spell:
    """A stretch of waiting for one reason, µs."""

    from_us: int
    to_us: int
    reason: Reason


@dataclass(frozen=True)
class Passed:
    """A job that came later and started while this one waited."""

    job: Job
    start_us: int


@dataclass(frozen=True)
class Story:
    """One job's life."""

    job: Job  # the job
    came_us: int  # when it came: later than it was submitted where its user had to think first
    ahead: int  # how many jobs waited when it came
    free_cores: int  # free cores at its first round
    # When there first was room for it after a round, µs: it could have started then but for the jobs before it.
    # ``None``: not before it started.
    room_us: int | None
    spells: tuple[Spell, ...]  # what it waited for, in order
    before: int  # how many jobs that came earlier started while it waited
    passed: tuple[Passed, ...]  # jobs that came later and started while it waited, in order of start
    attempts: tuple[ExplainedAttempt, ...]  # when and where it ran
    reason: Reason | None  # why it never ran, or ``None``
    limit_us: int = 0  # the limit that it had last, µs; 0: it has what it asks
    extensions: tuple[Extension, ...] = ()  # when it was given more time
    cut: bool = False  # whether it ended at its limit with work left
    blocked_node_us: int = 0  # for how long it stood still for lack of memory, times its nodes, µs


@dataclass
class Watch:
    """Asks about one job after every round."""

    core: Core
    job: int
    whole: bool
    devices: bool
    waits: Waits
    submit_us: int
    came_us: int = -1
    ahead: int = 0
    free_cores: int = 0
    room_us: int | None = None
    spells: list[Spell] = field(default_factory=list)

    def __call__(self, now: int) -> None:
        """Note why the job waits."""
        view = self.core.view
        if self.spells and self.spells[-1].to_us < 0:
            self.spells[-1] = Spell(self.spells[-1].from_us, now, self.spells[-1].reason)
        if self.job >= view.jobs:
            return
        if self.came_us != view.submit_us[self.job]:
            self.came_us = int(view.submit_us[self.job])
            self.ahead = int(is_earlier(view.submit_us, view.queue, self.job).sum())
            self.free_cores = view.free_cores
        held = view.status[self.job] == HELD
        if not held and view.status[self.job] != QUEUED:
            return
        reason = self.waits.held(self.job, now) if held else self.core.why(self.job, now)
        room = not held and not self.devices and reason.code != Code.LIMIT
        room = room and self.job not in view.components.of
        reason = self.waits.in_words(self.job, reason)
        if self.room_us is None and room and short_of(view, self.job, self.whole) is None:
            self.room_us = now
        last = self.spells[-1] if self.spells else None
        if (
            last is not None
            and last.to_us == now
            and (last.reason.code, last.reason.what) == (reason.code, reason.what)
        ):
            self.spells[-1] = Spell(last.from_us, -1, last.reason)
        else:
            self.spells.append(Spell(self.submit_us if held and last is None else now, -1, reason))


def is_earlier(came_us: Ints, others: Ints, job: int) -> Bools:
    """bool[others]: which came before a job."""
    own: Bools = (came_us[others] < came_us[job]) | ((came_us[others] == came_us[job]) & (others < job))
    return own


def explain(
    cluster: Cluster, jobs: JobTable, policy: Policy[Any], job: int, seed: int = 0, world: World = NOTHING_SPECIAL
) -> Story:
    """The life of a job (an index into ``jobs``) in the run with these inputs; raises as :func:`unrack.simulate`."""
    with PolicyAtWork(policy):
        kernel = prepared(cluster, jobs, policy, seed, world)
        traits = kernel.core.traits
        whole = int(first_of(kernel.jobs)[job])  # the one that waits for all components
        watch = Watch(kernel.core, whole, traits.whole_nodes, Need.DEVICES in traits.places, Waits(kernel),
                      int(jobs.submit_us[job]))  # fmt: skip
        log = kernel.run(after_round=watch)
    attempts = tuple(attempt_of(log, int(i)) for i in np.flatnonzero(log.attempt_job == job))
    last_start = attempts[-1].start_us if attempts else log.end_us
    came_us = np.append(kernel.core.view.submit_us, jobs.submit_us[kernel.core.view.jobs :])
    meanwhile = (log.attempt_start_us >= came_us[job]) & (log.attempt_start_us < last_start) & (log.attempt_job != job)
    for own in attempts:  # while it ran none passed it, also where it was stopped and waited again
        meanwhile &= (log.attempt_start_us < own.start_us) | (log.attempt_start_us >= own.end_us)
    starts_us, others = log.attempt_start_us[meanwhile], log.attempt_job[meanwhile]
    earlier = is_earlier(came_us, others, job)
    later = sorted(zip(starts_us[~earlier].tolist(), others[~earlier].tolist(), strict=True))
    return Story(
        job=jobs.job(job),
        came_us=int(came_us[job]),
        ahead=watch.ahead,
        free_cores=watch.free_cores,
        room_us=watch.room_us,
        spells=tuple(one if one.to_us >= 0 else Spell(one.from_us, log.end_us, one.reason) for one in watch.spells),
        before=len(np.unique(others[earlier])),
        passed=tuple(Passed(jobs.job(other), start) for start, other in later),
        attempts=attempts,
        reason=log.reasons.get(job),
        limit_us=log.limits.get(job, 0),
        extensions=tuple((log.extensions or {}).get(job, ())),
        cut=job in log.cut,
        blocked_node_us=log.held_node_us.get(job, 0),
    )


class _FoundError(Exception):
    """Ends a run when its round has been told."""


@dataclass
class RoundWatch:
    """Asks for the first round at or after a time, µs, and then ends the run."""

    core: Core
    from_us: int
    told: RoundStory | None = None

    def __call__(self, now: int) -> None:
        """Ask, unless it is too early."""
        if now < self.from_us:
            return
        found = told_rounds(self.core.policy, self.core.memory)
        assert found is not None
        telling, memory = found
        story = telling.round_story(self.core.view, memory)
        if story is not None and story.numbers.at_us == now:
            self.told = story
            raise _FoundError


def explain_round(
    cluster: Cluster, jobs: JobTable, policy: Policy[Any], from_us: int, seed: int = 0, world: World = NOTHING_SPECIAL
) -> RoundStory:
    """The first round at or after ``from_us`` of the run with these inputs.

    A PolicyError if the policy has no rounds that it could tell, an InputError if there is no round at that time or
    after it; others as :func:`unrack.simulate`.
    """
    with PolicyAtWork(policy):
        kernel = prepared(cluster, jobs, policy, seed, world)
        core = kernel.core
        if told_rounds(core.policy, core.memory) is None:
            raise PolicyError("--round", f"a run of {policy.name}, which tells no rounds", "one of a policy that does")
        watch = RoundWatch(core, from_us)
        try:
            kernel.run(after_round=watch)
        except _FoundError:
            assert watch.told is not None
            return watch.told
    found = told_rounds(core.policy, core.memory)
    assert found is not None
    rounds = found[0].rounds(found[1])
    last = f"the last is at {rounds[-1, 0] / SECOND_US:,.0f} s" if len(rounds) else "this run had none"
    raise InputError("--round", f"{from_us / SECOND_US:,.0f} s, after all rounds", f"a time before one of them: {last}")


@dataclass(frozen=True, kw_only=True)
class HeldSince:
    """What a job held from some moment on; ``nodes`` as ranges (first, last).

    ``memory`` says in words what it had of other nodes, by tier where there are any; empty: nothing.
    """

    cores: int
    nodes: tuple[tuple[int, int], ...]
    memory: str
    local_mb: int
    borrowed_mb: int


@dataclass(frozen=True, kw_only=True)
class Change(HeldSince):
    """A moment at which the job's lease was exchanged, and what it held from then on."""

    at_us: int
    suspended: str  # the job for which it was suspended then; "": it was not
    change_mb: int  # by how much its memory grew; below 0: shrank


@dataclass(frozen=True, kw_only=True)
class ExplainedAttempt(HeldSince):
    """One time that the job ran, and what it started with."""

    start_us: int
    end_us: int
    outcome: str
    devices: tuple[str, ...]  # in words, one entry a share
    failure: str  # what failed, in words, where that ended the attempt
    stopped: MemoryStop | None  # why memory did
    preempted: Preemption | None  # for which job, where it was
    changes: tuple[Change, ...]  # what it held later


def attempt_of(log: RunLog, i: int) -> ExplainedAttempt:
    """Attempt ``i`` of a log."""
    first, *later = range(int(log.attempt_spans[i]), int(log.attempt_spans[i + 1]))
    devices = tuple(_share(log, int(s)) for s in np.flatnonzero(log.share_span == first))
    devices += tuple(_claim(log, int(c)) for c in np.flatnonzero(log.claim_span == first))
    held = [_held(log, span) for span in (first, *later)]
    total = [own["local_mb"] + own["borrowed_mb"] for own in held]
    why = {one.at_us: one.reason.what for one in log.suspended.get(int(log.attempt_job[i]), ())}
    changes = tuple(
        Change(
            at_us=int(log.span_start_us[span]),
            suspended=why.get(int(log.span_start_us[span]), ""),
            change_mb=after - before,
            **own,
        )
        for span, own, before, after in zip(later, held[1:], total, total[1:], strict=False)
    )
    return ExplainedAttempt(
        **held[0], start_us=int(log.attempt_start_us[i]), end_us=int(log.attempt_end_us[i]),
        outcome=OUTCOME_NAMES[int(log.attempt_outcome[i])], devices=devices, failure=_failure(log, i),
        stopped=log.memory_stops.get(i), preempted=log.preempted.get(i), changes=changes,
    )  # fmt: skip


def _held(log: RunLog, span: int) -> dict[str, Any]:
    """The fields of :class:`HeldSince` for a span."""
    rows = log.rows[log.span_rows[span] : log.span_rows[span + 1]].astype(np.int64)
    loans = log.loans[log.span_loans[span] : log.span_loans[span + 1]]
    return {
        "cores": int(log.amounts[1][span]), "nodes": _nodes(log, span), "memory": _memory(log, span),
        "local_mb": int(rows[:, NODES] @ rows[:, LOCAL_MB]), "borrowed_mb": int(loans[:, LOAN_MB].sum()),
    }  # fmt: skip


def _nodes(log: RunLog, span: int) -> tuple[tuple[int, int], ...]:
    rows = log.rows[log.span_rows[span] : log.span_rows[span + 1]]
    ranges: list[tuple[int, int]] = []
    for first, count in sorted((int(row[0]), int(row[1])) for row in rows):
        if ranges and ranges[-1][1] + 1 == first:
            ranges[-1] = (ranges[-1][0], first + count - 1)
        else:
            ranges.append((first, first + count - 1))
    return tuple(ranges)


def _memory(log: RunLog, span: int) -> str:
    """What was held in a span of other nodes' memory, lender by lender; on a cluster with tiers local memory too."""
    loans = log.loans[log.span_loans[span] : log.span_loans[span + 1]]
    tiers, lent = log.cluster.tiers, dict.fromkeys(sorted(loans[:, LENDER].tolist()), 0)
    for lender, mb in loans[:, [LENDER, LOAN_MB]].tolist():
        lent[lender] += mb
    if tiers is None:
        parts = [f"{mb:,} MB of node {lender}" for lender, mb in lent.items()]
        return f"borrowed {some(parts, MOST_LENDERS)}" if parts else ""
    rows = log.rows[log.span_rows[span] : log.span_rows[span + 1]]
    local = int((rows[:, 1] * rows[:, 4]).sum())
    remote = [f"{mb:,} MB {tiers.names[tiers.tier[lender]]} on node {lender}" for lender, mb in lent.items()]
    return some([f"{local:,} MB {tiers.names[LOCAL]}", *remote], MOST_LENDERS)


def _failure(log: RunLog, i: int) -> str:
    if log.attempt_failure[i] < 0:
        return ""
    failure = log.failures[int(log.attempt_failure[i])]
    which = failure.domain if failure.domain.startswith(failure.level) else f"{failure.level} {failure.domain}"
    with_it = "" if failure.nodes == 1 else f" with its {failure.nodes} nodes"
    use = ": the job ran elsewhere, and used memory or a device there" if held_elsewhere(log, i) else ""
    return f"{which} failed{with_it}{use}"


def _claim(log: RunLog, c: int) -> str:
    place, amount = log.claims[c].tolist()
    resource, at = log.cluster.places.at(place)
    unit = " W" if resource == "power" else ""
    return f"{amount:,}{unit} of the {at.amount:,}{unit} of {at.name}"


def _share(log: RunLog, s: int) -> str:
    """One share in words: which devices, how they are seen, and which others were on them meanwhile."""
    share, devices = log.shares[s], log.cluster.devices
    pool = devices.pools[int(devices.pool[share.devices[0]])]
    ids = "+".join(str(device - pool.first) for device in share.devices)
    how = f", one of {share.parts} parts" if share.parts else ", composed" if len(share.devices) > 1 else ""
    of = log.share_attempt
    own = of[s]
    begin, end = log.attempt_start_us[own], log.attempt_end_us[own]
    mates = of[(log.share_group == log.share_group[s]) & (of != own)]
    beside = log.attempt_job[mates[(log.attempt_start_us[mates] < end) & (log.attempt_end_us[mates] > begin)]]
    others = len(np.unique(beside))
    with_whom = f", shared with {others} other job(s)" if others else ""
    return f"{pool.name} {ids}{how} on node {share.node}{with_whom}"
