from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.errors import TraceError
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.formats.table.aliases import ALIASES
from unrack.workload.formats.table.columns import COLUMNS, WORDS
from unrack.workload.formats.table.read import read_table
from unrack.workload.job import Workload


def read(text: str, **options: Any) -> Workload:
    return read_table(Source("jobs.csv", text.encode()), **options)


def test_the_input_of_another_simulator_is_read_without_a_mapping() -> None:
    text = (
        "arrival,class,base_time,cores,bandwidth_mb_s,capacity_gb,gpu_bw,gpu_memory_gb,deadline,high_priority\n"
        "0.5,smufin,1600,6,1800,43,,,1920.5,true\n"
        "60,compute,900,15,,,,,3660,false\n"
        "61,yolo,152,2,,,1000,2,669,False\n"
    )
    made = read_trace(Source("jobs.csv", text.encode()))
    jobs = made.jobs
    assert jobs.submit_us.tolist() == [500_000, 60_000_000, 61_000_000]
    assert jobs.work_us.tolist() == [1_600_000_000, 900_000_000, 152_000_000]
    assert jobs.cores.tolist() == [6, 15, 2]
    assert [jobs.app_names[code] for code in jobs.app] == ["smufin", "compute", "yolo"]
    assert jobs.priority.tolist() == [1, 0, 0]
    assert jobs.deadline_us.tolist() == [1_920_500_000, 3_660_000_000, 669_000_000]
    assert {key: amounts.tolist() for key, amounts in jobs.devices.items()} == {
        ("nvme", "bandwidth_mb_s"): [1800, 0, 0],
        ("nvme", "capacity_mb"): [43 * 1024, 0, 0],
        ("gpu", "bandwidth_mb_s"): [0, 0, 1000],
        ("gpu", "memory_mb"): [0, 0, 2048],
    }
    assert jobs.extra.width == 0
    assert made.intake.header["Columns"].startswith("submit = arrival, run = base_time, priority = high_priority")
    assert "nvme.capacity_mb = capacity_gb (in GB)" in made.intake.header["Columns"]


@pytest.mark.parametrize(
    ("header", "ours", "value"),
    [
        ("Arrival", "submit", 3_000_000),
        ("arrival-time", "submit", 3_000_000),
        ("Submit Time (ms)", "submit", 3_000),
        ("submitTime_min", "submit", 180_000_000),
        ("SUBMITTED", "submit", 3_000_000),
        ("duration_h", "run", 3 * 3_600_000_000),
        ("Execution Time", "run", 3_000_000),
        ("run_us", "run", 3),
        ("walltime_d", "request", 3 * 86_400_000_000),
        ("memory_gb", "memory", 3072),
        ("Mem", "memory", 3),
        ("CPUs", "cores", 3),
        ("cores_per_task", "cores", 3),
        ("num-tasks", "tasks", 3),
        ("prio", "priority", 3),
        ("due_s", "deadline", 3_000_000),
        ("NVMe bandwidth", "nvme.bandwidth_mb_s", 3),
        ("nvme_bandwidth_mb_s", "nvme.bandwidth_mb_s", 3),
        ("nvme.bandwidth_mb_s", "nvme.bandwidth_mb_s", 3),
        ("nvme_bw_gb_s", "nvme.bandwidth_mb_s", 3000),
        ("bandwidth (GB/s)", "nvme.bandwidth_mb_s", 3000),
        ("capacity", "nvme.capacity_mb", 3),
        ("storage_tb", "nvme.capacity_mb", 3 * 1024 * 1024),
        ("nvme_capacity_gib", "nvme.capacity_mb", 3072),
        ("gpu_bandwidth", "gpu.bandwidth_mb_s", 3),
        ("GPU memory [GB]", "gpu.memory_mb", 3072),
        ("vram_mb", "gpu.memory_mb", 3),
    ],
)
def test_a_usual_name_is_understood_in_any_spelling_with_its_unit(header: str, ours: str, value: int) -> None:
    needed = "".join(f",{name}" for name in ("submit", "run") if name != ours)
    jobs = read(f"{header}{needed}\n3{',1' * needed.count(',')}\n").jobs
    columns = {
        "submit": jobs.submit_us, "run": jobs.work_us, "request": jobs.request_us, "deadline": jobs.deadline_us,
        "memory": jobs.memory_mb, "cores": jobs.cores, "tasks": jobs.tasks, "priority": jobs.priority,
    }  # fmt: skip
    column = columns[ours] if ours in columns else jobs.devices[tuple(ours.split("."))]
    assert column.tolist() == [value]


