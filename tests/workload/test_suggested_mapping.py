from __future__ import annotations

import bz2
import lzma
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import TraceError
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.formats.table.read import suggestion

ODD = """\
JobNumber;Owner;Queued At;Started;Finished;Slots;MaxRSS GB;GPU Count;Exit
1;ann;2026-01-02 03:04:05;2026-01-02 03:05:05;2026-01-02 04:05:05;16;1.5;2;0
2;bob;2026-01-02 03:06:05;2026-01-02 03:08:05;2026-01-02 04:05:05;4;2;0;1
"""
MILLIS = "ts\telapsed (min)\tncpu\twho\n1767322800000\t60\t4\ta\n1767322900000\t70\t4\tb\n"


def test_columns_are_known_by_their_words_and_contents() -> None:
    found = suggestion(Source("odd.csv", ODD.encode()))
    assert found is not None
    assert found.jobs == 2
    assert found.columns["submit"] == "Queued At"
    assert (found.columns["start"], found.columns["end"]) == ("Started", "Finished")
    assert (found.columns["cores"], found.columns["memory"]) == ("Slots", "MaxRSS GB")
    assert found.columns["user"] == "Owner"
    assert found.scale == {"memory": 1024}


def test_the_line_for_the_study_reads_the_table(tmp_path: Path) -> None:
    for name, text in (("odd.csv", ODD), ("ms.tsv", MILLIS)):
        (tmp_path / name).write_text(text)
        done = CliRunner().invoke(app, ["trace", "info", str(tmp_path / name)])
        assert isinstance(done.exception, TraceError)
        line = re.findall(r"^ +(workloads = .*)$", done.output, re.MULTILINE)[0]
        (entry,) = tomllib.loads(line)["workloads"]
        assert len(read_trace(entry["trace"], **entry["options"])) == 2


def test_times_in_ms_and_minutes_are_scaled() -> None:
    found = suggestion(Source("ms.tsv", MILLIS.encode()))
    assert found is not None
    assert found.scale == {"submit": 0.001, "run": 60}


def test_what_is_missing_is_said_and_spans_as_text_are_named() -> None:
    found = suggestion(Source("x.csv", b"Datum,Laufzeit,Kerne\n2026-01-02,01:02:03,4\n"))
    assert found is not None
    assert found.jobs is None
    assert "when jobs were submitted" in found.missing[0]
    assert "'Laufzeit' must be seconds, not 01:02:03" in found.missing[1]


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
def test_packed_files_are_read_whatever_their_name(pack: object, tmp_path: Path) -> None:
    assert callable(pack)
    file = tmp_path / "log.swf"
    file.write_bytes(pack(b"id,submit,run\n1,0,10\n"))
    assert len(read_trace(file)) == 1
    file.write_bytes(pack(b"id,submit,run\n1,0,10\n" * 50)[:-20])
    with pytest.raises(TraceError, match="damaged"):
        read_trace(file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<!DOCTYPE html><html><body>404</body></html>", "a web page"),
        (b"\n <?xml version='1.0'?><Error/>", "a web page"),
        (b"%PDF-1.7\n", "a PDF"),
        (b"SQLite format 3\0", "database"),
        (b"PK\x03\x04", "spreadsheet"),
        (b"\x28\xb5\x2f\xfd", "zstd -d"),
        (b"\x89PNG\r\n", "a picture"),
    ],
)
def test_a_file_of_another_kind_gets_one_sentence(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_bytes(content)
    done = CliRunner().invoke(app, ["trace", "info", str(tmp_path / "jobs.csv")])
    assert isinstance(done.exception, TraceError)
    assert words in str(done.exception)
    assert not done.output


CELLS = st.sampled_from(["submit", "end", "run_h", "mem gb", "1", "a", "", "1e300", "01:02", "2026-01-02"])


@draws(100)
@given(st.lists(st.lists(CELLS, min_size=2, max_size=4), min_size=1, max_size=4))
def test_any_table_has_a_suggestion_or_none(rows: list[list[str]]) -> None:
    suggestion(Source("x.csv", "\n".join(",".join(row) for row in rows).encode()))


def test_info_tells_of_states_arrays_and_devices() -> None:
    sample = Path(__file__).parent / "slurm" / "samples" / "sacct.txt"
    done = CliRunner().invoke(
        app, ["trace", "info", str(sample), "-o", "gres.nvme=nvme.devices", "-o", "unfinished=limit"],
        env={"COLUMNS": "200"},
    )  # fmt: skip
    assert "PENDING: 3" in done.output
    assert "4 jobs in 1 arrays" in done.output
    assert "counted.matlab 1: 1 (each: jobs); nvme.devices 1: 1 (each: jobs)" in done.output
