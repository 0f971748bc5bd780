from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tries import draws

from unrack.errors import InputError, TraceError
from unrack.workload.account import describe
from unrack.workload.filters import filtered
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.rules import Intake
from unrack.workload.formats.source import Source
from unrack.workload.formats.table.read import read_table
from unrack.workload.formats.writers import write_trace
from unrack.workload.job import JobTable, Workload, job_table
from unrack.workload.tier_asks import NO_CEILING, TierAsks, tier_asks

TABLE = (
    "id,arrival,lifetime,cores,mem_gb,local_gb,ceiling_gb,group,spread,forbidden\n"
    "a,0,7200,8,32,3.2,40.0001,shop,rack,\n"
    "b,0,7200,8,32,3.2,40.0001,shop,rack,\n"
    "c,60,900,2,4,,,,,distant; rack\n"
)


def read(text: str = TABLE, **options: Any) -> JobTable:
    return read_table(Source("servers.csv", text.encode()), **options).jobs


def asks_of(jobs: JobTable) -> TierAsks:
    assert jobs.slo is not None
    return jobs.slo


def test_a_table_says_in_words_and_units_what_its_servers_ask_of_tiers() -> None:
    jobs = read()
    asks = asks_of(jobs)
    assert asks.floor_mb.tolist() == [3277, 3277, 0], "a floor is a demand: rounded up"
    assert asks.ceiling_mb.tolist() == [40960, 40960, NO_CEILING], "a ceiling is a limit: rounded down"
    demand, other = jobs.job(0).demand, jobs.job(2).demand
    assert (demand.local_mb, demand.ceiling_mb, demand.group, demand.spread) == (3277, 40960, "shop", "rack")
    assert (other.local_mb, other.ceiling_mb, other.group, other.spread) == (0, None, "", "")
    assert demand.forbidden == ()
    assert other.forbidden == ("distant", "rack")


@pytest.mark.parametrize("floor", ["local", "local_SLA", "SLO local", "slo-local", "localSlo"])
@pytest.mark.parametrize("ceiling", ["ceiling", "remote_SLA", "slo_remote"])
def test_the_usual_names_of_floors_and_ceilings_are_known(floor: str, ceiling: str) -> None:
    asks = asks_of(read(f"submit,run,memory,{floor},{ceiling}\n0,1,100,10,150\n"))
    assert (asks.floor_mb.tolist(), asks.ceiling_mb.tolist()) == ([10], [150])


