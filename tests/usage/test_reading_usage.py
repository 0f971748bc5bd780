from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack.errors import InputError, TraceError
from unrack.workload.formats.source import Source
from unrack.workload.usage.attach import used_of_swf
from unrack.workload.usage.curves import UsageSeries, check_curves
from unrack.workload.usage.read import RULES, read_usage
from unrack.workload.usage.thin import thinned


def read(text: str, **options: object) -> UsageSeries:
    return read_usage(Source("usage.csv", text.encode()), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "amount", "shares"),
    [
        ("job,time_s,mb\na,0,10\na,60,30\n", [10, 30], False),
        ("pod,time,memory\na,0,10\na,60,30\n", [10, 30], False),
        ("task;time_min;memory_gb\na;0;1\na;1;2\n", [1024, 2048], False),
        ("id,timestamp,mem_kb\na,0,2048\na,60,1024\n", [2, 1], False),
        ("container_id,time_stamp,mem_util_percent\na,0,50\na,60,25\n", [0.5, 0.25], True),
        ("Job ID,Time (s),memory-share\na,0,0.5\na,60,1\n", [0.5, 1], True),
        ("job,progress,mb\na,0,10\na,0.5,30\n", [10, 30], False),
    ],
)
def test_columns_are_found_by_their_names_and_units(text: str, amount: list[float], shares: bool) -> None:
    found = read(text)
    assert found.amount.tolist() == amount
    assert found.at.tolist() == [0, 0.5]
    assert found.shares is shares
    assert found.ids.to_list() == ["a"]


def test_columns_of_a_file_without_a_header_are_said_by_number() -> None:
    found = read("m1,9,0,25\nm1,9,300,50\n", columns={"job": 2, "time": 3, "memory": 4}, memory_unit="percent")
    assert found.ids.to_list() == [9]
    assert found.amount.tolist() == [0.25, 0.5]
    assert found.run_s.tolist() == [600]


def test_records_stand_for_equal_parts_of_the_progress_and_the_job_lasts_one_more_interval() -> None:
    found = read("job,time_s,mb\n" + "".join(f"1,{1000 + 60 * k},{k}\n" for k in range(4)))
    assert found.at.tolist() == [0, 0.25, 0.5, 0.75]
    assert found.run_s.tolist() == [240]
    assert found.interval_s == 60
    assert float(found.amount @ found.spans()) == 1.5


def test_nodes_of_a_job_share_its_clock_and_one_that_comes_late_counts_from_the_beginning() -> None:
    found = read("job,node,time_s,mb\n1,x,0,5\n1,x,10,6\n1,y,10,9\n2,x,0,1\n")
    assert found.series.tolist() == [2, 1]
    assert found.at.tolist() == [0, 0.5, 0, 0]
    assert found.changed == {"late start": 1}
    assert found.sized


def test_a_run_time_that_is_said_counts_for_matching() -> None:
    assert read("job,progress,mb,run_s\n1,0,5,77\n2,0,5,\n").run_s.tolist()[0] == 77


def test_what_is_odd_is_dropped_or_changed_and_counted() -> None:
    text = (
        "job,time_s,mb\n,0,1\n1,,1\n1,0,\n1,0,NaN\n1,0,-3\n"  # dropped
        "1,20,7\n1,10,6\n1,10,9\n1,0,1\n1,30,2\n1,100,8\n"  # unsorted, repeated, a gap
    )
    found = read(text)
    assert found.dropped == {"job missing": 1, "time missing": 1, "memory missing": 2, "memory negative": 1}
    assert found.changed == {"out of order": 2, "time repeated": 1, "gap": 1}
    assert found.amount.tolist() == [1, 9, 7, 8, 8]  # the larger of both sides holds in the gap
    assert set(found.dropped) | set(found.changed) <= set(RULES)


def test_shares_above_one_are_kept_and_counted_and_per_cent_in_their_place_refused() -> None:
    assert read("job,time_s,memory_share\n1,0,1.2\n").changed == {"share above 1": 1}
    with pytest.raises(TraceError, match=r"line 3, memory_share: got 87\.0, wanted a share up to 10; per cent"):
        read("job,time_s,memory_share\n1,0,1\n1,1,87\n")


