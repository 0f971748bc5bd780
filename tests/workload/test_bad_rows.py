"""A row that cannot be read is left out and counted; a file that is mostly so, and any under strict, is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import TraceError
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.job import Workload

SACCT = "JobID|JobName|Submit|ElapsedRaw|TimelimitRaw|State|AllocCPUS\n"
ROW = "{}|{}|2026-01-02T03:04:05|{}|60|{}|4\n"
GOOD = "".join(ROW.format(job, "a", 60, "COMPLETED") for job in (1, 2, 3))
SWF = "{} 0 0 {} 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1\n"


def read(text: str | bytes, **options: object) -> Workload:
    return read_trace(Source("jobs.txt", text if isinstance(text, bytes) else text.encode()), **options)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (ROW.format(4, "a|b", 60, "COMPLETED"), "line 3: got"),
        (ROW.format(4, "a", "60s", "COMPLETED"), "line 3, elapsedraw: got '60s'"),
        (ROW.format("4x", "a", 60, "COMPLETED"), "line 3, jobid: got '4x'"),
        (ROW.format(4, "a", 60, "DONE"), "line 3, state: got 'DONE'"),
        ("4|a|02/01/2026 03:04|60|60|COMPLETED|4\n", "line 3, submit"),
        ("4|a|2026-01-02T\n", "line 3: got"),
    ],
)
@pytest.mark.parametrize("ending", ["", "|"])
def test_a_bad_row_of_sacct_is_left_out_and_counted(bad: str, words: str, ending: str) -> None:
    first, rest = GOOD.split("\n", 1)
    text = (SACCT + first + "\n" + bad + rest).replace("\n", ending + "\n")
    made = read(text)
    assert made.jobs.ids.to_list() == [1, 2, 3]
    assert dict(made.intake.dropped) == {"bad row": 1}
    assert (made.intake.read, made.intake.kept) == (4, 3)
    assert words in made.intake.examples["bad row"]
    with pytest.raises(TraceError) as caught:
        read(text, strict=True)
    assert words in str(caught.value)


def test_several_kinds_of_bad_rows_are_all_counted_whatever_their_order() -> None:
    bad = [ROW.format(4, "a|b", 60, "COMPLETED"), ROW.format(5, "a", 60, "DONE"), ROW.format(6, "a", "x", "COMPLETED")]
    made = read(SACCT + bad[0] + GOOD + bad[1] + GOOD.replace("|a|", "|b|") + bad[2] + bad[1])
    assert made.intake.dropped["bad row"] == 4
    assert len(made) == 3


def test_a_name_with_the_delimiter_in_it_never_shifts_the_columns() -> None:
    head = SACCT.replace("AllocCPUS", "AllocCPUS|Reservation")
    made = read(
        head + ROW.format(1, "a", 60, "COMPLETED")[:-1] + "|r\n" + ROW.format(2, "4|4", 60, "COMPLETED")[:-1] + "|\n"
    )
    assert (made.jobs.ids.to_list(), made.intake.dropped["bad row"]) == ([1], 1)
    assert len(read(SACCT + GOOD.replace("\n", "|\n"))) == 3


def test_a_file_that_is_mostly_bad_is_refused() -> None:
    with pytest.raises(TraceError, match="line 3, elapsedraw"):
        read(SACCT + ROW.format(1, "a", 60, "COMPLETED") + ROW.format(2, "a", "x", "COMPLETED") * 2)


def test_marks_of_windows_and_a_cut_last_line_are_no_harm() -> None:
    text = b"\xef\xbb\xbf" + (SACCT + GOOD + ROW.format(4, "a", 60, "COMPLETED")[:-16]).replace("\n", "\r\n").encode()
    made = read(text)
    assert (made.jobs.ids.to_list(), made.intake.dropped["bad row"]) == ([1, 2, 3], 1)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("id,submit,run\n1,0,10\n2,x,10\n\n3,0,10\n4,0\n5,0,10\n", ["line 6", "2 fields"]),
        ("id,submit,run\n1,0,10\n\n2,x,10\n3,0,10\n", ["line 4", "submit"]),
        ('id,submit,run\n1,0,10\n2,0,10,7\n"3\n3",0,10\n4,0,1\n', ["line 3", "4 fields"]),
        ("; UnixStartTime: 0\n" + SWF.format(1, 10) + SWF.format(2, "x") + "\n" + SWF.format(3, 5), ["line 3", "'x'"]),
        (SWF.format(1, 10) + "1 2 3\n" + SWF.format(3, 5), ["line 2", "3 fields"]),
        ("JOBID|ST|CPUS|TIME_LIMIT\n1|PD|1|1:00:00\n2|PD|x|1:00:00\n3|PD|1|1:00:00\n", ["line 3", "ncpus"]),
    ],
)
def test_every_format_of_lines_does_so(text: str, lines: list[str]) -> None:
    made = read(text)
    assert len(made) == made.intake.kept >= 2
    assert made.intake.read == made.intake.kept + sum(made.intake.dropped.values())
    assert all(words in made.intake.examples["bad row"] for words in lines)
    with pytest.raises(TraceError, match=lines[0]):
        read(text, strict=True)


def test_a_row_whose_promise_cannot_be_kept_is_still_refused() -> None:
    with pytest.raises(TraceError, match="line 3"):
        read("id,submit,run,memory,local\n1,0,10,8,1\n2,0,10,8,-1\n3,0,10,8,1\n")


def test_a_wrong_header_is_never_a_bad_row() -> None:
    with pytest.raises(TraceError, match="no such column"):
        read("JobID|State|AllocCPUS\n1|COMPLETED|1\n2|COMPLETED|1\n")


def test_the_command_tells_or_refuses(tmp_path: Path) -> None:
    log = tmp_path / "jobs.txt"
    log.write_text(SACCT + GOOD + ROW.format(4, "a", "x", "COMPLETED"))
    told = CliRunner().invoke(app, ["trace", "info", str(log)])
    assert told.exit_code == 0
    assert "bad row" in told.output
    assert "line 5" in told.output
    assert isinstance(CliRunner().invoke(app, ["trace", "info", str(log), "--strict"]).exception, TraceError)


def test_a_resource_that_was_cut_off_in_an_aligned_table_is_a_bad_row() -> None:
    head = (
        "JobID  Submit              Elapsed  State      AllocCPUS AllocTRES \n"
        "------ ------------------- -------- ---------- --------- ----------\n"
    )
    row = "{:6} 2026-01-02T03:04:05 00:01:00 COMPLETED          4 {:10}\n"
    made = read(head + row.format("1", "cpu=4") + row.format("2", "billing=4+") + row.format("3", "cpu=4,mem=+"))
    assert (made.jobs.ids.to_list(), made.intake.dropped["bad row"]) == ([1], 2)


@pytest.mark.parametrize(("quoted", "what"), [('"c, d"', "c, d"), ('x"y', 'x"y'), ('"two\n\nlines"', "two\n\nlines")])
def test_bad_rows_of_a_table_with_quotes_are_left_out_with_their_lines(quoted: str, what: str) -> None:
    made = read(f"submit,run,what\n0,1,{quoted}\n\n1,abc,{quoted}\n2,5,{quoted}\n3,6\n4,7,{quoted}\n,,\n")
    assert made.jobs.work_us.tolist() == [1_000_000, 5_000_000, 7_000_000]
    assert (made.intake.read, dict(made.intake.dropped)) == (6, {"submit missing": 1, "bad row": 2})
    assert made.jobs.extra["what"].to_list() == [what] * 3
