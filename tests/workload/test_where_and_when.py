"""Where and when jobs may run, and after which others: the same columns, whichever format says it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unrack.errors import InputError
from unrack.workload.filters import filtered
from unrack.workload.formats.asks.columns import COLUMNS
from unrack.workload.formats.asks.dependencies import parts_of
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.formats.writers import write_trace
from unrack.workload.job import Workload


def read(text: str, **options: Any) -> Workload:
    return read_trace(Source("jobs", text.encode()), **options)


def said(made: Workload, name: str) -> dict[Any, Any]:
    """Id → what a column says, of the jobs of which it says something."""
    if name not in made.jobs.extra.columns:
        return {}
    pairs = zip(made.jobs.ids.to_list(), made.jobs.extra[name].to_list(), strict=True)
    return {job: value for job, value in pairs if value is not None}


# --- tables -----------------------------------------------------------------------------------------------------------

GRAPH = "id,submit,run,cores,{}\na,0,10,1,\nb,0,10,1,a\nc,0,10,1,{}\n"


@pytest.mark.parametrize("column", ["after", "parents", "depends_on", "Depends-On", "dependency", "waitFor"])
@pytest.mark.parametrize("both", ["a b", "a;b", '"a,b"', "\"['a', 'b']\"", "afterok:a:b"])
def test_a_graph_in_a_table_is_a_column_of_ids(column: str, both: str) -> None:
    made = read(GRAPH.format(column, both))
    assert said(made, "dependency") == {"b": "afterok:a", "c": "afterok:a:b"}
    assert not made.intake.ignored
    assert not made.intake.changed.get("dependency not there")


def test_numbers_of_a_table_with_gaps_are_ids_too() -> None:
    made = read("id,submit,run,parent\n1,0,10,\n2,0,10,1.0\n3,0,10,0\n")
    assert said(made, "dependency") == {2: "afterok:1"}
    assert not made.intake.changed.get("dependency not there")


def test_what_is_waited_for_and_is_not_there_is_left_out_and_counted() -> None:
    made = read(
        "id,submit,run,dependency\n1,0,10,afterok:9\n2,0,10,afterok:9:1\n"
        '3,0,10,afterany:1?afterok:9\n5,0,10,afterany:1+2\n4,0,10,"afterok:1,after:2+5,singleton"\n'
    )
    assert said(made, "dependency") == {2: "afterok:1", 4: "afterok:1,after:2+5,singleton", 5: "afterany:1"}
    assert made.intake.changed["dependency not there"] == 3


def test_kinds_of_dependencies_that_are_not_known_are_told() -> None:
    made = read('id,submit,run,dependency\n1,0,10,\n2,0,10,"expand:1,afterok:1"\n3,0,10,on:2\n')
    assert said(made, "dependency") == {2: "afterok:1"}
    assert made.intake.ignored == {"dependency ignored": 2}
    assert made.intake.examples["dependency ignored"] == "job 2: dependency expand:1"


@pytest.mark.parametrize(
    ("rows", "circle"),
    [
        ("1,0,10,3\n2,0,10,1\n3,0,10,2\n", "job 1 waits for 3 waits for 2 waits for 1"),
        ("1,0,10,1\n", "job 1 waits for 1"),
    ],
)
def test_jobs_that_wait_for_each_other_are_refused(rows: str, circle: str) -> None:
    with pytest.raises(InputError, match=circle):
        read(f"id,submit,run,after\n{rows}")


def test_one_way_of_several_makes_no_circle() -> None:
    made = read("id,submit,run,dependency\n1,0,10,afterok:2?afterok:3\n2,0,10,afterok:1\n3,0,10,\n")
    assert said(made, "dependency")[1] == "afterok:2?afterok:3"


def test_a_long_chain_is_followed_to_its_end() -> None:
    rows = "".join(f"{job},0,1,{job - 1}\n" for job in range(2, 20_001))
    assert len(said(read(f"id,submit,run,after\n1,0,1,\n{rows}"), "dependency")) == 19_999


def test_usual_names_and_units_are_known() -> None:
    made = read(
        "id,submit,run,Partition,Features,ExcNodeList,Not Before (min),ThinkTime_h,precedingJob,NICE,Array Limit,"
        "ReqNodes\n"
        "1,0,10,a,ib&ssd,n[1-2],2,,,0,3,4\n2,0,10,b,(null),,,1,1,-5,0,2\n"
    )
    extra = made.jobs.extra
    assert said(made, "partition") == {1: "a", 2: "b"}
    assert said(made, "constraint") == {1: "ib&ssd"}
    assert said(made, "exc_nodes") == {1: "n[1-2]"}
    assert said(made, "begin_s") == {1: 120.0}
    assert (said(made, "think_s"), said(made, "preceding")) == ({2: 3600.0}, {2: 1})
    assert (said(made, "nice"), said(made, "array_limit")) == ({2: -5}, {1: 3})
    assert "req_nodes" not in extra.columns  # a number of nodes is no list of nodes
    assert extra["ReqNodes"].to_list() == [4, 2]


def test_begin_times_of_their_own_name_are_seconds_whatever_the_unit() -> None:
    made = read("id,submit,run,begin_s\n1,60000,1000,90\n", time_unit="ms")
    assert (made.jobs.submit_us[0], said(made, "begin_s")) == (60_000_000, {1: 90.0})
    stamps = read("id,submit,run,not_before\n1,1970-01-01 00:00:10,1,1970-01-01 00:01:00\n")
    assert said(stamps, "begin_s") == {1: 60.0}


def test_columns_can_be_mapped_and_have_defaults() -> None:
    made = read("id,submit,run,q,w\n1,0,10,,\n2,0,10,x,1\n", columns={"partition": "q", "dependency": "w"},
                defaults={"partition": "batch"})  # fmt: skip
    assert said(made, "partition") == {1: "batch", 2: "x"}
    assert said(made, "dependency") == {2: "afterok:1"}


def test_a_dependency_on_an_array_or_a_heterogeneous_job_means_all_of_it() -> None:
    made = read(
        "id,submit,run,array,het,dependency\na,0,1,7,,\nb,0,1,7,,\nc,0,1,,8,\nd,0,1,,8,\ne,0,1,,,afterany:7:8\n"
    )
    assert said(made, "dependency") == {"e": "afterany:a:b:c:d"}


# --- Slurm ------------------------------------------------------------------------------------------------------------

SACCT = (
    "JobID|JobIDRaw|Submit|Eligible|Start|ElapsedRaw|Timelimit|State|AllocCPUS|NNodes|NodeList|Partition|QOS|Constraints"
    "|SubmitLine\n"
    "100_1|101|2026-01-02T00:00:00|2026-01-02T00:00:00|2026-01-02T00:00:10|60|5|COMPLETED|1|1|n7|long|normal|ib|sbatch "
    "--array=1-2%1 a.sh\n"
    "100_2|100|2026-01-02T00:00:00|2026-01-02T00:00:00|2026-01-02T00:01:10|60|5|COMPLETED|1|1|n7|long|normal||sbatch "
    "--array=1-2%1 a.sh\n"
    "102|102|2026-01-02T00:00:01|2026-01-02T01:00:00|2026-01-02T01:00:00|60|5|COMPLETED|1|1|n8|long,short|high||sbatch "
    "-p long,short -x n[1-2] --nodelist n8 b.sh -d afterok:101\n"
    "103|103|2026-01-02T00:00:02|2026-01-02T00:02:10|2026-01-02T00:02:10|60|5|COMPLETED|1|1|n8|short|high||sbatch -d "
    "afterok:100,afterany:7 c.sh\n"
    "104+0|104|2026-01-02T00:00:03|2026-01-02T00:00:03|2026-01-02T00:02:10|60|5|COMPLETED|1|1|n8|short|high||\n"
)


def test_sacct_tells_where_and_when_and_never_takes_where_a_job_ran_for_where_it_wanted_to() -> None:
    made = read(SACCT)
    assert said(made, "partition") == {101: "long", 100: "long", 102: "long,short", 103: "short", 104: "short"}
    assert said(made, "qos") == {101: "normal", 100: "normal", 102: "high", 103: "high", 104: "high"}
    assert said(made, "constraint") == {101: "ib"}
    assert said(made, "req_nodes") == {102: "n8"}
    assert said(made, "exc_nodes") == {102: "n[1-2]"}
    assert said(made, "array") == {101: 100, 100: 100}
    assert said(made, "array_limit") == {101: 1, 100: 1}
    assert said(made, "het") == {104: 104}
    assert said(made, "dependency") == {
        103: "afterok:101:100"
    }  # all of the array, not its last member, whose id it has
    assert said(made, "begin_s") == {102: 3600.0}  # job 103 was not eligible before as it waited for others
    assert made.intake.changed["dependency not there"] == 1
    assert not said(read(SACCT, arrival="eligible"), "begin_s")


def test_sacct_as_json_tells_it_too() -> None:
    def job(number: int, **more: Any) -> dict[str, Any]:
        time = {
            "submission": 1767312000,
            "eligible": 1767312000 + number,
            "start": 1767312900,
            "elapsed": 60,
            "limit": 5,
        }
        return {
            "job_id": number, "time": time, "state": {"current": ["COMPLETED"]}, "required": {"CPUs": 1},
            "partition": "long", "constraints": "ib|opa", "submission": {}, "submit_line": "", **more,
        }  # fmt: skip

    array = {"job_id": 7, "task_id": {"set": True, "number": 3}, "limits": {"max": {"running": {"tasks": 5}}}}
    made = read(json.dumps({"jobs": [job(7, array=array), job(8, submit_line="sbatch --dependency afterany:7 x.sh")]}))
    assert list(said(made, "constraint").values()) == ["ib|opa", "ib|opa"]
    assert list(said(made, "array_limit").values()) == [5]
    assert list(said(made, "dependency").values()) == ["afterany:7"]
    assert list(said(made, "begin_s").values()) == [7.0]


SCONTROL = """JobId=200 JobName=first
   UserId=ann(1000) Account=chem QOS=normal JobState=RUNNING Reason=None Dependency=(null) Nice=0
   RunTime=00:10:00 TimeLimit=01:00:00 SubmitTime=2026-01-02T00:00:00 EligibleTime=2026-01-02T00:00:00
   StartTime=2026-01-02T00:10:00 Partition=long NodeList=n1 NumNodes=1 NumCPUs=4
   ReqNodeList=(null) ExcNodeList=(null) Features=(null)
