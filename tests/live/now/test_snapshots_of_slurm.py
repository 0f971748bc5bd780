"""A running Slurm as a study: every job in its place, and a run that begins there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from now_readings import AT_S, node, reading, running, waiting
from tries import draws

from unrack.errors import InputError
from unrack.live.slurm.commands.accounting import accounting_of, read_accounting
from unrack.live.slurm.constraints import Partition, Reservation
from unrack.live.slurm.reading import Reading, SlurmJob
from unrack.live.slurm.snapshot.rows import waits_for_more
from unrack.live.slurm.snapshot.snapshot import Snapshot, parts_of, snapshot_of
from unrack.plan.what_if.answer import Question, answer
from unrack.plan.what_if.scene import StudySource
from unrack.policy.table import make_policy
from unrack.sim.simulate import simulate
from unrack.slurm_text.scheduler import Scheduler, scheduler_of
from unrack.study.grid import load_study
from unrack.study.input.inputs import Document
from unrack.study.runner import simulated

CONFIG = """Configuration data as of 2026-01-01T00:00:00
SchedulerParameters     = bf_interval=10,bf_max_job_test=200,default_queue_depth=50,bf_window=x
SchedulerType           = sched/backfill
SelectType              = select/cons_tres
SelectTypeParameters    = CR_CORE_MEMORY
"""


def snapshot(seen: Reading, **options: object) -> Snapshot:
    return snapshot_of(seen, Scheduler(), **options)  # type: ignore[arg-type]


def test_jobs_that_run_are_on_their_nodes_and_those_that_wait_in_order() -> None:
    later = waiting(3, submit_s=int(AT_S) - 50)
    taken = snapshot(reading([later, waiting(4), running(9, {"n2": (4, 100), "n3": (4, 100)})]))
    jobs = taken.workload.jobs
    assert jobs.ids.to_list() == [9, 4, 3]
    assert jobs.under_way is not None
    assert jobs.under_way.on.to_list() == ["n[2-3]", None, None]
    assert jobs.left_us.tolist()[0] == 540_000_000
    assert taken.table["waited_s"].to_list() == [None, 100, 50]


def test_a_job_with_unequal_nodes_is_tasks_of_the_cores_that_divide_them() -> None:
    taken = snapshot(reading([running(9, {"n1": (4, 1000), "n2": (2, 400)})]))
    assert taken.table.select("tasks", "cores", "memory", "on").row(0) == (3, 2, 400, "n[1,1-2]")
    assert any("more memory" in note for note in taken.notes)
    simulate(taken.cluster, taken.workload, "fcfs")


def test_jobs_that_wait_for_something_else_are_there_and_not_in_the_queue() -> None:
    jobs = [
        waiting(1, priority=0, reason="JobHeldUser"), waiting(2, priority=0, reason="JobHeldAdmin"),
        waiting(3, dependency="afterok:1", reason="Dependency"), waiting(4, eligible_s=int(AT_S) + 30),
        waiting(5, reason="Resources"), waiting(6, reason="ReqNodeNotAvail, Reserved for maintenance"),
    ]  # fmt: skip
    taken = snapshot(reading(jobs))
    listed = dict(zip(taken.table["id"], taken.table["waits_for"], strict=True))
    assert listed == {
        "1": "its release",
        "2": "its release",
        "3": "other jobs",
        "4": "its begin time",
        "5": None,
        "6": None,
    }
    assert sorted(taken.workload.jobs.ids.to_list()) == [4, 5, 6]
    assert taken.workload.jobs.submit_us.max() == 30_000_000
    assert waits_for_more(jobs[1], AT_S, held_by_admin=True) == ""
    assert waits_for_more(jobs[0], AT_S, held_by_admin=True) == "its release"


def test_members_of_an_array_are_jobs_of_which_as_many_run_at_once_as_its_limit_lets(tmp_path: Path) -> None:
    runs = running(12, {"n1": (1, 100)}, ran_s=200, array=10, member=1)
    others = [running(13, {"n1": (1, 1)}, ran_s=200), waiting(14, cpus=1)]
    taken = snapshot(reading([runs, waiting(10, cpus=1, array=10, tasks_waiting=(2, 3, 4, 5), array_limit=2), *others]))
    assert taken.table["id"].to_list() == ["10_1", "13", "10_2", "10_3", "10_4", "10_5", "14"]
    taken.write(tmp_path / "now.toml")
    (run,) = load_study(str(tmp_path / "now.toml")).runs
    found = simulate(run.cluster, run.workload, "fcfs").jobs
    spans = {job: (start, end) for job, start, end in found.select("job", "start_s", "end_s").iter_rows()}
    members = [spans[job] for job in spans if str(job).startswith("10_")]
    assert len(members) == 5
    assert max(sum(a <= at < b for a, b in members) for at, _ in members) == 2
    assert spans["14"][0] < spans["10_3"][0]


def test_of_a_very_long_array_the_later_members_are_told_to_be_left_out() -> None:
    taken = snapshot(reading([waiting(10, array=10, tasks_waiting=tuple(range(2_003)))]))
    assert len(taken.table) == 2_000
    assert "Waits as a later member of a long array; left out: 3 jobs." in taken.notes


def test_a_job_past_its_limit_and_one_that_is_cleared_up_hold_their_nodes_a_little_longer() -> None:
    jobs = [running(1, {"n1": (1, 1)}, ran_s=900), running(2, {"n1": (1, 1)}, completing=True)]
    assert (snapshot(reading(jobs)).workload.jobs.left_us == 1_000_000).all()


def test_what_is_written_is_a_study_that_begins_now(tmp_path: Path) -> None:
    nodes = [node("n1"), node("n2", words=frozenset({"DRAIN", "MIXED"})), node("g1", gres={"gpu": 2, "nvme": 1})]
    jobs = [
        running(1, {"n2": (8, 16_000)}, name='a"b,c\nd', licences={"lic": 1}), waiting(2, cpus=8, licences={"lic": 1}),
        running(3, {"g1": (2, 100)}, gres={"gpu": 1}), waiting(4, gres={"gpu": 2}), waiting(5, priority=0),
    ]  # fmt: skip
    taken = snapshot(reading(jobs, nodes, {"lic": 1}))
    written = taken.write(tmp_path / "now.toml")
    assert written.name == "now.jobs.csv"
    run = load_study(str(tmp_path / "now.toml")).runs[0]
    assert run.workload.jobs.digest() == taken.workload.jobs.digest()
    assert run.cluster.digest() == taken.cluster.digest()
    found = simulated(run).jobs
    starts = dict(zip(found["job"], found["start_s"], strict=True))
    assert starts[1] == starts[3] == 0
    assert starts[2] >= 540  # the licence
    assert starts[4] >= 540  # the GPU
    assert 5 not in starts


@pytest.mark.parametrize("asked", [{}, {"gpu": 1}, {"nvme": 1}])
def test_what_is_written_loads_whatever_nobody_asks_for(tmp_path: Path, asked: dict[str, int]) -> None:
    nodes = [node("n1"), node("g1", gres={"gpu": 2, "nvme": 1})]
    jobs = [running(1, {"n1": (2, 100)}), waiting(2, gres=asked), waiting(3, priority=0, gres={"gpu": 1})]
    snapshot(reading(jobs, nodes)).write(tmp_path / "now.toml")
    (run,) = load_study(str(tmp_path / "now.toml")).runs
    assert simulated(run).jobs["state"].to_list() == ["finished", "finished"]


@draws(40)
@given(st.data())
def test_whatever_runs_and_waits_a_run_begins_there(data: st.DataObject) -> None:
    free = {f"n{number}": [8, 16_000] for number in range(1, 5)}
    jobs = []
    for number in range(1, data.draw(st.integers(0, 12)) + 1):
        if data.draw(st.booleans()):
            holds = {}
            for name in data.draw(st.sets(st.sampled_from(sorted(free)), min_size=1)):
                if free[name][0]:
                    cores = data.draw(st.integers(1, free[name][0]))
                    mb = data.draw(st.integers(0, free[name][1]))
                    free[name] = [free[name][0] - cores, free[name][1] - mb]
                    holds[name] = (cores, mb)
            if holds:
                jobs.append(running(number, holds, ran_s=data.draw(st.integers(0, 1000))))
        else:
            jobs.append(
                waiting(number, cpus=data.draw(st.integers(1, 40)), node_memory_mb=data.draw(st.integers(0, 16_000)))
            )
    taken = snapshot(reading(jobs))
    if not taken.rows:
        return
    result = simulate(taken.cluster, taken.workload, make_policy("slurm", {"order": "priority", "interval": "30 s"}))
    ran = [int(row.key) for row in taken.rows if row.runs]
    assert result.jobs.filter(pl.col("job").is_in(ran))["start_s"].to_list() == [0.0] * len(ran)
    assert (result.jobs["state"] == "finished").all()


def test_a_job_that_asks_for_several_nodes_gets_them_though_it_would_fit_on_one() -> None:
    jobs = [
        waiting(1, cpus=3, nodes_min=3, nodes_max=3),
        waiting(2, cpus=3),
        running(3, {"n1": (2, 100), "n2": (2, 100)}),
    ]
    taken = snapshot(reading(jobs))
    assert taken.content["spread"] == {"groups": 1}
    placed = simulate(taken.cluster, taken.workload, "fcfs").placements
    assert placed.filter(pl.col("job") == 1)["nodes"].sum() == 3
    assert placed.filter(pl.col("job") == 2)["nodes"].sum() == 1


def test_the_policy_is_the_one_that_is_configured() -> None:
    found = scheduler_of(CONFIG)
    assert found == Scheduler("backfill", 10, 200, 50, True, False, others=("bf_window=x",))
    assert "Of SchedulerParameters is not taken over: bf_window=x." in found.notes
    assert found.policy["interval"] == "10 s"
    builtin = scheduler_of(CONFIG.replace("backfill", "builtin").replace("_MEMORY", ""))
    assert (builtin.kind, builtin.memory) == ("builtin", False)
    for one in (found, builtin, Scheduler(whole_nodes=True)):
        parameters = {key: value for key, value in one.policy.items() if key not in ("name", "label")}
        make_policy(one.policy["name"], parameters, one.policy["label"])


@given(st.text(max_size=400))
def test_any_text_is_some_scheduler(text: str) -> None:
    assert scheduler_of(f"SchedulerType = {text}\nSchedulerParameters = {text}").interval_s >= 1


def test_partitions_that_share_nodes_belong_together() -> None:
    nodes = [
        node("n1", partitions=frozenset({"a", "b"})), node("n2", partitions=frozenset({"c"})),
        node("n3", partitions=frozenset({"d", "b"})), node("n4", partitions=frozenset()),
    ]  # fmt: skip
    assert parts_of(reading([], nodes)) == [("a", "b", "d"), ("c",)]
    notes = snapshot(reading([], nodes[:3])).notes
    assert any("share no nodes" in note for note in notes)
    assert not any("share no nodes" in note for note in snapshot(reading([], nodes[:3]), partitions=["c"]).notes)


def test_a_partition_has_what_runs_on_its_nodes_whoever_started_it() -> None:
    nodes = [node("n1"), node("n2", partitions=frozenset({"other"}))]
    jobs = [
        running(1, {"n1": (1, 1)}, partition="gone"),
        running(2, {"n2": (1, 1)}),
        waiting(3),
        waiting(4, partition="other"),
    ]
    assert snapshot(reading(jobs, nodes), partitions=["main"]).table["id"].to_list() == ["1", "3"]


def test_an_empty_system_is_a_snapshot_too(tmp_path: Path) -> None:
    taken = snapshot(reading([]))
    assert taken.table.height == 0
    taken.write(tmp_path / "now.toml")
    with pytest.raises(InputError, match="can be written"):
        taken.write(tmp_path / "nowhere" / "now.toml")


def test_what_jobs_say_of_nodes_and_of_other_jobs_is_in_the_study_and_kept(tmp_path: Path) -> None:
    big = {"partitions": frozenset({"main", "big"}), "features": ("ib",)}
    nodes = [node("n1"), node("n2"), node("n3", **big), node("n4", **big)]
    jobs = [
        running(1, {"n3": (8, 100)}, limit_s=300), waiting(2, cpus=8, partition="big", nodes_min=1),
        waiting(3, cpus=8, features="ib"), waiting(4, required_nodes=("n4",), cpus=8),
        waiting(5, excluded_nodes=("n1", "n3", "n4"), cpus=4), waiting(6, partition="big,main", cpus=2),
        waiting(7, dependency="afterok:1(unfulfilled),afterany:5", reason="Dependency"),
        waiting(8, dependency="afterok:77", reason="Dependency"), waiting(9, reservation="week", reason="Reservation"),
    ]  # fmt: skip
    week = Reservation("week", int(AT_S) + 1000, int(AT_S) + 9000, ("n1",), {"Users": "ann,bob", "Flags": "SPEC_NODES"})
    seen = replace(reading(jobs, nodes), reservations=(week,), partitions={
        "main": Partition("main", fields={"MaxTime": "UNLIMITED", "Default": "YES"}),
        "big": Partition("big", fields={"PriorityTier": "5", "MaxTime": "01:00:00", "MaxNodes": "UNLIMITED"}),
    })  # fmt: skip
    taken = snapshot(seen)
    site = taken.content["site"]
    assert site["partitions"] == [
        {"name": "big", "nodes": ["n[3-4]"], "tier": 5, "max_time": "1 h"}, {"name": "main", "default": True},
    ]  # fmt: skip
    assert site["features"] == {"ib": ["n[3-4]"]}
    assert site["reservations"] == [
        {"name": "week", "nodes": ["n1"], "start": 1000, "duration": 8000, "users": ["ann", "bob"]}
    ]
    taken.write(tmp_path / "now.toml")
    run = load_study(str(tmp_path / "now.toml")).runs[0]
    placed = {row["job"]: row for row in simulated(run).placements.iter_rows(named=True)}
    where = {job: run.cluster.names[row["first_node"]] for job, row in placed.items()}
    assert where[2] in ("n3", "n4")
    assert where[3] in ("n3", "n4")
    assert (where[4], where[5], where[9]) == ("n4", "n2", "n1")
    assert placed[7]["start_s"] >= max(240, placed[5]["end_s"])
    assert 8 not in placed
    assert placed[9]["start_s"] >= 1000
    assert "Waits for something else (other jobs): 1 job." in taken.notes


ASSOC = """\
Cluster|Account|User|Partition|Share|Priority|GrpJobs|GrpTRES|MaxJobs|MaxTRES|QOS
bed|root|||1||||||normal
bed| phys|||1|||cpu=16|||normal,tight
bed|  phys|ann||1||||2||normal,tight
bed|  phys|bob||1||||||normal,tight
"""
QOS = """\
Name|Priority|GraceTime|UsageFactor|GrpTRES|MaxTRESPU|MaxJobsPU
normal|0|00:00:00|1.000000|||
tight|0|00:00:00|1.000000||cpu=4|
"""


def test_limits_of_accounts_and_qos_hold_in_the_study_and_jobs_that_run_count_for_them(tmp_path: Path) -> None:
    words = {"account": "phys", "qos": "tight", "user": "ann", "cpus": 2, "cpus_per_task": 2}
    jobs = [
        running(1, {"n1": (2, 100)}, **words), running(2, {"n1": (2, 100)}, **words),
        waiting(3, **words, limit_s=60), waiting(4, **{**words, "user": "bob"}, limit_s=60),
    ]  # fmt: skip
    taken = snapshot(replace(reading(jobs), accounting=accounting_of(ASSOC, QOS)))
    starts = simulate(taken.cluster, taken.workload, "easy").jobs["start_s"].to_list()
    assert starts[2] > 1
    assert starts[3] < 1
    assert not any("No limit" in note for note in taken.notes)
    assert taken.cluster.places.installed["site"].file.nearest_limits
    taken.write(tmp_path / "now.toml")
    (run,) = load_study(tmp_path / "now.toml").runs
    assert simulated(run).jobs["start_s"].to_list() == starts
    plain = snapshot(reading(jobs))
    assert simulate(plain.cluster, plain.workload, "easy").jobs["start_s"].to_list()[2] < 1
    assert any("No limit of accounts or QOS is kept" in note for note in plain.notes)


def test_a_job_that_runs_beyond_a_limit_counts_for_none_and_that_is_said() -> None:
    words = {"account": "phys", "qos": "tight", "user": "ann"}
    jobs = [running(1, {"n1": (4, 100)}, **words), running(2, {"n2": (2, 100)}, **words), waiting(3, **words)]
    taken = snapshot(replace(reading(jobs), accounting=accounting_of(ASSOC, QOS)))
    assert "Runs beyond a limit, and counts for none here: 1 job." in taken.notes
    assert taken.table["qos"].to_list() == ["tight", None, "tight"]
    simulate(taken.cluster, taken.workload, "conservative")


def test_components_join_the_queue_together_or_not_at_all() -> None:
    def part(number: int, of: int, component: int, size: int = 2, **more: object) -> SlurmJob:
        return replace(waiting(number, **more), het=of, het_size=size, component=component)

    jobs = [
        part(1, 1, 0), waiting(2), part(3, 1, 1), part(4, 4, 0), part(5, 4, 1, priority=0, reason="JobHeldUser"),
        part(6, 6, 0, size=3), part(7, 6, 1, size=3),
    ]  # fmt: skip
    taken = snapshot(reading(jobs))
    table = {row["id"]: row for row in taken.table.iter_rows(named=True)}
    assert list(table) == ["1", "2", "3", "4", "5"]
    assert len({table[one]["submit"] for one in "123"}) == 1
    assert [table[one]["het"] for one in "123"] == ["1", None, "1"]
    assert table["4"]["submit"] is table["5"]["submit"] is None
    assert any("not all components" in note for note in taken.notes)
    jobs_of = simulate(taken.cluster, taken.workload, "easy").jobs
    starts = dict(zip(jobs_of["job"], jobs_of["start_s"], strict=True))
    assert starts[1] == starts[3]


def test_whether_limits_are_enforced_is_read_from_the_configuration() -> None:
    on = CONFIG + "AccountingStorageType = accounting_storage/slurmdbd\n"
    on += "AccountingStorageEnforce = associations,limits,qos\n"
    assert scheduler_of(on + "ClusterName             = bed\n").limits
    assert scheduler_of(on + "ClusterName             = bed\n").cluster == "bed"
    assert not scheduler_of(on.replace("associations,limits,qos", "associations")).limits
    assert not scheduler_of(CONFIG).limits
    assert read_accounting(scheduler_of(CONFIG)) is None


def begun(seen: Reading, folder: Path) -> dict[str, float | None]:
    """When each job of a snapshot that is written and run starts; ``None``: never."""
    path = folder / "now.toml"
    snapshot(seen).write(path)
    result = simulated(load_study(path).runs[0])
    return dict(zip(result.jobs["job"].cast(pl.String), result.jobs["start_s"].to_list(), strict=True))


@pytest.mark.whole
@pytest.mark.parametrize(("asks", "why"), [
    ({"features": "a"}, "its constraint"), ({"partition": "gone"}, "its partition"),
    ({"reservation": "was"}, "its reservation"), ({"required_nodes": ("n9",)}, "its req_nodes"),
    ({"excluded_nodes": ("n9",)}, ""), ({"features": "a", "eligible_s": int(AT_S) + 30}, "its constraint"),
])  # fmt: skip
def test_a_job_that_waits_for_nodes_out_of_service_alone_is_not_in_the_queue(
    asks: dict[str, object], why: str, tmp_path: Path
) -> None:
    """The study was refused, as if it had a column that is wrong. To leave out what is away changes nothing."""
    down = node("n9", words=frozenset({"DOWN"}), partitions=frozenset({"gone"}), features=("a",))
    jobs = [waiting(1), waiting(2, **asks), waiting(3, dependency="afterany:2", reason="Dependency")]
    seen = replace(
        reading(jobs, [node("n1"), down]), partitions={name: Partition(name) for name in ("main", "gone")},
    )  # fmt: skip
    table = snapshot(seen).table
    assert table["waits_for"].to_list()[1:] == ([why, "other jobs"] if why else [None, None])
    assert begun(seen, tmp_path).keys() == ({"1"} if why else {"1", "2", "3"})


def test_a_licence_that_is_reserved_is_there_where_no_job_asks_for_it(tmp_path: Path) -> None:
    """The study was refused: the reservation kept what was left out."""
    kept = Reservation("r", int(AT_S) - 60, int(AT_S) + 900, (), {"Licenses": "lic:2", "Users": "ann"})
    seen = replace(reading([waiting(1)], licences={"lic": 2}), reservations=(kept,))
    assert begun(seen, tmp_path) == {"1": pytest.approx(0, abs=0.01)}
    ask = {"id": "new", "tasks": 1, "cores": 1, "request": 60.0, "user": "bob", "counted.lic": 1}
    found = answer(StudySource(Document.read(tmp_path / "now.toml")), Question([ask]), tries=0)
    assert found.start_s == pytest.approx(900)


def test_jobs_that_run_in_a_reservation_run_on(tmp_path: Path) -> None:
    """The run failed, by its audit: a job that runs tells of no reservation."""
    kept = Reservation("r", int(AT_S) - 60, int(AT_S) + 900, ("n1",), {"Users": "bob"})
    jobs = [running(1, {"n1": (4, 100)}, reservation="r"), waiting(2, cpus=8)]
    seen = replace(reading(jobs, [node("n1")]), reservations=(kept,))
    assert begun(seen, tmp_path) == {"1": 0, "2": 900}


def test_jobs_run_outside_of_the_partition_that_others_are_in_by_default(tmp_path: Path) -> None:
    """The study was refused on every Slurm with a default partition and jobs that run elsewhere."""
    nodes = [node("n1"), node("n2", partitions=frozenset({"short"}))]
    parts = {"main": Partition("main", fields={"Default": "YES"}), "short": Partition("short")}
    jobs = [running(1, {"n2": (4, 100)}, partition="short"), waiting(2)]
    assert begun(replace(reading(jobs, nodes), partitions=parts), tmp_path).keys() == {"1", "2"}