@pytest.mark.parametrize(
    ("was", "now", "line", "field", "got"),
    [
        ("3.2,40.0001,shop", "-3.2,40.0001,shop", 2, "local_gb", "-3.2"),
        ("3.2,40.0001,shop", "33,40.0001,shop", 2, "local_gb", "33792 MB"),
        ("3.2,40.0001,shop", "3.2,-1,shop", 2, "ceiling_gb", "-1.0"),
        ("3.2,40.0001,shop", "3.2,much,shop", 2, "ceiling_gb", "'much'"),
        ("3.2,40.0001,shop", "3.2,1e12,shop", 2, "ceiling_gb", "1000000000000.0"),
        ("b,0,7200,8,32,3.2,40.0001,shop,rack", "b,0,7200,8,32,3.2,40.0001,shop,chassis", 3, "spread", "'chassis'"),
        ("b,0,7200,8,32,3.2,40.0001,shop,rack", "b,0,7200,8,32,3.2,40.0001,shop,", 3, "spread", "'none'"),
        ("2,4,,,,,", "2,4,,,,rack,", 4, "spread", "'rack'"),
        ("c,60,900,2,4", "c,60,900,2,-4", 4, "mem_gb", "-4096 MB"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_its_line_and_field(
    was: str, now: str, line: int, field: str, got: str
) -> None:
    assert was in TABLE
    with pytest.raises(TraceError) as caught:
        read(TABLE.replace(was, now, 1))
    assert (caught.value.line, caught.value.field) == (line, field)
    assert caught.value.got == got


def test_several_tasks_with_asks_of_tiers_are_refused_and_without_them_are_not() -> None:
    with pytest.raises(TraceError, match="line 3, tasks: got 2, wanted 1"):
        read("submit,run,tasks,memory,local\n0,1,1,8,4\n0,1,2,8,\n")
    jobs = read("submit,run,tasks,memory,local\n0,1,1,8,\n0,1,2,8,NA\n")
    assert jobs.slo is None, "a column without an entry asks nothing"


def test_a_column_group_means_replicas_only_beside_spread_or_where_it_is_said() -> None:
    text = "submit,run,tasks,memory,group\n0,1,4,8,g\n1,1,4,8,g\n"
    jobs = read(text)
    assert jobs.slo is None
    assert jobs.extra["group"].to_list() == ["g", "g"]
    single = text.replace(",4,", ",1,")
    assert asks_of(read(single, columns={"group": "group"})).group_names == ("g",)
    spread = asks_of(read(single.replace("\n1,1,1,8,g", "\n1,1,1,8,"), defaults={"spread": "rack"}))
    assert spread.spread.tolist() == [0, -1], "the default is for those in a group"
    lone = read("submit,run,spread\n0,1,wide\n")
    assert lone.slo is None
    assert lone.extra.columns == ["spread"]


def test_a_log_with_unix_groups_survives_a_conversion_to_a_table(tmp_path: Path) -> None:
    line = "1 0 5 100 4 -1 -1 4 200 -1 1 7 3 9 2 1 -1 -1\n"
    log = read_trace(Source("log.swf", line.encode()))
    write_trace(tmp_path / "log.csv", log)
    again = read_trace(tmp_path / "log.csv").jobs
    assert again.slo is None
    assert again.tasks.tolist() == [4]
    assert again.extra["group"].to_list() == [3]


def test_the_api_refuses_what_a_file_may_not_say() -> None:
    def build(tasks: int = 1, **asks: Any) -> JobTable:
        columns = {"floor_mb": np.array([1, 1]), **asks}
        one = np.ones(2, np.int64)
        return job_table(submit_us=one, work_us=one, tasks=one * tasks, memory_mb=one * 8, slo=tier_asks(**columns))

    assert asks_of(build()).floor_mb.tolist() == [1, 1]
    with pytest.raises(InputError, match="job 1, tasks"):
        build(tasks=2)
    with pytest.raises(InputError, match="job 2, local: got 9 MB, wanted at most its memory of 8 MB"):
        build(floor_mb=np.array([8, 9]))
    with pytest.raises(InputError, match="job 2, local: got -1 MB"):
        build(floor_mb=np.array([0, -1]))
    with pytest.raises(InputError, match="job 1, ceiling: got -7 MB"):
        build(ceiling_mb=np.array([-7, 0]))
    with pytest.raises(InputError, match="job 2, spread: got 'a', wanted 'b', as the others of group 'g'"):
        build(group=pl.Series(["g", "g"]), spread=pl.Series(["b", "a"]))


@st.composite
def servers(draw: st.DrawFn) -> JobTable:
    size = draw(st.integers(1, 8))
    levels = {"g1": None, "g2": "rack", "a group": "power feed"}

    def column(low: int, high: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array(draw(st.lists(st.integers(low, high), min_size=size, max_size=size)), np.int64)

    memory = column(0, 2**40)
    group = draw(st.lists(st.sampled_from([None, *levels]), min_size=size, max_size=size))
    tiers = st.none() | st.sampled_from(["far", "rack pool", "far;rack pool"])
    return job_table(
        submit_us=column(0, 10**12),
        work_us=column(1, 10**12),
        tasks=np.ones(size, np.int64),
        cores=column(1, 30),
        memory_mb=memory,
        slo=tier_asks(
            memory * column(0, 100) // 100,
            np.where(column(0, 3) > 0, memory, NO_CEILING),
            group=pl.Series(group, dtype=pl.String),
            spread=pl.Series([None if name is None else levels[name] for name in group], dtype=pl.String),
            forbidden=pl.Series(draw(st.lists(tiers, min_size=size, max_size=size)), dtype=pl.String),
        ),
    )


@draws(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(servers(), st.sampled_from(["csv", "csv.gz", "parquet"]))
def test_what_is_written_is_read_back_the_same(tmp_path: Path, jobs: JobTable, ending: str) -> None:
    write_trace(tmp_path / f"servers.{ending}", Workload("w", jobs, Intake("w", "generated", len(jobs), len(jobs))))
    assert read_trace(tmp_path / f"servers.{ending}").jobs.digest() == jobs.digest()


@given(servers(), st.data())
def test_rows_keep_their_asks_when_they_are_taken(jobs: JobTable, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(jobs) - 1), max_size=6))
    taken = jobs.take(np.array(rows, np.int64))
    assert [taken.job(place).demand for place in range(len(rows))] == [jobs.job(row).demand for row in rows]


def test_filters_and_scaling_keep_the_asks_with_their_servers() -> None:
    workload = read_table(Source("servers.csv", TABLE.encode()))
    made = filtered(workload, {"sizes": [1, 4], "scale_load": 2, "rebase": 0}).jobs
    assert [made.job(0).demand.forbidden, made.job(0).id] == [("distant", "rack"), "c"]


def test_the_digest_follows_every_ask_and_is_unchanged_without_any() -> None:
    jobs = read()
    asks = asks_of(jobs)
    other = [
        replace(asks, floor_mb=asks.floor_mb + 1),
        replace(asks, ceiling_mb=asks.ceiling_mb - 1),
        replace(asks, group=asks.group[::-1].copy()),
        replace(asks, spread=asks.spread - 1),
        replace(asks, forbidden=~asks.forbidden),
        replace(asks, group_names=("other",)),
        replace(asks, tier_names=("x", "y")),
        None,
    ]
    assert len({jobs.digest(), *(replace(jobs, slo=slo).digest() for slo in other)}) == len(other) + 1
    known = "ecc3a2f9"  # of a table without asks, as it was before there were any
    plain = job_table(submit_us=np.array([0, 5]), work_us=np.array([7, 8]), tasks=np.array([1, 2]))
    assert plain.digest().startswith(known)


def test_the_account_of_a_workload_tells_what_is_asked() -> None:
    told = describe(read_table(Source("servers.csv", TABLE.encode())))["tiers"]
    assert told["local_mb"]["max"] == 3277
    assert told["no_ceiling"] == 1
    assert told["alpha"]["max"] == pytest.approx(40960 / (32768 - 3277))
    assert (told["groups"], told["replicas"], told["spread"]) == (1, 2, {"rack": 2})
    assert told["forbidden"] == {"distant": 1, "rack": 1}
    assert describe(read_table(Source("t.csv", b"submit,run\n0,1\n")))["tiers"] is None
