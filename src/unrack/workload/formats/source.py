"""A workload file as bytes in memory: found, unpacked, and looked at to see what it is."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import tomllib
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from unrack.errors import InputError, TraceError

_TRACE = re.compile(r".+\.(swf|csv|tsv|parquet|json)(\.(gz|bz2|xz))?", re.IGNORECASE)
TRACES_VARIABLE = "UNRACK_TRACES"
"""Environment variable: a folder in which trace files are looked for after the working folder."""

_PACKED: dict[bytes, tuple[str, Callable[[bytes], bytes]]] = {
    b"\x1f\x8b": ("gzip", gzip.decompress),
    b"BZh": ("bzip2", bz2.decompress),
    b"\xfd7zXZ": ("xz", lzma.decompress),
}
"""How files begin that are packed, by what, and how they are unpacked."""
_FOREIGN = {
    b"\x28\xb5\x2f\xfd": ("a file packed by zstd", "a plain file (zstd -d), or one packed by gzip, bzip2 or xz"),
    b"PK\x03\x04": (
        "a zip archive or a spreadsheet",
        "a plain file, such as a CSV, or one packed by gzip, bzip2 or xz",
    ),
    b"%PDF": ("a PDF", "a workload as text, such as a CSV"),
    b"SQLite format 3": ("an SQLite database", "a table as CSV or Parquet"),
    b"\x7fELF": ("a program (binary data, with a zero byte)", "a workload as text, such as a CSV"),
    b"\x89PNG": ("a picture", "a workload as text, such as a CSV"),
}
"""How files begin that are none of ours, what they are, and what is wanted."""
T = TypeVar("T")
Made = TypeVar("Made")
_PAGE = re.compile(rb"\s*<(!doctype\s+html|html|\?xml|head|body)\b", re.IGNORECASE)
_SUFFIXES = re.compile(r"(\.(swf|csv|tsv|txt|json|parquet|pq|gz|bz2|xz))+$", re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """The unpacked content of a file.

    Attributes
    ----------
    path
        The path as the user gave it.
    data
        What is in it; never empty.
    """

    path: str
    data: bytes

    @property
    def name(self) -> str:
        """The file's name without folder and endings: what a workload read from it is called."""
        base = Path(self.path).name
        return _SUFFIXES.sub("", base) or base

    def fault(self, line: int | None, field: str, got: str, want: str) -> TraceError:
        """An error about this file."""
        return TraceError(self.path, line, field, got, want)


@dataclass(frozen=True)
class Locator:
    """Says where in a source a row of a frame came from.

    Attributes
    ----------
    source
        The file.
    line_of
        Row, from 0 → its line, from 1, or ``None`` where that is not known.
    apart
        Whether the file can be read without the line of a row; JSON cannot.
    """

    source: Source
    line_of: Callable[[int], int | None]
    apart: bool = True
    last_of: Callable[[int], int] | None = None  # as line_of: the last line of a row, where it may have several

    def fault(self, row: int, field: str, got: str, want: str) -> TraceError:
        """An error about one field of one row."""
        line = self.line_of(row)
        return self.source.fault(line, field if line is not None else f"row {row + 1}, {field}", got, want)

    def faults(self, rows: Iterable[int], field: str, got: str, want: str) -> TraceError:
        """An error about one field of some rows, which could be left out; it speaks of the first."""
        several = list(rows)
        error = self.fault(several[0], field, got, want)
        last_of = self.last_of or self.line_of
        lines = [(self.line_of(row), last_of(row)) for row in several if self.apart and error.line is not None]
        error.rows = tuple(range(a, b + 1) for a, b in lines if a is not None and b is not None)
        return error


def each(things: Iterable[T], make: Callable[[T], Made]) -> list[Made]:
    """What is made of each of some lines; where some are at fault, one error about all of these."""
    made: list[Made] = []
    wrong: list[TraceError] = []
    for thing in things:
        try:
            made.append(make(thing))
        except TraceError as error:
            if error.line is None:
                raise
            wrong.append(error)
    if wrong:
        wrong[0].rows = tuple(range(error.line, error.line + 1) for error in wrong if error.line is not None)
        raise wrong[0]
    return made


def without(source: Source, rows: Iterable[range]) -> Source:
    """The same file with the lines of some of its rows blank."""
    parts = text_bytes(source).split(b"\n")
    for lines in rows:
        parts[lines.start - 1 : lines.stop - 1] = [b""] * len(lines)
    return Source(source.path, b"\n".join(parts))


