from __future__ import annotations

import datetime as dt
import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, TraceError
from unrack.sim.simulate import simulate
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.formats.table.read import read_table
from unrack.workload.job import Workload


def read(text: str | bytes, **options: Any) -> Workload:
    return read_table(Source("jobs.csv", text.encode() if isinstance(text, str) else text), **options)


def parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def test_columns_of_our_names_map_themselves_and_the_rest_is_carried() -> None:
    made = read("id,submit,run,tasks,cores,memory,user,colour,rank\na,5,10,2,4,100,u1,red,7\nb,3,20,1,1,,u2,,8\n")
    assert made.jobs.ids.to_list() == ["b", "a"]
    assert made.jobs.memory_mb.tolist() == [0, 100]
    assert made.jobs.tasks.tolist() == [1, 2]
    assert made.jobs.user_names == ("u1", "u2")
    assert made.jobs.extra.to_dict(as_series=False) == {"colour": [None, "red"], "rank": [8, 7]}
    assert made.intake.missing["memory"] == 1


def test_a_mapping_names_columns_by_name_or_number_with_units_factors_and_defaults() -> None:
    made = read(
        "10,j1,90,150,2\n20,j2,30,50,\n",
        columns={"submit": 1, "id": "column_2", "run": 3, "cores": 4, "memory": 5},
        scale={"cores": 0.01},
        time_unit="min",
        memory_unit="GB",
        defaults={"tasks": 3, "memory": 1, "user": "ann"},
    )
    assert made.jobs.submit_us.tolist() == [600_000_000, 1_200_000_000]
    assert made.jobs.cores.tolist() == [2, 1]
    assert made.jobs.tasks.tolist() == [3, 3]
    assert made.jobs.memory_mb.tolist() == [2048, 1024]
    assert made.jobs.user_names == ("ann",)


def test_the_jobs_of_a_finished_run_are_a_workload_again(tmp_path: Path) -> None:
    """Of what they held, ran and were worked out to claim, nothing is taken for what they ask."""
    table = (
        "id,submit,run,request,tasks,cores,memory,partition\na,0,60,90,2,3,100,p\nb,1,30,30,1,9,50,p\nc,2,5,5,3,1,,p\n"
    )
    cluster = Cluster.from_dict({
        "nodes": [{"count": 2, "cores": 4, "memory": 1000}], "site": {"partitions": [{"name": "p"}]},
        "power": {"idle": 10, "peak": 50, "cap": 90},
    })  # fmt: skip
    first = simulate(cluster, read(table), "easy").jobs
    first.write_parquet(tmp_path / "jobs.parquet")
    again = simulate(cluster, read_trace(tmp_path / "jobs.parquet"), "easy").jobs
    assert first["state"].to_list() == ["finished", "rejected", "finished"]
    assert again.select(first.columns).equals(first)


def test_a_time_unit_may_be_a_number_of_seconds() -> None:
    assert read("submit,run\n165955826,3\n", time_unit=10).jobs.submit_us.tolist() == [1_659_558_260_000_000]


def test_the_run_time_may_come_from_start_and_end() -> None:
    made = read("submit,start,end\n5,8,20\n6,6,5\n")
    assert made.jobs.work_us.tolist() == [12_000_000]
    assert made.jobs.extra["log_wait_s"].to_list() == [3.0]
    assert made.intake.dropped == {"run missing": 1}


@pytest.mark.parametrize(
    ("stamp", "second"),
    [
        ("1970-01-02", 86_400),
        ("1970-01-01 00:01", 60),
        ("1970-01-01 00:00:07", 7),
        ("1970-01-01T00:00:07.25", 7.25),
        ("1970-01-01T00:00:07Z", 7),
        ("1970-01-01T02:00:07+02:00", 7),
    ],
)
def test_iso_timestamps_are_submission_times(stamp: str, second: float) -> None:
    assert read(f"submit,run\n{stamp},1\n").jobs.submit_us.tolist() == [second * 1_000_000]


def test_memory_may_be_given_per_core_or_per_job() -> None:
    text = "submit,run,tasks,cores,memory\n0,1,2,4,1000\n"
    assert read(text, memory_per="core").jobs.memory_mb.tolist() == [4000]
    assert read(text, memory_per="job").jobs.memory_mb.tolist() == [500]


def test_device_demands_are_mapped_by_kind_and_quantity() -> None:
    made = read("submit,run,bw\n0,1,99.5\n1,1,\n", columns={"nvme.bandwidth_mb_s": "bw"})
    assert made.jobs.devices["nvme", "bandwidth_mb_s"].tolist() == [100, 0]


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        (",1,1,1", "submit missing"),
        ("-5,1,1,1", "submit missing"),
        ("1,NA,1,1", "run missing"),
        ("1,-1,1,1", "run missing"),
        ("1,1,0,1", "size missing"),
        ("1,1,NaN,1", "size missing"),
        ("1,1,1,-2", "size missing"),
    ],
)
def test_missing_and_negative_values_drop_a_row_by_the_rule_of_their_field(row: str, rule: str) -> None:
    assert read(f"submit,run,tasks,cores\n0,1,1,1\n{row}\n").intake.dropped == {rule: 1}


