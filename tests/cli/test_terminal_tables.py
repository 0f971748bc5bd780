"""The comparison fits the terminal, breaks no word, and has the units of the report."""

from __future__ import annotations

import io
import re
import shlex
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.cli.study.comparison import Heading, broken, drawn
from unrack.units import time_unit

NAMES = ["nvme-attached", "disaggregation-aware", "first-fit, world=base", "conservative(order=sjf, nodes=whole)"]
METRICS = [
    Heading("missed deadlines", "%"), Heading("mean wait", "min"), Heading("bounded slowdown", ""),
    Heading("cores in use", "%"), Heading("finished", ""), Heading("rejected", ""),
]  # fmt: skip
NUMBERS = ["[bold green]0.541[/]", "11,828 ± 1,020 ≈", "4,038", "55.6", "150,000", "0"]


def lines_at(width: int) -> tuple[list[str], list[str]]:
    rows = [([name, policy], NUMBERS) for name in NAMES[:2] for policy in NAMES]
    table, left_out = drawn(["cluster", "policy"], METRICS, rows, width)
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(table)
    return stream.getvalue().splitlines(), left_out


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_a_table_fits_breaks_no_word_and_tells_what_is_left_out(width: int) -> None:
    lines, left_out = lines_at(width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    words = set(re.findall(r"[^\s│┃━┏┓┡╇┩┳└┴┘├┼┤─]+", text))
    known = {part.strip() for name in [*NAMES, "cluster", "policy"] for part in re.split(r"(?<=[-,(=_ ])", name)}
    headings = {word for heading in METRICS for word in heading.text.split()}
    numbers = {word for cell in NUMBERS for word in re.sub(r"\[.*?\]", "", cell).split()}
    for word in words:
        pieces = {part.strip() for part in re.split(r"(?<=[-,(=_])", word) if part}
        assert word in headings | numbers or pieces <= known | headings, word
    shown = [heading for heading in METRICS if heading.words not in left_out]
    assert [heading.words for heading in METRICS[len(shown) :]] == left_out
    assert ("…" in text) is False


def test_a_wide_terminal_has_every_column_and_headings_on_one_line() -> None:
    lines, left_out = lines_at(200)
    assert left_out == []
    assert "missed deadlines, %" in lines[1]
    assert len(lines_at(60)[1]) > len(lines_at(100)[1])


def test_a_terminal_too_narrow_for_any_table_still_has_one_that_fits() -> None:
    lines, left_out = lines_at(34)
    assert max(map(len, lines)) <= 34
    assert len(left_out) == len(METRICS) - 1


def test_names_are_broken_behind_signs_only() -> None:
    assert broken("conservative(order=sjf, nodes=whole)", 13).splitlines() == [
        "conservative(", "order=sjf,", "nodes=whole)",
    ]  # fmt: skip
    assert broken("contention-aware", 100) == "contention-aware"


def test_times_of_a_column_are_in_the_unit_that_fits_the_largest() -> None:
    assert [time_unit([value])[0] for value in (0, 119.9, 120, 7199, 7200, 863_999, 864_000)] == [
        "s", "s", "min", "min", "h", "h", "d",
    ]  # fmt: skip


def test_the_long_list_of_policies_says_what_they_take() -> None:
    plain, long = (CliRunner().invoke(app, ["policies", *more]).output for more in ([], ["--long"]))
    assert ("order:" in plain, "order:" in long) == (False, True)


@pytest.mark.parametrize("command", ["policies", "policies --long", "traces", "plugins", "init --list"])
def test_lists_keep_words_whole_on_a_terminal_and_lines_whole_in_a_pipe(monkeypatch: Any, command: str) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    piped = CliRunner().invoke(app, shlex.split(command)).output
    narrow = CliRunner(env={"COLUMNS": "50"}).invoke(app, shlex.split(command)).output
    assert narrow.split() == piped.split()
    assert max(map(len, narrow.splitlines())) <= 50 < max(map(len, piped.splitlines()))
