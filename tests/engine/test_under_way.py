"""Runs that begin with jobs that run already: cut out of finished runs, read from files, refused where impossible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_worlds import J, S, starts, table, workload_of
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, InputError, TraceError
from unrack.metric.table import measure
from unrack.sim.faults import Fault
from unrack.sim.log import RunLog
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.workload.filters import filtered
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.writers import write_table
from unrack.workload.job import JobTable, job_table
from unrack.workload.under_way import UnderWay

NAMED = Cluster.from_dict({"nodes": [{"count": 2, "cores": 8, "memory": 4000, "names": "n[1-2]"}]})
NOW = """id,submit,run,request,tasks,cores,memory,user,on,ran
1,0,100,120,2,4,1000,a,n[1-2],30
2,0,50,60,1,4,1000,b,n1,10
3,0,50,50,4,4,1000,b,,
4,0,10,10,1,4,500,b,,
"""


def cut(log: RunLog, at_us: int) -> tuple[JobTable, list[int]]:
    """What is left of a finished run from a moment on, just after its round: a table, and its rows' old numbers."""
    jobs, count = log.jobs, len(log.jobs)
    on: list[str | None] = [None] * count
    start, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for attempt, job in enumerate(log.attempt_job.tolist()):
        start[job], end[job] = log.attempt_start_us[attempt], log.attempt_end_us[attempt]
        rows = log.rows[log.attempt_rows[attempt] : log.attempt_rows[attempt + 1]].tolist()
        nodes = [node for first, n, tasks, _, _ in rows for node in range(first, first + n) for _ in range(tasks)]
        on[job] = ",".join(map(str, nodes))
    left = np.flatnonzero(end > at_us)
    runs = start[left] <= at_us
    listed = pl.Series(
        [on[job] if running else None for job, running in zip(left.tolist(), runs, strict=True)], dtype=pl.String
    )
    made = job_table(
        ids=jobs.ids.gather(left), submit_us=np.maximum(jobs.submit_us[left], at_us), work_us=jobs.work_us[left],
        tasks=jobs.tasks[left], cores=jobs.cores[left], memory_mb=jobs.memory_mb[left], priority=jobs.priority[left],
        under_way=UnderWay(listed, np.where(runs, at_us - start[left], 0)),
    )  # fmt: skip
    old = {job_id: number for number, job_id in enumerate(jobs.ids.to_list())}
    return made, [old[job_id] for job_id in made.ids.to_list()]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Cluster, JobTable]:
    """A small cluster and honest jobs that fit on it, each alone."""
    nodes, cores = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    sizes = st.integers(1, nodes), st.none(), st.integers(1, cores), st.integers(0, 4), st.just(0)
    job = st.builds(J, st.integers(0, 60), st.integers(1, 30), *sizes)
    jobs = draw(st.lists(job, min_size=2, max_size=25))
    return Cluster.homogeneous(nodes=nodes, cores=cores, memory=8), table(sorted(jobs))


@pytest.mark.parametrize("policy", ["fcfs", "easy", "easy(order=sjf)", "list(backfill=any)"])
@draws(60)
@given(worlds(), st.integers(0, 120))
def test_a_run_that_is_cut_and_begun_again_goes_on_as_it_did(
    policy: str, world: tuple[Cluster, JobTable], at_s: int
) -> None:
    cluster, jobs = world
    whole = simulate(cluster, workload_of(jobs), policy).log
    rest, old = cut(whole, at_s * S)
    if not len(rest) or not rest.under_way.runs.any():
        return
    again = simulate(cluster, workload_of(rest), policy).log
    begin = int(rest.submit_us.min()) // S
    wanted = [max(at, begin) for job in old if (at := starts(whole)[job]) is not None]
    assert starts(again) == wanted
    assert sorted(again.attempt_end_us.tolist()) == sorted(
        whole.attempt_end_us[np.isin(whole.attempt_job, old)].tolist()
    )


@draws(60)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30), st.integers(1, 4)), min_size=2, max_size=25),
       st.integers(0, 120))  # fmt: skip
def test_conservative_goes_on_as_it_did_where_any_core_will_do(jobs: list[tuple[int, int, int]], at_s: int) -> None:
    cluster = Cluster.homogeneous(nodes=4, cores=1)
    whole = simulate(cluster, workload_of(table([J(*one) for one in sorted(jobs)])), "conservative").log
    rest, old = cut(whole, at_s * S)
    if not len(rest) or not rest.under_way.runs.any():
        return
    again = simulate(cluster, workload_of(rest), "conservative").log
    begin = int(rest.submit_us.min()) // S
    assert starts(again) == [max(at, begin) for job in old if (at := starts(whole)[job]) is not None]