def test_a_negative_amount_of_memory_or_of_a_device_is_missing() -> None:
    made = read("submit,run,memory,bw\n0,1,-1,-5\n", columns={"nvme.bandwidth_mb_s": "bw"})
    assert made.jobs.memory_mb.tolist() == made.jobs.devices["nvme", "bandwidth_mb_s"].tolist() == [0]
    assert made.intake.missing["memory"] == 1


def test_memory_per_core_is_that_of_one_core_where_cores_are_not_said() -> None:
    made = read("submit,run,cores,memory\n0,1,,100\n0,1,2,100\n", memory_per="core")
    assert made.jobs.memory_mb.tolist() == [100, 200]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " "])
def test_the_separator_is_found_from_the_first_line(separator: str) -> None:
    assert read(separator.join(["submit", "run"]) + "\n" + separator.join("37")).jobs.work_us.tolist() == [7_000_000]


def test_blanks_separate_only_where_nothing_else_does() -> None:
    assert read("submit,run,what it was for\n3,7,a b\n").jobs.extra["what it was for"].to_list() == ["a b"]


def test_a_first_line_with_a_number_in_it_is_no_header_unless_said() -> None:
    assert len(read("0,1\n1,1\n", columns={"submit": 1, "run": 2})) == 2
    assert len(read("0,1\n1,1\n", columns={"submit": "0", "run": "1"}, has_header=True)) == 1


def test_native_parquet_types_are_understood() -> None:
    frame = pl.DataFrame(
        {
            "submit": [dt.datetime(1970, 1, 1, 0, 0, 9)],
            "run": [dt.timedelta(seconds=2)],
            "memory": [float("nan")],
            "user": pl.Series(["u"], dtype=pl.Categorical),
        }
    )
    jobs = read(parquet(frame)).jobs
    assert (jobs.submit_us[0], jobs.work_us[0], jobs.memory_mb[0]) == (9_000_000, 2_000_000, 0)


@pytest.mark.parametrize(
    ("text", "options", "line", "words"),
    [
        ("id,run\n1,2\n", {}, None, "column submit"),
        ("submit,length\n1,2\n", {}, None, "column run"),
        ("submit,duration\n1,2\n", {"aliases": False}, None, "column run"),
        ("submit,run\n1,2\n", {"columns": {"user": "who"}}, None, "'who'"),
        ("submit,run\n1,2\n", {"columns": {"user": 3}}, None, "no column 3"),
        ("submit,run\n1,2\n3,soon\n", {}, 3, "'soon'"),
        ("submit,run\n1,2\ninf,4\n", {}, 3, "inf"),
        ("submit,run\n1,2\n1e30,4\n", {}, 3, "285 years"),
        ("submit,run\n2020-01-01,2\nyesterday,4\n", {}, 3, "'yesterday'"),
        ("submit,run\n2020-13-41 00:00:00,4\n", {}, 2, "timestamp"),
        ("submit,run,tasks\n1,2,1.5\n", {}, 2, "whole number"),
        ("submit,run,tasks\n1,2,99999999999\n", {}, 2, "whole number up to"),
        ("submit,run,memory\n1,2,1e300\n", {}, 2, "an amount below"),
        ("submit,run,cores,memory\n1,2,1000000000,1e9\n", {"memory_per": "core"}, 2, "an amount below"),
        ("submit,run\n1,2\n1\n", {}, 3, "1 field"),
        ("submit,run\n1,2,3\n", {}, 2, "3 fields"),
        ("submit,submit\n1,2\n", {}, 1, "twice"),
        (b"submit,run,user\n1,2,J\xf6rg\n", {}, 2, "byte 0xf6"),
        ("submit,run\n1,2\n".encode("utf-16"), {}, None, "UTF-16"),
        (b"PAR1 and then nothing of use PAR1", {}, None, "whole Parquet"),
        (parquet(pl.DataFrame({"submit": [1], "run": [2]}))[:-9], {}, None, "whole Parquet"),
        (parquet(pl.DataFrame({"submit": [[1]], "run": [2]})), {}, None, "a column of List"),
        (parquet(pl.DataFrame({"submit": [1], "run": [True]})), {}, None, "a column of Boolean"),
        ('submit,run,user\n1,2,"open\n', {}, 2, "unexpected end"),
    ],
)
def test_a_table_that_is_not_what_was_mapped_is_refused(
    text: str | bytes, options: dict[str, Any], line: int | None, words: str
) -> None:
    with pytest.raises(TraceError) as caught:
        read(text, **options)
    assert caught.value.line == line
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"time_unit": "fortnight"},
        {"time_unit": -1},
        {"memory_unit": "pages"},
        {"memory_per": "processor"},
        {"overrun": ""},
        {"has_header": "maybe"},
        {"aliases": "no"},
        {"deadline_is": "soon"},
        {"separator": "ab"},
        {"columns": {"colour": "run"}},
        {"columns": "submit"},
        {"defaults": {"colour": 1}},
        {"scale": {"cores": 0}},
        {"scale": {"id": 2}},
        {"scale": {"cores": "half"}},
    ],
)
def test_a_table_option_with_a_wrong_value_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        read("submit,run\n1,2\n", **options)
