"""List disciplines where jobs ask for pooled devices: the passes of the pool policies, and the promise of EASY."""

from __future__ import annotations

from dataclasses import replace

import pytest
from device_worlds import D, World, cluster, crowd, play, pool, table, worlds
from hypothesis import given
from tries import draws

from unrack.core import Core
from unrack.events import Round, Submitted
from unrack.policy.around import decided
from unrack.policy.contract import Decision, Start
from unrack.policy.discipline.list_scheduler import ListNotes, ListScheduler
from unrack.policy.placement.mixed import OF_DEVICES, Mixed
from unrack.policy.table import parse_policy
from unrack.reasons import Code
from unrack.sim.log import RunLog
from unrack.units import NEVER_US
from unrack.view import Draft, View

S = 1_000_000
SHOWN = ("attempt_job", "attempt_start_us", "attempt_end_us")
DRIVES = pool("nvme", 2, 2000, 600)


def starts(log: RunLog) -> list[float]:
    """Seconds at which jobs started, in the order of the jobs."""
    found = dict(zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True))
    return [found[job] / S for job in sorted(found)]


@pytest.mark.parametrize("place", OF_DEVICES)
@draws(25)
@given(world=worlds())
def test_without_a_head_to_mind_the_schedule_is_that_of_the_pool_policy(place: str, world: World) -> None:
    order = "urgency" if place == "lookahead" else "edf"
    ours = play(world, f"list(place={place}, order={order}, backfill=any)").log
    theirs = play(world, place).log
    for name in SHOWN:
        assert getattr(ours, name).tolist() == getattr(theirs, name).tolist(), name
    assert ours.shares == theirs.shares


def test_easy_lets_pass_who_leaves_the_head_its_drives() -> None:
    both = (2000, 600)
    jobs = (
        D(0, 100, nvme=both),
        D(1, 50, nvme=both),
        D(2, 10, tasks=2, nvme=both),  # the head: both drives, at 100
        D(3, 60, nvme=both),  # would hold a drive past 100
        D(4, 49, nvme=both),  # from 51 to 100: passes
        D(5, 999),  # needs no drive
    )
    world = World(cluster([8], DRIVES), jobs)
    assert starts(play(world, "easy").log) == [0, 1, 100, 110, 51, 5]
    assert starts(play(world, "fcfs").log) == [0, 1, 100, 110, 110, 110]
    assert starts(play(world, "list(backfill=any)").log) == [0, 1, 149, 51, 100, 5]


def test_easy_lets_no_job_pass_that_takes_the_cores_of_the_head_though_drives_are_plenty() -> None:
    one = {"nvme": (100, 10)}
    jobs = (D(0, 10, cores=2), D(1, 10, cores=4, **one), D(2, 100, cores=2, **one), D(2, 5, cores=2, **one))
    world = World(cluster([4], pool("nvme", 8, 2000, 600)), jobs)
    assert starts(play(world, "easy").log) == [0, 10, 20, 2]


def test_a_head_counts_on_devices_that_are_still_being_detached() -> None:
    slow = pool("nvme", 2, 2000, 600, detach_latency=30, home=["1", "1"])
    ask = {"cores": 2, "nvme": (2000, 600)}  # on node 0, as node 1, where the drives are at home, has one core
    jobs = (
        D(0, 100, **ask),
        D(0, 10, **ask),  # its drive is free again at 40
        D(1, 10, tasks=2, **ask),  # both drives: at 130, when the other one is
        D(11, 80, **ask),  # from 40 to 120, detached at 150: too late
        D(12, 60, **ask),  # from 40 to 100, detached at 130: passes
    )
    assert starts(play(World(cluster([8, 1], slow), jobs), "easy").log) == [0, 0, 130, 170, 40]


def starts_us(view: View, decided: list[Decision], job: int, now: int) -> int:
    """When a job has a place as running jobs and those that start now end, by carrying it out on a copy."""
    mixed, draft = Mixed(), Draft(view, now)
    for decision in decided:
        assert isinstance(decision, Start)
        draft.start(decision.lease)
    notes = mixed.begin(view)
    while (end := draft.next_end_us()) is not None:
        draft.move_on(end)
        if mixed.find(draft.view, notes, job, end) is not None:
            return end
    return NEVER_US