def find(path: str | os.PathLike[str]) -> Path:
    """The file that a path names: ``~`` and variables expanded, then looked for here and in ``$UNRACK_TRACES``."""
    given = os.fspath(path)
    expanded = Path(os.path.expandvars(given)).expanduser()
    folder = os.environ.get(TRACES_VARIABLE, "")
    candidates = [expanded, *([Path(folder).expanduser() / expanded] if folder and not expanded.is_absolute() else [])]
    try:
        for candidate in candidates:
            if candidate.is_file():
                return candidate
        if expanded.is_dir():
            raise TraceError(given, None, "", "a folder", "a file")
    except (OSError, ValueError) as error:  # a name too long, or with a NUL in it
        raise TraceError(given, None, "", str(error), "a path") from None
    also = "" if len(candidates) > 1 else f", or set {TRACES_VARIABLE} to the folder it is in"
    places = " or ".join(str(candidate.parent) for candidate in candidates)
    raise TraceError(given, None, "", "no such file", f"a file in {places}{also}")


def parameters_of(name: str, what: str, known: Iterable[str], package: str) -> dict[str, Any]:
    """The content of a TOML file: one that is looked for as by :func:`find`, or by a ``known`` name one of a package.

    ``what`` they are, in messages.
    """
    if name in known:
        own = resources.files(package).joinpath(f"{name}.toml")
        return tomllib.loads(own.read_text(encoding="utf-8"))
    if not name.endswith(".toml"):
        raise InputError(what, repr(name), f"a file that ends in .toml, or one of {', '.join(known)}")
    try:
        return tomllib.loads(find(name).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(name, error.strerror or str(error), "a file that can be read") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(name, str(error), "a TOML file") from None


def parameters_text(content: Mapping[str, Any], written: Callable[[Any], str] = json.dumps, made_by: str = "") -> str:
    """The text of a TOML file with parameters; ``made_by`` is a comment for its first line."""
    lines = [f"# {made_by}"] if made_by else []
    lines += [f"{key} = {written(value)}" for key, value in content.items() if not isinstance(value, dict)]
    for key, table in content.items():
        if isinstance(table, dict):
            lines += ["", f"[{key}]", *(f"{name} = {written(value)}" for name, value in table.items())]
    return "\n".join(lines) + "\n"


def load(path: str | os.PathLike[str] | Source) -> Source:
    """Read a file whole; one packed by gzip, bzip2 or xz is recognised by content and unpacked.

    Raises
    ------
    TraceError
        The file is not there, cannot be read, is empty, is packed otherwise or damaged, or is a file of another kind,
        such as a web page.
    """
    if isinstance(path, Source):
        return path
    given = os.fspath(path)
    file = find(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise TraceError(given, None, "", error.strerror or str(error), "a file that can be read") from None
    for magic, (packer, unpack) in _PACKED.items():
        if data.startswith(magic):
            try:
                data = unpack(data)
            except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
                raise TraceError(
                    given, None, "", f"damaged {packer} data ({error})", f"a whole {packer} file"
                ) from None
            break
    for magic, (what, want) in _FOREIGN.items():
        if data.startswith(magic):
            raise TraceError(given, None, "", what, want)
    if _PAGE.match(data.removeprefix(b"\xef\xbb\xbf")[:1000]):
        raise TraceError(given, None, "", "a web page (HTML or XML)", "the file itself, not the page about it")
    if not data.strip(b" \t\r\n\f\v\0"):
        raise TraceError(given, None, "", "an empty file", "jobs")
    return Source(given, data)


def text_bytes(source: Source) -> bytes:
    """The content with line feeds as line ends and without a byte-order mark; what is no such text is refused."""
    data = source.data
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise source.fault(None, "", "text in UTF-16 or UTF-32", "text in UTF-8")
    data = data.removeprefix(b"\xef\xbb\xbf")
    if (zero := data.find(b"\0")) >= 0:
        raise source.fault(data.count(b"\n", 0, zero) + 1, "", "binary data (a zero byte)", "text")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data


def traces_found() -> list[str]:
    """Traces in the folder ``$UNRACK_TRACES`` and below it, as paths from there, in order of name."""
    folder = os.environ.get(TRACES_VARIABLE, "")
    if not folder:
        return []
    root = Path(folder).expanduser()
    files = (path for path in root.rglob("*") if path.is_file() and _TRACE.fullmatch(path.name))
    return sorted(path.relative_to(root).as_posix() for path in files)