JobId=201 JobName=second
   UserId=ann(1000) Account=chem QOS=normal JobState=PENDING Reason=Dependency Nice=100
   Dependency=afterok:200(unfulfilled),afterany:199_*(unfulfilled)
   TimeLimit=01:00:00 SubmitTime=2026-01-02T00:00:01 EligibleTime=Unknown Partition=long NumNodes=1 NumCPUs=4
   ReqNodeList=n[2-3] ExcNodeList=n9 Features=[a*1&b*1] Reservation=maint
JobId=202 JobName=third
   UserId=ann(1000) Account=chem QOS=normal JobState=PENDING Reason=BeginTime Dependency=(null) Nice=0
   TimeLimit=01:00:00 SubmitTime=2026-01-02T00:00:02 EligibleTime=2026-01-02T00:30:00
   StartTime=2026-01-02T00:30:00 Partition=long NumNodes=1 NumCPUs=4
JobId=203 ArrayJobId=203 ArrayTaskId=1-3%2 ArrayTaskThrottle=2 JobName=fourth
   UserId=ann(1000) Account=chem QOS=normal JobState=PENDING Reason=JobHeldUser Dependency=(null) Nice=0
   TimeLimit=01:00:00 SubmitTime=2026-01-02T00:00:02 EligibleTime=Unknown Partition=long NumNodes=1 NumCPUs=4