def test_a_column_of_our_own_name_or_one_that_is_mapped_goes_before_usual_names() -> None:
    assert read("submit,run,duration,arrival\n1,2,3,4\n").jobs.extra.columns == ["duration", "arrival"]
    assert read("submit,Run,duration\n1,2,3\n").jobs.work_us.tolist() == [2_000_000]
    mapped = read("submit,duration,time\n1,2,3\n", columns={"run": "time"})
    assert mapped.jobs.work_us.tolist() == [3_000_000]
    assert "Columns" not in mapped.intake.header
    moved = read("time,duration\n1,2\n", columns={"submit": "time"}).jobs
    assert (moved.submit_us[0], moved.work_us[0]) == (1_000_000, 2_000_000)


def test_a_run_time_that_follows_from_the_end_is_not_looked_for() -> None:
    jobs = read("submit,end,time\n1,5,77\n").jobs
    assert jobs.work_us.tolist() == [4_000_000]
    assert jobs.extra["time"].to_list() == [77]


def test_names_of_other_things_are_carried_along() -> None:
    jobs = read("submit,run,bandwidth_mbps,arrival_order,fpga_bandwidth,deadline_factor\n1,2,3,4,5,6\n").jobs
    assert jobs.extra.columns == ["bandwidth_mbps", "arrival_order", "fpga_bandwidth", "deadline_factor"]
    assert not jobs.devices


@pytest.mark.parametrize(
    ("header", "ours", "both"),
    [
        ("submit,time,duration", "run", ("'time'", "'duration'")),
        ("arrival,Arrival_Time,run", "submit", ("'arrival'", "'Arrival_Time'")),
        ("submit,run,run_s,Run", "", ()),
        ("Submit,submit_s,run", "submit", ("'Submit'", "'submit_s'")),
        ("submit,run,bandwidth,nvme_bw", "nvme.bandwidth_mb_s", ("'bandwidth'", "'nvme_bw'")),
        ("submit,run,class,type", "app", ("'class'", "'type'")),
    ],
)
def test_two_columns_for_one_name_are_refused_rather_than_guessed(
    header: str, ours: str, both: tuple[str, ...]
) -> None:
    row = ",".join("1" for _ in header.split(","))
    if not ours:
        assert len(read(f"{header}\n{row}\n")) == 1
        return
    with pytest.raises(TraceError) as caught:
        read(f"{header}\n{row}\n")
    for words in (f"column for {ours}", *both, "columns="):
        assert words in str(caught.value)


def test_usual_names_can_be_switched_off() -> None:
    jobs = read("submit,run,class,bandwidth\n1,2,3,4\n", aliases=False).jobs
    assert jobs.extra.columns == ["class", "bandwidth"]
    assert not jobs.app_names


def test_deadlines_may_count_from_the_submission() -> None:
    text = "submit,run,due_min\n10,5,2\n20,5,\n30,5,-1\n"
    assert read(text, deadline_is="relative").jobs.deadline_us.tolist() == [130_000_000, -1, -1]
    assert read(text).jobs.deadline_us.tolist() == [120_000_000, -1, -1]
    with pytest.raises(TraceError, match="2024"):
        read("submit,run,deadline\n1,2,2024-01-01\n", deadline_is="relative")


def test_truths_are_priorities_and_other_words_are_refused() -> None:
    assert read("submit,run,priority\n1,1,TRUE\n2,1,no\n3,1,7\n4,1,\n").jobs.priority.tolist() == [1, 0, 7, 0]
    with pytest.raises(TraceError, match="'urgent'"):
        read("submit,run,high_priority\n1,1,urgent\n")
    frame = pl.DataFrame({"arrival": [1, 2], "time": [1, 1], "high_priority": [True, None]})
    path = Source("jobs.parquet", _parquet(frame))
    assert read_table(path).jobs.priority.tolist() == [1, 0]


def _parquet(frame: pl.DataFrame) -> bytes:
    import io

    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def test_no_usual_name_stands_for_two_of_ours() -> None:
    names = [name for alias in ALIASES.values() for name in alias.names]
    assert len(set(names)) == len(names)
    assert not set(names) & set(COLUMNS)
    assert {ours for ours in ALIASES if "." not in ours} == set(COLUMNS) - set(WORDS) - {
        "on",
        "ran",
    }  # these by their own names only
    written = [
        f"{name}{ending}"
        for ours, alias in ALIASES.items()
        for name in (*alias.names, *(() if "." in ours else (ours,)))
        for ending in ("", *(f"_{unit}" for unit in alias.units))
    ]
    assert len(set(written)) == len(written)


@draws(60)
@given(st.permutations(["arrival", "class", "base_time", "cpus", "nvme_bw", "capacity", "due"]))
def test_the_order_of_columns_does_not_matter(header: list[str]) -> None:
    values = {"arrival": 5, "class": "a", "base_time": 9, "cpus": 3, "nvme_bw": 100, "capacity": 7, "due": 50}
    made = read(",".join(header) + "\n" + ",".join(str(values[name]) for name in header) + "\n")
    same = read(",".join(values) + "\n" + ",".join(map(str, values.values())) + "\n")
    assert made.jobs.digest() == same.jobs.digest()
    assert made.intake.header == same.intake.header
