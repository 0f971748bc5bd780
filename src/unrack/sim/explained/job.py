"""One job's life, or one round: the run is simulated once more, and the policy is asked after every round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import InputError, PolicyError
from unrack.ledger.state import QUEUED
from unrack.policy.contract import Policy
from unrack.policy.discipline.list_scheduler import short_of
from unrack.policy.members import told_rounds
from unrack.policy.rounds import RoundStory
from unrack.reasons import Reason
from unrack.sim.explained.attempt import Attempt, attempt_of
from unrack.sim.guard import PolicyAtWork
from unrack.sim.simulate import prepared
from unrack.sim.world import NOTHING_SPECIAL, World
from unrack.units import SECOND_US
from unrack.vocabulary import Need
from unrack.workload.job import Job, JobTable


@dataclass(frozen=True)
class Spell:
    """A stretch of waiting for one reason, µs."""

    from_us: int
    to_us: int
    reason: Reason


@dataclass(frozen=True)
class Passed:
    """A job that was submitted later and started while this one waited."""

    job: Job
    start_us: int


@dataclass(frozen=True)
class Story:
    """One job's life."""

    job: Job  # the job
    ahead: int  # how many jobs waited when it was submitted
    free_cores: int  # free cores at its first round
    # When there first was room for it after a round, µs: it could have started then but for the jobs before it.
    # ``None``: not before it started.
    room_us: int | None
    spells: tuple[Spell, ...]  # what it waited for, in order
    before: int  # how many jobs submitted earlier started while it waited
    passed: tuple[Passed, ...]  # jobs submitted later that started while it waited, in order of start
    attempts: tuple[Attempt, ...]  # when and where it ran
    reason: Reason | None  # why it never ran, or ``None``
    blocked_node_us: int = 0  # for how long it stood still for lack of memory, times its nodes, µs


@dataclass
class Watch:
    """Asks about one job after every round."""

    core: Core
    job: int
    whole: bool
    devices: bool = False
    ahead: int = -1
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
        if self.ahead < 0:
            queue = view.queue
            self.ahead = int((queue < self.job).sum())
            self.free_cores = view.free_cores
        if view.status[self.job] != QUEUED:
            return
        reason = self.core.why(self.job, now)
        if self.room_us is None and not self.devices and short_of(view, self.job, self.whole) is None:
            self.room_us = now
        last = self.spells[-1] if self.spells else None
        if (
            last is not None
            and last.to_us == now
            and (last.reason.code, last.reason.what) == (reason.code, reason.what)
        ):
            self.spells[-1] = Spell(last.from_us, -1, last.reason)
        else:
            self.spells.append(Spell(now, -1, reason))


def explain(
    cluster: Cluster,
    jobs: JobTable,
    policy: Policy[Any],
    job: int,
    seed: int = 0,
    world: World = NOTHING_SPECIAL,
) -> Story:
    """The life of a job (an index into ``jobs``) in the run with these inputs; raises as :func:`unrack.simulate`."""
    with PolicyAtWork(policy):
        kernel = prepared(cluster, jobs, policy, seed, world)
        traits = kernel.core.traits
        watch = Watch(kernel.core, job, traits.whole_nodes, Need.DEVICES in traits.places)
        log = kernel.run(after_round=watch)
    mine = np.flatnonzero(log.attempt_job == job)
    attempts = tuple(attempt_of(log, int(i)) for i in mine)
    last_start = attempts[-1].start_us if attempts else log.end_us
    submit = int(jobs.submit_us[job])
    meanwhile = (log.attempt_start_us >= submit) & (log.attempt_start_us <= last_start) & (log.attempt_job != job)
    others = np.flatnonzero(meanwhile & (log.attempt_start_us < last_start))
    later = sorted((int(log.attempt_start_us[i]), int(log.attempt_job[i])) for i in others if log.attempt_job[i] > job)
    return Story(
        job=jobs.job(job),
        ahead=max(watch.ahead, 0),
        free_cores=watch.free_cores,
        room_us=watch.room_us,
        spells=tuple(
            spell if spell.to_us >= 0 else Spell(spell.from_us, log.end_us, spell.reason) for spell in watch.spells
        ),
        before=len({int(log.attempt_job[i]) for i in others if log.attempt_job[i] < job}),
        passed=tuple(Passed(jobs.job(other), start) for start, other in later),
        attempts=attempts,
        reason=log.reasons.get(job),
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
    cluster: Cluster,
    jobs: JobTable,
    policy: Policy[Any],
    from_us: int,
    seed: int = 0,
    world: World = NOTHING_SPECIAL,
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
