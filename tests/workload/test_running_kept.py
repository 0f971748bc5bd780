"""What runs in a snapshot stays where it runs: pods, the queue of Slurm, and its accounts."""

from __future__ import annotations

import json
from typing import Any

import pytest

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.job import Workload

NODES = {"nodes": [{"count": 3, "cores": 64, "memory": "64 GB", "names": "n[1-3]"}], "gpus": [{"machine": {"gpus": 8}}]}
CLUSTER = Cluster.from_dict(NODES, "cluster")


def starts(made: Workload, cluster: Cluster = CLUSTER) -> dict[str, float]:
    """Job → when it starts, s; 0 of those that run already."""
    jobs = unrack.simulate(cluster, made, "fcfs").jobs
    return dict(zip(map(str, jobs["job"].to_list()), (jobs["start_s"] // 1).to_list(), strict=True))


def where(made: Workload) -> dict[str, str | None]:
    assert made.jobs.under_way is not None
    return dict(zip(map(str, made.jobs.ids.to_list()), made.jobs.under_way.on.to_list(), strict=True))


# --- Kubernetes -------------------------------------------------------------------------------------------------------


def pod(name: str, gpus: int = 2, node: str | None = None, phase: str = "", **more: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"resources": {"requests": {"cpu": "4", "nvidia.com/gpu": str(gpus)}}}]}
    spec |= {"nodeName": node} if node is not None else {}
    status: dict[str, Any] = {"phase": phase or ("Running" if node else "Pending")}
    status |= {"startTime": "2026-01-02T03:00:00Z"} if node else {}
    metadata = {"name": name, "creationTimestamp": "2026-01-02T03:30:00Z"}
    return {"kind": "Pod", "metadata": metadata | more, "spec": spec, "status": status}


def node(name: str, **spec: Any) -> dict[str, Any]:
    allocatable = {"cpu": "64", "memory": "64Gi", "nvidia.com/gpu": "8"}
    return {"kind": "Node", "metadata": {"name": name}, "spec": spec, "status": {"allocatable": allocatable}}


def pods(*items: dict[str, Any], kind: str = "List", **options: Any) -> Workload:
    text = json.dumps({"apiVersion": "v1", "kind": kind, "items": items})
    return read_trace(Source("pods.json", text.encode()), "kubernetes", **({"run": "1 h"} | options))


RUNNING = [pod(f"r{i}", node=f"n{i}") for i in (1, 2, 3)]


@pytest.mark.parametrize("kind", ["List", "PodList"])
def test_a_pod_that_needs_a_whole_node_waits_for_the_pods_that_run_one_on_each(kind: str) -> None:
    made = pods(*RUNNING, pod("big", 8), kind=kind)
    assert where(made) == {"r1": "n1", "r2": "n2", "r3": "n3", "big": None}
    assert starts(made) == {"r1": 0, "r2": 0, "r3": 0, "big": 3600}
    assert starts(pods(*RUNNING, pod("big", 8), running="anew"))["big"] == 0
    assert starts(pods(*RUNNING[:2], pod("big", 8)))["big"] == 0


def test_a_pod_with_a_node_holds_it_though_it_is_still_pending_and_one_without_a_start_has_not_run() -> None:
    coming = pod("c", 2, "n3", "Pending")
    del coming["status"]["startTime"]
    made = pods(coming, *RUNNING[:2], pod("big", 8))
    assert where(made)["c"] == "n3"
    assert made.jobs.under_way is not None
    assert made.jobs.under_way.ran_us.tolist() == [0, 1_800_000_000, 1_800_000_000, 0]
    assert starts(made)["big"] == 3600


def test_a_pod_that_is_being_deleted_holds_its_node_until_then_and_one_that_waits_never_starts() -> None:
    leaving = pod("r3", 2, "n3", deletionTimestamp="2026-01-02T03:30:25Z")
    gone = pod("never", 1, deletionTimestamp="2026-01-02T03:30:25Z")
    made = pods(*RUNNING[:2], leaving, gone, pod("big", 8))
    assert starts(made) == {"r1": 0, "r2": 0, "r3": 0, "big": 25}
    assert made.intake.changed["being ended"] == 1
    assert made.intake.dropped["already over"] == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_is_over_holds_nothing(phase: str) -> None:
    assert starts(pods(*RUNNING[:2], pod("r3", 2, "n3", phase), pod("big", 8)))["big"] == 0


def test_pods_on_nodes_that_the_list_has_out_of_use_are_left_out_and_counted() -> None:
    nodes = [node("n1"), node("n2"), node("n3"), node("cp", taints=[{"key": "node-role.kubernetes.io/control-plane"}]),
             node("old", unschedulable=True)]  # fmt: skip
    daemons = [pod(f"daemon-{name}", 0, name) for name in ("n1", "cp", "old")]
    made = pods(*nodes, *RUNNING, *daemons, pod("big", 8))
    assert made.intake.dropped["on a node not in use"] == 2
    assert where(made)["daemon-n1"] == "n1"
    assert starts(made)["big"] == 3600


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (pod("x", 2, "n9"), r"pods\.json: job x, on: got 'n9', wanted a node: n1, n2, n3"),
        (pod("x", 7, "n1"), r"job x, on: got nodes on which the job cannot have all .*n1"),
        (pod("x", 2, "n1, n2"), "job x, on: got 'n1, n2'"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_way_out(extra: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        starts(pods(*RUNNING, extra))
    assert "or the option running = 'anew' of the trace" in str(caught.value)
    with pytest.raises(InputError, match="option running"):
        pods(*RUNNING, running="moved")


def test_devices_of_a_pool_cannot_be_kept_and_are_refused_with_the_way_out() -> None:
    pooled = {"nodes": NODES["nodes"], "pools": [{"kind": "gpu", "count": 24}]}
    cluster = Cluster.from_dict(pooled, "cluster")
    with pytest.raises(InputError, match=r"holds gpu\.devices.*running = 'anew'"):
        starts(pods(*RUNNING, gpus="gpu.devices"), cluster)


# --- Slurm ------------------------------------------------------------------------------------------------------------

HEADER = "JOBID|STATE|SUBMIT_TIME|START_TIME|TIME|TIME_LIMIT|NODES|CPUS|TRES_PER_NODE|NODELIST|REASON"
SQUEUE = """\
1|{state}|2026-01-02T01:00:00|2026-01-02T02:00:00|1:00:00|2:00:00|1|4|gres/gpu:2|n1|None
2|RUNNING|2026-01-02T01:00:00|2026-01-02T02:00:00|1:00:00|2:00:00|2|8|gres/gpu:2|n[2-3]|None
7_[1-2]|PENDING|2026-01-02T01:00:00|N/A|0:00|1:00:00|1|4|gres/gpu:8||Resources
"""


def queue(text: str, state: str = "RUNNING", header: str = HEADER, **options: Any) -> Workload:
    return read_trace(Source("now.txt", f"{header}\n{text.format(state=state)}".encode()), "slurm-queue", **options)


def test_jobs_of_squeue_that_run_stay_on_their_nodes() -> None:
    made = queue(SQUEUE)
    assert where(made) == {"1": "n1", "2": "n[2-3]", "7_1": None, "7_2": None}
    assert starts(made) == {"1": 0, "2": 0, "7_1": 3600, "7_2": 3600}
    assert made.jobs.request_us.tolist() == [7_200_000_000] * 2 + [3_600_000_000] * 2
    assert starts(queue(SQUEUE, running="anew"))["7_1"] == 0


@pytest.mark.parametrize(
    ("state", "start_s"), [("SUSPENDED", 3600), ("CONFIGURING", 3600), ("COMPLETING", 1), ("S", 3600), ("CG", 1)]
)
def test_jobs_in_other_states_hold_their_nodes_too_and_those_that_end_for_a_second(state: str, start_s: int) -> None:
    made = queue(SQUEUE, state)
    assert where(made)["1"] == "n1"
    assert starts(made)["7_1"] == start_s


def test_a_job_that_ends_holds_the_nodes_that_it_still_has() -> None:
    made = queue(SQUEUE.replace("2|RUNNING", "2|COMPLETING").replace("n[2-3]", "n3"))
    assert (made.jobs.tasks.tolist()[1], where(made)["2"]) == (1, "n3")
    assert made.intake.changed["being ended"] == 1


def test_jobs_of_which_nothing_says_where_they_run_are_placed_anew_and_counted() -> None:
    without = queue(SQUEUE.replace("|n1|", "||").replace("|n[2-3]|", "||"))
    assert without.jobs.under_way is None
    assert without.intake.changed["place not known"] == 2
    assert without.jobs.work_us.tolist() == [3_600_000_000] * 4
    uneven = queue(SQUEUE.replace("|2|8|gres/gpu:2|", "|2|8|gres/gpu:3|").replace("TRES_PER_NODE", "GRES"))
    assert uneven.intake.changed.get("place not known", 0) == 0  # three GPUs on each of two nodes
    header = HEADER.replace("TRES_PER_NODE", "TRES_ALLOC")
    odd = queue(
        SQUEUE.replace("gres/gpu:2|n[", "cpu=8,node=2,gres/gpu=3|n[").replace("gres/gpu:", "gres/gpu="), header=header
    )
    assert odd.intake.changed["place not known"] == 1
    assert where(odd)["1"] == "n1"


def test_a_list_of_nodes_that_is_cut_off_is_a_bad_row() -> None:
    cut = SQUEUE.replace("n[2-3]", "n[2-")
    with pytest.raises(InputError, match=r"now\.txt, line 3.*n\[2-"):
        queue(cut, strict=True)
    assert queue(cut).intake.dropped["bad row"] == 1


SACCT = """\
JobID|State|Submit|Start|End|ElapsedRaw|Timelimit|NNodes|AllocCPUS|ReqCPUS|AllocTRES|ReqTRES|NodeList
1|RUNNING|2026-01-02T01:00:00|2026-01-02T02:00:00|Unknown|3600|02:00:00|1|4|4|cpu=4,gres/gpu=2|gres/gpu=2|n1
1.batch|RUNNING|2026-01-02T02:00:00|2026-01-02T02:00:00|Unknown|3600||1|4|4|cpu=4||n1
2|RUNNING|2026-01-02T01:00:00|2026-01-02T02:00:00|Unknown|3600|02:00:00|2|8|8|cpu=8,gres/gpu=4|gres/gpu=4|n[2-3]
3|PENDING|2026-01-02T02:30:00|Unknown|Unknown|0|01:00:00|1|0|4||cpu=4,gres/gpu=8|None assigned
"""
OVER = """\
9|COMPLETED|2026-01-01T01:00:00|2026-01-01T02:00:00|2026-01-01T03:00:00|3600|02:00:00|1|4|4|cpu=4|cpu=4|n1
"""


def test_a_list_of_sacct_in_which_no_job_is_over_begins_with_what_runs() -> None:
    made = read_trace(Source("jobs.txt", SACCT.encode()))
    assert made.intake.format == "sacct"
    assert where(made) == {"1": "n1", "2": "n[2-3]", "3": None}
    assert starts(made) == {"1": 0, "2": 0, "3": 3600}
    assert "on their nodes from the start" in made.intake.header["Columns"]
    assert made.intake.read == made.intake.kept + sum(made.intake.dropped.values()) == 4


def test_a_log_of_sacct_stays_a_log_unless_what_is_now_is_asked_for() -> None:
    log = read_trace(Source("jobs.txt", (SACCT + OVER).encode()))
    assert log.jobs.ids.to_list() == [9]
    assert log.jobs.under_way is None
    assert (log.intake.dropped["still running"], log.intake.dropped["still waiting"]) == (2, 1)
    limit = read_trace(Source("jobs.txt", SACCT.encode()), unfinished="limit")
    assert limit.jobs.under_way is None
    made = read_trace(Source("jobs.txt", (SACCT + OVER).encode()), unfinished="now")
    assert made.intake.dropped["already over"] == 1
    assert starts(made) == {"1": 0, "2": 0, "3": 3600}
    waiting = "\n".join(SACCT.splitlines()[::4])
    assert len(read_trace(Source("jobs.txt", waiting.encode()))) == 0
    assert len(read_trace(Source("jobs.txt", waiting.encode()), unfinished="now")) == 1
    with pytest.raises(InputError, match="option memory: got 'used'"):
        read_trace(Source("jobs.txt", SACCT.encode()), memory="used")