def written(folder: Path, text: str) -> Path:
    path = folder / "now.csv"
    path.write_text(text)
    return path


def run(folder: Path, text: str = NOW, policy: str = "easy", cluster: Cluster = NAMED) -> Result:
    return simulate(cluster, read_trace(written(folder, text)), policy)


def test_jobs_that_run_hold_their_nodes_for_the_time_that_they_have_left(tmp_path: Path) -> None:
    jobs = run(tmp_path).jobs
    assert jobs["end_s"].to_list() == [70, 40, 120, 10]
    assert jobs["run_s"].to_list()[:2] == [70, 40]
    assert jobs["ran_s"].to_list() == [30, 10, None, None]


def test_a_queue_that_is_there_when_a_run_begins_is_in_the_order_of_its_rows(tmp_path: Path) -> None:
    """As ids of text are not in the order of their numbers."""
    late = "10,0,9,9,1,8,0,a,,\n9_1,0,9,9,1,8,0,a,,\n"
    file = tmp_path / "now.csv"
    file.write_text(NOW.splitlines()[0] + "\nx,0,100,120,2,4,1000,a,n[1-2],30\n" + late)
    read = read_trace(file)
    assert (read.jobs.ids.to_list(), read.intake.changed) == (["x", "10", "9_1"], {})
    file.write_text(NOW.splitlines()[0] + "\n9_1,0,9,9,1,8,0,a,,\n10,0,9,9,1,8,0,a,,\n")
    assert read_trace(file).jobs.ids.to_list() == ["10", "9_1"]


def test_jobs_that_ran_before_count_in_no_wait_and_no_slowdown(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.jobs["wait_s"].to_list() == [None, None, 70, 0]
    assert result.metrics["wait_s_mean"] == 35
    assert result.metrics["jobs_finished"] == 4


def test_policies_expect_the_end_that_the_request_leaves(tmp_path: Path) -> None:
    text = NOW.replace("4,0,10,10,", "4,0,95,95,")  # job 1 is expected to end at 90, job 2 at 50
    assert run(tmp_path, text).jobs["start_s"].to_list()[3] > 0
    assert run(tmp_path, text.replace("95,95", "90,90")).jobs["start_s"].to_list()[3] == 0


def test_a_job_whose_node_fails_begins_again_with_all_of_its_work(tmp_path: Path) -> None:
    workload = read_trace(written(tmp_path, NOW))
    result = simulate(NAMED, workload, "easy", world=World(faults=[Fault("node0", 5 * S, 1 * S)]))
    assert result.jobs["restarts"].to_list()[:2] == [1, 1]
    assert result.jobs["run_s"].to_list()[:2] == [100, 50]
    assert result.jobs["wait_s"].to_list()[:2] == [None, None]


@pytest.mark.parametrize("ties", ["together", "finish-first", "submit-first"])
def test_jobs_that_run_are_there_before_the_first_round_whatever_comes_first(tmp_path: Path, ties: str) -> None:
    workload = read_trace(written(tmp_path, NOW.replace("3,0,", "0,0,")))  # the smallest id waits
    result = simulate(NAMED, workload, "fcfs", world=World(ties=ties))
    assert result.jobs.filter(pl.col("ran_s").is_not_null())["start_s"].to_list() == [0, 0]


def test_a_node_that_drains_keeps_what_runs_and_gets_nothing_new(tmp_path: Path) -> None:
    content = {"nodes": [{"count": 2, "cores": 8, "memory": 4000, "names": "n[1-2]"}], "drained": "n2"}
    result = run(tmp_path, cluster=Cluster.from_dict(content), policy="easy")
    assert result.jobs["end_s"].to_list()[:2] == [70, 40]
    assert result.jobs["state"].to_list() == ["finished", "finished", "queued", "finished"]
    assert result.jobs["reason"][2].endswith(", beside 1 drained node")
    new = result.placements.filter(pl.col("job") > 2)
    assert new["first_node"].to_list() == [0]
    assert new["nodes"].to_list() == [1]


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    workload = read_trace(written(tmp_path, NOW))
    write_table(tmp_path / "again.csv", workload)
    write_table(tmp_path / "again.parquet", workload)
    for name in ("again.csv", "again.parquet"):
        assert read_trace(tmp_path / name).jobs.digest() == workload.jobs.digest()


def test_where_jobs_run_is_part_of_what_a_workload_is(tmp_path: Path) -> None:
    one = read_trace(written(tmp_path, NOW)).jobs.digest()
    assert read_trace(written(tmp_path, NOW.replace(",n1,10", ",n2,10"))).jobs.digest() != one
    assert read_trace(written(tmp_path, NOW.replace(",n1,10", ",n1,11"))).jobs.digest() != one


def test_a_column_on_without_ran_is_carried_along_as_before(tmp_path: Path) -> None:
    workload = read_trace(written(tmp_path, "id,submit,run,on\n1,0,5,tuesday\n"))
    assert workload.jobs.under_way is None
    assert workload.jobs.extra["on"].to_list() == ["tuesday"]


@pytest.mark.parametrize(
    ("before", "after", "line", "got"),
    [
        (",n1,10", ",n9,10", 3, "'n9'"),
        (",n1,10", ",n[1-,10", 3, "n[1-"),
        ("2,4,1000,a,n[1-2]", "4,4,1000,a,n[1-2]", 3, "4 cores on node n1"),
        ("1,4,1000,b,n1", "1,4,3001,b,n1", 3, "3001 MB on node n1, which has 4000, of which 1000 are taken"),
        (",n1,10", ",n[1-2],10", 3, "2 nodes) for 1 tasks"),
        (",n1,10", ",n1,50", 3, "50 s"),
        (",n1,10", ",n1,-1", 3, "-1 s"),
        ("2,0,50,60", "2,7,50,60", 3, "7 s"),
        ("4,0,10,10,1,4,500,b,,", "4,0,10,10,1,4,500,b,,3", 5, "3 s"),
    ],
)  # fmt: skip
def test_what_cannot_run_where_it_is_said_to_is_refused_with_its_line(
    tmp_path: Path, before: str, after: str, line: int, got: str
) -> None:
    assert before in NOW
    with pytest.raises(TraceError) as caught:
        run(tmp_path, NOW.replace(before, after))
    assert caught.value.line == line
    assert got in str(caught.value)


def test_a_job_that_holds_pooled_devices_is_refused(tmp_path: Path) -> None:
    pool = {"name": "d", "kind": "nvme", "count": 2, "quantities": {"capacity_mb": 100}}
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 8, "names": "n[1-2]"}], "pools": [pool]})
    head, *rows = NOW.splitlines()
    text = "\n".join([f"{head},nvme.capacity_mb", *(f"{row},{10 * (row[0] == '1')}" for row in rows)])
    with pytest.raises(TraceError, match=r"nvme\.capacity_mb"):
        run(tmp_path, text, cluster=cluster)


