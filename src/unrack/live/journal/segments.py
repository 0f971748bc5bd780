"""The files of a journal: each is named after its first record, and read to its last whole batch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from unrack.errors import InputError
from unrack.live.journal.disk import Disk
from unrack.live.journal.record import BYTES_MAX, Record, record_of

_NAME = re.compile(r"journal\.([0-9]{20})\.jsonl")
_WANT = "the journal as it was written; put back a copy of this file, or move the journal's folder aside to begin anew"


class Segment(NamedTuple):
    """A file of a journal, and the number of its first record."""

    path: Path
    first: int


class Tail(NamedTuple):
    """What stands at the end of a journal and is no whole batch: the writer was stopped in the middle of it."""

    # path, line: where it begins, lines counted from 1
    path: Path
    line: int
    offset: int  # the same, in bytes
    size_bytes: int  # how much it is
    kept_in: Path | None = None  # the file that it was moved to; ``None``: it is still where it was


class End(NamedTuple):
    """Where the next batch goes: the number of its first record, and the offset in bytes; and what is in its way."""

    number: int
    offset: int
    tail: Tail | None


def segment_at(folder: Path, first: int) -> Segment:
    """The segment that begins with that record."""
    return Segment(folder / f"journal.{first:020}.jsonl", first)


def segments_of(folder: Path, disk: Disk) -> list[Segment]:
    """The segments of a journal, oldest first; files of other names are not of it."""
    matches = [_NAME.fullmatch(name) for name in disk.names(folder)]
    return [segment_at(folder, int(match[1])) for match in matches if match]


def batches_of(segment: Segment, file: BinaryIO, is_last: bool) -> Iterator[list[Record] | End]:
    """The whole batches of a segment, and at last where they end.

    Parameters
    ----------
    segment
        Which.
    file
        It, opened.
    is_last
        True: it is the newest, and may end in the middle of a batch.

    Raises
    ------
    InputError
        It is damaged, and not only in the last batch.
    """
    offset = start = 0
    line_number, start_line, expected = 0, 1, segment.first
    batch: list[Record] = []
    while line := file.readline(BYTES_MAX):
        line_number += 1
        record = record_of(line)
        begins = batch[0].number if batch else expected
        follows = record is not None and record.number == expected and record.batch == begins
        if record is None or not follows or (batch and record.left != batch[-1].left - 1):
            if not is_last or begins == segment.first != 1:  # made whole before it got its name
                raise _damage(segment, line_number, "")
            size = offset - start + _size_of_rest(segment, line, line_number, file, begins, expected)
            yield End(begins, start, Tail(segment.path, start_line, start, size))
            return
        batch.append(record)
        offset, expected = offset + len(line), expected + 1
        if record.left == 0:
            yield batch
            batch, start, start_line = [], offset, line_number + 1
    begins = batch[0].number if batch else expected
    if (batch and not is_last) or begins == segment.first != 1:
        raise _damage(segment, start_line, ": its end is missing")
    yield End(begins, start, Tail(segment.path, start_line, start, offset - start) if batch else None)


def _size_of_rest(segment: Segment, line: bytes, line_number: int, file: BinaryIO, begins: int, expected: int) -> int:
    """How many bytes there are from the first bad line on, if all of that is the last batch, never wholly on disk.

    Pages of one batch may reach the disk in any order, so that whole lines of it may follow what is missing. Records of
    another batch may not: each batch is written when those before it are on disk.
    """
    size = 0
    while line:
        record = record_of(line)
        if record is not None and (record.batch != begins or record.number < expected):
            raise _damage(segment, line_number, f", before record {record.number}")
        size += len(line)
        line = file.readline(BYTES_MAX)
    return size


def _damage(segment: Segment, line_number: int, more: str) -> InputError:
    return InputError(f"{segment.path}, line {line_number}", f"a line that is damaged{more}", _WANT)
