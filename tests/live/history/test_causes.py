"""The causes of another order: found by what the simulation is told, never by what happened nearby."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eventful import MEDDLING, Eventful, meddled, reserved
from strict_slurm import StrictSlurm

from unrack.errors import InputError
from unrack.live.driver.history.cause import UNEXPLAINED
from unrack.live.driver.history.order import Comparison, compare, compared, decided_us
from unrack.live.driver.history.past import Past
from unrack.live.driver.history.stay import Stay
from unrack.live.driver.history.study import keep_past
from unrack.live.driver.history.told import Fold
from unrack.live.driver.history.windows import Windows, joined
from unrack.live.driver.history.world import Fact, play
from unrack.live.driver.state.epoch import Beginning
from unrack.live.journal.reading import read_journal
from unrack.live.records import READ, job_of_record

OF_KIND = {
    "foreign": Fact.FOREIGN, "cancel": Fact.LEFT, "drain": Fact.NODES, "stuck": Fact.FAILED, "requeue": Fact.FAILED,
    "limit": Fact.ENDS,
}  # fmt: skip


def exchanged(past: Past) -> tuple[Stay, Stay]:
    """Make the journal say of two jobs that each started when the other did: nothing that it tells did that."""
    *_, other = jobs = compared(past)
    one = next(stay for stay in reversed(jobs) if decided_us(stay) < decided_us(other))
    assert one.last is not None
    assert other.last is not None
    one.last.decided_us, other.last.decided_us = other.last.decided_us, one.last.decided_us
    return one, other


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
@pytest.mark.parametrize("seed", range(3))
def test_where_nobody_meddles_the_simulation_is_what_happened_to_the_microsecond(
    tmp_path: Path, policy: str, seed: int
) -> None:
    past = meddled(tmp_path, policy, seed, ())
    found = compare(past)
    assert (found.jobs, found.differing, found.elsewhere, found.shift_s) == (25, 0, 0, 0.0)


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(OF_KIND))
def test_what_others_did_is_the_cause_once_the_simulation_is_told_of_it(tmp_path: Path, kind: str) -> None:
    causes: dict[str, int] = {}
    for seed in range(4, 8):
        for cause, count in compare(meddled(tmp_path / str(seed), "easy", seed, (kind,))).causes.items():
            causes[cause] = causes.get(cause, 0) + count
    assert causes, "nothing was started in another order: the test shows nothing"
    assert max(causes, key=lambda cause: causes[cause]) == OF_KIND[kind]
    assert causes.get(UNEXPLAINED, 0) <= 0.1 * sum(causes.values()), causes


@pytest.mark.parametrize("kind", sorted({*OF_KIND, "restart"}))
def test_what_happened_nearby_is_no_cause_of_an_order_that_it_does_not_give(tmp_path: Path, kind: str) -> None:
    past = meddled(tmp_path, "fcfs", 1, (kind,))
    one, other = exchanged(past)
    pair = next(pair for pair in compare(past).different if {pair.first, pair.second} == {one.key, other.key})
    assert pair.cause == UNEXPLAINED


def test_a_policy_that_acts_at_multiples_of_an_interval_is_simulated_on_the_clock_of_the_driver(tmp_path: Path) -> None:
    world = Eventful(tmp_path, "slurm(interval=7 s)")
    world.go(13)  # jobs come at no multiple of the interval
    for i in range(24):
        world.slurm.submit(1 + i % 3, 1 + i % 4, 1 + i % 5, 9)
        world.go(i % 3)
    found = compare(world.until_done())
    assert (found.jobs, found.differing, found.elsewhere, found.shift_s) == (24, 0, 0, 0.0)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_where_nodes_are_reserved_for_a_time_the_simulation_starts_what_was_started_when_it_was(
    tmp_path: Path, policy: str
) -> None:
    world = reserved(tmp_path, policy)
    past = world.until_done()
    assert not world.slurm.asked
    told = [record.value.get("told", ()) for record in read_journal(tmp_path / "journal")]
    assert any(event[0] == "opened" for events in told for event in events)
    found = compare(past)
    assert (found.jobs, found.differing, found.elsewhere, found.shift_s) == (24, 0, 0, 0.0)


@pytest.mark.long
@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_reservations_that_are_gone_keep_their_nodes_in_the_simulation_for_as_long_as_there_were_any(
    tmp_path: Path, policy: str
) -> None:
    world = Eventful(tmp_path, policy, slurm=StrictSlurm)
    slurm = world.slurm
    assert isinstance(slurm, StrictSlurm)
    draw = np.random.default_rng(11)
    for nodes in (("n1", "n2"), ("n3",), ("n2", "n4")):
        slurm.reservations = ()
        slurm.reserve(2, 14, *nodes, Users="ann", Flags="SPEC_NODES")  # always r0
        world.go()
        for i in range(14):
            own = {"reservation": "r0", "user": "ann"} if i in (2, 3) else {}
            slurm.submit(1, int(draw.integers(1, 5)), int(draw.integers(1, 4)), 4, **own)
            world.go(int(draw.integers(0, 4)))
        for _ in range(300):
            world.go()
        assert not any(job.state in ("PENDING", "RUNNING") for job in slurm.jobs.values())  # and it is over
        slurm.reservations, slurm.dirty = (), True
        world.go(5)
    past = world.until_done()
    assert not slurm.asked
    windows = past.beginning.cluster["site"]["reservations"]
    assert [one["name"] == "r0" for one in windows] == [True, False, False]
    assert len({tuple(one["nodes"]) for one in windows}) == 3
    found = compare(past)
    assert (found.jobs, found.differing, found.elsewhere, found.shift_s) == (42, 0, 0, 0.0)
    assert len(keep_past(past, tmp_path / "study").runs) == 2


def test_a_reservation_that_is_taken_away_ends_then_and_one_that_never_began_never_was() -> None:
    def kept(name: str, start: float, duration: float, **more: object) -> dict[str, object]:
        return {"name": name, "start": start, "duration": duration, "nodes": ["n1"], **more}

    content = {"nodes": [{"names": "n[1-2]", "count": 2, "cores": 4}], "site": {"partitions": [{"name": "p"}]}}
    last = Beginning(content, ("n1", "n2"), "easy")
    later, stays, weekly = kept("later", 500, 60), kept("a", -5, 40), kept("w", 10, 5, every=20, until=1000)
    begun = [(0, [stays, later, weekly]), (30 * 10**6, [stays | {"nodes": ["n2"]}]), (60 * 10**6, [])]
    found, windows = joined(last, begun)
    assert found.cluster["site"]["reservations"] == [
        kept("a", 30, 5) | {"nodes": ["n2"]}, kept("a until 30 s", -5, 35), weekly | {"until": 30.0},
    ]  # fmt: skip
    assert windows == Windows({"a": [(30 * 10**6, "a until 30 s")]})
    job = job_of_record({"id": "1", "submit": 0, "request": 9, "tasks": 1, "said": {"reservation": "a"}})
    assert [windows.asks(job, at).said["reservation"] for at in (0, 30 * 10**6)] == ["a until 30 s", "a"]
    gone = joined(last, [(0, [stays | {"nodes": ["n9"]}]), (5, [])])
    assert gone == (last, Windows(lost=1))


def test_a_history_reads_every_kind_of_event_that_a_driver_writes(tmp_path: Path) -> None:
    world = Eventful(tmp_path)
    world.slurm.submit()
    world.until_done()
    records = [record.value for record in read_journal(tmp_path / "journal")]
    submitted = next(event for record in records for event in record["told"] if event[0] == "submitted")
    job, reason, lease = submitted[1], [1, "as it was"], {"job": 0, "rows": [], "claims": []}
    told: dict[str, list[Any]] = {
        "submitted": submitted[1:], "adopted": [job | {"id": "2"}, lease, 0], "started": [0], "expected": [0, 5],
        "promised": [0, 1, 2, 3, None], "start-failed": [0, reason], "withdrawn": [0, reason], "finished": [0],
        "drained": [[0]], "repaired": [[0]], "round": [], "opened": [False], "expired": [0],
    }  # fmt: skip
    assert told.keys() == READ.keys()
    fold = Fold()
    for kind, rest in [("", []), *told.items(), ("opened", [])]:
        fold.take(records[0] if not kind else {"k": "turn", "now": 7, "told": [submitted, [kind, *rest]]})


def test_a_history_with_a_heterogeneous_job_is_refused_by_its_name(tmp_path: Path) -> None:
    world = Eventful(tmp_path)
    world.slurm.submit()
    world.slurm.submit_together({}, {}, nodes=1)
    with pytest.raises(InputError, match="job '2', one of several components"):
        world.until_done()


@pytest.mark.long
def test_all_facts_together_give_the_starts_that_were_but_for_few(tmp_path: Path) -> None:
    starts = away = 0
    for seed in range(5):
        past = meddled(tmp_path / str(seed), "easy", seed, MEDDLING)
        jobs = compared(past)
        real = np.array([decided_us(stay) for stay in jobs])
        away += int((play(past, set(Fact)).starts_us(jobs) != real).sum())
        starts += len(jobs)
    assert starts > 80
    assert away <= 0.05 * starts


def slow_first(state: Path) -> Comparison:
    """One node; the first job's start is reported 3 s late, so that a third job comes before its place is free."""
    world = Eventful(state, "list(backfill=any)", nodes=2)
    slow = world.slurm.submit(cores=4, run_s=4, limit_s=60)
    quick = world.slurm.submit(cores=4, run_s=6, limit_s=60)
    wide = world.slurm.submit(nodes=1, cores=4, run_s=1, limit_s=60)
    world.slurm.stuck.add(slow)
    world.go(15)
    world.slurm.stuck.clear()
    world.go(2)
    assert world.slurm.jobs[quick].starts
    assert not world.slurm.jobs[wide].starts
    world.go(10)
    world.slurm.submit(cores=4, run_s=1, limit_s=60)
    return compare(world.until_done(), at_once=True)


def test_starts_that_are_acknowledged_at_once_show_what_late_ones_changed(tmp_path: Path) -> None:
    found = slow_first(tmp_path)
    assert set(found.causes) <= {str(Fact.LATE)}
    assert found.shift_s > 1


@pytest.mark.long
def test_a_comparison_changes_nothing_and_says_the_same_again(tmp_path: Path) -> None:
    past = meddled(tmp_path, "conservative", 2, MEDDLING)
    assert compare(past) == compare(past)