def test_licences_and_gpus_of_jobs_that_run_are_taken(tmp_path: Path) -> None:
    cluster = Cluster.from_dict(
        {"nodes": [{"count": 2, "cores": 8, "memory": 4000, "names": "n[1-2]"}],
         "counted": [{"name": "lic", "amount": 2}], "gpus": {"machine": {"gpus": 2}}}
    )  # fmt: skip
    text = """id,submit,run,tasks,cores,on,ran,counted.lic,gpus.count
1,0,10,2,1,n[1-2],5,2,1
2,0,10,1,1,,,1,0
3,0,10,1,1,,,0,2
"""
    assert run(tmp_path, text, "list(backfill=any)", cluster).jobs["start_s"].to_list() == [0, 5, 5]
    with pytest.raises(TraceError, match="taken too much"):
        run(tmp_path, text + "4,0,10,1,1,n1,0,1,0\n", cluster=cluster)


@pytest.mark.whole
@pytest.mark.parametrize(("waits", "start"), [
    ("after:1", 0), ("after:2", 0), ("after:1+1", 30), ("after:1+10", 570), ("after:2+0", 0), ("afterok:2", 40),
])  # fmt: skip
def test_a_job_that_runs_began_before_the_run_for_those_that_wait_for_its_start(
    waits: str, start: float, tmp_path: Path
) -> None:
    """Its audit failed, and minutes after its start were counted from when the run began."""
    head, *rows, last = NOW.splitlines()
    text = "\n".join([f"{head},dependency", *(f"{row}," for row in rows), f"{last},{waits}"])
    assert run(tmp_path, text, "list(backfill=any)").jobs["start_s"][3] == start


