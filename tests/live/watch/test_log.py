"""Logs: one event a line, bounded, without control characters and without secrets."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack.live.watch.log import Events, start_log
from unrack.live.watch.log.cleaning import clean_text
from unrack.live.watch.log.forms import FIELDS, JsonLines, TextLines

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE3MzJ9.c2lnbmF0dXJl"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    log = logging.getLogger("unrack.live")
    before = log.level, log.propagate
    handler = start_log("info", "json", stream)
    yield stream
    log.removeHandler(handler)
    log.level, log.propagate = before


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_object_with_time_level_and_fields(written: io.StringIO) -> None:
    Events("slurm").info("job started", job=17, nodes=("n1", "n2"), wait_s=0.8, held=False, why=None)
    (line,) = lines(written)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info", "event": "job started", "job": 17, "nodes": ["n1", "n2"], "wait_s": 0.8, "held": False,
        "why": None,
    }  # fmt: skip


def test_less_than_the_level_is_not_logged(written: io.StringIO) -> None:
    Events("slurm").debug("polled")
    Events().error("journal full")
    assert [line["event"] for line in lines(written)] == ["journal full"]


def test_secrets_are_hidden_by_their_names_and_by_their_looks(written: io.StringIO) -> None:
    Events().warning(
        f"sent X-SLURM-USER-TOKEN: {TOKEN}",
        token="abc",
        slurm_jwt="abc",
        Authorization="abc",
        environment={"HOME": "abc"},
        answer=f"401 Bearer {TOKEN}, password=abc MUNGE:abc",
        nested={"deep": {"api_key": "abc", "list": [f"SLURM_JWT={TOKEN}"]}},
    )
    text = written.getvalue()
    assert "abc" not in text
    assert "eyJ" not in text
    assert text.count("[hidden]") == 10


def test_what_a_user_wrote_stays_on_its_line(written: io.StringIO) -> None:
    Events().info("refused", name='x\n{"level": "error", "event": "forged"}\x1b[31m\u2028')
    assert [line["event"] for line in lines(written)] == ["refused"]
    assert "\x1b" not in written.getvalue()
    assert written.getvalue().count("\n") == 1
    assert written.getvalue().isascii()


def test_long_values_are_cut_and_lines_have_an_end(written: io.StringIO) -> None:
    deep: list[Any] = []
    deep.append(deep)
    Events().info("much", text="x" * 10**6, many=list(range(10**5)), number=10**10_000, deep=deep, raw=b"\xff" * 10**6)
    (line,) = lines(written)
    assert len(written.getvalue()) < 5000
    assert len(line["text"]) == 500
    assert line["many"][-1] == "... and 99950 more"


def test_the_fields_of_every_event_cannot_be_hidden(written: io.StringIO) -> None:
    logging.getLogger("unrack.live").info("real", extra={FIELDS: {"event": "forged", "time": 0, "level": "debug"}})
    (line,) = lines(written)
    assert (line["event"], line["event_"], line["level"]) == ("real", "forged", "info")


def test_plain_records_of_other_files_and_broken_ones_are_written_too(written: io.StringIO) -> None:
    logging.getLogger("unrack.live.fabric").warning("attach of %s failed", "d1")
    assert [line["event"] for line in lines(written)] == ["attach of d1 failed"]
    broken = logging.LogRecord("unrack.live", logging.INFO, __file__, 1, "two %s of %s", ("one",), None)
    assert json.loads(JsonLines().format(broken))["event"] == "two %s of %s"


def test_an_exception_is_told_with_its_end(written: io.StringIO) -> None:
    try:
        raise ValueError("x" * 10_000 + "the end")
    except ValueError:
        logging.getLogger("unrack.live").exception("fault")
    (line,) = lines(written)
    assert line["trace"].endswith("the end\\n")
    assert len(line["trace"]) <= 4000


def record(fields: dict[str, Any]) -> logging.LogRecord:
    made = logging.LogRecord("unrack.live", logging.INFO, __file__, 1, "%s", ("event",), None)
    setattr(made, FIELDS, fields)
    return made


ANY = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters()), st.binary()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(st.characters()), inner), st.sets(st.integers())),
    max_leaves=20,
)


@given(st.dictionaries(st.text(st.characters()), ANY, max_size=8))
def test_any_fields_make_one_line_of_json_and_one_of_text(fields: dict[str, Any]) -> None:
    line = JsonLines().format(record(fields))
    assert isinstance(json.loads(line), dict)
    assert line.isprintable()
    assert TextLines().format(record(fields)).isprintable()


@pytest.mark.parametrize("piece", ["eyJ", "eyJa.", "Bearer ", "password=", "x", "JWT=", "\\", "\x00"])
def test_looking_for_secrets_takes_no_time(piece: str) -> None:
    begun = time.perf_counter()
    assert len(clean_text(piece * (10**6 // len(piece)))) <= 500
    assert time.perf_counter() - begun < 0.5


def test_people_read_text_on_a_terminal_and_machines_json() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    log = logging.getLogger("unrack.live")
    before = log.level, log.propagate
    for form, stream, kind in (("auto", Terminal(), TextLines), ("auto", io.StringIO(), JsonLines),
                               ("json", Terminal(), JsonLines), ("text", io.StringIO(), TextLines)):  # fmt: skip
        handler = start_log("info", form, stream)
        log.removeHandler(handler)
        assert isinstance(handler.formatter, kind)
    log.level, log.propagate = before
    line = TextLines().format(record({"job": 1, "name": "two words", "user": "kim"}))
    assert line.split(" ", 1)[1] == 'info    event job=1 name="two words" user=kim'
