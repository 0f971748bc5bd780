"""Whatever may change of jobs, nodes and licences, the client notices: each change is made on a real Slurm."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from slurm_bed import Bed

from unrack.live.slurm.commands.client import CommandClient
from unrack.live.slurm.reading import Reading

pytestmark = pytest.mark.live

UPDATES = [
    "Comment=other", "AdminComment=other", "JobName=other", "Account=other", "TimeLimit=7", "Priority=77",
    "ReqNodeList=n3", "ExcNodeList=n4", "NumNodes=2-2", "NumNodes=1-5", "NumTasks=3", "NumCPUs=4", "CPUsPerTask=2",
    "MinCPUsNode=3", "MinMemoryNode=33", "MinMemoryCPU=34", "TresPerNode=gres:nvme:2", "TresPerJob=gpu:1",
    "TresPerTask=gpu:1", "TresPerSocket=gpu:1", "Gres=nvme:3", "Licenses=matlab:1", "Partition=left",
    "Dependency=singleton", "StartTime=now+3600", "OverSubscribe=no", "UserID=nobody",
    "Contiguous=1", "TasksPerNode=2",
]  # fmt: skip
"""What an operator may change of a job that waits. Those that this version refuses are no changes."""
REFUSED_BY_22_05 = {"UserID=nobody", "TresPerJob=gpu:1", "TresPerTask=gpu:1", "TresPerSocket=gpu:1", "MinMemoryCPU=34"}

WITHOUT_EFFECT = {"Account=other"}
"""Taken and not done by a system without accounting."""
NOT_READ = {"MinCPUsNode=3"}
"""Seen, though no field of a job tells of it."""


@pytest.fixture
def client(bed: Bed) -> CommandClient:
    return CommandClient(environment=bed.env)


@pytest.mark.parametrize("update", UPDATES)
def test_a_change_of_a_waiting_job_is_seen(bed: Bed, client: CommandClient, update: str) -> None:
    waits_for = {"begin": "now+7200"} if update.startswith(("StartTime", "Priority")) else {"hold": True}
    job = bed.submit(nodes=1, mem=10, **waits_for)

    def settled() -> Reading:
        """What is read once Slurm has written down why the job waits: of a begin time it does that only later."""
        if "begin" in waits_for:
            bed.wait_until(lambda: client.read().jobs[-1].reason == "BeginTime")
        return client.read()

    before = settled()
    assert not client.changed()
    done = bed.call("scontrol", "update", f"JobId={job}", update, check=False)
    if done.returncode:
        assert update in REFUSED_BY_22_05, done.stderr
        pytest.skip(done.stderr.decode())
    was_seen = client.changed()
    if update in WITHOUT_EFFECT:
        assert client.read().jobs == before.jobs
    else:
        assert was_seen
        assert settled().jobs != before.jobs or update in NOT_READ
        assert not client.changed()


def test_an_array_that_may_run_more_at_once_is_a_change(bed: Bed, client: CommandClient) -> None:
    job = bed.submit(hold=True, array="1-9%2", mem=10)
    client.read()
    bed.scontrol("update", f"JobId={job}", "ArrayTaskThrottle=3")
    assert client.changed()
    assert {found.array_limit for found in client.read().jobs if found.waits} == {3}


@pytest.mark.live_quick
def test_the_life_of_a_job_is_seen(bed: Bed, client: CommandClient) -> None:
    def seen(change: Callable[[], object]) -> None:
        client.read()
        change()
        assert client.changed()

    job = 0

    def submit() -> None:
        nonlocal job
        job = bed.submit("sleep 60", mem=10, hold=True)

    seen(submit)
    seen(lambda: bed.scontrol("release", str(job)))
    seen(lambda: bed.wait_for([job], "RUNNING"))
    seen(lambda: bed.scontrol("hold", str(job)))
    seen(lambda: bed.scontrol("suspend", str(job)))
    seen(lambda: bed.scontrol("resume", str(job)))
    seen(lambda: bed.scontrol("requeuehold", str(job)))
    bed.wait_for([job], "PENDING")
    bed.wait_until(lambda: not client.read().jobs[-1].completing)
    seen(lambda: bed.cancel(job))


@pytest.mark.live_quick
def test_changes_of_nodes_are_seen(bed: Bed, client: CommandClient) -> None:
    client.read()
    bed.drain("n1", "one")
    assert client.changed()
    client.read()
    bed.drain("n1", "another")
    assert client.changed()
    client.read()
    bed.resume("n1")
    assert client.changed()
    for change in ("AvailableFeatures=rare,more", "ActiveFeatures=rare", "ActiveFeatures="):
        client.read()
        bed.scontrol("update", "NodeName=n2", change)
        assert client.changed()
    bed.scontrol("update", "NodeName=n2", "AvailableFeatures=")


def test_nodes_that_are_added_and_licences_that_are_bought_are_seen(new_bed: Callable[..., Bed]) -> None:
    bed = new_bed(nodes=2, licences={"matlab": 1})
    client = CommandClient(environment=bed.env)
    client.read()
    bed.rewrite(licences={"matlab": 2})
    assert client.changed()
    assert client.read().licences["matlab"].total == 2
    bed.rewrite(nodes=3, memory_mb=33_000)
    assert client.changed()
    assert [node.memory_mb for node in client.read().nodes] == [33_000] * 3
    assert not client.changed()


def test_a_system_in_which_nothing_happens_does_not_change(bed: Bed, client: CommandClient) -> None:
    bed.submit_many([{"hold": True, "mem": 10}] * 20)
    running = bed.submit("sleep 60", mem=10)
    bed.wait_for([running], "RUNNING")
    client.read()
    assert [client.changed() for _ in range(20)] == [False] * 20
