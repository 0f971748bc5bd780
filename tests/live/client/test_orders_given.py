"""Orders do on a real Slurm what they say, also twice and in states in which they come too late."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from slurm_bed import Bed

from unrack.errors import InputError
from unrack.live.driver.seen import UnreachableError
from unrack.live.slurm.commands import client as client_file
from unrack.live.slurm.commands.client import CommandClient
from unrack.live.slurm.orders import HoldBack, JobKey, Lengthen, Place, Release, RequeueHeld
from unrack.live.slurm.reading import Reading, SlurmJob

pytestmark = pytest.mark.live


@pytest.fixture
def client(bed: Bed) -> CommandClient:
    return CommandClient(environment=bed.env)


def job_of(reading: Reading, number: int) -> SlurmJob:
    return next(job for job in reading.jobs if job.id == number)


SHAPES = [
    ({"nodes": "1-3"}, ("n4", "n9")),
    ({"nodes": "1-3", "ntasks": 2}, ("n4",)),
    ({"ntasks": 4}, ("n4", "n6")),
    ({"ntasks": 4}, ("n8",)),
    ({"nodes": "2-4", "ntasks": 8}, ("n3", "n5", "n7")),
    ({"nodes": 4, "ntasks": 8}, ("n3", "n5")),
    ({"nodes": 2, "ntasks_per_node": 3}, ("n1", "n16")),
    ({"nodes": 2, "exclusive": True}, ("n2", "n3")),
    ({"ntasks": 2, "cpus_per_task": 3, "gres": "nvme:2"}, ("n2",)),
    ({"nodes": 1, "nodelist": "n5"}, ("n6",)),
]


@pytest.mark.live_quick
def test_jobs_of_all_shapes_run_exactly_where_they_are_placed(bed: Bed, client: CommandClient) -> None:
    asked = [({"mem": 10, **shape} if "exclusive" not in shape else shape, nodes) for shape, nodes in SHAPES]
    for shape, nodes in asked:
        job = bed.submit("sleep 60", hold=True, **shape)
        answers = client.carry_out([Place(JobKey(job), nodes), Release(JobKey(job))])
        assert all(answer.done for answer in answers), (shape, answers)
        bed.wait_for([job], "RUNNING")
        assert tuple(sorted(job_of(client.read(), job).holds)) == tuple(sorted(nodes)), shape
        bed.cancel(job)
        bed.wait_until(lambda job=job: not job_of(client.read(), job).runs)  # type: ignore[misc]


def test_members_of_an_array_are_placed_one_by_one(bed: Bed, client: CommandClient) -> None:
    array = bed.submit("sleep 60", hold=True, array="1-5%3", mem=10)
    places = {2: "n2", 4: "n4", 5: "n5"}
    orders = [o for m, n in places.items() for o in (Place(JobKey(array, m), (n,)), Release(JobKey(array, m)))]
    assert all(answer.done for answer in client.carry_out(orders))
    bed.wait_until(lambda: sum(job.runs for job in client.read().jobs) == 3)
    reading = client.read()
    assert {job.member: next(iter(job.holds)) for job in reading.jobs if job.runs} == places
    assert job_of(reading, array).tasks_waiting == (1, 3)
    assert job_of(reading, array).is_held


@pytest.mark.live_quick
def test_an_order_that_is_refused_is_known_and_keeps_no_other_back(bed: Bed, client: CommandClient) -> None:
    jobs = bed.submit_many([{"hold": True, "mem": 10}] * 4)
    over = bed.submit("true", mem=10)
    bed.wait_for([over], "COMPLETED")
    orders = [
        Place(JobKey(jobs[0]), ("n1",)), Place(JobKey(999_999), ("n1",)), Release(JobKey(999_998)),
        Place(JobKey(jobs[1]), ("n99",)), HoldBack(JobKey(999_997)), Place(JobKey(jobs[2]), ("n3",)),
        Release(JobKey(over)), RequeueHeld(JobKey(999_996)), Place(JobKey(jobs[3], 7), ("n3",)),
        Place(JobKey(jobs[3]), ("n4",)),
    ]  # fmt: skip
    answers = client.carry_out(orders)
    assert [answer.order for answer in answers] == orders
    assert [answer.done for answer in answers] == [
        True, False, False, False, False, True, False, False, False, True,
    ]  # fmt: skip
    assert "nvalid job id" in answers[1].problem
    assert "nvalid node name" in answers[3].problem
    assert "already finished" in answers[6].problem
    reading = client.read()
    assert [job_of(reading, job).required_nodes for job in jobs] == [("n1",), (), ("n3",), ("n4",)]


def test_what_was_placed_is_held_back_and_asks_again_what_it_asked(bed: Bed, client: CommandClient) -> None:
    job = bed.submit("sleep 60", nodes="1-3", ntasks=3, mem=10, begin="now+3600")
    before = job_of(client.read(), job)
    client.carry_out([Place(JobKey(job), ("n2", "n3")), Release(JobKey(job))])
    back = HoldBack(JobKey(job), before.nodes_min, before.nodes_max)
    for _ in range(2):
        assert client.carry_out([back])[0].done
        after = job_of(client.read(), job)
        assert after.is_held
        assert after.reason == "JobHeldAdmin"
        assert (after.nodes_min, after.nodes_max, after.tasks) == (before.nodes_min, before.nodes_max, before.tasks)
        assert after.required_nodes == ()


@pytest.mark.live_quick
def test_a_running_job_loses_no_nodes_by_orders_that_come_too_late(bed: Bed, client: CommandClient) -> None:
    job = bed.submit("sleep 60", nodes=3, mem=10, nodelist="n[1-3]")
    bed.wait_for([job], "RUNNING")
    before = job_of(client.read(), job)
    orders = [
        HoldBack(JobKey(job), 1, 2), HoldBack(JobKey(job)), Place(JobKey(job), ("n1",)),
        Place(JobKey(job), ("n9",)), Place(JobKey(job), ("n3", "n2", "n1")), Release(JobKey(job)),
    ]  # fmt: skip
    answers = client.carry_out(orders)
    assert [answer.done for answer in answers] == [False, False, False, False, True, True]
    after = job_of(client.read(), job)
    assert after.holds == before.holds
    assert after.runs
    assert after.priority > 0


def test_orders_may_be_given_twice(bed: Bed, client: CommandClient) -> None:
    job = bed.submit("sleep 60", hold=True, mem=10)
    for _ in range(2):
        assert all(a.done for a in client.carry_out([Place(JobKey(job), ("n5",)), Release(JobKey(job))]))
    bed.wait_for([job], "RUNNING")
    assert all(a.done for a in client.carry_out([Place(JobKey(job), ("n5",)), Release(JobKey(job))]))
    for _ in range(2):
        assert client.carry_out([RequeueHeld(JobKey(job))])[0].done
        bed.wait_until(lambda: job_of(client.read(), job).waits)
    assert job_of(client.read(), job).restarts == 1


def test_a_running_job_gets_another_limit_and_runs_on(bed: Bed, client: CommandClient) -> None:
    job = bed.submit("sleep 60", mem=10, time="1")
    bed.wait_for([job], "RUNNING")
    before = job_of(client.read(), job)
    for turn in range(2):
        assert client.carry_out([Lengthen(JobKey(job), 7200)])[0].done
        assert client.changed() == (turn == 0)
        assert job_of(client.read(), job) == replace(before, limit_s=7200)
    bed.cancel(job)
    bed.wait_until(lambda: not job_of(client.read(), job).runs)
    assert not client.carry_out([Lengthen(JobKey(job), 60)])[0].done


def test_a_requeued_job_runs_again_at_once_if_that_is_said(bed: Bed, client: CommandClient) -> None:
    job = bed.submit("sleep 60", mem=10, time="1")
    bed.wait_for([job], "RUNNING")
    client.carry_out([Lengthen(JobKey(job), 7200), RequeueHeld(JobKey(job))])
    bed.wait_until(lambda: job_of(client.read(), job).waits)
    found = job_of(client.read(), job)
    assert (found.is_held, found.restarts, found.limit_s) == (True, 1, 7200)  # Slurm keeps a limit that was raised
    assert found.eligible_s > time.time() + 60
    client.carry_out([Place(JobKey(job), ("n6",), at_once=True, limit_s=60), Release(JobKey(job))])
    bed.wait_for([job], "RUNNING")
    again = job_of(client.read(), job)
    assert (list(again.holds), again.limit_s) == (["n6"], 60)


@pytest.mark.live_quick
def test_a_job_that_has_ended_is_not_run_again_by_a_late_requeue(bed: Bed, client: CommandClient) -> None:
    over, cancelled = bed.submit("true", mem=10), bed.submit("sleep 9", hold=True, mem=10)
    bed.cancel(cancelled)
    bed.wait_for([over], "COMPLETED")
    assert all(a.done for a in client.carry_out([RequeueHeld(JobKey(over)), RequeueHeld(JobKey(cancelled))]))
    time.sleep(1)
    assert [bed.state(over), bed.state(cancelled)] == ["COMPLETED", "CANCELLED"]


def test_a_place_that_slurm_cannot_give_is_seen_as_a_bad_constraint(bed: Bed, client: CommandClient) -> None:
    job = bed.submit("sleep 60", hold=True, nodes=1, exclude="n3", mem=10)
    client.carry_out([Place(JobKey(job), ("n3",)), Release(JobKey(job))])
    bed.wait_until(lambda: job_of(client.read(), job).reason == "BadConstraints")
    assert job_of(client.read(), job).is_held
    client.carry_out([Place(JobKey(job), ("n4",)), Release(JobKey(job))])
    bed.wait_for([job], "RUNNING")


HOLDS = [
    ("user", ["hold"], "JobHeldUser", True),
    ("user", ["uhold"], "JobHeldUser", True),
    ("operator", ["uhold"], "JobHeldUser", True),
    ("operator", ["hold"], "JobHeldAdmin", False),
    ("operator", ["update", "Priority=0"], "JobHeldAdmin", False),
    ("operator", ["requeuehold"], "JobHeldUser", True),
]


@pytest.mark.parametrize(("who", "words", "reason", "may_release"), HOLDS)
def test_who_holds_a_job_and_whether_its_user_may_release_it_is_as_the_table_says(
    bed: Bed, client: CommandClient, who: str, words: list[str], reason: str, may_release: bool
) -> None:
    requeued = words == ["requeuehold"]
    job = bed.submit("sleep 60", mem=10, user="nobody", **({} if requeued else {"begin": "now+3600"}))
    if requeued:
        bed.wait_for([job], "RUNNING")
    user = "nobody" if who == "user" else None
    bed.scontrol(words[0], f"JobId={job}" if words[0] == "update" else str(job), *words[1:], user=user)
    bed.wait_until(lambda: job_of(client.read(), job).waits)
    found = job_of(client.read(), job)
    assert (found.is_held, found.reason) == (True, reason)
    bed.scontrol("hold", str(job), user="nobody", check=False)
    assert job_of(client.read(), job).reason == reason
    bed.scontrol("release", str(job), user="nobody", check=False)
    assert job_of(client.read(), job).is_held != may_release


SUBMIT_SCRIPT = """
function slurm_job_submit(job, parts, uid) job.priority = 0 return slurm.SUCCESS end
function slurm_job_modify(job, old, parts, uid)
    {}
    return slurm.SUCCESS
