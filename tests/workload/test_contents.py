from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from unrack.cli.trace.trace import app
from unrack.errors import InputError
from unrack.workload.account import describe
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

HOUR = 3_600_000_000


def made(header: dict[str, str], submit_us: list[int]) -> Workload:
    size = len(submit_us)
    jobs = job_table(
        submit_us=np.array(submit_us, np.int64),
        work_us=np.full(size, HOUR),
        request_us=np.full(size, 2 * HOUR),
        tasks=np.arange(1, size + 1),
        cores=np.full(size, 4),
        user=pl.Series(["ann"] * size, dtype=pl.String),
    )
    return Workload("made", jobs, Intake("made.swf", "swf", size, size, {"run missing": 2}, {}, {"app": size}, header))


def test_the_account_holds_the_numbers_of_a_small_workload() -> None:
    contents = describe(made({"MaxProcs": "8"}, [0, HOUR, 4 * HOUR]), nodes=2, cores=4)
    assert contents["core_hours"] == 24
    assert contents["cores"] == {"min": 4, "p25": 4, "median": 8, "p75": 12, "p95": 12, "max": 12, "mean": 8}
    assert contents["accuracy"]["median"] == 0.5
    assert contents["load"] == {"offered": 0.75, "cores": 8, "against": "the cluster given"}
    assert contents["too_big"] == {"nodes": 2, "cores": 4, "jobs": 1, "ids": ["3"], "largest": 12}
    assert contents["common_sizes"] == {"4": 1, "8": 1, "12": 1}
    assert contents["arrivals"]["hour"][:5] == [1, 1, 0, 0, 1]
    assert contents["dropped"][0]["sentence"].startswith("A job without a run time")
    json.dumps(contents, allow_nan=False)


def test_a_task_wider_than_a_node_is_too_big_however_many_nodes_there_are() -> None:
    assert describe(made({}, [0]), nodes=1000, cores=3)["too_big"]["jobs"] == 1


@pytest.mark.parametrize(
    ("header", "clock", "first"),
    [
        ({"UnixStartTime": "843480031", "TimeZoneString": "Europe/Stockholm"}, "Europe/Stockholm", "1996-09-23 14:00"),
        ({"UnixStartTime": "843480031", "TimeZone": "3600"}, "UTC+1 h", "1996-09-23 13:00"),
        ({"UnixStartTime": "843480031", "TimeZoneString": "Mars/Olympus"}, "UTC", "1996-09-23 12:00"),
        ({"UnixStartTime": "soon"}, "hours since the log began", None),
        ({}, "hours since the log began", None),
    ],
)
def test_hours_are_local_where_the_header_dates_them(header: dict[str, str], clock: str, first: str | None) -> None:
    contents = describe(made(header, [0]))
    assert (contents["arrivals"]["clock"], contents["span"]["first"]) == (clock, first)


def test_submissions_that_are_unix_times_are_dates_themselves() -> None:
    contents = describe(made({}, [1_356_996_147_000_000]))
    assert contents["span"]["first"] == "2012-12-31 23:22"
    assert contents["arrivals"]["weekday"]["Monday"] == 1


def test_a_workload_without_jobs_can_be_described() -> None:
    contents = describe(made({"MaxProcs": "8"}, []), nodes=1)
    assert (contents["cores"], contents["load"], contents["too_big"]["jobs"]) == (None, None, 0)
    json.dumps(contents, allow_nan=False)


def test_the_command_makes_converts_and_tells(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(
        'jobs = 100\nusers = 3\narrivals = { load = 0.5, cores = 64 }\n[[classes]]\nname = "[a]"\n'
        'run_s = { kind = "exponential", mean = 60 }\ntasks = { kind = "power-of-two", max = 32 }\n'
    )
    run = CliRunner().invoke
    swf, csv = str(tmp_path / "made.swf.gz"), str(tmp_path / "made.csv")
    assert run(app, ["make", str(tmp_path / "spec.toml"), swf, "--seed", "3"]).output == f"{swf}: 100 jobs\n"
    assert run(app, ["convert", swf, csv, "-o", "overrun=keep"]).output == f"{csv}: 100 jobs\n"
    told = run(app, ["info", csv, "--nodes", "8", "--cores", "1"])
    assert told.exit_code == 0
    for words in ("100 of 100 read", "run time", "do not fit", "Submissions by hour"):
        assert words in told.output
    contents = json.loads(run(app, ["info", csv, "--json"]).output)
    assert contents["jobs"] == {"read": 100, "kept": 100}


@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "none.swf"],
        ["info", "none.swf", "-o", "memory"],
        ["info", "none.swf", "-o", "columns=1", "-o", "columns.run=2"],
        ["make", "none.toml", "x.swf"],
    ],
)
def test_the_command_lets_a_wrong_input_through_as_an_input_error(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, InputError)