JobId=210 ArrayJobId=210 ArrayTaskId=1-2 ArrayTaskThrottle=1 JobName=fifth
   UserId=ann(1000) Account=chem QOS=normal JobState=PENDING Reason=Resources Dependency=(null) Nice=0
   TimeLimit=01:00:00 SubmitTime=2026-01-02T00:00:03 EligibleTime=2026-01-02T00:00:03
   Partition=long NumNodes=1 NumCPUs=4
JobId=220 HetJobId=220 HetJobOffset=1 JobName=sixth
   UserId=ann(1000) Account=chem QOS=normal JobState=PENDING Reason=Dependency
   Dependency=aftercorr:210_1(unfulfilled),singleton(unfulfilled) Nice=0
   TimeLimit=01:00:00 SubmitTime=2026-01-02T00:00:04 EligibleTime=Unknown Partition=long NumNodes=1 NumCPUs=4
"""


def test_a_snapshot_keeps_jobs_that_wait_for_others_or_a_time_that_it_tells() -> None:
    made = read(SCONTROL)
    assert made.jobs.ids.to_list() == ["200", "201", "202", "210_1", "210_2", "220+1"]
    assert dict(made.intake.dropped) == {"held back": 1}
    assert said(made, "dependency") == {"201": "afterok:200", "220+1": "afterok:210_1,singleton"}
    assert said(made, "begin_s") == {"202": 600.0}
    assert said(made, "req_nodes") == {"201": "n[2-3]"}
    assert said(made, "exc_nodes") == {"201": "n9"}
    assert said(made, "constraint") == {"201": "[a*1&b*1]"}
    assert said(made, "reservation") == {"201": "maint"}
    assert said(made, "nice") == {"201": 100}
    assert said(made, "array_limit") == {"210_1": 1, "210_2": 1}
    assert said(made, "het") == {"220+1": 220}
    assert said(made, "account")["200"] == "chem"
    assert said(made, "job_name")["202"] == "third"


def test_members_of_an_array_may_each_wait_for_the_same_member_of_another() -> None:
    head = "JOBID|STATE|CPUS|TIME_LIMIT|TIME_LEFT|SUBMIT_TIME|DEPENDENCY|REQ_NODES|EXC_NODES|FEATURES|REASON\n"
    row = "{}|PENDING|1|5:00|5:00|2026-01-02T00:00:00|{}|{}|{}|{}|{}\n"
    made = read(
        head
        + row.format("10_[1-3]", "(null)", "n[1-4]", "", "(null)", "Resources")
        + row.format("11_[2-4%2]", "aftercorr:10_*(unfulfilled)", "", "n7", "ib", "Dependency")
        + row.format("12", "afterok:10_[1,3](unfulfilled)", "", "", "", "Dependency")
        + row.format("13", "afterok:12(failed)", "", "", "", "DependencyNeverSatisfied")
    )
    assert said(made, "dependency") == {"11_2": "afterok:10_2", "11_3": "afterok:10_3", "12": "afterok:10_1:10_3"}
    assert set(said(made, "req_nodes").values()) == {"n[1-4]"}
    assert made.intake.changed["dependency not there"] == 1
    assert dict(made.intake.dropped) == {"held back": 1}


# --- SWF and PBS ------------------------------------------------------------------------------------------------------


def swf(*jobs: tuple[int, int, int, int, int, int]) -> str:
    return "".join(f"{job} {at} {wait} {run} 1 -1 -1 1 900 -1 1 1 1 1 1 1 {before} {think}\n"
                   for job, at, wait, run, before, think in jobs)  # fmt: skip


def test_swf_ties_jobs_to_the_one_before_where_the_log_itself_did() -> None:
    made = read(swf((1, 0, 5, 100, -1, -1), (2, 135, 0, 10, 1, 30), (3, 20, 0, 10, 1, 1), (4, 900, 0, 10, 1, 1),
                    (5, 150, 0, 10, 2, -1), (6, 150, 0, 10, 77, 5)))  # fmt: skip
    assert said(made, "preceding") == {2: 1, 5: 2}
    assert said(made, "think_s") == {2: 30.0}
    assert made.intake.changed["preceding job not followed"] == 2
    assert made.intake.changed["dependency not there"] == 1


def test_swf_without_waits_is_taken_at_its_word() -> None:
    made = read(swf((1, 0, -1, 100, -1, -1), (2, 9, -1, 10, 1, 0)))
    assert (said(made, "preceding"), said(made, "think_s")) == ({2: 1}, {2: 0.0})


PBS = (
    "01/02/2026 03:04:05;E;{};user=ann jobname=j queue=q ctime=1767323000 qtime=1767323000 etime={} "
    "start=1767323901 end=1767323961 Resource_List.walltime=00:10:00 {}\n"
)


def test_pbs_tells_what_is_waited_for_and_the_nodes_that_are_wanted() -> None:
    made = read(
        PBS.format("5[1].srv", 1767323000, "Resource_List.nodes=2:ppn=8:big:ib")
        + PBS.format("5[2].srv", 1767323060, "Resource_List.nodes=1:ppn=2:big+n7:ppn=2")
        + PBS.format("6.srv", 1767323600, "Resource_List.select=1:ncpus=1:host=n003 depend=afterok:5[].s@s,beforeok:9")
        + PBS.format("7.srv", 1767323000, 'Resource_List.ncpus=1 depend="afterany:6.srv:4.srv" resvname=R1')
        + PBS.format("8[2].srv", 1767323000, "Resource_List.ncpus=1 depend=afterokarray:5[].srv")
    )  # fmt: skip
    assert said(made, "constraint") == {"5[1]": "big&ib", "5[2]": "[big*1]"}
    assert said(made, "req_nodes") == {"5[2]": "n7", "6": "n003"}
    assert said(made, "dependency") == {"6": "afterok:5[1]:5[2]", "7": "afterany:6", "8[2]": "afterok:5[1]:5[2]"}
    assert said(made, "begin_s") == {"5[2]": 60.0}
    assert said(made, "queue") == dict.fromkeys(made.jobs.ids.to_list(), "q")
    assert said(made, "reservation") == {"7": "R1"}
    assert made.intake.ignored["dependency ignored"] == 1
    assert made.intake.changed["dependency not there"] == 1


# --- workflows --------------------------------------------------------------------------------------------------------

SPECIFICATION = [
    {"name": "split", "id": "split:1", "parents": [], "children": ["map_2", "map_3"], "inputFiles": ["in.txt"]},
    {"name": "map", "id": "map_2", "parents": ["split:1"], "children": ["join_4"]},
    {"name": "map", "id": "map_3", "parents": ["split:1"], "children": ["join_4"]},
    {"name": "join", "id": "join_4", "parents": ["map_2", "map_3"], "children": []},
]
EXECUTION = [
    {"id": "split:1", "runtimeInSeconds": 4.25, "coreCount": 1, "memoryInBytes": 4_194_305},
    {"id": "map_2", "runtimeInSeconds": 10, "coreCount": 1.5, "command": {"program": "mapper", "arguments": ["-n"]}},
    {"id": "map_3", "runtimeInSeconds": 12},
    {"id": "join_4", "runtimeInSeconds": 0, "coreCount": 4},
]


def workflow(specification: list[Any] = SPECIFICATION, execution: list[Any] = EXECUTION) -> str:
    flow = {"specification": {"tasks": specification}, "execution": {"makespanInSeconds": 20, "tasks": execution}}
    return json.dumps({"name": "demo", "schemaVersion": "1.5", "author": {"name": "A"}, "workflow": flow})


def test_a_workflow_becomes_jobs_that_wait_for_their_parents() -> None:
    made = read(workflow(), submit="1 min")
    assert made.intake.format == "wfcommons"
    assert made.jobs.ids.to_list() == ["join_4", "map_2", "map_3", "split-1"]
    assert set(made.jobs.submit_us.tolist()) == {60_000_000}
    assert made.jobs.work_us.tolist() == [0, 10_000_000, 12_000_000, 4_250_000]
    assert made.jobs.cores.tolist() == [4, 2, 1, 1]
    assert made.jobs.memory_mb.tolist() == [0, 0, 0, 5]
    assert made.jobs.app_names == ("join", "map", "mapper", "split")
    assert said(made, "dependency") == {
        "map_2": "afterok:split-1", "map_3": "afterok:split-1", "join_4": "afterok:map_2:map_3",
    }  # fmt: skip
    assert read(workflow(), memory="ignore").jobs.memory_mb.sum() == 0


@pytest.mark.parametrize("key", ["tasks", "jobs"])
def test_older_workflows_have_one_list(key: str) -> None:
    tasks = [
        {"name": "a_1", "type": "compute", "runtime": 3.5, "parents": [], "cores": 2, "memory": 2048, "category": "a"},
        {"name": "b_1", "type": "compute", "runtimeInSeconds": 2, "parents": ["a_1"], "memoryInBytes": 1},
    ]
    made = read(json.dumps({"name": "old", "schemaVersion": "1.2", "workflow": {"makespan": 6, key: tasks}}))
    assert said(made, "dependency") == {"b_1": "afterok:a_1"}
    assert made.jobs.memory_mb.tolist() == [2, 1]
    assert made.jobs.cores.tolist() == [2, 1]
    assert made.jobs.app_names == ("a", "b")


@pytest.mark.parametrize(
    ("specification", "execution", "words"),
    [
        ([{"id": "a", "parents": ["b"]}, {"id": "b", "parents": ["a"]}], [], "job a waits for b waits for a"),
        ([{"id": "a", "parents": ["z"]}], [], r"specification.tasks.0.parents.*'z'"),
        ([{"id": "a"}, {"id": "a"}], [], r"specification.tasks.1.id"),
        ([{"id": "a"}], [{"id": "q", "runtimeInSeconds": 1}], r"execution.tasks.0.*'q'"),
        ([{"id": "a", "runtimeInSeconds": "long"}], [], r"tasks.0.runtimeInSeconds.*'long'"),
        ([{"id": "a", "runtimeInSeconds": None}], [], r"tasks.0.runtimeInSeconds.*nothing"),
        ([{"id": "a:b"}, {"id": "a-b"}], [], "alike"),
        ([], [], "no tasks"),
    ],
)
def test_a_workflow_that_cannot_be_is_refused_with_the_place(
    specification: list[Any], execution: list[Any], words: str
) -> None:
    tasks = [{"runtimeInSeconds": 1, **task} for task in specification]
    text = json.dumps(
        {"workflow": {"specification": {"tasks": tasks}, **({"execution": {"tasks": execution}} if execution else {})}}
    )
    with pytest.raises(InputError, match=words):
        read(text)


# --- what is done with it ---------------------------------------------------------------------------------------------

ALL = (
    "id,submit,run,partition,queue,account,qos,constraint,req_nodes,exc_nodes,reservation,dependency,begin_s,array,"
    "array_limit,het,job_name,nice,preceding,think_s,sizes,min_tasks,max_tasks,speedup,flexibility,change_s,evolves,"
    "time_min_s\n"
    '1,0,10,"a,b",q,chem,high,ib&(a|b),n[1-2],n3,r,,,,,,one,,,,,,,,,,,\n'
    "2,5,10,a,q,chem,,,,,,afterok:1?singleton,7.5,4,2,,two,-3,,,,1,4,amdahl 0.1,malleable,2.5,,6.5\n"
    "3,9,10,,,,,,,,,,,4,2,9,one,,1,0.25,1:10;2:6,,,,evolving,,0.5:2,\n"
)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_all_columns_are_read_back_as_they_were_written(tmp_path: Path, name: str) -> None:
    made = read(ALL)
    assert set(made.jobs.extra.columns) == set(COLUMNS)
    write_trace(tmp_path / name, made)
    back = read_trace(tmp_path / name)
    assert back.jobs.digest() == made.jobs.digest()
    assert {name: said(back, name) for name in COLUMNS} == {name: said(made, name) for name in COLUMNS}


def test_swf_keeps_the_job_before_and_names_queues_and_partitions_in_its_header(tmp_path: Path) -> None:
    made = read(ALL.replace("\n1,", "\nx,").replace(",,1,0.25", ",,x,0.25").replace(":1?", ":x?"))
    assert said(made, "preceding") == {"3": "x"}
    write_trace(tmp_path / "t.swf", made)
    back = read_trace(tmp_path / "t.swf")
    assert said(back, "preceding") == {3: 1}
    assert said(back, "think_s") == {3: 0.25}
    assert said(back, "partition") == {1: "a,b", 2: "a"}
    assert back.intake.header["Partition"].split("\n") == ["1 a", "2 a,b"]


def test_filters_leave_no_job_to_wait_for_one_that_they_left_out() -> None:
    made = read("id,submit,run,user,after,begin_s\n1,0,10,a,,\n2,5,10,b,1,20\n3,9,10,b,2,\n")
    kept = filtered(made, {"users": ["b"], "rebase": 100})
    assert said(kept, "dependency") == {3: "afterok:2"}
    assert said(kept, "begin_s") == {2: 115.0}
    assert kept.intake.changed["dependency not there"] == 1
    drawn = filtered(made, {"resample": {"amount": "cores", "of": 3}})
    assert "dependency" not in drawn.jobs.extra.columns


def test_the_words_of_a_dependency() -> None:
    assert [[part.kind for part in ways] for ways in parts_of("AfterOK:1(unfulfilled)?afterany:2,SINGLETON")] == [
        ["afterok", "afterany"], ["singleton"],
    ]  # fmt: skip
    assert parts_of("") == []


@pytest.mark.long
def test_real_logs_have_as_many_of_them_as_they_say(data: Path) -> None:
    tasks = read_trace(data / "memory" / "alibaba2018-tasks.csv.gz")
    assert len(said(tasks, "dependency")) == 38_436
    grid = read_trace(data / "swf" / "wagap-2013-first-half.swf.gz")
    assert grid.intake.changed["preceding job not followed"] > 8_900  # it has 1 and 1 in all lines
    assert len(said(grid, "preceding")) < 60
    assert isinstance(grid.jobs.extra, pl.DataFrame)