end
return slurm.SUCCESS
"""
KEEP = "if uid ~= 0 and job.priority ~= nil and job.priority ~= slurm.NO_VAL then return slurm.ERROR end"


@pytest.mark.parametrize("keeps", [False, True])
def test_its_user_may_release_a_job_that_a_submit_plugin_holds_unless_that_forbids_it(
    new_bed: Callable[..., Bed], keeps: bool
) -> None:
    bed = new_bed(nodes=1, job_submit=SUBMIT_SCRIPT.format(KEEP if keeps else ""))
    client = CommandClient(environment=bed.env)
    job = bed.submit("sleep 60", mem=10, user="nobody")
    found = job_of(client.read(), job)
    assert (found.is_held, found.reason) == (True, "JobHeldUser")
    bed.scontrol("release", str(job), user="nobody", check=False)
    assert job_of(client.read(), job).is_held == keeps
    bed.scontrol("update", f"JobId={job}", "Comment=changed", user="nobody")
    assert client.carry_out([Place(JobKey(job), ("n1",)), Release(JobKey(job))])[1].done
    bed.wait_for([job], "RUNNING")


def test_a_batch_whose_complaints_cannot_be_told_apart_is_given_one_by_one(
    bed: Bed, client: CommandClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = bed.submit_many([{"hold": True, "mem": 10}] * 3)
    monkeypatch.setattr(client_file, "attributed", lambda complaints, marks: [None] * len(marks))
    orders = [Place(JobKey(number), ("n2",)) for number in (jobs[0], 999_999, jobs[1], jobs[2])]
    assert [answer.done for answer in client.carry_out(orders)] == [True, False, True, True]
    assert {job.required_nodes for job in client.read().jobs if job.waits} == {("n2",)}


def test_a_controller_that_hangs_or_is_gone_is_unreachable_and_comes_back(new_bed: Callable[..., Bed]) -> None:
    bed = new_bed(nodes=1)
    client = CommandClient(timeout_s=1, environment=bed.env)
    job = bed.submit(hold=True, mem=10)
    client.read()
    booted_s = client.booted_s()
    assert booted_s <= time.time() < booted_s + 60
    bed.scontrol("reconfigure")
    assert client.booted_s() == booted_s
    bed.pause_controller()
    for call in (client.read, client.changed, client.booted_s, lambda: client.carry_out([Release(JobKey(job))])):
        began = time.monotonic()
        with pytest.raises(UnreachableError):
            call()
        assert time.monotonic() - began < 4
    bed.resume_controller()
    bed.kill_controller()
    for call in (client.read, lambda: client.carry_out([Release(JobKey(job))])):
        with pytest.raises(UnreachableError):
            call()
    bed.start_controller()
    bed.wait_until(lambda: bool(client.read().jobs))
    assert booted_s < client.booted_s() <= time.time()
    assert client.carry_out([HoldBack(JobKey(job))])[0].done


def test_words_that_are_no_names_of_nodes_are_never_given(bed: Bed, client: CommandClient) -> None:
    for name in ("n1 Priority=9", "n1\nrelease 1", "", "-n1", "n[1-3]", "n1,n2", "é"):
        with pytest.raises(InputError):
            client.carry_out([Place(JobKey(1), (name,))])
    for key in (JobKey(0), JobKey(-1), JobKey(2**40)):
        with pytest.raises(InputError):
            client.carry_out([Release(key)])


def test_two_hundred_jobs_are_placed_in_one_batch_and_each_complaint_finds_its_order(
    bed: Bed, client: CommandClient
) -> None:
    jobs = bed.submit_many([{"hold": True, "mem": 10}] * 200)
    no_such = {number: 900_000 + number for number in (3, 4, 50, 121, 199)}
    asked = [no_such.get(k, job) for k, job in enumerate(jobs)]
    orders = [o for k, j in enumerate(asked) for o in (Place(JobKey(j), (f"n{k % 16 + 1}",)), Release(JobKey(j)))]
    began = time.monotonic()
    answers = client.carry_out(orders)
    took_s = time.monotonic() - began
    assert [answer.order for answer in answers] == orders
    assert {k // 2 for k, answer in enumerate(answers) if not answer.done} == set(no_such)
    assert took_s < 20  # under a second on a quiet machine; this only finds what is hopeless
