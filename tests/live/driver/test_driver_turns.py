"""The driver over a Slurm in memory: what it decides, what others do, what goes wrong."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from fake_fabric import FakeFabric
from fake_slurm import PREEMPTS, FakeSlurm, HandClock, PlainTerms
from memory_journal import MemoryJournal

from unrack.live.driver.driver import Driver, PolicyFaultError, Settings
from unrack.live.driver.seen import UnreachableError
from unrack.live.driver.state.kept import kept_of
from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import Phase
from unrack.live.slurm.adapter.adapter import SlurmAdapter
from unrack.live.slurm.reading import Reading

POOL = [{"kind": "nvme", "count": 2, "quantities": {"capacity_mb": 300}}]


class World:
    """A fake Slurm and a driver."""

    def __init__(self, policy: Any = "easy", pools: list[dict[str, Any]] | None = None, **more: Any) -> None:
        self.clock = HandClock()
        self.slurm = FakeSlurm(self.clock, **more)
        self.fabric, self.journal, self.terms = FakeFabric(), MemoryJournal(), PlainTerms(policy, pools)
        self.driver = self.make()

    def make(self, **more: Any) -> Driver:
        kept = kept_of(self.journal.records())
        slurm = SlurmAdapter(self.slurm, self.terms)
        return Driver(slurm, self.fabric, self.journal, kept=kept, clock=self.clock, **more)

    def go(self, steps: int = 1, us: int = 200_000) -> None:
        for _ in range(steps):
            self.driver.step()
            while self.driver.acting.attachments._working and not all(
                f.done() for f in self.driver.acting.attachments._working.values()
            ):
                time.sleep(0.0005)
            self.slurm.tick(us)

    def until_done(self, steps: int = 400, us: int = 200_000) -> None:
        for _ in range(steps):
            if all(job.state not in ("PENDING", "RUNNING") for job in self.slurm.jobs.values()):
                break
            self.go(us=us)
        self.go(5)

    def phase(self, number: int) -> Phase | None:
        entry = self.driver.table.get(str(number))
        return None if entry is None else entry.phase

    def starts(self) -> dict[int, list[tuple[int, tuple[str, ...]]]]:
        return {number: job.starts for number, job in self.slurm.jobs.items()}


def test_a_job_runs_on_the_nodes_that_were_decided_and_its_place_comes_back() -> None:
    world = World()
    world.slurm.submit(nodes=2, cores=4)
    world.go(2)
    entry = world.driver.table.get("1")
    assert entry is not None
    assert entry.phase == Phase.RUNNING
    assert world.slurm.jobs[1].held_on == tuple(entry.nodes)
    world.until_done()
    assert world.slurm.jobs[1].state == "COMPLETED"
    assert len(world.driver.table) == 0
    assert world.driver.epoch is not None
    assert (world.driver.epoch.core.state.free == world.driver.epoch.core.state.total).all()


@pytest.mark.parametrize(
    "policy", ["fcfs", "easy", "conservative", "slurm(interval=1 s)", "list(backfill=any)", "flow"]
)
def test_everything_is_done_once_under_any_discipline(policy: str) -> None:
    world = World(policy)
    for i in range(30):
        world.slurm.submit(nodes=1 + i % 4, cores=1 + i % 3, run_s=1 + i % 5, limit_s=8)
    world.until_done(1500)
    assert [len(starts) for starts in world.starts().values()] == [1] * 30
    assert {job.state for job in world.slurm.jobs.values()} == {"COMPLETED"}


@pytest.mark.parametrize(
    "policy",
    ["slurm(interval=2 s)", "slurm(interval=2 s, main=interval)", "flow(interval=2 s)", "disaggregated(interval=2 s)"],
)
@pytest.mark.parametrize("reading_us", [0, 1_700_000])
def test_a_policy_that_decides_at_intervals_is_asked_at_them_whenever_the_driver_looks(
    policy: str, reading_us: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(policy, nodes=2)
    world.clock.at_us = 123_457
    read = world.slurm.read

    def slowly() -> Reading:
        found = read()
        world.clock.at_us += reading_us
        return found

    monkeypatch.setattr(world.slurm, "read", slowly)
    world.slurm.submit(nodes=1, cores=4, run_s=30, limit_s=40)
    world.go(20, us=270_001)
    world.slurm.submit(nodes=2, cores=4, run_s=3, limit_s=10)  # waits for the first
    backfilled = world.slurm.jobs[world.slurm.submit(nodes=1, cores=4, run_s=3, limit_s=10)]
    asked_us = world.clock.at_us
    world.go(12, us=270_001)
    assert backfilled.starts
    assert backfilled.starts[0][0] - asked_us < 2_600_000 + 2 * reading_us
    world.until_done(us=270_001)
    assert {job.state for job in world.slurm.jobs.values()} == {"COMPLETED"}
    rounds = [one["now"] for one in world.journal.records() if one["k"] == "turn" and one["decided"]]
    if "main" in policy or "flow" in policy:
        assert all(now % 2_000_000 == 0 for now in rounds)
    assert replay(world.journal.records()).differences == []


def test_devices_are_attached_before_a_job_is_released_and_detached_after_it() -> None:
    world = World(pools=POOL)
    world.slurm.submit(comment="nvme=200")
    world.slurm.submit(comment="nvme=200")
    world.slurm.submit(comment="nvme=200")
    world.driver.step()
    assert {world.phase(1), world.phase(2)} == {Phase.ATTACHING}
    assert world.phase(3) == Phase.WAITING
    assert not world.slurm.commands
    world.go(3)
    assert len(world.fabric.attached) == 2
    world.until_done()
    assert not world.fabric.attached
    assert max(world.fabric.peak_mb.values()) <= 300
    assert [len(starts) for starts in world.starts().values()] == [1, 1, 1]


def test_a_fabric_that_fails_half_way_is_undone_and_tried_again() -> None:
    world = World(pools=POOL)
    trouble = iter([False, True, True, False, False])
    world.fabric.fails = lambda when: next(trouble, False)
    world.slurm.submit(comment="nvme=200")
    world.until_done()
    assert world.slurm.jobs[1].state == "COMPLETED"
    assert not world.fabric.attached


def test_a_job_that_is_not_started_in_time_is_recalled_and_tried_again() -> None:
    world = World()
    world.slurm.submit()
    world.slurm.stuck.add(1)
    world.go(60)
    assert world.slurm.jobs[1].priority == 0 or world.phase(1) == Phase.RELEASED
    entry = world.driver.table.get("1")
    assert entry is not None
    assert entry.trouble.tries >= 1
    world.slurm.stuck.clear()
    world.until_done()
    assert len(world.slurm.jobs[1].starts) == 1


def test_an_order_that_is_refused_gives_the_place_back() -> None:
    world = World(nodes=1)
    world.slurm.submit(cores=4)
    world.slurm.submit(cores=4)
    world.slurm.refuse[1] = 2
    world.until_done()
    assert {job.state for job in world.slurm.jobs.values()} == {"COMPLETED"}


def test_jobs_that_others_start_hold_what_they_hold_and_are_never_touched() -> None:
    world = World(nodes=2)
    other = world.slurm.submit(nodes=1, cores=3, run_s=8, partition="other", priority=5)
    world.slurm.schedule()
    ours = world.slurm.submit(nodes=2, cores=2)
    small = world.slurm.submit(nodes=2, cores=1, run_s=1, limit_s=2)
    world.go(3)
    assert world.phase(other) == Phase.FOREIGN
    assert world.phase(ours) == Phase.WAITING
    assert world.slurm.jobs[small].starts
    world.until_done()
    assert world.slurm.jobs[other].restarts == 0
    assert world.slurm.jobs[ours].starts[0][0] >= 8_000_000


def test_a_place_that_others_took_first_is_found_again_elsewhere() -> None:
    world = World(nodes=2)
    world.slurm.submit(cores=4, run_s=3)
    world.driver.step()
    world.slurm.jobs[1].priority = 0  # Slurm has not started it when another takes the node
    job = world.slurm.jobs[1]
    job.state, job.held_on, job.starts = "PENDING", (), []
    taken = job.required[0]
    other = world.slurm.submit(cores=3, run_s=20, partition="other")
    world.slurm.jobs[other].priority, world.slurm.jobs[other].required = 9, (taken,)
    world.slurm.schedule()
    job.priority = 100
    world.until_done()
    assert job.state == "COMPLETED"
    assert job.starts[0][1] != (taken,)
    assert job.starts[0][0] < 10_000_000


@pytest.mark.parametrize("held_by_user", [True, False])
def test_a_waiting_job_that_is_cancelled_or_held_by_its_user_leaves_the_queue(held_by_user: bool) -> None:
    world = World(nodes=1)
    world.slurm.submit(cores=4, run_s=3)
    second = world.slurm.submit(cores=4)
    third = world.slurm.submit(cores=4)
    world.go(2)
    if held_by_user:
        world.slurm.jobs[second].reason = "JobHeldUser"
        world.slurm.dirty = True
    else:
        world.slurm.end(second, "CANCELLED")
    world.go(25)
    assert world.slurm.jobs[third].starts
    assert not world.slurm.jobs[second].starts
    if held_by_user:
        world.slurm.jobs[second].reason = "JobHeldAdmin"
        world.slurm.dirty = True
        world.until_done()
        assert world.slurm.jobs[second].state == "COMPLETED"


def test_a_job_that_somebody_requeues_is_held_again_and_started_by_the_policy() -> None:
    world = World()
    world.slurm.submit(run_s=6)
    world.go(3)
    world.slurm.stuck.add(1)
    world.slurm.requeue(1, held=False)
    world.go(3)
    world.slurm.stuck.clear()
    world.until_done()
    assert world.slurm.jobs[1].state == "COMPLETED"
    assert len(world.slurm.jobs[1].starts) == 2


def test_a_changed_demand_counts() -> None:
    world = World(nodes=1)
    world.slurm.submit(cores=4, run_s=3)
    second = world.slurm.submit(cores=4)
    world.go(2)
    world.slurm.jobs[second].cores = 2
    world.slurm.dirty = True
    world.go()
    assert world.driver.epoch is not None
    number = world.driver.table.get(str(second)).number  # type: ignore[union-attr]
    assert world.driver.epoch.core.view.cores[number] == 2


def test_nodes_that_drain_come_back_and_are_added() -> None:
    world = World(nodes=2)
    first = world.slurm.submit(nodes=2, cores=1, run_s=5)
    world.go(2)
    world.slurm.mark("n1", "MIXED", "DRAIN")
    second = world.slurm.submit(nodes=2, cores=1)
    third = world.slurm.submit(nodes=1, cores=2, run_s=2)
    world.go(3)
    assert world.slurm.jobs[third].starts[0][1] == ("n2",)
    assert world.slurm.jobs[first].state == "RUNNING"
    assert not world.slurm.jobs[second].starts
    world.slurm.nodes["n3"] = type(world.slurm.nodes["n2"])(
        "n3", 4, 1000, words=frozenset({"IDLE"}), partitions=frozenset({"ours"})
    )
    world.slurm.dirty = True
    world.go(4)
    assert world.slurm.jobs[second].starts[0][1] == ("n2", "n3")
    world.slurm.mark("n1", "IDLE")
    world.until_done()
    assert {job.state for job in world.slurm.jobs.values()} == {"COMPLETED"}


def test_a_partition_without_nodes_waits_for_them_to_come_back() -> None:
    world = World()
    world.slurm.submit(nodes=2, run_s=2)
    world.go(2)
    kept = dict(world.slurm.nodes)
    world.slurm.nodes, world.slurm.dirty = {}, True
    world.slurm.submit()
    world.go(15)
    assert world.slurm.jobs[1].state == "COMPLETED"
    assert world.slurm.jobs[2].state == "PENDING"
    world.slurm.nodes, world.slurm.dirty = kept, True
    world.until_done()
    assert world.slurm.jobs[2].state == "COMPLETED"


def test_a_job_too_big_for_now_is_tried_again_when_nodes_are_added() -> None:
    world = World(nodes=1)
    world.slurm.submit(nodes=2, cores=4)
    world.go(3)
    entry = world.driver.table.get("1")
    assert entry is not None
    assert entry.phase == Phase.ASIDE
    assert "rejected" in entry.why
    world.slurm.nodes["n2"] = type(world.slurm.nodes["n1"])(
        "n2", 4, 1000, words=frozenset({"IDLE"}), partitions=frozenset({"ours"})
    )
    world.slurm.dirty = True
    world.until_done()
    assert world.slurm.jobs[1].state == "COMPLETED"


def test_a_job_that_cannot_be_scheduled_is_left_held_with_the_reason() -> None:
    world = World()
    world.slurm.submit(comment="problem")
    world.go(3)
    entry = world.driver.table.get("1")
    assert entry is not None
    assert (entry.phase, entry.why) == (Phase.ASIDE, "it says so itself")
    assert world.slurm.jobs[1].priority == 0


def test_slurm_may_be_unreachable_at_any_time() -> None:
    world = World()
    for i in range(6):
        world.slurm.submit(cores=4, run_s=2 + i % 2)
    for step in range(200):
        world.slurm.unreachable = int(step % 7 == 0)
        try:
            world.go()
        except UnreachableError:
            world.slurm.tick(200_000)
    assert [len(starts) for starts in world.starts().values()] == [1] * 6


def test_a_job_that_runs_longer_than_expected_does_not_stop_the_others() -> None:
    world = World(nodes=1)
    world.slurm.submit(cores=3, run_s=30, limit_s=2)
    world.slurm.submit(cores=4, run_s=1)
    world.slurm.submit(cores=1, run_s=1, limit_s=2)
    world.go(40)
    assert world.slurm.jobs[3].starts
    world.until_done()
    assert {job.state for job in world.slurm.jobs.values()} == {"COMPLETED"}


def test_a_limit_that_changes_is_expected(tmp_path: Any) -> None:
    world = World()
    world.slurm.submit(run_s=50, limit_s=100)
    world.go(3)
    assert world.driver.epoch is not None
    before = world.driver.epoch.core.state.booked_end(0)
    world.slurm.jobs[1].limit_s = 200
    world.slurm.dirty = True
    world.go()
    assert world.driver.epoch.core.state.booked_end(0) - before == pytest.approx(100e6, abs=2e6)


def test_a_start_that_is_not_acknowledged_when_an_epoch_begins_is_expected_to_take_what_it_asked() -> None:
    world = World()
    world.slurm.submit(run_s=50, limit_s=100)
    world.driver.step()
    assert world.phase(1) == Phase.RELEASED
    world.driver = world.make()
    world.driver.look()
    world.go(3)
    assert world.driver.epoch is not None
    entry = world.driver.table.get("1")
    assert entry is not None
    assert entry.phase == Phase.RUNNING
    assert world.driver.epoch.core.state.booked_end(entry.number) == pytest.approx(100e6, abs=2e6)


FAULTY = '''\
from unrack.policy import Start


class Faulty:
    """Does something wrong in one of its methods once jobs wait, or at once."""

    def begin(self, view):
        return self.asked("begin", view, True)

    def decide(self, view, memory, now):
        starts = [Start.on(view.candidates(job.index)) for job in list(view.waiting_jobs())[:1]]
        return [start for start in starts if start is not None], self.asked("decide", view, view.waiting >= 3, memory)

    def next_round(self, view, memory, now):
        return self.asked("next_round", view, len(view.running_jobs) >= 1)

    def reserves_mb(self, view, memory, job, asked):
        return self.asked("reserves_mb", view, job >= 2, asked)

    def adjust(self, view, memory, used, now):
        return [], memory

    def asked(self, method, view, is_time, answer=None):
        if method == "{method}" and is_time:
            {fault}
        return answer
'''
RAISES = "raise ZeroDivisionError('three are a crowd')"


def faulty(folder: Any, method: str, fault: str = RAISES) -> str:
    (folder / "mine.py").write_text(FAULTY.format(method=method, fault=fault))
    return f"{folder / 'mine.py'}:Faulty"


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize(
    ("method", "fault"),
    [
        ("decide", RAISES), ("next_round", RAISES), ("begin", RAISES), ("reserves_mb", RAISES),
        ("decide", "raise SystemExit(3)"), ("next_round", "raise SystemExit(3)"), ("begin", "raise SystemExit(3)"),
        ("next_round", "return 'soon'"), ("next_round", "return 0"), ("next_round", "return float('nan')"),
        ("begin", "return iter(x for x in 'a')"),
    ],
)  # fmt: skip
def test_a_policy_that_fails_wherever_it_is_asked_ends_the_driver_or_gives_way_to_first_come(
    tmp_path: Any, stop: bool, method: str, fault: str
) -> None:
    world = World(faulty(tmp_path, method, fault))
    world.driver = world.make(settings=Settings(stop_on_fault=stop))
    for _ in range(4):
        world.slurm.submit()
    if stop:
        with pytest.raises(PolicyFaultError, match="the policy failed: "):
            world.until_done()
    else:
        world.until_done()
        assert {job.state for job in world.slurm.jobs.values()} == {"COMPLETED"}
        assert [len(starts) for starts in world.starts().values()] == [1] * 4
    records = world.journal.records()
    (told,) = [record["fault"] for record in records if "fault" in record]
    assert ("crowd" if fault == RAISES else method) in told
    if not stop:
        assert records[-1]["k"] != "begin"
        assert [record["why"] for record in records if record["k"] == "begin"][-1] == "the policy failed"
    assert replay(records).differences == []


def test_a_policy_whose_file_is_broken_by_the_time_the_nodes_change_gives_way_too(tmp_path: Any) -> None:
    world = World(faulty(tmp_path, "nothing"))
    world.slurm.submit(run_s=3)
    world.go(2)
    (tmp_path / "mine.py").write_text("class Faulty(")
    world.slurm.nodes["n9"], world.slurm.dirty = replace(world.slurm.nodes["n1"], name="n9"), True
    world.go(2)
    world.slurm.submit(nodes=5, run_s=1)
    world.until_done()
    assert {job.state for job in world.slurm.jobs.values()} == {"COMPLETED"}
    whys = [record["why"] for record in world.journal.records() if record["k"] == "begin"]
    assert whys == ["the driver started", "the policy failed", "the nodes changed"]


@pytest.mark.parametrize("by_slurm", [False, True])
def test_a_job_that_the_policy_stops_starts_again_and_its_drive_is_another_s_once_it_is_detached(
    tmp_path: Any, by_slurm: bool
) -> None:
    (tmp_path / "mine.py").write_text(PREEMPTS)
    world = World(f"{tmp_path / 'mine.py'}:Preempts", pools=[{**POOL[0], "count": 1}], nodes=1)
    first = world.slurm.jobs[world.slurm.submit(cores=4, run_s=5, comment="nvme=200")]
    world.go(4)
    assert world.phase(1) == Phase.RUNNING
    second = world.slurm.jobs[world.slurm.submit(cores=4, run_s=2, comment="nvme=200")]
    world.driver.look()
    assert world.phase(1) == Phase.STOPPING
    if by_slurm:  # queues it again at the same moment, free to start where it was
        world.slurm.stuck.add(1)
        world.slurm.requeue(1, held=False)
        world.go(2)
        assert first.priority == 0
        world.slurm.stuck.clear()
    while len(first.starts) < 2:
        world.go()
        assert world.clock.at_us < 60_000_000
    assert second.starts
    assert [one.job for one in world.fabric.state()] == ["1"]
    world.until_done()
    assert {first.state, second.state} == {"COMPLETED"}
    assert max(world.fabric.peak_mb.values()) <= 300
    assert not world.fabric.attached
    assert len(world.driver.table) == 0


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED"])
def test_a_job_that_is_over_before_the_policy_has_stopped_it_leaves_nothing_attached(tmp_path: Any, state: str) -> None:
    (tmp_path / "mine.py").write_text(PREEMPTS)
    world = World(f"{tmp_path / 'mine.py'}:Preempts", pools=[{**POOL[0], "count": 1}], nodes=1)
    world.slurm.submit(cores=4, run_s=5, comment="nvme=200")
    world.go(4)
    world.slurm.submit(cores=4, run_s=2, comment="nvme=200")
    world.driver.look()
    assert world.phase(1) == Phase.STOPPING
    world.slurm.end(1, state)
    world.until_done()
    assert world.slurm.jobs[2].state == "COMPLETED"
    assert max(world.fabric.peak_mb.values()) <= 300
    assert not world.fabric.attached
    assert len(world.driver.table) == 0


def test_a_start_that_is_decided_while_the_devices_of_the_last_are_detached_waits_for_that(tmp_path: Any) -> None:
    (tmp_path / "mine.py").write_text(PREEMPTS)
    world = World(f"{tmp_path / 'mine.py'}:Preempts", pools=[{**POOL[0], "count": 1}], nodes=1)
    first = world.slurm.jobs[world.slurm.submit(cores=4, run_s=9, comment="nvme=200")]
    world.go(4)
    world.slurm.submit(cores=4, run_s=1)
    world.fabric.fails = lambda where: where == "detach"
    world.go(25)  # the second has come and gone, and the first has been decided again
    assert world.slurm.jobs[2].state == "COMPLETED"
    entry = world.driver.table.get("1")
    assert entry is not None
    assert (entry.phase, entry.lease is not None) == (Phase.DETACHING, True)
    assert len(first.starts) == 1
    world.driver.acting.close()
    world.driver = world.make()
    world.go(3)
    world.fabric.fails = lambda where: False
    world.until_done()
    assert first.state == "COMPLETED"
    assert len(first.starts) == 2
    assert max(world.fabric.peak_mb.values()) <= 300
    assert not world.fabric.attached


@pytest.mark.parametrize("running", [True, False])
def test_a_job_that_a_killed_controller_brings_back_is_held_and_started_with_its_devices(running: bool) -> None:
    world = World(pools=POOL)
    world.slurm.submit(comment="nvme=200", run_s=2)
    world.until_done()
    assert not world.fabric.attached
    world.driver.acting.close()
    world.driver = world.make()  # who is over is in the journal, too
    job = world.slurm.jobs[1]
    if running:
        job.state, job.held_on, job.start_us = "RUNNING", ("n1",), world.clock.at_us
        world.slurm.dirty = True
        world.go(2)
        assert world.phase(1) == Phase.FOREIGN
        world.slurm.stuck.add(1)
        world.slurm.requeue(1, held=False)
    else:
        world.slurm.stuck.add(1)
        job.state, job.priority, job.held_on, job.restarts = "PENDING", 50, (), 1
        world.slurm.dirty = True
    world.go(3)
    assert job.priority == 0 or world.phase(1) not in (None, Phase.RECALLING)
    world.slurm.stuck.clear()
    world.go(4)
    assert [one.job for one in world.fabric.state()] == ["1"]
    world.until_done()
    assert job.state == "COMPLETED"
    assert not world.fabric.attached


@pytest.mark.parametrize("seen_running", [True, False])
def test_a_job_that_was_brought_back_and_starts_before_it_can_be_held_holds_what_it_holds(seen_running: bool) -> None:
    world = World()
    world.slurm.submit(cores=3, run_s=2)
    world.until_done()
    job = world.slurm.jobs[1]
    job.state, job.priority, job.held_on, job.restarts = "PENDING", 50, (), 1
    world.slurm.refuse[1], world.slurm.dirty = 1, True
    world.go(1)
    assert world.slurm.jobs[1].state == "RUNNING"
    if not seen_running:
        world.slurm.end(1, "COMPLETED")
    world.driver.step()
    assert world.phase(1) == (Phase.FOREIGN if seen_running else None)
    assert world.driver.epoch is not None
    assert int(world.driver.epoch.core.state.free[0].sum()) == (16 - 3 if seen_running else 16)
    world.until_done()
    assert len(world.driver.table) == 0


@pytest.mark.parametrize("phase", [Phase.WAITING, Phase.ASIDE, Phase.ATTACHING, Phase.DETACHING])
def test_a_hold_that_a_killed_controller_has_forgotten_is_no_release_by_somebody_else(phase: Phase) -> None:
    world = World(pools=POOL, nodes=1)
    job = world.slurm.jobs[world.slurm.submit(comment="nvme=200", run_s=2)]
    world.slurm.stuck.add(1)
    world.go(3)
    assert world.phase(1) == Phase.RELEASED
    world.slurm.save()
    if phase in (Phase.WAITING, Phase.ATTACHING):
        world.slurm.mark("n1", "IDLE", "DRAIN")
    if phase == Phase.DETACHING:
        world.fabric.fails = lambda where: where == "detach"
    while world.phase(1) != (Phase.WAITING if phase == Phase.ATTACHING else phase):
        world.go()
        assert world.clock.at_us < 60_000_000
    if phase == Phase.ATTACHING:
        world.slurm.mark("n1", "IDLE")
        world.driver.step()
    assert world.phase(1) == phase
    assert not job.priority
    world.slurm.crash(down_us=2_000_000)
    assert (job.priority, job.required) == (100, ("n1",))
    world.slurm.stuck.clear()
    world.go(15)
    assert phase != Phase.DETACHING or job.state == "PENDING"
    world.fabric.fails = lambda where: False
    world.slurm.mark("n1", "IDLE")
    while job.state != "RUNNING":
        world.go()
        assert world.clock.at_us < 60_000_000
    assert [one.job for one in world.fabric.state()] == ["1"]
    world.until_done()
    assert job.state == "COMPLETED"
    assert len(job.starts) == 1
    assert not world.fabric.attached


@pytest.mark.parametrize("held", [True, False])
def test_a_job_whose_start_a_killed_controller_has_forgotten_is_started_with_its_devices_once_more(held: bool) -> None:
    world = World(pools=POOL)
    job = world.slurm.jobs[world.slurm.submit(comment="nvme=200", run_s=3)]
    world.go(3)
    assert world.phase(1) == Phase.RUNNING
    job.state, job.held_on, job.start_us = "PENDING", (), -1
    job.priority, world.slurm.comes_back_us, world.slurm.dirty = 0 if held else 100, world.clock.at_us + 2_000_000, True
    world.driver.step()
    entry = world.driver.table.get("1")
    assert entry is not None
    assert "Slurm has forgotten that it ran" in entry.why
    world.until_done()
    assert job.state == "COMPLETED"
    assert len(job.starts) == 2
    assert max(world.fabric.peak_mb.values()) == 200
    assert not world.fabric.attached


def test_somebody_else_may_release_a_job_that_has_been_held_back() -> None:
    world = World(nodes=1)
    job = world.slurm.jobs[world.slurm.submit(run_s=2)]
    world.slurm.stuck.add(1)
    while world.phase(1) != Phase.ASIDE:
        world.go()
        assert world.clock.at_us < 60_000_000
    job.priority, job.reason, world.slurm.dirty = 50, "None", True
    world.go(2)
    assert world.phase(1) is None
    world.slurm.stuck.clear()
    world.until_done()
    assert job.state == "COMPLETED"
    assert job.priority == 50


def test_a_place_that_we_gave_is_not_taken_for_what_a_requeued_job_asks() -> None:
    world = World()
    world.slurm.submit(run_s=6)
    world.go(3)
    assert world.slurm.jobs[1].required
    world.slurm.requeue(1, held=True)
    world.until_done()
    assert world.slurm.jobs[1].state == "COMPLETED"
    assert len(world.slurm.jobs[1].starts) == 2


def test_an_earlier_place_of_ours_is_not_taken_for_what_a_job_asks_when_a_later_one_was_never_given() -> None:
    world = World(pools=POOL)
    world.slurm.submit(run_s=5, comment="nvme=100")
    world.go(4)
    first = world.slurm.jobs[1].held_on[0]
    world.slurm.mark(first, "IDLE", "DRAIN")
    world.slurm.requeue(1, held=True)
    for _ in range(3):  # decided elsewhere, again and again, and never given to Slurm
        world.fabric.fails = lambda where: where == "before"
        world.go(20)
        assert world.slurm.jobs[1].required == (first,)
    world.fabric.fails = lambda where: False
    world.until_done()
    assert world.slurm.jobs[1].state == "COMPLETED"


def test_nodes_that_a_user_asks_for_by_name_are_had_and_asked_for_again_when_a_start_fails() -> None:
    world = World()
    number = world.slurm.submit(nodes=2)
    world.slurm.jobs[number].required = ("n3",)
    world.slurm.stuck.add(number)
    world.go(3)
    assert "n3" in world.slurm.jobs[number].required
    assert len(world.slurm.jobs[number].required) == 2
    world.go(60)  # it is held again
    world.go(30)
    world.slurm.stuck.clear()
    world.until_done()
    assert world.slurm.jobs[number].state == "COMPLETED"
    assert "n3" in world.slurm.jobs[number].starts[0][1]


@pytest.mark.parametrize("held", [True, False])
def test_a_job_that_has_run_is_not_started_again_because_a_killed_controller_forgot_it(held: bool) -> None:
    world = World()
    world.slurm.submit(run_s=1)
    world.until_done()
    job = world.slurm.jobs[1]
    job.state, job.held_on, job.required, job.priority = "PENDING", (), (), 0 if held else 50
    world.slurm.stuck.add(1)
    world.slurm.dirty = True
    world.go(3)
    world.slurm.stuck.clear()
    world.go(20)
    assert world.phase(1) == Phase.ASIDE
    assert len(job.starts) == 1
    job.restarts += 1  # somebody wants it to run again
    world.slurm.dirty = True
    world.until_done()
    assert len(job.starts) == 2


@pytest.mark.parametrize("steps", [0, 1, 2, 4, 40])
@pytest.mark.parametrize("held", [True, False])
def test_a_number_that_a_killed_controller_gives_to_another_job_is_that_of_another_job(steps: int, held: bool) -> None:
    world = World(pools=POOL)
    blocker = world.slurm.submit(nodes=2, cores=4, run_s=2)
    first = world.slurm.submit(nodes=1, cores=1, run_s=3, comment="nvme=300")
    world.go(steps + 1 if steps < 10 else 1)
    if steps == 40:
        world.until_done()
    world.clock.at_us += 2_000_000
    del world.slurm.jobs[first]  # the controller lost it, and gives its number to the next
    again = world.slurm.submit(nodes=2, cores=3, run_s=4, comment="nvme=100")
    job = world.slurm.jobs[first] = world.slurm.jobs.pop(again)
    job.id, world.slurm.dirty = first, True
    if not held:
        job.priority, job.partition = 50, "other"
    world.until_done()
    world.go(5)
    assert job.state == "COMPLETED"
    assert [len(nodes) for _, nodes in job.starts] == [2]
    assert not world.fabric.attached
    assert len(world.driver.table) == 0
    assert world.driver.epoch is not None
    assert (world.driver.epoch.core.state.free == world.driver.epoch.core.state.total).all()
    assert world.slurm.jobs[blocker].state == "COMPLETED"


def test_a_job_that_has_given_some_of_its_nodes_back_when_it_is_first_seen_ran_where_it_was_planned() -> None:
    world = World()
    world.slurm.submit(nodes=2, cores=4)
    world.driver.step()
    job = world.slurm.jobs[1]
    assert len(job.held_on) == 2
    job.state, job.completing, job.held_on = "COMPLETED", True, job.held_on[1:]
    world.slurm.dirty = True
    world.driver.step()
    assert world.phase(1) == Phase.RUNNING
    assert sum(name == "started" for name in map(_kind, world.journal.records())) == 1
    job.completing, job.held_on, job.end_us = False, (), world.clock.at_us
    world.slurm.dirty = True
    world.driver.step()
    assert world.phase(1) is None


def _kind(record: dict[str, Any]) -> str:
    """``"started"`` of a turn in which a start was acknowledged."""
    return "started" if any(event[0] == "started" for event in record.get("told", ())) else ""
