from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.errors import InputError
from unrack.live.journal.disk import Disk
from unrack.live.journal.journal import Journal
from unrack.live.journal.reading import read_journal
from unrack.live.journal.record import DEPTH_MAX, DIGITS_MAX, line_of, record_of
from unrack.live.journal.segments import Tail

FAST = Disk(durable=False)
TEXT = st.text(st.characters(codec=None, categories=None), max_size=20).filter(
    lambda text: text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") == text
)
VALUE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
RECORD = st.dictionaries(TEXT, VALUE, max_size=4)


def values(folder: Path, **how: Any) -> list[Any]:
    return [record.value for record in read_journal(folder, **how)]


@given(record=RECORD, number=st.integers(1, 2**63))
def test_a_record_comes_back_as_it_was(record: dict[str, Any], number: int) -> None:
    line = line_of(number, number, 0, record)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    read = record_of(line)
    assert read is not None
    assert repr(read.value) == repr(record)  # also -0.0, and True beside 1
    assert json.loads(line)["record"] == record


def test_large_records_and_numbers_come_back(tmp_path: Path) -> None:
    record = {"text": "x\n\x00é😀" * 30_000, "number": 10**DIGITS_MAX - 1, "\ud800": ["\udfff", "\udfff\ud83d"]}
    with Journal.open(tmp_path) as journal:
        journal.append([record, {"tuple": (1, 2)}])
    assert values(tmp_path) == [record, {"tuple": [1, 2]}]


