"""Jobs, nodes and licences in the layouts of newer versions, as Slurm's documentation of its REST interface has them.

No such version can be installed here: the samples are written by hand after the descriptions of v0.0.39 to v0.0.43.
"""

from __future__ import annotations

from typing import Any

import pytest

from unrack.live.slurm.answers.jobs import jobs_of
from unrack.live.slurm.answers.nodes import nodes_of
from unrack.live.slurm.reading import NodeShare, SlurmJob, SlurmNode

NODE = SlurmNode(
    "c1", 64, 128_000, {"gpu": 4}, frozenset({"MIXED", "DRAIN"}), frozenset({"main", "gpu"}), "fan", ("ib", "avx"),
    ("gpu:a100",),
)  # fmt: skip
NODES = [NODE, SlurmNode("c2", 64, 128_000)]


def set_to(number: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": number}


NOT_SET = {"set": False, "infinite": False, "number": 0}
ENDLESS = {"set": False, "infinite": True, "number": 0}


def waiting(**changes: Any) -> dict[str, Any]:
    """A job that waits, in the layout of 23.11 and later."""
    return {
        "account": "dept", "accrue_time": set_to(1_700_000_000), "admin_comment": "", "array_job_id": set_to(70),
        "array_task_id": NOT_SET, "array_max_tasks": set_to(4), "array_task_string": "3-9:3%4", "association_id": 7,
        "comment": "words", "contiguous": False, "core_spec": NOT_SET, "cpus": set_to(8), "cpus_per_task": set_to(2),
        "dependency": "", "eligible_time": set_to(1_700_000_100), "end_time": NOT_SET, "excluded_nodes": "c[5-6]",
        "exit_code": {"status": ["SUCCESS"], "return_code": set_to(0), "signal": {"id": NOT_SET, "name": ""}},
        "features": "", "flags": ["JOB_CPUS_SET"], "het_job_id": NOT_SET, "het_job_offset": NOT_SET, "hold": True,
        "job_id": 70, "job_resources": None, "job_state": ["PENDING"], "licenses": "matlab:2", "max_nodes": set_to(3),
        "memory_per_cpu": NOT_SET, "memory_per_node": set_to(4000), "name": "it", "node_count": set_to(2), "nodes": "",
        "partition": "main", "priority": set_to(0), "required_nodes": "", "restart_cnt": 1, "shared": [],
        "start_time": NOT_SET, "state_reason": "JobHeldAdmin", "submit_time": set_to(1_700_000_000),
        "tasks": set_to(4), "tasks_per_node": NOT_SET, "thread_spec": 32_766, "time_limit": set_to(90),
        "tres_per_job": "", "tres_per_node": "gres/gpu:2", "tres_per_task": "cpu=2,gres/nvme=1", "user_name": "ann",
        **changes,
    }  # fmt: skip


EXPECTED = SlurmJob(
    id=70, state="PENDING", reason="JobHeldAdmin", array=70, tasks_waiting=(3, 6, 9), array_limit=4, name="it",
    user="ann", account="dept", partition="main", comment="words", submit_s=1_700_000_000, eligible_s=1_700_000_100,
    limit_s=5400, nodes_min=2, nodes_max=3, tasks=4, cpus=8, cpus_per_task=2, node_memory_mb=4000, gres={"gpu": 2},
    gres_total={"nvme": 4}, licences={"matlab": 2}, excluded_nodes=("c5", "c6"), restarts=1,
)  # fmt: skip


def read(*records: dict[str, Any]) -> list[SlurmJob]:
    jobs, unreadable = jobs_of({"jobs": list(records)}, NODES)
    assert not unreadable
    return jobs


def test_a_waiting_job_of_23_11_and_later_is_read() -> None:
    assert read(waiting()) == [EXPECTED]


def test_a_waiting_job_of_23_02_with_plain_times_and_states_is_read() -> None:
    plain = {"job_state": "PENDING", "submit_time": 1_700_000_000, "eligible_time": 1_700_000_100, "end_time": 0,
             "start_time": 0, "shared": "", "exit_code": 0, "tasks_per_node": NOT_SET}  # fmt: skip
    assert read(waiting(**plain)) == [EXPECTED]


def test_required_nodes_may_be_a_list_of_names() -> None:
    assert read(waiting(required_nodes=["c1", "c2"]))[0].required_nodes == ("c1", "c2")


SOCKETS = [{"index": 0, "cores": [{"index": k, "status": ["ALLOCATED"] if k < 3 else ["INVALID"]} for k in range(5)]}]
RESOURCES = {
    "v0.0.38": {"nodes": "c1", "allocated_cores": 3, "allocated_nodes": [
        {"nodename": "c1", "sockets": {"0": {"cores": {"0": "allocated", "1": "allocated", "2": "allocated"}}},
         "memory_allocated": 4000, "cpus_used": 0, "memory_used": 0}]},
    "v0.0.39": {"nodes": "c1", "allocated_cores": 3, "allocated_cpus": 0, "allocated_hosts": 1, "allocated_nodes": [
        {"nodename": "c1", "sockets": SOCKETS, "cpus_used": 0, "memory_used": 0, "memory_allocated": 4000}]},
    "v0.0.41": {"select_type": ["CPU", "MEMORY"], "cpus": 3, "threads_per_core": NOT_SET, "nodes": {
        "count": 1, "select_type": ["AVAILABLE"], "list": "c1", "whole": False, "allocation": [
            {"index": 0, "name": "c1", "cpus": {"count": 3, "used": 0}, "memory": {"used": 0, "allocated": 4000},
             "sockets": SOCKETS}]}},
    "v0.0.43 without counts": {"cpus": 3, "nodes": {"list": "c1", "allocation": [
            {"index": 0, "name": "c1", "memory": {"used": 0, "allocated": 4000}, "sockets": SOCKETS}]}},
    "no allocation": {},
    "an allocation in a layout to come": {"places": [{"where": "c1"}]},
    "an allocation of other nodes": {"allocated_nodes": [{"nodename": "c9", "sockets": SOCKETS}]},
}  # fmt: skip


@pytest.mark.parametrize("layout", RESOURCES)
def test_what_a_job_holds_is_read_in_every_layout(layout: str) -> None:
    running = waiting(
        job_state=["RUNNING"], nodes="c1", job_resources=RESOURCES[layout], tres_alloc_str="cpu=3,mem=4000M,node=1",
        start_time=set_to(1_700_000_200), array_job_id=NOT_SET, time_limit=ENDLESS, priority=set_to(7),
    )  # fmt: skip
    (job,) = read(running)
    assert job.holds == {"c1": NodeShare(3, 4000)}
    assert (job.runs, job.limit_s, job.start_s, job.end_s) == (True, None, 1_700_000_200, 0)


def test_states_with_flags_are_read() -> None:
    running = {"nodes": "c1", "tres_alloc_str": "cpu=3,mem=4000M"}
    said = [
        "CANCELLED COMPLETING", "RUNNING CONFIGURING", "PENDING COMPLETING", "PENDING REQUEUE_HOLD", "COMPLETED",
        "SUSPENDED", "RUNNING COMPLETING",
    ]  # fmt: skip
    found = {words: read(waiting(job_state=words.split(), **running))[0] for words in said}
    assert {words: (job.state, job.completing, job.runs, job.waits) for words, job in found.items()} == {
        "CANCELLED COMPLETING": ("CANCELLED", True, True, False),
        "RUNNING CONFIGURING": ("RUNNING", False, True, False),
        "PENDING COMPLETING": ("COMPLETING", True, True, False),
        "PENDING REQUEUE_HOLD": ("PENDING", False, False, True),
        "COMPLETED": ("COMPLETED", False, False, False),
        "SUSPENDED": ("SUSPENDED", False, True, False),
        "RUNNING COMPLETING": ("COMPLETING", True, True, False),
    }
    assert all(bool(job.holds) == job.runs for job in found.values())


def test_exclusive_jobs_are_known_in_every_layout() -> None:
    said = [{"shared": "none"}, {"shared": ["none"]}, {"exclusive": ["true"]}, {"shared": ["user"]}, {"shared": None}]
    assert [read(waiting(**words))[0].exclusive for words in said] == [True, True, True, False, False]


def test_how_nice_a_job_is_is_known_in_every_layout() -> None:
    said = [77, None, 0, -5, "12", "-3", "", set_to(9), set_to(-9), NOT_SET, 2**32 - 1, 2**32 - 2, 2**32 - 2**31]
    assert [read(waiting(nice=one))[0].nice for one in said] == [77, 0, 0, -5, 12, -3, 0, 9, -9, 0, -1, -2, -(2**31)]
    assert jobs_of({"jobs": [waiting(nice="very")]}, NODES)[1]


def test_what_is_asked_beyond_the_fields_is_named() -> None:
    asks = {"features": "avx&[a|b]", "resv_name": "week", "burst_buffer": "big", "tres_per_socket": "gres/gpu:1",
            "contiguous": True, "core_spec": set_to(2)}  # fmt: skip
    found = read(waiting(**asks, tres_per_job="gres/gpu:a100:4"))[0]
    assert found.beyond == ("burst buffer", "resources a socket, and does not say of how many sockets")
    assert (found.contiguous, found.set_aside, found.exclusive) == (True, 2, True)
    assert (found.features, found.reservation, found.types) == ("avx&[a|b]", "week", ("gpu:a100",))


@pytest.mark.parametrize(
    "fault",
    [{"cpus": "many"}, {"cpus": -1}, {"tasks": [1]}, {"job_id": None}, {"job_id": True}, {"name": 7},
     {"tres_per_node": "gpu:1:2:3:4"}, {"array_task_string": "1-..."}, {"time_limit": {"set": True, "number": "x"}},
     {"nodes": "c[1"}, {"job_resources": "c1"}, {"licenses": "a b"}, {"job_state": []}, {"job_state": "DANCING"}],
)  # fmt: skip
@pytest.mark.parametrize("state", [["RUNNING"], ["PENDING"]])
def test_a_senseless_record_stops_no_other_and_holds_its_nodes(fault: dict[str, Any], state: list[str]) -> None:
    bad = waiting(**{"job_id": 71, "job_state": state, "tres_alloc_str": "cpu=8,mem=9M", **fault})
    bad["nodes"] = fault.get("nodes", "c1" if state == ["RUNNING"] or "job_state" in fault else "")
    jobs, unreadable = jobs_of({"jobs": [bad, waiting(), "no record", 7]}, NODES)
    assert EXPECTED in jobs
    assert len(unreadable) >= 2
    if state == ["RUNNING"] and "nodes" not in fault:  # with a senseless list of nodes, nobody knows which
        holder = next(job for job in jobs if job != EXPECTED)
        assert holder.runs
        assert set(holder.holds) == {"c1"}
        assert holder.holds["c1"].cores > 0


def test_a_job_whose_allocation_is_not_said_holds_no_less_than_it_may() -> None:
    (job,) = read(waiting(job_state=["RUNNING"], nodes="c[1-2]", tres_alloc_str="cpu=5,mem=101M,node=2"))
    assert job.holds == {"c1": NodeShare(4, 51), "c2": NodeShare(4, 51)}
    (job,) = read(waiting(job_state=["RUNNING"], nodes="c[1-2]"))
    assert job.holds == {"c1": NodeShare(64, 128_000), "c2": NodeShare(64, 128_000)}


def test_a_node_of_23_02_and_later_is_read() -> None:
    record = {
        "name": "c1", "cpus": 66, "effective_cpus": 64, "real_memory": 130_000, "specialized_memory": 2000,
        "gres": "gpu:a100:4(S:0-1)", "state": ["MIXED", "DRAIN"], "partitions": ["main", "gpu"], "reason": "fan",
        "tres": "cpu=64,mem=130000M", "alloc_memory": 5, "free_mem": set_to(7),
        "features": ["ib", "avx", "big"], "active_features": ["ib", "avx"],
    }  # fmt: skip
    assert nodes_of({"nodes": [record]}) == ([NODE], [])