@pytest.mark.whole
@pytest.mark.parametrize("start", [-50, 0, 200])
def test_jobs_that_run_where_nodes_are_kept_for_others_may_have_been_there_before(start: int, tmp_path: Path) -> None:
    """The run failed, by its audit: they do not start there. One of the reservation runs before it begins."""
    window = {"name": "r", "nodes": ["n1"], "licences": {"lic": 2}, "start": start, "duration": 100, "users": ["a"]}
    cluster = Cluster.from_dict({
        "nodes": [{"count": 2, "cores": 8, "names": "n[1-2]"}], "counted": [{"name": "lic", "amount": 2}],
        "site": {"reservations": [window]},
    })  # fmt: skip
    text = """id,submit,run,tasks,cores,user,on,ran,counted.lic,reservation
1,0,10,1,4,b,n1,5,1,
2,0,10,1,4,a,n1,5,0,r
3,0,10,1,1,b,,,0,
"""
    assert run(tmp_path, text, cluster=cluster).jobs["start_s"].to_list() == [0, 0, 0]


def test_a_job_that_runs_and_names_no_partition_may_run_outside_of_the_usual_one(tmp_path: Path) -> None:
    """All jobs of a snapshot that ran elsewhere were refused; new jobs are still in the usual one."""
    parts = [{"name": "usual", "nodes": ["n1"], "default": True}, {"name": "other", "nodes": ["n2"]}]
    nodes = [{"count": 2, "cores": 8, "names": "n[1-2]"}]
    cluster = Cluster.from_dict({"nodes": nodes, "site": {"partitions": parts}})
    text = "id,submit,run,tasks,cores,on,ran\n1,0,10,2,4,n[1-2],5\n2,0,10,2,4,,\n"
    assert run(tmp_path, text, cluster=cluster).jobs["start_s"].to_list() == [0, 5]


@pytest.mark.parametrize(("duration", "fits"), [(70, True), (60, False)])
def test_a_job_that_runs_in_a_reservation_ends_in_it_by_what_it_has_left(
    duration: int, fits: bool, tmp_path: Path
) -> None:
    window = {"name": "r", "nodes": ["n1"], "start": -30, "duration": 30 + duration, "users": ["a"]}
    nodes = [{"count": 2, "cores": 8, "names": "n[1-2]"}]
    cluster = Cluster.from_dict({"nodes": nodes, "site": {"reservations": [window]}})
    text = "id,submit,run,tasks,cores,user,on,ran,reservation\n1,0,90,1,4,a,n1,20,r\n"
    if fits:
        assert run(tmp_path, text, cluster=cluster).jobs["end_s"].to_list() == [70]
        return
    with pytest.raises(InputError, match="reservation r is over before it could end"):
        run(tmp_path, text, cluster=cluster)


def test_filters_leave_jobs_that_run_where_they_are(tmp_path: Path) -> None:
    workload = read_trace(written(tmp_path, NOW))
    shaken = filtered(workload, {"jitter": "30 s"}, seed=3).jobs
    assert shaken.submit_us[:2].tolist() == [0, 0]
    assert shaken.under_way.runs.tolist() == [True, True, False, False]
    with pytest.raises(InputError, match="resample"):
        filtered(workload, {"resample": {"amount": "cores", "of": 10}})


@pytest.mark.parametrize(
    ("content", "got"),
    [({"names": "n[1-3]"}, "3 names"), ({"names": "n[1-"}, "n[1-"), ({"names": "n1,n1"}, "two nodes called 'n1'")],
)
def test_names_that_are_not_one_for_each_node_are_refused(content: dict[str, str], got: str) -> None:
    with pytest.raises(ClusterError, match="nodes") as caught:
        Cluster.from_dict({"nodes": [{"count": 2, "cores": 1, **content}]})
    assert got in str(caught.value)


def test_names_are_part_of_what_a_cluster_is_only_where_there_are_any() -> None:
    plain = Cluster.from_dict({"nodes": [{"count": 2, "cores": 1}]})
    assert plain.digest() == Cluster.homogeneous(nodes=2, cores=1).digest()
    assert plain.digest() != Cluster.from_dict({"nodes": [{"count": 2, "cores": 1, "names": "a,b"}]}).digest()


def test_a_drained_node_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ClusterError, match="drained"):
        Cluster.from_dict({"nodes": [{"count": 2, "cores": 1}], "drained": "5"})


def test_metrics_of_a_run_without_jobs_that_waited_are_none(tmp_path: Path) -> None:
    result = run(tmp_path, "\n".join(NOW.splitlines()[:3]) + "\n")
    assert result.metrics["wait_s_mean"] is None
    assert result.metrics["jobs_finished"] == 2
    assert measure(result.tables, NAMED)["makespan_s"] == 70
