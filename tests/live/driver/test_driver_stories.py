"""The driver over a plain orchestrator in memory: what it decides, what others do, what goes wrong.

Nothing in these stories is one orchestrator's own: each may be told of any.
"""

from __future__ import annotations

from typing import Any

import pytest
from fake_slurm import PREEMPTS
from plain import CANCELLED, DONE, RUNS, WAITS, key_of
from worlds import POOL, PlainWorld

from unrack.live.driver.driver import DriverSettings, PolicyFaultError
from unrack.live.driver.seen import Seen, UnreachableError
from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import Phase
from unrack.live.driver.state.table import KnownJobs


def test_a_job_runs_on_the_nodes_that_were_decided_and_its_place_comes_back() -> None:
    world = PlainWorld()
    world.them.submit(nodes=2, cores=4)
    world.go(2)
    entry = world.driver.table.get(key_of(1))
    assert entry is not None
    assert entry.phase == Phase.RUNNING
    assert list(world.them.jobs[key_of(1)].bound) == entry.nodes
    world.until_done()
    assert world.them.jobs[key_of(1)].state == DONE
    assert len(world.driver.table) == 0
    assert world.driver.epoch is not None
    assert (world.driver.epoch.core.state.free == world.driver.epoch.core.state.total).all()


@pytest.mark.parametrize(
    "policy", ["fcfs", "easy", "conservative", "slurm(interval=1 s)", "list(backfill=any)", "flow"]
)
def test_everything_is_done_once_under_any_discipline(policy: str) -> None:
    world = PlainWorld(policy)
    for i in range(30):
        world.them.submit(nodes=1 + i % 4, cores=1 + i % 3, run_s=1 + i % 5, limit_s=8)
    world.until_done(1500)
    assert [len(starts) for starts in world.starts().values()] == [1] * 30
    assert world.states() == {DONE}