@draws(60)
@given(world=worlds())
def test_whoever_is_first_in_the_queue_starts_by_when_it_was_promised(world: World) -> None:
    honest = tuple(replace(job, request=None) for job in world.jobs)
    promised: dict[int, int] = {}

    class Watched(ListScheduler):
        def decide(self, view: View, memory: ListNotes, now: int) -> tuple[list[Decision], ListNotes]:
            decided, memory = super().decide(view, memory, now)
            started = {decision.lease.job for decision in decided if isinstance(decision, Start)}
            head = next((job for job in view.queue.tolist() if job not in started), -1)
            if head >= 0 and head not in promised:
                promised[head] = starts_us(view, decided, head, now)
            return decided, memory

    policy = Watched(backfill="easy")
    log = play(world._replace(jobs=honest, faults=()), policy).log
    begun = dict(zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True))
    for job, promise in promised.items():
        assert begun.get(job, NEVER_US) <= promise, f"job {job} was to start at {promise},  and did at {begun.get(job)}"


def test_what_a_list_would_start_on_a_draft_is_what_all_of_its_steps_start() -> None:
    said: dict[int, set[int]] = {}

    class Foreseen(ListScheduler):
        def decide(self, view: View, memory: ListNotes, now: int) -> tuple[list[Decision], ListNotes]:
            if now not in said:
                plain = ListScheduler(backfill="any")
                found, _ = decided(plain, view, plain.begin(view), now)
                said[now] = {one.lease.job for one in found if isinstance(one, Start)}
            return super().decide(view, memory, now)

    for seed in range(3):
        said.clear()
        log = play(crowd(seed), Foreseen(backfill="any")).log
        begun: dict[int, set[int]] = {}
        for job, at in zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True):
            begun.setdefault(at, set()).add(job)
        assert max(map(len, begun.values())) > 1
        assert {at: jobs for at, jobs in said.items() if jobs} == begun


def test_while_no_job_asks_for_devices_nothing_is_chosen() -> None:
    jobs = tuple(D(i // 3, 5 + i % 7, cores=1 + i % 4, tasks=1 + i % 3) for i in range(60))
    bare, pooled = World(cluster([4, 4, 6]), jobs), World(cluster([4, 4, 6], DRIVES), jobs)
    for name in ("easy", "easy(backfill_order=sjf, place=best-fit)", "fcfs", "sjf"):
        assert starts(play(bare, name).log) == starts(play(pooled, name).log)
        assert not play(pooled, name).core.memory.chosen


def test_a_crowd_is_served_to_the_last_job_under_every_order() -> None:
    world = crowd(7)
    for name in ("fcfs", "sjf", "easy(order=wfp3)", "easy(depth=2)", "easy(place=disaggregation-aware)"):
        assert len(play(world, name).log.attempt_job) == len(world.jobs), name


def test_reasons_name_what_lacks_or_who_is_first() -> None:
    jobs = (
        D(0, 100, nvme=(2000, 600)),
        D(0, 9, tasks=2, nvme=(2000, 600)),
        D(0, 999, nvme=(2000, 600)),
        D(0, 1, cores=9),
    )
    core = Core(cluster([8], DRIVES), table(jobs), parse_policy("easy"))
    for job in range(3):
        core.handle(Submitted(job), 0)
    core.handle(Round(), 0)
    assert core.why(1, 0).code == Code.NO_ROOM
    assert (core.why(2, 0).code, core.why(2, 0).what) == (Code.WOULD_DELAY, "job 2")


@pytest.mark.parametrize("name", ["easy(nodes=whole)", "easy(place=worst-fit)", "conservative", "slurm(nodes=whole)"])
def test_a_crowd_is_served_on_whole_nodes_too_and_under_reservations(name: str) -> None:
    world = crowd(3)
    assert len(play(world, name).log.attempt_job) == len(world.jobs)
