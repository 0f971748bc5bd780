"""Slurm's nodes as a cluster and its jobs as jobs, whatever shape they ask for and whatever users wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from now_readings import node, reading, running, waiting

from unrack.errors import ClusterError
from unrack.live.driver.contract import Problem
from unrack.live.slurm.constraints import Partition, Reservation
from unrack.live.slurm.jobs import SHOWN, JobReading, job_of, lease_of, said, stands
from unrack.live.slurm.machines import cluster_of, machines_of
from unrack.workload.job import Job

NODES = [node("n1"), node("n2"), node("fat", cores=32, memory_mb=64_000), node("g1", gres={"gpu": 4, "nvme": 2})]
CLUSTER, NAMES = cluster_of(reading([], NODES, {"matlab@server": 3}))


def asked(job: Any, **how: Any) -> tuple[int, int, int]:
    found = job_of(job, CLUSTER, JobReading(**how))
    assert isinstance(found, Job), found
    return found.demand.tasks, found.demand.cores, found.demand.memory_mb


def test_equal_nodes_come_together_under_their_names() -> None:
    assert NAMES == CLUSTER.names == ("n1", "n2", "fat", "g1")
    assert CLUSTER.cores.tolist() == [8, 8, 32, 8]
    assert CLUSTER.places.total.sum() > 3


@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        (waiting(1), (1, 1, 100)),
        (waiting(1, cpus=8), (1, 8, 100)),
        (waiting(1, cpus=12, nodes_min=2, nodes_max=2), (2, 6, 100)),
        (waiting(1, cpus=5, nodes_min=2, nodes_max=2), (2, 3, 100)),
        (waiting(1, cpus=12, cpus_per_task=4, nodes_min=2, nodes_max=2), (2, 8, 100)),
        (waiting(1, cpus=64, nodes_min=1), (2, 32, 100)),
        (waiting(1, cpus=60, cpus_per_task=20), (3, 20, 100)),
        (waiting(1, cpus=8, tasks_per_node=2), (4, 2, 100)),
        (waiting(1, cpus=4, node_memory_mb=0, cpu_memory_mb=500), (1, 4, 2000)),
        (waiting(1, cpus=4, node_memory_mb=0), (1, 4, 16_000)),
        (waiting(1, cpus=16, node_memory_mb=0), (1, 16, 64_000)),
        (waiting(1, cpus=2, nodes_min=3, nodes_max=3, exclusive=True), (3, 8, 100)),
        (waiting(1, cpus=9, exclusive=True), (1, 32, 100)),
    ],
)
def test_a_job_of_some_nodes_is_so_many_tasks(job: Any, wanted: tuple[int, int, int]) -> None:
    assert asked(job) == wanted


def test_memory_counts_only_where_slurm_counts_it() -> None:
    assert asked(waiting(1), memory=False)[2] == 0


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"required_nodes": ("n1", "n9")}, "nodes by name that are none of these"),
        ({"gres": {"tape": 1}}, "generic resources"),
        ({"gres": {"mps": 1}}, "mps of GPUs"),
        ({"gres": {"shard": 1}}, "shards of GPUs"),
        ({"licences": {"other": 1}}, "licences"),
        ({"features": "a&\x1b[31m"}, "no words"),
        ({"partition": "main," * 300}, "no words"),
        ({"features": "[fast*1&i b*1]", "nodes_min": 2}, "numbers of nodes with several features"),
        ({"beyond": ("network", "burst\nbuffer")}, "network, burst buffer"),
        ({"cpus": 33, "cpus_per_task": 33}, "33 cores"),
        ({"cpus": 64, "nodes_max": 2, "cpus_per_task": 17}, "do not fit on 2 nodes"),
    ],
)
def test_what_cannot_be_kept_is_a_problem_of_printable_words(more: dict[str, Any], why: str) -> None:
    found = job_of(waiting(1, **more), CLUSTER)
    assert isinstance(found, Problem)
    assert why in found.why
    assert found.why.isprintable()


def test_what_a_job_says_of_its_nodes_are_words_and_sizes_are_those_of_nodes_that_it_may_use() -> None:
    nodes = [
        node("n1"), node("n2"), node("fat", cores=32, memory_mb=64_000, partitions=frozenset({"big", "main"})),
        node("x1", cores=16, features=("ib", "amd"), types=("gpu:a100",), gres={"gpu": 4}),
    ]  # fmt: skip
    cluster, _ = cluster_of(reading([], nodes), early_s=10.0)

    def asked_there(**more: Any) -> tuple[int, int, str]:
        found = job_of(waiting(1, **more), cluster)
        assert isinstance(found, Job), found
        return found.demand.cores, found.demand.memory_mb, found.said["constraint"]

    assert asked_there(cpus=2, exclusive=True) == (8, 100, "(size:8x16000)")
    assert asked_there(cpus=2, exclusive=True, partition="big") == (32, 100, "(size:32x64000)")
    assert asked_there(cpus=2, features="ib&amd", exclusive=True) == (16, 100, "(ib&amd)&(size:16x16000)")
    assert asked_there(cpus=2, partition="big", node_memory_mb=0) == (2, 64_000, "(size:32x64000)")
    assert asked_there(cpus=1, gres={"gpu": 1}, types=("gpu:a100",)) == (1, 100, "gres:gpu:a100")
    assert asked_there(cpus=1, features="[a|b]") == (1, 100, "[a|b]")
    job = waiting(1, partition="big,main", required_nodes=("n1", "n2"), excluded_nodes=("fat", "gone"), reservation="r")
    found = job_of(job, cluster)
    assert isinstance(found, Job)
    assert found.demand.tasks == 2
    words = {key: text for key, text in found.said.items() if text}
    assert words == {"partition": "big,main", "req_nodes": "n[1-2]", "exc_nodes": "fat", "reservation": "r"}


def test_a_lenient_reading_keeps_the_amounts_of_such_a_job() -> None:
    job = waiting(1, cpus=2, partition="main,other", required_nodes=("n1",), gres={"nvme": 1})
    assert asked(job, lenient=True) == (1, 2, 100)


def test_gpus_and_licences_are_asked_for() -> None:
    job = waiting(1, cpus=4, nodes_min=2, nodes_max=2, gres_total={"gpu": 3}, licences={"matlab@server": 2})
    found = job_of(job, CLUSTER)
    assert isinstance(found, Job)
    assert found.demand.devices == {"gpus": {"count": 2}, "counted": {"matlab_server": 2}}
    found = job_of(waiting(2, gres={"nvme": 1}, gres_total={"nvme": 3}, nodes_min=2, nodes_max=2), CLUSTER)
    assert isinstance(found, Job)
    assert found.demand.devices == {"counted": {"gres_nvme": 2}}


@given(st.text(max_size=300), st.text(max_size=300), st.integers(-(2**70), 2**70))
def test_what_users_wrote_is_cut_and_printable(name: str, user: str, priority: int) -> None:
    found = job_of(waiting(1, name=name, user=user, priority=priority), CLUSTER)
    assert isinstance(found, Job)
    for words in (found.user, found.app):
        assert len(words) <= SHOWN
        assert words.isprintable()
    assert abs(found.priority) <= 2**53


def test_a_hundred_thousand_characters_are_cut_at_once() -> None:
    assert said("x\n" * 50_000) == ("x " * SHOWN)[:SHOWN]


def test_a_lease_is_what_is_held_of_nodes_that_are_there_and_no_more_than_they_have() -> None:
    job = running(7, {"n2": (3, 500), "fat": (40, 99_000), "gone": (1, 1)})
    lease = lease_of(job, CLUSTER.number_of, CLUSTER)
    assert lease is not None
    assert lease.rows.tolist() == [[1, 1, 1, 3, 500], [2, 1, 1, 32, 64_000]]
    found = stands(job, CLUSTER.number_of, CLUSTER)
    assert found is not None
    assert found[0].demand.tasks == 2
    assert lease_of(running(7, {"gone": (1, 1)}), CLUSTER.number_of, CLUSTER) is None


def test_nodes_out_of_service_are_left_out_or_drained() -> None:
    nodes = [node("n1"), node("n2", words=frozenset({"DOWN"})), node("n3", words=frozenset({"MIXED", "DRAIN"}))]
    seen = reading([running(1, {"n3": (1, 1)})], nodes)
    now = machines_of(seen, in_use=True)
    assert (now.names, now.content["drained"]) == (("n1", "n3"), "n3")
    assert machines_of(seen).names == ("n1", "n2", "n3")
    assert "drained" not in machines_of(seen).content


def test_a_partition_has_its_own_nodes() -> None:
    nodes = [node("n1"), node("x1", partitions=frozenset({"other"}))]
    assert machines_of(reading([], nodes), partitions=["other"]).names == ("x1",)
    with pytest.raises(ClusterError, match="one of main, other"):
        machines_of(reading([], nodes), partitions=["nope"])


def test_a_site_adds_what_slurm_does_not_know_and_no_more() -> None:
    pool = {"name": "drives", "kind": "nvme", "count": 2, "quantities": {"capacity_mb": 100}}
    made = machines_of(reading([], licences={"a": 1}), {"pools": [pool], "counted": [{"name": "b", "amount": 1}]})
    assert made.content["pools"] == [pool]
    assert [one["name"] for one in made.content["counted"]] == ["a", "b"]
    with pytest.raises(ClusterError, match="gpus"):
        machines_of(reading([], NODES), {"gpus": "x"})


def test_memory_that_nobody_configured_is_not_counted() -> None:
    cluster, _ = cluster_of(reading([], [node("n1", memory_mb=1)]))
    assert cluster.total_mb is None


def test_a_partition_or_reservation_that_makes_no_sense_stops_nothing() -> None:
    seen = reading([])
    odd = Partition("main", fields={"PriorityTier": "high"}), Reservation("r", 1, 2**60, ("n1",), {"Flags": "DAILY"})
    made = machines_of(replace(seen, partitions={"main": odd[0]}, reservations=(odd[1],)))
    assert made.content["site"]["partitions"] == [{"name": "main"}]
    assert "reservations" not in made.content["site"]
    assert any("cannot be understood" in note for note in made.notes)
