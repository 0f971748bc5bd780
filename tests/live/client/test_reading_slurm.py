"""What a real Slurm has is what the client reads."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

import pytest
from slurm_bed import Bed

from unrack.live.driver.seen import UnreachableError
from unrack.live.slurm.answers.shown import reservations_in
from unrack.live.slurm.commands import client as client_file
from unrack.live.slurm.commands.client import CommandClient
from unrack.live.slurm.commands.run import Done
from unrack.live.slurm.orders import JobKey, Release
from unrack.live.slurm.reading import Licence, NodeShare, Reading, SlurmJob

pytestmark = pytest.mark.live

HOSTILE = {
    "quotes": b"a\"b'c",
    "line feeds": b"a\nJobId=1 JobState=RUNNING NodeList=n1\n",
    "backslashes": b"\\",
    "no UTF-8": b"a\xff\xfe\xed\xa0\x80b",
    "controls": b"\x01\x02\x1b[31m\x7f\r\t",
    "JSON": b'"},{"job_id":99,"job_state":"RUNNING","nodes":"n1"},{"x":"',
    "shell": b"$(touch pwned)`touch pwned`;touch pwned|touch pwned&",
    "format": b"%s%n%d %A|~",
    "long": b"x" * 1000,
    "scripts": "é世界🙂\u2028\u0085".encode(),
}

SAME = (
    "state", "array", "member", "tasks_waiting", "array_limit", "priority", "submit_s", "limit_s", "tasks", "cpus",
    "cpus_per_task", "gres", "licences", "required_nodes", "partition", "user", "holds",
    "nice",
)  # fmt: skip
"""What a listing tells of a job on one node as JSON does."""


@pytest.fixture
def client(bed: Bed) -> CommandClient:
    return CommandClient(environment=bed.env)


def job_of(reading: Reading, number: int) -> SlurmJob:
    return next(job for job in reading.jobs if job.id == number)


@pytest.mark.live_quick
def test_all_that_a_held_job_asks_is_read(bed: Bed, client: CommandClient) -> None:
    job = bed.submit(
        hold=True, nodes="2-3", ntasks=6, cpus_per_task=2, mem_per_cpu=150, gres="nvme:2", licenses="matlab:1",
        time="1:30:00", comment="words of a user", job_name="its name", account="dept", exclude="n[15-16]",
        nodelist="n4", partition="left,main", ntasks_per_node=2, nice=300,
    )  # fmt: skip
    bed.scontrol("update", f"JobId={job}", "AdminComment=ours")
    found = job_of(client.read(), job)
    assert found == SlurmJob(
        id=job, state="PENDING", reason="JobHeldUser", name="its name", user="root", account="dept",
        partition="left,main", comment="words of a user", admin_comment="ours", submit_s=found.submit_s, limit_s=5400,
        nodes_min=2, nodes_max=3, tasks=6, cpus=12, cpus_per_task=2, cpu_memory_mb=150, gres={"nvme": 2},
        licences={"matlab": 1}, required_nodes=("n4",), excluded_nodes=("n15", "n16"), tasks_per_node=2,
        nice=300,
    )  # fmt: skip
    assert found.is_held
    assert not found.runs


@pytest.mark.live_quick
def test_what_running_jobs_hold_is_read_node_by_node(bed: Bed, client: CommandClient) -> None:
    uneven = bed.submit("sleep 60", nodes=2, ntasks=5, mem=100, nodelist="n[3-4]")
    whole = bed.submit("sleep 60", nodes=1, exclusive=True, nodelist="n5")
    bed.wait_for([uneven, whole], "RUNNING")
    reading = client.read()
    holds = job_of(reading, uneven).holds
    assert sum(held.cores for held in holds.values()) == 5
    assert [(name, held.memory_mb) for name, held in holds.items()] == [("n3", 100), ("n4", 100)]
    assert job_of(reading, whole).holds == {"n5": NodeShare(8, 32_000)}
    assert job_of(reading, whole).exclusive
    node = next(node for node in reading.nodes if node.name == "n5")
    assert (node.cores, node.memory_mb, node.gres) == (8, 32_000, {"nvme": 4, "gpu": 2})
    assert node.partitions == {"main", "left"}
    assert "ALLOCATED" in node.words
    assert node.usable


def test_resources_for_the_job_and_for_each_task_are_summed(bed: Bed, client: CommandClient) -> None:
    in_all = bed.submit(hold=True, nodes=2, gpus=3, mem=10)
    by_task = bed.submit(hold=True, ntasks=4, gpus_per_task=2, mem=10)
    reading = client.read()
    assert job_of(reading, in_all).gres_total == {"gpu": 3}
    assert job_of(reading, by_task).gres_total == {"gpu": 8}


def test_threads_of_cores_and_what_is_set_aside_for_the_system_are_counted(new_bed: object) -> None:
    bed = new_bed(nodes=2, node_words="ThreadsPerCore=2 CoreSpecCount=2 MemSpecLimit=2000", cores=16)  # type: ignore[operator]
    client = CommandClient(environment=bed.env)
    odd = bed.submit("sleep 60", ntasks=3, mem=100)
    whole = bed.submit("sleep 60", nodes=1, exclusive=True)
    bed.wait_for([odd, whole], "RUNNING")
    reading = client.read()
    assert [(node.cores, node.memory_mb) for node in reading.nodes] == [(12, 30_000)] * 2
    assert [held for job in reading.jobs for held in job.holds.values()] == [NodeShare(4, 100), NodeShare(12, 30_000)]


def test_arrays_are_read_as_members_and_those_that_wait(bed: Bed, client: CommandClient) -> None:
    array = bed.submit("sleep 60", array="0-20:5%2", mem=10)
    bed.wait_until(lambda: sum(job.runs for job in client.read().jobs) == 2)
    reading = client.read()
    waiting = job_of(reading, array)
    running = [job for job in reading.jobs if job.runs]
    assert (waiting.array, waiting.member, waiting.tasks_waiting, waiting.array_limit) == (array, -1, (10, 15, 20), 2)
    assert [(job.array, job.member) for job in running] == [(array, 0), (array, 5)]
    long = bed.submit(array="1,3,7,20-999:3", hold=True, mem=10)
    assert len(job_of(client.read(), long).tasks_waiting) == 3 + 327


def test_a_heterogeneous_job_is_known_by_its_parts(new_bed: object) -> None:
    bed = new_bed(nodes=3, scheduler="backfill")  # type: ignore[operator]
    bed.call("sbatch", "-H", "-N1", "--mem=10", ":", "-N2", "--mem=10", given=b"#!/bin/sh\nsleep 1\n")
    reading = CommandClient(environment=bed.env).read()
    assert [(job.het, job.nodes_min) for job in reading.jobs] == [(True, 1), (True, 2)]


def test_ends_are_read(bed: Bed, client: CommandClient) -> None:
    failed, killed = bed.submit("exit 3", mem=10), bed.submit("kill -9 $$", mem=10)
    over, cancelled = bed.submit("true", mem=10), bed.submit("sleep 60", mem=10, hold=True)
    bed.cancel(cancelled)
    bed.wait_for([failed, killed], "FAILED")
    bed.wait_for([over], "COMPLETED")
    bed.wait_until(lambda: not any(job.completing for job in client.read().jobs))
    reading = client.read()
    states = [job_of(reading, number).state for number in (failed, killed, over, cancelled)]
    assert states == ["FAILED", "FAILED", "COMPLETED", "CANCELLED"]
    assert job_of(reading, over).end_s >= job_of(reading, over).start_s > 0
    assert not any(job.runs or job.holds for job in reading.jobs)


def test_a_job_that_is_slow_to_end_holds_its_nodes_meanwhile(bed: Bed, client: CommandClient) -> None:
    job = bed.submit("trap '' TERM; sleep 60 & wait; wait; sleep 60", nodes=1, mem=77, nodelist="n6")
    bed.wait_for([job], "RUNNING")
    bed.cancel(job)
    found = job_of(client.read(), job)
    assert (found.completing, found.runs, found.waits) == (True, True, False)
    assert found.holds == {"n6": NodeShare(1, 77)}


def test_nodes_that_drain_and_their_reasons_are_read(bed: Bed, client: CommandClient) -> None:
    bed.drain("n2", "its fan\nis loud")
    try:
        node = next(node for node in client.read().nodes if node.name == "n2")
        assert not node.usable
        assert "fan" in node.reason
    finally:
        bed.resume("n2")


def test_licences_are_read_with_those_in_use(bed: Bed, client: CommandClient) -> None:
    job = bed.submit("sleep 60", licenses="matlab:3", mem=10)
    bed.wait_for([job], "RUNNING")
    assert client.read().licences == {"matlab": Licence(4, 3), "memMB": Licence(65_536, 0)}


@pytest.mark.live_quick
@pytest.mark.parametrize("field", ["job_name", "comment", "account", "wckey"])
def test_hostile_words_of_users_stay_words(bed: Bed, client: CommandClient, field: str) -> None:
    ours = bed.submit(hold=True, nodes=3, mem=12)
    jobs = {bed.submit(hold=True, mem=10, **{field: words}): words for words in HOSTILE.values() if b"\0" not in words}
    reading = client.read()
    assert {job.id for job in reading.jobs if job.waits} == {ours, *jobs}
    assert not reading.unreadable
    assert not any(job.runs for job in reading.jobs)
    for number, words in jobs.items():
        job = job_of(reading, number)
        said = {"job_name": job.name, "comment": job.comment, "account": job.account}.get(field)
        if field != "account":  # Slurm writes accounts in small letters
            assert said in (None, words.decode("utf-8", "replace"))
    assert (job_of(reading, ours).nodes_min, job_of(reading, ours).node_memory_mb) == (3, 12)
    assert not client.changed()


def test_a_comment_of_100_kb_is_cut_and_read(bed: Bed, client: CommandClient) -> None:
    job = bed.submit(hold=True, mem=10)
    for size in (100_000, 30_000, 1_000):  # as long as this Slurm takes
        if bed.call("scontrol", "update", f"JobId={job}", "Comment=" + "x" * size, check=False).returncode == 0:
            break
    found = job_of(client.read(), job)
    assert found.comment == ("x" * size)[:65_536]


def test_where_json_cannot_be_read_the_listing_is(
    bed: Bed, client: CommandClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = bed.submit(
        hold=True, nodes="1-2", ntasks=2, cpus_per_task=3, mem=100, gres="nvme:1", time=10, licenses="matlab:2",
        nodelist="n3", job_name=b"a\nb~\xff", comment="c", nice=-1,
    )  # fmt: skip
    bed.submit("sleep 60", array="1-4%1", mem=50, nodelist="n7")
    bed.wait_until(lambda: any(job.runs for job in client.read().jobs))
    exact = client.read()
    run_all = client_file.run_all

    def broken(commands: list[list[str]], *rest: object) -> list[Done]:
        done = run_all(commands, *rest)  # type: ignore[arg-type]
        is_cut = ["--json" in words and "squeue" in words[0] for words in commands]
        return [each._replace(out=each.out[:-40]) if cut else each for cut, each in zip(is_cut, done, strict=True)]

    monkeypatch.setattr(client_file, "run_all", broken)
    spare = client.read()
    assert "squeue --json" in spare.unreadable[0]
    assert [job.id for job in spare.jobs] == [job.id for job in exact.jobs]
    for job, same in zip(exact.jobs, spare.jobs, strict=True):
        for key in SAME if job.waits or job.runs else ():
            if key != "array_limit" or job.waits:  # a listing shows it on the record of those that wait
                assert getattr(job, key) == getattr(same, key), (job.id, key)
    assert next(job for job in spare.jobs if job.id == held).name == "a\nb~\ufffd"


def test_an_answer_of_a_controller_that_went_away_is_no_cluster_without_nodes_and_jobs(
    new_bed: Callable[..., Bed],
) -> None:
    bed = new_bed(nodes=2)  # squeue and sinfo of 22.05 print JSON with no jobs or nodes then, and end with 0
    client = CommandClient(timeout_s=3, environment=bed.env)
    jobs = {bed.submit(hold=True, mem=10) for _ in range(3)}
    assert {job.id for job in client.read().jobs} == jobs
    over, seen = Event(), []

    def look() -> None:
        while not over.is_set():
            with suppress(UnreachableError):
                reading = client.read()
                seen.append((len(reading.nodes), len(reading.jobs)))

    looking = Thread(target=look)
    looking.start()
    for _ in range(4):
        bed.restart_controller()
        time.sleep(0.5)
    over.set()
    looking.join()
    assert set(seen) == {(2, 3)}


@pytest.mark.parametrize("listed", ["nodes", "jobs"])
def test_an_empty_answer_with_errors_is_unreachable(
    bed: Bed, client: CommandClient, listed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.submit(hold=True, mem=10)
    run_all = client_file.run_all
    name = {"nodes": "sinfo", "jobs": "squeue"}[listed]

    def failing(commands: list[list[str]], *rest: object) -> list[Done]:
        done = run_all(commands, *rest)  # type: ignore[arg-type]
        wrong = json.dumps({"errors": [{"error": "Unspecified error", "errno": -1}], listed: []}).encode()
        fails = ["--json" in words and name in words[0] for words in commands]
        return [each._replace(out=wrong) if fail else each for fail, each in zip(fails, done, strict=True)]

    monkeypatch.setattr(client_file, "run_all", failing)
    with pytest.raises(UnreachableError, match="Unspecified error"):
        client.read()


def test_reading_agrees_with_what_scontrol_says_of_each_job(bed: Bed, client: CommandClient) -> None:
    asked = [{"hold": True, "nodes": 1 + k % 3, "ntasks": 1 + k % 5, "mem": 10 + k, "time": 1 + k} for k in range(20)]
    jobs = bed.submit_many(asked)
    reading = client.read()
    for number in jobs:
        fields, job = bed.job(number), job_of(reading, number)
        assert f"{job.node_memory_mb}M" == fields["MinMemoryNode"]
        assert str(job.tasks) == fields["NumTasks"]
        assert str(job.cpus) == fields["NumCPUs"]
        assert str(job.nodes_min) == fields["NumNodes"].split("-")[0]
        assert job.reason == fields["Reason"]


def test_reading_needs_no_rights(bed: Bed, client: CommandClient) -> None:
    job = bed.submit(hold=True, mem=10)
    client.read()  # loads what another user may not be allowed to
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(65_534)
            os.setuid(65_534)
            os._exit(
                0 if job_of(client.read(), job).is_held and client.carry_out([Release(JobKey(job))])[0].problem else 1
            )
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert job_of(client.read(), job).is_held


def test_reservations_of_some_cores_say_which_of_which_node() -> None:
    line = "ReservationName=r StartTime=60 EndTime=120 Nodes=n[1-2] CoreCnt=5   NodeName=n1 CoreIDs=0-1   NodeName=n2 "
    (found,), unreadable = reservations_in(f"{line}CoreIDs=0,2-3 TRES=cpu=5 Users=ann")
    assert (found.record["NodeName"], found.record["CoreIDs"], unreadable) == ("n1 n2", "0-1 0,2-3", [])
    assert found.nodes == ("n1", "n2")