def test_two_halves_of_a_character_come_back_as_the_character(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        journal.append([{"name": "\ud83d\ude00"}])
    assert values(tmp_path) == [{"name": "😀"}]


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        10**DIGITS_MAX,
        {1: 2},
        {None: 1},
        {"a", "b"},
        b"bytes",
        Path("p"),
        {"\ud83d\ude00": 1, "😀": 2},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_not_come_back_is_refused_and_nothing_is_written(tmp_path: Path, value: Any) -> None:
    with Journal.open(tmp_path) as journal:
        with pytest.raises(InputError, match="record 2"):
            journal.append([{"fine": 1}, {"a": [value]}])
        assert journal.size_bytes == 0
        journal.append([{"fine": 2}])
    assert values(tmp_path) == [{"fine": 2}]


def test_nesting_is_bounded(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(DEPTH_MAX - 2):
        deep = [deep]
    with Journal.open(tmp_path) as journal:
        journal.append([{"a": deep}])
        with pytest.raises(InputError, match="nested"):
            journal.append([{"a": [deep]}])
        around: list[Any] = []
        around.append(around)
        with pytest.raises(InputError, match="nested"):
            journal.append([{"a": around}])
    assert values(tmp_path) == [{"a": deep}]


@draws(30)
@given(record=RECORD, bit=st.data())
def test_every_flipped_bit_of_a_line_is_found(record: dict[str, Any], bit: st.DataObject) -> None:
    line = bytearray(line_of(3, 2, 1, record))
    at = bit.draw(st.integers(0, 8 * len(line) - 1))
    line[at // 8] ^= 1 << at % 8
    assert record_of(bytes(line)) is None


def test_a_cut_at_every_byte_leaves_all_whole_batches_before_it(tmp_path: Path) -> None:
    batches = [[{"a": 1}], [{"b": "two"}, {"b": 2}, {"c": [1, 2]}], [{"d": {"e": None}}, {"f": 1.5}]]
    whole, ends = tmp_path / "whole", [0]
    with Journal.open(whole) as journal:
        for batch in batches:
            journal.append(batch)
            ends.append(journal.size_bytes)
    (segment,) = whole.iterdir()
    content = segment.read_bytes()
    for size in range(len(content)):
        folder = tmp_path / str(size)
        folder.mkdir()
        (folder / segment.name).write_bytes(content[:size])
        kept = sum(end <= size for end in ends) - 1
        wanted = [record for batch in batches[:kept] for record in batch]
        tails: list[Tail] = []
        assert values(folder, on_tail=tails.append) == wanted
        with Journal.open(folder, disk=FAST) as journal:
            assert [record.value for record in journal.read()] == wanted
            if size == ends[kept]:
                assert journal.tail is None
                assert not tails
            else:
                assert journal.tail is not None
                assert journal.tail.kept_in is not None
                assert tails == [journal.tail._replace(kept_in=None)]
                assert journal.tail.kept_in.read_bytes() == content[ends[kept] : size]
                assert journal.tail.line == 1 + len(wanted)
            journal.append([{"next": 1}])
        assert values(folder) == [*wanted, {"next": 1}]


def test_a_flipped_bit_is_an_error_with_its_line_and_in_the_last_batch_it_is_a_tail(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        for i in range(3):
            journal.append([{"i": i, "j": j} for j in range(2)])
        last = journal.size_bytes
    (segment,) = tmp_path.iterdir()
    content = segment.read_bytes()
    starts = [0, *(at + 1 for at, byte in enumerate(content) if byte == 10)]
    assert last == len(content)
    assert len(starts) == 7
    for at in range(len(content)):
        line = sum(start <= at for start in starts)
        segment.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        if line <= 4:
            with pytest.raises(InputError, match=rf"{segment.name}, line {line}: "):
                values(tmp_path)
            with pytest.raises(InputError, match=rf"{segment.name}, line {line}: "):
                Journal.open(tmp_path)
        else:
            assert len(values(tmp_path)) == 4


@pytest.mark.parametrize("change", ["doubled", "left out", "swapped"])
def test_lines_that_are_whole_but_in_the_wrong_place_are_an_error(tmp_path: Path, change: str) -> None:
    with Journal.open(tmp_path) as journal:
        for i in range(4):
            journal.append([{"i": i}])
    (segment,) = tmp_path.iterdir()
    a, b, c, d = segment.read_bytes().splitlines(keepends=True)
    lines = {"doubled": [a, b, b, c, d], "left out": [a, c, d], "swapped": [a, c, b, d]}[change]
    segment.write_bytes(b"".join(lines))
    with pytest.raises(InputError, match=r"line [23]: "):
        values(tmp_path)


def test_rotation_keeps_as_many_segments_as_asked(tmp_path: Path) -> None:
    with Journal.open(tmp_path, keep=2) as journal:
        for i in range(6):
            journal.append([{"i": i}, {"i": i}])
            before = journal.segment_bytes
            journal.rotate({"snapshot": i})
            assert journal.segment_bytes < before
            assert journal.size_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
        numbers = [record.number for record in journal.read()]
        assert numbers == list(range(numbers[0], 19))
        assert values(tmp_path)[0] == {"snapshot": 3}
        assert values(tmp_path, from_newest_snapshot=True) == [{"snapshot": 5}]
    assert len(list(tmp_path.iterdir())) == 3
    with Journal.open(tmp_path, keep=0) as journal:
        journal.rotate({"snapshot": 6})
    assert values(tmp_path) == [{"snapshot": 6}]


def test_a_new_journal_may_begin_with_a_snapshot(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "a" / "b") as journal:
        journal.rotate({"snapshot": 0})
        journal.append([{"a": 1}])
    assert values(tmp_path / "a" / "b") == [{"snapshot": 0}, {"a": 1}]
    assert len(list((tmp_path / "a" / "b").iterdir())) == 1


@pytest.mark.parametrize("which", [0, 1, 2])
def test_damage_and_gaps_in_any_segment_are_errors(tmp_path: Path, which: int) -> None:
    with Journal.open(tmp_path) as journal:
        for i in range(3):
            journal.append([{"i": i}])
            if i < 2:
                journal.rotate({"snapshot": i})
    segment = sorted(tmp_path.iterdir())[which]
    content = segment.read_bytes()
    if which < 2:
        segment.write_bytes(content[:-5])
        with pytest.raises(InputError, match=f"{segment.name}, line "):
            values(tmp_path)
    segment.write_bytes(content[5:])
    with pytest.raises(InputError, match=f"{segment.name}, line 1" if which else "line 1"):
        values(tmp_path)
    if which == 1:
        segment.unlink()
        with pytest.raises(InputError, match="goes on with record 2"):
            values(tmp_path)


def test_a_rotated_segment_without_its_snapshot_is_damage_and_no_tail(tmp_path: Path) -> None:
    with Journal.open(tmp_path) as journal:
        journal.append([{"i": 1}])
        journal.rotate({"snapshot": 1})
    segment = sorted(tmp_path.iterdir())[1]
    for content in (b"", segment.read_bytes()[:-1]):
        segment.write_bytes(content)
        with pytest.raises(InputError, match="line 1"):
            Journal.open(tmp_path)


def test_a_reader_beside_a_writer_sees_whole_batches(tmp_path: Path) -> None:
    with Journal.open(tmp_path, keep=0, disk=FAST) as journal:
        reader = None
        for i in range(50):
            journal.append([{"i": i}] * 3)
            if i == 20:
                reader = read_journal(tmp_path)
                assert next(reader).value == {"snapshot": 14}
            if i % 7 == 0:
                journal.rotate({"snapshot": i})
        assert reader is not None
        assert len(list(reader)) == 3 * 7  # its segment was removed, and is read to its end


def test_a_folder_without_a_journal_is_an_input_error(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match="journal"):
            values(folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="folder"):
        Journal.open(tmp_path / "file")
