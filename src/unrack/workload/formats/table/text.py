"""CSV and Parquet content as a frame, with the line of each row; what cannot be parsed is refused with its line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from functools import cache, partial

import polars as pl

from unrack.errors import InputError
from unrack.workload.formats.source import Locator, Source, text_bytes

SEPARATORS = (",", ";", "\t", "|", " ")
_NUMBER = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
_LARGEST_FIELD = 2**27


def csv_frame(source: Source, has_header: bool | None, separator: str | None) -> tuple[pl.DataFrame, Locator]:
    """A CSV file as a frame of text columns.

    Parameters
    ----------
    source
        The file.
    has_header
        Whether the first line names the columns; ``None``: it does unless a field in it is a number.
    separator
        One character; ``None``: the one of ``, ; tab |`` that is most frequent in the first line, or a blank if it has
        none of them.

    Raises
    ------
    TraceError
        Not UTF-8, a column name twice, or a row with more or fewer fields than the first.
    InputError
        An option has a value it cannot have.
    """
    if has_header is not None and not isinstance(has_header, bool):
        raise InputError("option has_header", repr(has_header), "true or false")
    if separator is not None and (not isinstance(separator, str) or separator not in SEPARATORS):
        raise InputError("option separator", repr(separator), f"one of {' '.join(map(repr, SEPARATORS))}")
    data = text_bytes(source)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise source.fault(line, "", f"byte 0x{data[error.start]:02x}", "text in UTF-8") from None
    data = data.lstrip(b"\n")
    skipped = text_bytes(source).count(b"\n") - data.count(b"\n")
    first_line = data.split(b"\n", 1)[0].decode()
    if separator is None:
        separator = max(SEPARATORS[:-1], key=first_line.count)
        separator = separator if separator in first_line else " "
    first = next((row for _, row in _records(source, data, separator, skipped) if row), [])
    if has_header is None:
        has_header = not any(_NUMBER.fullmatch(field) for field in first)
    names = [name.strip() for name in first] if has_header else [f"column_{k}" for k in range(1, len(first) + 1)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise source.fault(skipped + 1, "header", f"the column {twice[0]!r} twice", "each column once")
    records, header = partial(_records, source, data, separator, skipped), int(has_header)
    try:
        frame = pl.read_csv(
            data, separator=separator, has_header=has_header, infer_schema=False, truncate_ragged_lines=False
        )
    except pl.exceptions.PolarsError:  # no row, one of another length, or a quote within a field
        _refuse_uneven(records(), source)
        rows = [row or [""] * len(names) for _, row in records()]
        frame = pl.DataFrame(rows[header:], names, orient="row")
    if frame.width != len(names):
        raise source.fault(skipped + 1, "", f"{frame.width} columns", f"{len(names)} fields in every row")
    frame.columns = names
    if names and frame[names[-1]].null_count():
        _refuse_uneven(records(), source)  # a row that is too short ends in a null, too
    if b"\n\n" in data:
        said = pl.Series([bool(row) for _, row in records()][header:], dtype=pl.Boolean)
        frame = frame.filter(said) if len(said) == frame.height else frame

    @cache
    def at() -> list[range]:
        found = [lines for lines, row in records() if row][header:]
        return found if len(found) == frame.height else []  # text behind a closing quote is read in several ways

    return frame, Locator(source, lambda row: at()[row][0] if at() else None, last_of=lambda row: at()[row][-1])


def _records(source: Source, data: bytes, separator: str, skipped: int) -> Iterator[tuple[range, list[str]]]:
    """The lines and the fields of each record; a blank line is one without fields."""
    csv.field_size_limit(_LARGEST_FIELD)
    rows = csv.reader(io.StringIO(data.decode(), newline=""), delimiter=separator, strict=True)
    before = skipped
    try:
        for row in rows:
            yield range(before + 1, skipped + rows.line_num + 1), row
            before = skipped + rows.line_num
    except csv.Error as error:
        raise source.fault(skipped + rows.line_num, "", str(error), "a CSV record") from None


def _refuse_uneven(records: Iterable[tuple[range, list[str]]], source: Source) -> None:
    """Refuse the rows with another number of fields than the first."""
    said = ((lines, len(row)) for lines, row in records if row)
    width = next(said, (range(0), 0))[1]
    if wrong := [(lines, fields) for lines, fields in said if fields != width]:
        lines, fields = wrong[0]
        error = source.fault(lines[-1], "", f"{fields} field{'s' * (fields != 1)}", f"{width}, as in the first line")
        error.rows = tuple(lines for lines, _ in wrong)
        raise error


def parquet_frame(source: Source) -> tuple[pl.DataFrame, Locator]:
    """A Parquet file as a frame; one with columns of lists or structs is refused."""
    try:
        frame = pl.read_parquet(io.BytesIO(source.data))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, MemoryError) as error:
        raise source.fault(None, "", _sentence(error), "a whole Parquet file") from None
    frame = frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    for name, kind in frame.schema.items():
        if kind.is_nested() or kind in (pl.Binary, pl.Object):
            raise source.fault(None, name, f"a column of {kind}", "numbers, text or times")
    return frame, Locator(source, lambda row: None)


def _sentence(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().split("\n")[0][:200]
