from __future__ import annotations

import gzip
import inspect
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.errors import InputError, TraceError
from unrack.workload.formats.readers import FORMATS, read_trace
from unrack.workload.formats.source import Source

GOOD = b"; MaxProcs: 8\n1 0 5 100 4 -1 -1 4 200 -1 1 7 3 9 2 1 -1 -1\n2 3 5 100 4 -1 -1 4 200 -1 1 7 3 9 2 1 -1 -1\n"
TABLE = b"id,submit,run,tasks,cores,memory,user\n1,0,10,2,4,100,ann\n2,5,10,2,4,100,bob\n"
USUAL = b"arrival_s,class,time,nvme_bandwidth,capacity_gb,deadline,high_priority\n0,smufin,10,1800,43,99,true\n"
ODD = [*(bytes([code]) for code in b';-.e\n ,"\0\r\xff\xc3'), b"", b"nan", b"1e400", b"9" * 25, b"-1"]


def attempt(data: bytes, name: str | None, **options: object) -> None:
    """Only an InputError (and so a TraceError) may come out."""
    if not data:
        return
    try:
        made = read_trace(Source("fuzz", data), name, **options)
    except InputError:
        return
    assert len(made) == made.intake.kept <= made.intake.read
    assert (made.jobs.submit_us >= 0).all()
    assert (made.jobs.tasks >= 1).all()
    assert (made.jobs.request_us >= made.jobs.work_us).all()


@draws(150)
@given(st.binary(min_size=1, max_size=300), st.sampled_from([None, "swf", "csv", "parquet"]))
def test_random_bytes_are_read_or_refused_in_words(data: bytes, name: str | None) -> None:
    attempt(data, name)


@draws(250)
@given(st.sampled_from([GOOD, TABLE, USUAL]), st.data())
def test_a_mutated_file_is_read_or_refused_in_words(base: bytes, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(base)))
        end = min(len(base), start + data.draw(st.integers(0, 6)))
        base = base[:start] + data.draw(st.sampled_from(ODD)) + base[end:]
    attempt(base, data.draw(st.sampled_from([None, "swf", "csv"])))


@draws(100)
@given(
    st.lists(st.lists(st.one_of(st.integers(), st.floats(), st.text(max_size=5)), min_size=18, max_size=20), max_size=4)
)
def test_lines_of_any_eighteen_values_are_read_or_refused_in_words(rows: list[list[object]]) -> None:
    text = "\n".join(" ".join(map(str, row)) for row in rows)
    attempt(text.encode("utf-8", "replace"), "swf", memory="max", node_spec=True)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty file"),
        (b" \n\n", "empty file"),
        (gzip.compress(b"", mtime=0), "empty file"),
        (gzip.compress(GOOD, mtime=0)[:-12], "damaged gzip"),
        (gzip.compress(GOOD, mtime=0)[:40] + b"xxxx" + gzip.compress(GOOD, mtime=0)[44:], "damaged gzip"),
        (b"\x1f\x8b", "damaged gzip"),
        (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"PK\x03\x04 archive", "zip"),
        (b"\x28\xb5\x2f\xfd frame", "zstd"),
        (b"\x7fELF\0\0\0\x01", "zero byte"),
        (GOOD.decode().encode("utf-16"), "UTF-16"),
        (GOOD[:-5], "line 3"),
        (b"not a trace at all", "column submit"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_its_path(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "log.swf" if words == "line 3" else tmp_path / "log"
    file.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        read_trace(file, strict=True)
    assert caught.value.path == str(file)
    assert words in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "none.swf")
    with pytest.raises(TraceError, match="a folder"):
        read_trace(tmp_path)
    for name in ("a\0b", "x" * 5000):
        with pytest.raises(TraceError):
            read_trace(name)


def test_a_relative_path_is_also_looked_for_in_the_folder_of_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.swf.gz").write_bytes(gzip.compress(GOOD, mtime=0))
    monkeypatch.chdir(tmp_path.parent)
    monkeypatch.setenv("UNRACK_TRACES", str(tmp_path))
    assert read_trace("tiny.swf.gz").name == "tiny"
    assert len(read_trace("$UNRACK_TRACES/tiny.swf.gz")) == 2


def test_the_format_is_found_from_content_whatever_the_name() -> None:
    assert read_trace(Source("x.csv", GOOD)).intake.format == "swf"
    assert read_trace(Source("x.csv", GOOD.split(b"\n", 1)[1])).intake.format == "swf"
    assert read_trace(Source("x.swf", TABLE)).intake.format == "csv"


def test_an_unknown_format_or_option_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(InputError, match="swf, csv, parquet"):
        read_trace(Source("x", GOOD), "json")
    with pytest.raises(InputError, match="overrun, memory"):
        read_trace(Source("x", GOOD), memroy="used")
    with pytest.raises(TraceError, match="Parquet"):
        read_trace(Source("x", GOOD), "parquet")


def test_every_format_lists_options_that_its_reader_documents() -> None:
    for form in FORMATS.values():
        documented = inspect.getdoc(form.reader) or ""
        assert form.options
        assert all(option in documented for option in form.options)