@pytest.mark.parametrize(
    "policy",
    ["slurm(interval=2 s)", "slurm(interval=2 s, main=interval)", "flow(interval=2 s)", "disaggregated(interval=2 s)"],
)
@pytest.mark.parametrize("reading_us", [0, 1_700_000])
def test_a_policy_that_decides_at_intervals_is_asked_at_them_whenever_the_driver_looks(
    policy: str, reading_us: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = PlainWorld(policy, nodes=2)
    world.clock.at_us = 123_457
    read = world.driver.orchestrator.read

    def slowly(table: KnownJobs) -> Seen:
        found = read(table)
        world.clock.at_us += reading_us
        return found

    monkeypatch.setattr(world.driver.orchestrator, "read", slowly)
    world.them.submit(nodes=1, cores=4, run_s=30, limit_s=40)
    world.go(20, us=270_001)
    world.them.submit(nodes=2, cores=4, run_s=3, limit_s=10)  # waits for the first
    backfilled = world.them.jobs[world.them.submit(nodes=1, cores=4, run_s=3, limit_s=10)]
    asked_us = world.clock.at_us
    world.go(12, us=270_001)
    assert backfilled.starts
    assert backfilled.starts[0][0] - asked_us < 2_600_000 + 2 * reading_us
    world.until_done(us=270_001)
    assert world.states() == {DONE}
    rounds = [one["now"] for one in world.journal.records() if one["k"] == "turn" and one["decided"]]
    if "main" in policy or "flow" in policy:
        assert all(now % 2_000_000 == 0 for now in rounds)
    assert replay(world.journal.records()).differences == []


def test_devices_are_attached_before_a_job_is_released_and_detached_after_it() -> None:
    world = PlainWorld(pools=POOL)
    world.them.submit(drive_mb=200)
    world.them.submit(drive_mb=200)
    world.them.submit(drive_mb=200)
    world.driver.step()
    assert {world.phase(key_of(1)), world.phase(key_of(2))} == {Phase.ATTACHING}
    assert world.phase(key_of(3)) == Phase.WAITING
    assert not world.them.orders
    world.go(3)
    assert len(world.fabric.attached) == 2
    world.until_done()
    assert not world.fabric.attached
    assert max(world.fabric.peak_mb.values()) <= 300
    assert [len(starts) for starts in world.starts().values()] == [1, 1, 1]


def test_a_fabric_that_fails_half_way_is_undone_and_tried_again() -> None:
    world = PlainWorld(pools=POOL)
    trouble = iter([False, True, True, False, False])
    world.fabric.fails = lambda when: next(trouble, False)
    world.them.submit(drive_mb=200)
    world.until_done()
    assert world.them.jobs[key_of(1)].state == DONE
    assert not world.fabric.attached


def test_a_job_that_is_not_started_in_time_is_recalled_and_tried_again() -> None:
    world = PlainWorld()
    world.them.submit()
    world.them.stuck.add(key_of(1))
    world.go(60)
    assert not world.them.jobs[key_of(1)].bound or world.phase(key_of(1)) == Phase.RELEASED
    entry = world.driver.table.get(key_of(1))
    assert entry is not None
    assert entry.trouble.tries >= 1
    world.them.stuck.clear()
    world.until_done()
    assert len(world.them.jobs[key_of(1)].starts) == 1


def test_an_order_that_is_refused_gives_the_place_back() -> None:
    world = PlainWorld(nodes=1)
    world.them.submit(cores=4)
    world.them.submit(cores=4)
    world.them.refuse[key_of(1)] = 2
    world.until_done()
    assert world.states() == {DONE}


def test_jobs_that_others_start_hold_what_they_hold_and_are_never_touched() -> None:
    world = PlainWorld(nodes=2)
    other = world.them.submit(nodes=1, cores=3, run_s=8, ours=False)
    world.them.bind(other, ["n1"])
    world.them.schedule()
    ours = world.them.submit(nodes=2, cores=2)
    small = world.them.submit(nodes=2, cores=1, run_s=1, limit_s=2)
    world.go(3)
    assert world.phase(other) == Phase.FOREIGN
    assert world.phase(ours) == Phase.WAITING
    assert world.them.jobs[small].starts
    world.until_done()
    assert world.them.jobs[other].restarts == 0
    assert world.them.jobs[ours].starts[0][0] >= 8_000_000


def test_a_job_that_somebody_evicts_is_held_again_and_started_by_the_policy() -> None:
    world = PlainWorld()
    world.them.submit(run_s=6)
    world.go(3)
    world.them.stuck.add(key_of(1))
    world.them.evict(key_of(1), bound=True)
    world.go(3)
    world.them.stuck.clear()
    world.until_done()
    assert world.them.jobs[key_of(1)].state == DONE
    assert len(world.them.jobs[key_of(1)].starts) == 2


def test_a_changed_demand_counts() -> None:
    world = PlainWorld(nodes=1)
    world.them.submit(cores=4, run_s=3)
    second = world.them.submit(cores=4)
    world.go(2)
    world.them.jobs[second].cores = 2
    world.them.version += 1
    world.go()
    assert world.driver.epoch is not None
    number = world.driver.table.get(str(second)).number  # type: ignore[union-attr]
    assert world.driver.epoch.core.view.cores[number] == 2


def test_nodes_that_drain_come_back_and_are_added() -> None:
    world = PlainWorld(nodes=2)
    first = world.them.submit(nodes=2, cores=1, run_s=5)
    world.go(2)
    world.them.mark("n1", False)
    second = world.them.submit(nodes=2, cores=1)
    third = world.them.submit(nodes=1, cores=2, run_s=2)
    world.go(3)
    assert world.them.jobs[third].starts[0][1] == ("n2",)
    assert world.them.jobs[first].state == RUNS
    assert not world.them.jobs[second].starts
    world.them.mark("n3", True)
    world.go(4)
    assert world.them.jobs[second].starts[0][1] == ("n2", "n3")
    world.them.mark("n1", True)
    world.until_done()
    assert world.states() == {DONE}


def test_a_cluster_without_nodes_waits_for_them_to_come_back() -> None:
    world = PlainWorld()
    world.them.submit(nodes=2, run_s=2)
    world.go(2)
    for name in list(world.them.nodes):
        world.them.mark(name, None)
    world.them.submit()
    world.go(15)
    assert world.them.jobs[key_of(1)].state == DONE
    assert world.them.jobs[key_of(2)].state == WAITS
    for number in range(1, 5):
        world.them.mark(f"n{number}", True)
    world.until_done()
    assert world.them.jobs[key_of(2)].state == DONE


def test_a_job_too_big_for_now_is_tried_again_when_nodes_are_added() -> None:
    world = PlainWorld(nodes=1)
    world.them.submit(nodes=2, cores=4)
    world.go(3)
    entry = world.driver.table.get(key_of(1))
    assert entry is not None
    assert entry.phase == Phase.ASIDE
    assert "rejected" in entry.why
    world.them.mark("n2", True)
    world.until_done()
    assert world.them.jobs[key_of(1)].state == DONE


def test_a_job_that_cannot_be_scheduled_is_left_held_with_the_reason() -> None:
    world = PlainWorld()
    world.them.submit(problem="it says so itself")
    world.go(3)
    entry = world.driver.table.get(key_of(1))
    assert entry is not None
    assert (entry.phase, entry.why) == (Phase.ASIDE, "it says so itself")
    assert not world.them.jobs[key_of(1)].bound


def test_nobody_may_answer_at_any_time() -> None:
    world = PlainWorld()
    for i in range(6):
        world.them.submit(cores=4, run_s=2 + i % 2)
    for step in range(200):
        world.them.unreachable = int(step % 7 == 0)
        try:
            world.go()
        except UnreachableError:
            world.them.tick(200_000)
    assert [len(starts) for starts in world.starts().values()] == [1] * 6


def test_a_job_that_runs_longer_than_expected_does_not_stop_the_others() -> None:
    world = PlainWorld(nodes=1)
    world.them.submit(cores=3, run_s=30, limit_s=2)
    world.them.submit(cores=4, run_s=1)
    world.them.submit(cores=1, run_s=1, limit_s=2)
    world.go(40)
    assert world.them.jobs[key_of(3)].starts
    world.until_done()
    assert world.states() == {DONE}


def test_a_limit_that_changes_is_expected(tmp_path: Any) -> None:
    world = PlainWorld()
    world.them.submit(run_s=50, limit_s=100)
    world.go(3)
    assert world.driver.epoch is not None
    before = world.driver.epoch.core.state.booked_end(0)
    world.them.jobs[key_of(1)].limit_s = 200
    world.them.version += 1
    world.go()
    assert world.driver.epoch.core.state.booked_end(0) - before == pytest.approx(100e6, abs=2e6)


def test_a_start_that_is_not_acknowledged_when_an_epoch_begins_is_expected_to_take_what_it_asked() -> None:
    world = PlainWorld()
    world.them.submit(run_s=50, limit_s=100)
    world.driver.step()
    assert world.phase(key_of(1)) == Phase.RELEASED
    world.driver = world.make()
    world.driver.look()
    world.go(3)
    assert world.driver.epoch is not None
    entry = world.driver.table.get(key_of(1))
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
    world = PlainWorld(faulty(tmp_path, method, fault))
    world.driver = world.make(settings=DriverSettings(stop_on_fault=stop))
    for _ in range(4):
        world.them.submit()
    if stop:
        with pytest.raises(PolicyFaultError, match="the policy failed: "):
            world.until_done()
    else:
        world.until_done()
        assert world.states() == {DONE}
        assert [len(starts) for starts in world.starts().values()] == [1] * 4
    records = world.journal.records()
    (told,) = [record["fault"] for record in records if "fault" in record]
    assert ("crowd" if fault == RAISES else method) in told
    if not stop:
        assert records[-1]["k"] != "begin"
        assert [record["why"] for record in records if record["k"] == "begin"][-1] == "the policy failed"
    assert replay(records).differences == []


def test_a_policy_whose_file_is_broken_by_the_time_the_nodes_change_gives_way_too(tmp_path: Any) -> None:
    world = PlainWorld(faulty(tmp_path, "nothing"))
    world.them.submit(run_s=3)
    world.go(2)
    (tmp_path / "mine.py").write_text("class Faulty(")
    world.them.mark("n9", True)
    world.go(2)
    world.them.submit(nodes=5, run_s=1)
    world.until_done()
    assert world.states() == {DONE}
    whys = [record["why"] for record in world.journal.records() if record["k"] == "begin"]
    assert whys == ["the driver started", "the policy failed", "the nodes changed"]


@pytest.mark.parametrize("again_at_once", [False, True])
def test_a_job_that_the_policy_stops_starts_again_and_its_drive_is_another_s_once_it_is_detached(
    tmp_path: Any, again_at_once: bool
) -> None:
    (tmp_path / "mine.py").write_text(PREEMPTS)
    world = PlainWorld(f"{tmp_path / 'mine.py'}:Preempts", pools=[{**POOL[0], "count": 1}], nodes=1)
    first = world.them.jobs[world.them.submit(cores=4, run_s=5, drive_mb=200)]
    world.go(4)
    assert world.phase(key_of(1)) == Phase.RUNNING
    second = world.them.jobs[world.them.submit(cores=4, run_s=2, drive_mb=200)]
    world.driver.look()
    assert world.phase(key_of(1)) == Phase.STOPPING
    if again_at_once:  # queues it again at the same moment, free to start where it was
        world.them.stuck.add(key_of(1))
        world.them.evict(key_of(1), bound=True)
        world.go(2)
        assert not first.bound
        world.them.stuck.clear()
    while len(first.starts) < 2:
        world.go()
        assert world.clock.at_us < 60_000_000
    assert second.starts
    assert [one.job for one in world.fabric.state()] == [key_of(1)]
    world.until_done()
    assert {first.state, second.state} == {DONE}
    assert max(world.fabric.peak_mb.values()) <= 300
    assert not world.fabric.attached
    assert len(world.driver.table) == 0


@pytest.mark.parametrize("state", [DONE, CANCELLED])
def test_a_job_that_is_over_before_the_policy_has_stopped_it_leaves_nothing_attached(tmp_path: Any, state: str) -> None:
    (tmp_path / "mine.py").write_text(PREEMPTS)
    world = PlainWorld(f"{tmp_path / 'mine.py'}:Preempts", pools=[{**POOL[0], "count": 1}], nodes=1)
    world.them.submit(cores=4, run_s=5, drive_mb=200)
    world.go(4)
    world.them.submit(cores=4, run_s=2, drive_mb=200)
    world.driver.look()
    assert world.phase(key_of(1)) == Phase.STOPPING
    world.them.end(key_of(1), state)
    world.until_done()
    assert world.them.jobs[key_of(2)].state == DONE
    assert max(world.fabric.peak_mb.values()) <= 300
    assert not world.fabric.attached
    assert len(world.driver.table) == 0


def test_a_start_that_is_decided_while_the_devices_of_the_last_are_detached_waits_for_that(tmp_path: Any) -> None:
    (tmp_path / "mine.py").write_text(PREEMPTS)
    world = PlainWorld(f"{tmp_path / 'mine.py'}:Preempts", pools=[{**POOL[0], "count": 1}], nodes=1)
    first = world.them.jobs[world.them.submit(cores=4, run_s=9, drive_mb=200)]
    world.go(4)
    world.them.submit(cores=4, run_s=1)
    world.fabric.fails = lambda where: where == "detach"
    world.go(25)  # the second has come and gone, and the first has been decided again
    assert world.them.jobs[key_of(2)].state == DONE
    entry = world.driver.table.get(key_of(1))
    assert entry is not None
    assert (entry.phase, entry.lease is not None) == (Phase.DETACHING, True)
    assert len(first.starts) == 1
    world.driver.acting.close()
    world.driver = world.make()
    world.go(3)
    world.fabric.fails = lambda where: False
    world.until_done()
    assert first.state == DONE
    assert len(first.starts) == 2
    assert max(world.fabric.peak_mb.values()) <= 300
    assert not world.fabric.attached


@pytest.mark.parametrize("refused", [0, 1])
def test_a_running_job_that_the_policy_gives_more_time_may_run_so_long_if_that_is_taken(refused: int) -> None:
    world = PlainWorld("easy(extension=1 min, extension_most=2 min)", nodes=1)
    job = world.them.jobs[world.them.submit(cores=4, run_s=500, limit_s=60)]
    world.go(3)
    world.them.refuse[job.key] = refused
    world.go(150, us=1_000_000)
    assert job.limit_s == (60 if refused else 180)
    assert replay(world.journal.records()).differences == []
