"""A workload file as bytes in memory: found, unpacked, and looked at to see what it is."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from unrack.errors import TraceError

TRACES_VARIABLE = "UNRACK_TRACES"
"""Environment variable: a folder in which trace files are looked for after the working folder."""

_PACKED = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip"}
_SUFFIXES = re.compile(r"(\.(swf|csv|tsv|txt|json|parquet|pq|gz))+$", re.IGNORECASE)


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
    """

    source: Source
    line_of: Callable[[int], int | None]

    def fault(self, row: int, field: str, got: str, want: str) -> TraceError:
        """An error about one field of one row."""
        line = self.line_of(row)
        return self.source.fault(line, field if line is not None else f"row {row + 1}, {field}", got, want)


def find(path: str | os.PathLike[str]) -> Path:
    """The file that a path names: ``~`` and variables expanded, then looked for here and in ``$UNRACK_TRACES``.

    Raises
    ------
    TraceError
        There is no such file, or it is a folder.
    """
    given = os.fspath(path)
    expanded = Path(os.path.expandvars(given)).expanduser()
    folder = os.environ.get(TRACES_VARIABLE, "")
    candidates = (
        [expanded] if expanded.is_absolute() or not folder else [expanded, Path(folder).expanduser() / expanded]
    )
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


def load(path: str | os.PathLike[str] | Source) -> Source:
    """Read a file whole; gzip is recognised by content.

    Raises
    ------
    TraceError
        The file is not there, cannot be read, is empty, is packed otherwise than by gzip, or its gzip is damaged.
    """
    if isinstance(path, Source):
        return path
    given = os.fspath(path)
    file = find(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise TraceError(given, None, "", error.strerror or str(error), "a file that can be read") from None
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise TraceError(given, None, "", f"damaged gzip data ({error})", "a whole gzip file") from None
    for magic, packer in _PACKED.items():
        if data.startswith(magic):
            raise TraceError(given, None, "", f"a file packed by {packer}", "a plain or gzip file")
    if not data.strip(b" \t\r\n\f\v\0"):
        raise TraceError(given, None, "", "an empty file", "jobs")
    return Source(given, data)


def text_bytes(source: Source) -> bytes:
    """The content with line feeds as line ends and without a byte-order mark.

    Raises
    ------
    TraceError
        The content is binary, or text in an encoding of two or four bytes a character.
    """
    data = source.data
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise source.fault(None, "", "text in UTF-16 or UTF-32", "text in UTF-8")
    data = data.removeprefix(b"\xef\xbb\xbf")
    if (zero := data.find(b"\0")) >= 0:
        raise source.fault(data.count(b"\n", 0, zero) + 1, "", "binary data (a zero byte)", "text")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data


def sniff(source: Source) -> str:
    """The format of a file, from its content: ``"parquet"``, ``"servers"``, ``"swf"`` or ``"csv"``.

    JSON, in which there are only servers, starts with ``{`` or ``[``. SWF starts with a ``;`` comment or has 18 fields
    between blanks, the first of them numbers. A file that looks like neither SWF nor CSV is taken for what its name
    says.
    """
    if source.data.startswith(b"PAR1"):
        return "parquet"
    first = next((line for line in text_bytes(source)[:1_000_000].split(b"\n") if line.strip()), b"").strip()
    if first.startswith((b"{", b"[")):
        return "servers"
    fields = first.split()
    number = re.compile(rb"[+-]?[0-9.]+")
    if first.startswith(b";") or (len(fields) >= 18 and all(number.fullmatch(field) for field in fields[:11])):
        return "swf"
    if any(separator in first for separator in (b",", b";", b"\t", b"|")):
        return "csv"
    named_swf = re.search(r"\.swf(\.gz)?$", source.path, re.IGNORECASE) is not None
    return "swf" if named_swf or (len(fields) > 1 and all(number.fullmatch(field) for field in fields)) else "csv"
