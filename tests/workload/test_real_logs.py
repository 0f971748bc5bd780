"""Counts and sums here were found with awk, by rules written out anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from unrack.workload.account import describe
from unrack.workload.formats.readers import read_trace

pytestmark = pytest.mark.needs_data


def test_kth_sp2_is_read_as_counted_by_hand(data: Path) -> None:
    made = read_trace(data / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz")
    assert (made.intake.read, made.intake.kept) == (28_476, 28_475)
    assert made.intake.dropped == {"size missing": 1}
    assert made.intake.changed == {"run cut at request": 475}
    assert int((made.jobs.work_us // 10**6 * made.jobs.tasks).sum()) == 2_005_181_934
    assert made.intake.header["MaxProcs"] == "100"


def test_the_reference_schedule_is_read_with_its_waiting_times(data: Path) -> None:
    made = read_trace(data / "swf" / "KTH-SP2.easy-reference.swf.gz")
    assert (len(made), made.intake.dropped) == (28_481, {})
    assert set(made.intake.changed) == {"out of order"}
    assert made.jobs.extra["log_wait_s"].sum() == 194_720_954
    assert int((made.jobs.work_us // 10**6 * made.jobs.tasks).sum()) == 2_013_209_080


def test_llnl_atlas_is_read_without_its_cancelled_jobs(data: Path) -> None:
    made = read_trace(data / "swf" / "LLNL-Atlas-2006-2.1-cln.swf.gz")
    assert made.intake.read == 43_778
    assert made.intake.dropped == {"cancelled before start": 4_639}
    assert made.intake.changed == {"request from run": 6_275, "run cut at request": 3_351}


def test_nasa_ipsc_takes_sizes_from_allocations(data: Path) -> None:
    made = read_trace(data / "swf" / "NASA-iPSC-1993-3.1-cln.swf.gz")
    assert made.intake.changed == {"size from allocation": 18_239, "request from run": 18_239}
    assert (made.jobs.work_us == 0).sum() == 173
    assert int((made.jobs.work_us // 10**6 * made.jobs.tasks).sum()) == 474_238_015


def test_wagap_gives_nodes_cores_and_bytes_per_node(data: Path) -> None:
    file = data / "swf" / "wagap-2013-first-half.swf.gz"
    made = read_trace(file, node_spec=True, memory="requested", memory_unit="B", memory_per="task")
    assert made.intake.dropped == {"run missing": 2}
    assert made.intake.changed["run cut at request"] == 472
    assert int(made.jobs.tasks.sum()) == 10_090
    # awk counted 85 218 with twenty specifications of "1:ppn=1.5", which are not whole and so give way to 1 processor
    assert int((made.jobs.tasks * made.jobs.cores).sum()) == 85_218 - 10
    assert made.jobs.memory_mb[0] == 65_536


def test_kth_sp2_is_described_with_local_hours(data: Path) -> None:
    contents = describe(read_trace(data / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz"))
    assert contents["arrivals"]["clock"] == "Europe/Stockholm"
    assert sum(contents["arrivals"]["hour"]) == 28_475
    assert contents["span"]["first"] == "1996-09-30 12:38"
    assert 0.6 < contents["load"]["offered"] < 0.8


@pytest.mark.parametrize(
    ("file", "options", "jobs", "dropped"),
    [
        (
            "memory/alibaba2018-tasks.csv.gz",
            {"columns": {"submit": 1, "user": 2, "run": 4, "cores": 5, "tasks": 7}, "scale": {"cores": 0.01}},
            67_634,
            {},
        ),
        (
            "memory/anl-1024n-1838-jobmix50.csv",
            {
                "columns": {"id": "job_id", "run": "duration", "request": "wclimit", "tasks": "min_cpus"},
                "defaults": {"cores": 1},
            },
            1_838,
            {},
        ),
        (
            "memory/perlmutter-first-half.csv.gz",
            {"columns": {"id": "jobid", "run": "duration", "tasks": "nnodes"}, "time_unit": 10, "memory_unit": "GB"},
            7_055,
            {},
        ),
        ("gpu/philly.csv.gz", {"columns": {"submit": "timestamp", "run": "duration"}}, 82_247, {}),
        (
            "gpu/openb_pod_list_default.csv",
            {
                "columns": {
                    "id": "name",
                    "submit": "creation_time",
                    "start": "scheduled_time",
                    "end": "deletion_time",
                    "cores": "cpu_milli",
                    "memory": "memory_mib",
                    "gpu.milli": "gpu_milli",
                },
                "scale": {"cores": 0.001},
            },
            7_255,
            {"run missing": 897},
        ),
    ],
)
def test_other_traces_are_read_by_mapping(
    data: Path, file: str, options: dict[str, object], jobs: int, dropped: dict[str, int]
) -> None:
    made = read_trace(data / file, **options)
    assert (len(made), made.intake.dropped) == (jobs, dropped)