def test_what_is_measured_at_the_end_counts_in_the_stretch_before() -> None:
    found = read("job,progress,mb\n1,0,5\n1,0.5,6\n1,1,9\n2,1,3\n")
    assert found.at.tolist() == [0, 0.5, 0]
    assert found.amount.tolist() == [5, 9, 3]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("job,time_s,mb\n1,0,a lot\n", r"usage\.csv, line 2, mb: got 'a lot', wanted a number"),
        ("job,time_s,mb\n1,soon,1\n", r"line 2, time_s: got 'soon', wanted a number"),
        ("job,time_s,mb\n1,inf,1\n", r"line 2, time_s: got 'inf', wanted a number"),
        ("job,progress,mb\n1,1.5,1\n", r"line 2, progress: got 1\.5, wanted progress from 0 to 1"),
        ("job,time_s,mb\n1,0\n", r"line 2: got 2 fields, wanted 3"),
        ("job,time_s\n1,0\n", "column memory: got columns job, time_s, wanted columns job"),
        ("job,mb\n1,0\n", "column time_s or progress: got columns job, mb"),
        ("a,b,c\n1,0,2\n", "column job: got columns a, b, c"),
        ("job,time_s,mb\n", "got no row, wanted samples of used memory"),
        ("job,time_s,mb\n1,0,-1\n", "got 1 rows with memory negative, wanted samples"),
        ("job,time_s,mb,run_s\n1,0,1,0\n", "run: got .*wanted a time above 0"),
        ("1,2,3\n", "column job: got columns column_1"),
    ],
)
def test_a_broken_file_is_refused_with_file_line_got_and_wanted(text: str, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        read(text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": {"jobs": 1}}, "columns: got 'jobs'"),
        ({"columns": {"job": 9}}, "column for job: got no column 9"),
        ({"memory_unit": "cups"}, "memory_unit: got 'cups'"),
        ({"time_unit": "moon"}, "time_unit: got 'moon'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read("job,t,memory\n1,0,1\n", **options)


def test_gzip_and_parquet_read_as_csv_does(tmp_path: Path) -> None:
    text = "job,node,time_s,mb\n1,0,0,5\n1,1,0,6\n1,0,30,7\n"
    packed, parquet = tmp_path / "u.csv.gz", tmp_path / "u.parquet"
    packed.write_bytes(gzip.compress(text.encode()))
    pl.read_csv(io.StringIO(text)).write_parquet(parquet)
    plain = read(text)
    for path in (packed, parquet):
        found = read_usage(path)
        assert found.amount.tolist() == plain.amount.tolist()
        assert found.at.tolist() == plain.at.tolist()


@given(st.text(st.sampled_from('0123456789.,-\n ea"NnI'), max_size=80))
def test_anything_is_either_read_or_refused_in_our_words(rest: str) -> None:
    try:
        found = read("job,time_s,mb\n1,0,1\n" + rest)
    except InputError:
        return
    check_curves(thinned(found).curves)
    assert (found.at[found.point[:-1]] == 0).all()
    assert np.isfinite(found.amount).all()


def test_planned_memory_is_refused_as_use() -> None:
    with pytest.raises(TraceError, match=r"a batch task with planned memory \(a request\), and no use"):
        read("0,j_1446403,R23_22,268,50.0,0.3,9\n0,j_1446403,R11_10,326,50.0,0.3,9\n")


def swf(used: list[int]) -> Source:
    lines = (f"{k} {k} 0 100 2 -1 {mb} 2 200 4096 1 1 1 1 1 1 -1 -1\n" for k, mb in enumerate(used, 1))
    return Source("log.swf", "".join(lines).encode())


def test_a_log_gives_the_used_memory_of_its_jobs_as_one_sample_each() -> None:
    found = used_of_swf(swf([2048, -1, 1000]))
    assert found.ids.to_list() == [1, 3]
    assert found.amount.tolist() == [2, 1]
    assert found.dropped == {"memory missing": 1}


def test_a_log_whose_used_memory_is_a_stand_in_is_refused() -> None:
    with pytest.raises(TraceError, match="got the same in all 25 jobs"):
        used_of_swf(swf([1024] * 25))
    with pytest.raises(TraceError, match="got none in any job"):
        used_of_swf(swf([-1]))
    with pytest.raises(InputError, match="'colour'"):
        used_of_swf(swf([1]), colour="red")


@pytest.mark.needs_data
def test_measured_pods_are_read_as_they_were_published(data: Path) -> None:
    found = read_usage(data / "memory" / "genai-pods-memory-half.csv.gz")
    assert (len(found), len(found.amount), found.interval_s, found.shares) == (104, 109_209, 57, True)
    assert found.changed == {"gap": 1}
    made = thinned(found)
    assert made.points < 0.08 * made.samples
    assert (made.largest_error <= 0.1 * found.peaks() + 1e-9).all()


@pytest.mark.needs_data
def test_real_files_without_use_are_refused(data: Path) -> None:
    with pytest.raises(TraceError, match="no use"):
        read_usage(data / "memory" / "alibaba2018-tasks.csv.gz")
    with pytest.raises(TraceError, match="the same in all"):
        used_of_swf(data / "swf" / "wagap-2013-first-half.swf.gz")
