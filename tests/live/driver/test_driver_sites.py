"""Jobs of several partitions, features, node lists and reservations: each runs where Slurm lets it run, or says why."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from strict_slurm import StrictSlurm
from test_driver_limits import Strict

from unrack.events import Opened, Submitted
from unrack.live.driver.state.epoch import Beginning, Epoch, replayed
from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import Phase
from unrack.live.records import event_of_record, event_record
from unrack.live.slurm.adapter.seen import Take
from unrack.live.slurm.constraints import Partition
from unrack.live.slurm.reading import Licence
from unrack.slurm_text.hostlists import expand
from unrack.units import SECOND_US
from unrack.workload.job import Demand, Job

POLICIES = ["easy", "fcfs", "conservative", "slurm(interval=1 s)", "list(backfill=any)", "flow"]


class Sites(Strict):
    """Eight nodes: ``ours`` has all, ``left`` n1 to n4, ``right`` n4 to n8; n2 and n7 are fast, n8 is fast and big."""

    def __init__(self, policy: Any = "easy", **more: Any) -> None:
        super().__init__(policy, **{"nodes": 8, **more})
        self.terms.partitions = frozenset({"ours", "left", "right"})
        slurm = self.slurm
        for number, (name, node) in enumerate(list(slurm.nodes.items()), 1):
            inside = {"ours", *["left"] * (number <= 4), *["right"] * (number >= 4)}
            features = {2: ("fast",), 7: ("fast",), 8: ("fast", "big")}.get(number, ())
            slurm.nodes[name] = replace(node, partitions=frozenset(inside), features=features)
        slurm.partitions = {name: Partition(name, said=name) for name in ("ours", "left", "right", "other")}

    def submit(self, on: str = "", **asked: Any) -> int:
        number = self.slurm.submit(**asked)
        self.slurm.jobs[number].required = tuple(expand(on)) if on else ()
        return number

    def check(self) -> None:
        """Nothing was refused, nothing is left, and the journal played again decides the same."""
        assert not self.slurm.asked
        assert {job.state for job in self.slurm.jobs.values()} == {"COMPLETED"}
        assert self.all_free()
        assert replay(self.journal.records()).differences == []


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_whatever_jobs_say_of_their_nodes_slurm_refuses_none_and_all_run(policy: str, seed: int) -> None:
    draw, world = random.Random(seed), Sites(policy)
    for number in range(60):
        partition = draw.choice(["ours", "left", "right", "left,right", "right,left", "left,ours"])
        asked: dict[str, Any] = {"partition": partition, "user": draw.choice("abc")}
        if draw.random() < 0.3 and partition != "left":
            asked["features"] = draw.choice(["fast", "fast&big", "big|fast"] if "left" not in partition else ["fast"])
        if draw.random() < 0.2:
            asked["excluded"] = tuple(draw.sample(["n1", "n3", "n5", "n6"], 2))
        on = (
            draw.choice(["n4", "n3"]) if "left" in partition and "features" not in asked and draw.random() < 0.3 else ""
        )
        if on in asked.get("excluded", ()):
            on = ""
        nodes = 1 if "features" in asked else draw.randint(1, 2)
        cores, run_s = draw.randint(1, 4), draw.uniform(0.5, 6)
        world.submit(on, nodes=nodes, cores=cores, run_s=run_s, limit_s=draw.randint(7, 20), **asked)
        if number % 10 == 9:
            world.go(draw.randint(1, 6))
    world.until_done(3000)
    world.check()
    for job in world.slurm.jobs.values():
        assert len(job.starts) == 1


def test_a_job_of_a_full_partition_holds_up_nobody_of_another() -> None:
    world = Sites()
    for _ in range(8):
        world.submit(partition="left", nodes=2, cores=4, run_s=30, limit_s=40)
    world.go(2)
    other = world.submit(partition="right", nodes=2, cores=4, run_s=1)
    world.go(3)
    assert world.slurm.jobs[other].starts


def test_of_several_partitions_the_first_that_has_room_is_told_to_slurm_and_all_are_asked_for_again() -> None:
    world = Sites()
    first = [world.submit(partition="left", cores=4, run_s=30, limit_s=40) for _ in range(4)]
    world.go(2)
    number = world.submit(partition="left,right", cores=4, run_s=2)
    world.slurm.stuck.add(number)
    world.go(2)
    job = world.slurm.jobs[number]
    assert (job.partition, world.phase(number)) == ("right", Phase.RELEASED)
    world.go(60)
    assert job.partition == "left,right" or world.phase(number) in (Phase.RELEASED, Phase.ORDERING)
    assert any(one.get("partition") == "left,right" for one in entries(world, number))
    world.slurm.stuck.clear()
    world.until_done()
    assert job.state == "COMPLETED"
    assert {world.slurm.jobs[one].state for one in first} == {"COMPLETED"}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("new_driver", [False, True])
def test_numbers_of_nodes_with_several_features_are_asked_for_again_where_a_start_failed(
    policy: str, new_driver: bool
) -> None:
    world, asked = Sites(policy), "[fast*2&big*1]"
    number = world.submit(nodes=3, cores=4, run_s=2, features=asked)
    world.slurm.stuck.add(number)
    world.go(4)
    job = world.slurm.jobs[number]
    assert (world.phase(number), job.features) == (Phase.RELEASED, "")
    world.slurm.limit = lambda _: "QOSMaxJobsPerUserLimit"
    world.slurm.dirty = True
    if new_driver:
        world.driver.acting.close()
        world.driver = world.make()
    world.go(8)
    assert (world.phase(number), job.features) == (Phase.ASIDE, asked)
    world.slurm.limit = lambda _: ""
    world.slurm.asked.clear()
    world.slurm.stuck.clear()
    world.until_done(1000)
    assert {"n8"} < world.slurm.run_on(number)
    assert world.slurm.run_on(number) & {"n2", "n7"}
    world.check()


def entries(world: Strict, number: int) -> list[dict[str, Any]]:
    """What the journal ever said of a job."""
    found = [one["entries"].get(str(number)) for one in world.journal.records() if "entries" in one]
    return [entry for entry in found if entry]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_reservation_keeps_its_nodes_for_its_own_jobs_alone_from_its_begin_to_its_end(policy: str) -> None:
    world = Sites(policy)
    world.slurm.reserve(20, 80, "n1", "n2", Users="ann", Flags="SPEC_NODES")
    own = [world.submit(nodes=2, cores=4, run_s=3, limit_s=15, reservation="r0", user="ann") for _ in range(3)]
    others = [world.submit(cores=4, run_s=3, limit_s=12, user="bob") for _ in range(30)]
    world.go(10)
    assert "has not begun" in world.why(own[0])
    assert not any(world.slurm.jobs[number].starts for number in own)
    for step in range(600):
        if step == 400:
            world.slurm.reservations, world.slurm.dirty = (), True
        world.go()
    world.check()
    for number in own:
        assert world.slurm.run_on(number) == {"n1", "n2"}
        assert world.slurm.jobs[number].starts[0][0] >= 20_000_000
    reserved_us = range(20_000_000 - 12_000_000, 80_000_000)
    for number in others:
        start, nodes = world.slurm.jobs[number].starts[0]
        assert start not in reserved_us or not {"n1", "n2"} & set(nodes)


@pytest.mark.long
@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "fcfs"])  # behind its head nobody starts
@pytest.mark.parametrize("again", [False, True])
def test_a_reservation_keeps_licences_and_jobs_of_one_that_is_flexible_run_before_it(policy: str, again: bool) -> None:
    world = Sites(policy)
    world.slurm.licences = {"matlab": Licence(5, 0)}
    world.slurm.reserve(20, 80, Users="ann", Licenses="matlab:3")
    world.slurm.reserve(1000, 2000, "n1", Users="eve", Flags="FLEX,SPEC_NODES")
    two = {"matlab": 2}
    own = [world.submit(run_s=3, limit_s=15, reservation="r0", user="ann", licences=two) for _ in range(4)]
    flexible = world.submit(run_s=3, limit_s=2000, reservation="r1", user="eve")
    others = [world.submit(run_s=9, limit_s=12, user="bob", licences=two) for _ in range(20)]
    world.go(10)
    assert "has not begun" in world.why(own[0])
    assert world.slurm.jobs[flexible].starts[0][0] < 10_000_000
    for step in range(900):
        if again and step == 15:
            world.driver.acting.close()
            world.driver = world.make()
        if step == 400:
            world.slurm.reservations, world.slurm.dirty = world.slurm.reservations[1:], True
        world.go()
    world.check()
    assert not [reason for _, reason in world.slurm.asked if reason == "Licenses"]
    starts = sorted(world.slurm.jobs[number].starts[0][0] for number in own)
    assert all(20_000_000 <= start < 80_000_000 for start in starts)
    begun = [world.slurm.jobs[number].starts[0][0] for number in others]
    inside = sorted(start for start in begun if 20_000_000 <= start < 80_000_000)
    assert inside
    assert all(later - start >= 9_000_000 for start, later in pairwise(inside))  # two of the five, one at a time


@pytest.mark.long
@pytest.mark.parametrize("policy", ["easy", "conservative", "flow"])
def test_who_runs_when_licences_are_reserved_or_no_more_keeps_holding_them(policy: str) -> None:
    world = Sites(policy)
    world.slurm.licences = {"matlab": Licence(5, 0)}
    one = {"matlab": 1}
    for step in range(120):
        if step % 3 == 0:
            world.submit(run_s=6, limit_s=9, user="bob", licences=one)
        if step in (20, 90):
            world.slurm.reserve(30, 45, "n3", Users="ann", Licenses="matlab:3")
        if step == 60:
            world.slurm.reservations, world.slurm.dirty = (), True
        world.go()
        assert world.driver.epoch is not None
        claimed = world.driver.epoch.core.state.claimed
        runs = sum(job.state == "RUNNING" for job in world.slurm.jobs.values())
        assert claimed is not None
        assert (claimed.free <= 5 - runs).all(), (step, claimed.free, runs)
    world.until_done(2000)
    world.check()


def test_a_reservation_that_is_not_there_or_not_for_its_user_is_the_reason_of_a_job() -> None:
    world = Sites()
    world.slurm.reserve(-5, 500, "n1", Users="ann")
    wrong, gone = world.submit(reservation="r0", user="bob"), world.submit(reservation="gone")
    right = world.submit(reservation="r0", user="ann", run_s=1)
    world.go(4)
    assert "is not for user 'bob'" in world.why(wrong)
    assert world.why(gone) == "there is no reservation gone"
    assert world.slurm.run_on(right) == {"n1"}
    assert not world.slurm.asked


@pytest.mark.long
@pytest.mark.parametrize("policy", ["easy", "conservative"])
@pytest.mark.parametrize("seed", range(3))
def test_a_job_of_several_reservations_runs_in_one_of_them_and_waits_for_none_beside_one_with_room(
    policy: str, seed: int
) -> None:
    draw, world, own, wanted, late = random.Random(seed), Sites(policy), list[int](), list[str](), 0
    world.slurm.reserve(-5, 90, "n1", "n2", Users="ann")
    world.slurm.reserve(draw.randint(5, 20), 900, "n3", "n4", Users="ann")
    slurm = world.slurm
    for step in range(900):
        if step % 9 == 0 and step < 300:
            named, limit_s = draw.choice(["r0,r1", "r1,r0", "r0,r1", "r1"]), draw.randint(7, 15)
            asked = {"nodes": draw.randint(1, 2), "cores": draw.choice([2, 4]), "run_s": draw.uniform(1, 6)}
            own.append(world.submit(reservation=named, user="ann", limit_s=limit_s, **asked))
            wanted.append(named)
            world.submit(cores=4, run_s=3, limit_s=12, user="bob")
        world.go()
        waits = [job for number in own if (job := slurm.jobs[number]).state == "PENDING"]
        busy = Counter({node: job.cores for job in slurm.jobs.values() for node in job.held_on})
        there = [
            sum(busy[node] + one.cores <= 4 for node in r.nodes) >= one.nodes
            for one in waits[:1] for r in slurm.reservations
            if r.name in one.reservation and r.start_s <= world.clock.wall_s < r.end_s - one.limit_s
        ]  # fmt: skip
        late = late + 1 if len(waits) == 1 and any(there) else 0
        assert late <= 5, (step, waits, busy)
    world.check()
    for number, named in zip(own, wanted, strict=True):
        inside = [r.name for r in slurm.reservations if world.slurm.run_on(number) <= set(r.nodes)]
        assert inside == [slurm.jobs[number].reservation]
        assert inside[0] in named.split(",")


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("reason", ["ReservationDeleted", "JobHeldAdmin"])
def test_a_job_that_slurm_holds_since_its_reservation_ended_runs_once_another_is_named(
    reason: str, known: bool
) -> None:
    world = Sites()
    world.terms.take = Take.HELD
    world.slurm.reserve(0, 900, "n1", Users="u")
    world.submit("n1", reservation="r0", cores=4, run_s=4)
    number = world.submit(reservation="r0", run_s=1)
    world.go(3 * known)
    job = world.slurm.jobs[number]
    world.slurm.reservations = ()
    job.reservation, job.state, job.reason, world.slurm.dirty = "", "RESV_DEL_HOLD", reason, True
    world.go(20)
    assert not job.starts
    assert "its reservation is gone" in world.why(number)
    world.slurm.reserve(0, 900, "n5", Users="u")
    job.reservation, job.state = "r0", "PENDING"
    world.until_done(1000)
    assert world.slurm.run_on(number) == {"n5"}


def test_a_feature_that_no_node_has_and_a_partition_that_has_none_of_the_wanted_nodes_are_told() -> None:
    world = Sites()
    odd = world.submit(features="quantum")
    outside = world.submit("n8", partition="left")
    world.go(2)
    assert "feature 'quantum', which no node has" in world.why(odd)
    assert "rejected" in world.why(outside)
    node = world.slurm.nodes["n3"]
    world.slurm.nodes["n3"], world.slurm.dirty = replace(node, features=("quantum",)), True
    world.go(20)
    assert world.slurm.run_on(odd) == {"n3"}
    assert not world.slurm.asked


@pytest.mark.parametrize("change", [True, False])
def test_where_slurm_says_bad_constraints_a_job_is_not_placed_until_the_nodes_change_or_for_long(change: bool) -> None:
    world = Sites(nodes=3)
    bad = {"n1", "n2"}
    number = world.submit(run_s=1)
    world.slurm.limit = lambda job: "BadConstraints" if bad & set(job.required) else ""
    world.until_done(1500)
    job = world.slurm.jobs[number]
    assert job.state == "COMPLETED"
    assert world.slurm.run_on(number) == {"n3"}
    assert len(world.slurm.asked) <= 4  # each is seen at a look or two
    other = world.submit(run_s=1)
    bad.add("n3")
    world.go(1300)
    assert "BadConstraints" in world.why(other)
    assert world.all_free()
    bad.clear()
    if change:
        world.slurm.nodes["n1"] = replace(world.slurm.nodes["n1"], features=("new",))
        world.slurm.dirty = True
    world.until_done(1600)
    assert world.slurm.jobs[other].state == "COMPLETED"


def adversary(world: Sites, step: int) -> None:
    """What somebody who wants to harm others may submit: all of it is held back by Slurm, or runs nowhere."""
    for kind in range(4):
        asked: dict[str, Any] = {"user": "eve", "nodes": 2, "cores": 4, "limit_s": 15}
        asked |= {"partition": "left,right"} if kind == 0 else {"features": "fast&slow"} if kind == 1 else {}
        asked |= {"reservation": "mine"} if kind == 2 else {"excluded": (f"n{1 + step % 8}", f"n{1 + step // 8 % 8}")}
        world.submit("n1" if kind == 3 and step % 8 else "", **asked)


@pytest.mark.long
@pytest.mark.parametrize("reason", ["QOSMaxCpuPerUserLimit", "BadConstraints", "SomethingNew"])
def test_whatever_one_user_submits_others_are_delayed_by_little(reason: str) -> None:
    waits = []
    for harmful in (False, True):
        world = Sites()
        world.slurm.limit = lambda job: reason if job.user == "eve" else ""
        modest = []
        for step in range(60):
            if harmful:
                adversary(world, step)
            if step % 5 == 0:
                modest.append(world.submit(cores=4, run_s=3, limit_s=10, user=f"u{step % 3}"))
            world.go()
        world.go(200)
        starts = [world.slurm.jobs[number].starts for number in modest]
        assert all(starts), "somebody never ran"
        waits.append(
            max(start[0][0] - came_us(world.slurm, number) for number, start in zip(modest, starts, strict=True))
        )
        assert world.phase(modest[-1]) is None
    assert waits[1] <= waits[0] + 2_000_000


def came_us(slurm: StrictSlurm, number: int) -> int:
    """When a job came, µs."""
    return (slurm.jobs[number].submit_s - 1_700_000_000) * 1_000_000


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_a_new_driver_goes_on_where_partitions_and_wishes_are_many(policy: str) -> None:
    world = Sites(policy)
    world.slurm.reserve(15, 40, "n5", Users="ann")
    for number in range(24):
        on = "n4" if number % 7 == 0 else ""
        world.submit(on, partition=("left,right", "ours", "right")[number % 3], cores=3, run_s=4, limit_s=9)
    for step in range(100):
        world.go()
        if step in (4, 9, 30):
            world.driver.acting.close()
            world.driver = world.make()
        if step == 60:
            world.slurm.reservations, world.slurm.dirty = (), True
    world.until_done(2000)
    world.check()


@pytest.mark.long
def test_a_user_whose_jobs_all_ask_for_other_nodes_waits_for_himself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unrack.live.driver.driver.MOST_WAYS", 40)
    world = Sites()
    names = sorted(world.slurm.nodes)
    for number in range(1, 256):
        excluded = tuple(name for bit, name in enumerate(names) if number >> bit & 1)
        if len(excluded) < 8:
            world.submit(excluded=excluded, cores=4, run_s=1, user="eve")
    world.go(2)
    aside = [number for number in world.slurm.jobs if "in 32 other ways" in world.why(number)]
    assert len(aside) == 254 - 32
    modest = world.submit(excluded=("n1",), cores=1, run_s=1, user="ann", features="fast")
    world.go()
    assert world.phase(modest) == Phase.WAITING
    world.until_done(3000)
    world.check()
    assert sum(one["k"] == "begin" for one in world.journal.records()) > 2


@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_of_others_on_reserved_nodes_upset_nobody(policy: str) -> None:
    world = Sites(policy)
    other = world.submit(partition="other", priority=9, cores=3, nodes=2, run_s=20, limit_s=200)
    inside = world.submit(partition="other", priority=9, cores=3, run_s=8, limit_s=200, on="n5")
    world.slurm.limit = lambda job: ""
    for name, node in world.slurm.nodes.items():
        world.slurm.nodes[name] = replace(node, partitions=node.partitions | {"other"})
    world.go(2)
    assert world.slurm.jobs[other].starts
    assert world.slurm.jobs[inside].starts
    world.slurm.reserve(-1, 60, "n1", "n5", Users="ann")
    own = [world.submit(reservation="r0", user="ann", cores=4, run_s=2) for _ in range(3)]
    rest = [world.submit(cores=4, nodes=1 + number % 2, run_s=2, limit_s=9) for number in range(12)]
    world.go(250)
    world.slurm.reservations, world.slurm.dirty = (), True
    world.until_done(2000)
    world.check()
    assert all(world.slurm.run_on(number) <= {"n1", "n5"} for number in own)
    assert not any(world.slurm.run_on(number) & {"n1", "n5"} for number in rest)
    assert not any(record.get("fault") for record in world.journal.records())


@pytest.mark.parametrize("new_driver", [False, True])
def test_a_user_who_changes_his_wishes_after_a_start_failed_has_what_he_says_last(new_driver: bool) -> None:
    world = Sites()
    number = world.submit("n3", partition="left,right", nodes=1)
    world.slurm.stuck.add(number)
    world.go(2)
    job = world.slurm.jobs[number]
    assert (job.required, job.partition) == (("n3",), "left")
    world.slurm.limit = lambda job: "Licenses"
    world.go(6)
    assert (job.required, job.partition, job.priority) == (("n3",), "left,right", 0)
    job.required, job.partition, world.slurm.dirty = (), "right", True
    world.slurm.stuck.clear()
    world.slurm.limit = lambda job: ""
    if new_driver:
        world.driver.acting.close()
        world.driver = world.make()
    world.until_done(1000)
    assert job.state == "COMPLETED"
    assert world.slurm.run_on(number) <= {"n4", "n5", "n6", "n7", "n8"}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_reservation_that_is_deleted_leaves_its_nodes_to_those_who_waited_for_its_end(policy: str) -> None:
    world = Sites(policy)
    world.slurm.reserve(-1, 5000, "n1", Users="ann")
    number = world.submit(nodes=8, cores=4, run_s=2)
    world.go(20)
    assert world.phase(number) == Phase.WAITING
    world.slurm.reservations, world.slurm.dirty = (), True
    world.go(10)
    assert world.slurm.jobs[number].starts
    world.until_done()
    world.check()


def test_a_node_that_is_gone_from_slurm_takes_nobody_down_who_named_it() -> None:
    world = Sites()
    wanted, without = world.submit("n3", partition="left", cores=4), world.submit(excluded=("n3",), nodes=7, cores=4)
    blocking = [world.submit(cores=4, run_s=20, limit_s=30, priority=5) for _ in range(8)]
    world.go(3)
    gone = world.slurm.nodes.pop("n3")
    for number, job in world.slurm.jobs.items():
        if "n3" in job.held_on:
            world.slurm.end(number, "NODE_FAIL")
    world.slurm.dirty = True
    world.go(5)
    assert "nodes by name" in world.why(wanted) or world.slurm.jobs[wanted].state != "PENDING"
    world.slurm.nodes = dict(sorted({**world.slurm.nodes, "n3": gone}.items()))
    world.slurm.dirty = True
    world.until_done(2000)
    assert {world.slurm.jobs[number].state for number in (wanted, without)} <= {"COMPLETED", "NODE_FAIL"}
    assert len(blocking) == 8


@pytest.mark.parametrize("policy", ["first-fit", "easy", "conservative", "flow"])
def test_a_reservation_that_is_over_lets_a_job_start_though_slurm_says_nothing(policy: str) -> None:
    kept = {"name": "r", "nodes": ["0"], "start": 10, "duration": 20, "maintenance": True}
    cluster = {"nodes": [{"count": 1, "cores": 4, "names": "n1"}], "site": {"reservations": [kept]}}
    epoch = Epoch(Beginning(cluster, ("n1",), {"name": policy, "label": policy}))
    asked = Job(0, "7", 0, 60 * SECOND_US, None, 0, "ann", "", Demand(1, 4, 0))
    epoch.submit(Submitted(asked), 0)
    found = epoch.round(0)
    assert not found.decisions
    while not found.decisions:
        assert found.wanted_us is not None
        before, now = found.wanted_us - 1, found.wanted_us
        epoch.windows_pass(before, now)
        found = epoch.round(now)
    assert now == 30 * SECOND_US
    again = Epoch(Beginning(cluster, ("n1",), {"name": policy, "label": policy}))
    assert replayed(again, [event_record(Submitted(asked)), ["round"]], 0) == ([], "")
    again.tell(event_of_record(event_record(Opened())), now)
    assert len(again.round(now).decisions) == 1


@pytest.mark.parametrize("shown", ["running", "let go"])
def test_a_job_whose_end_a_killed_controller_has_forgotten_runs_again_where_its_user_wants_it(shown: str) -> None:
    world = Sites()
    number = world.submit("n4", partition="right,left", nodes=2, cores=4, run_s=2, limit_s=9)
    world.go(20)
    job = world.slurm.jobs[number]
    assert job.state == "COMPLETED"
    (_, first) = job.starts[0]
    job.partition, job.required, job.end_us, world.slurm.dirty = "right", first, -1, True
    if shown == "running":
        job.state, job.held_on, job.run_s = "RUNNING", first, 90
        world.go(5)
        world.slurm.requeue(number, held=False)  # its node fails
        job.run_s = 2
    else:
        job.state, job.priority, job.reason = "PENDING", 100, "None"
        world.slurm.stuck.add(number)
        world.go(5)
        assert "cancel it" in world.why(number)
        world.slurm.stuck.clear()
        job.restarts += 1  # an operator has it run again
        world.slurm.dirty = True
    for _ in range(4):  # where others run it is not wanted
        world.submit(partition="ours", cores=4, run_s=3, limit_s=9)
    world.until_done()
    assert (job.state, len(job.starts)) == ("COMPLETED", 2)
    assert "n4" in job.starts[-1][1]
    assert entries(world, number)[-1]["wanted"] == ["n4"]
    assert replay(world.journal.records()).differences == []


@pytest.mark.parametrize("held", [True, False])
def test_a_job_queued_again_that_ran_where_it_may_not_any_more_starts_where_it_may(held: bool) -> None:
    world = Sites()
    number = world.submit(partition="left,right", cores=4, run_s=50, limit_s=60)
    world.go(3)
    job = world.slurm.jobs[number]
    (_, first) = job.starts[0]
    (name,) = first
    world.slurm.nodes[name] = replace(world.slurm.nodes[name], partitions=frozenset({"ours"}))
    world.slurm.dirty = True
    world.go(3)
    world.slurm.requeue(number, held=held)
    job.run_s = 2
    world.until_done()
    assert (job.state, len(job.starts)) == ("COMPLETED", 2)
    assert not world.slurm.asked
    assert replay(world.journal.records()).differences == []
