"""A study as it was written: its text, its table, and where in the text each key stands."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from unrack.errors import InputError, StudyError, first_fault, got_and_want, nearest

Location = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


@dataclass(frozen=True)
class Document:
    """A TOML text and its table."""

    path: str  # the file, as errors and resolved studies call it
    folder: Path | None  # where relative paths in it are looked for first; ``None``: nowhere
    table: Mapping[str, Any]  # the content
    text: str = field(default="", repr=False)  # the text, for line numbers; ``""`` where there is none

    @classmethod
    def read(cls, path: str | Path, kind: str = "a study file") -> Document:
        """Read a TOML file, which should be ``kind``; of one that cannot be read a StudyError has the line."""
        where, file = str(path), Path(path)
        try:
            text = file.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise StudyError(
                where, f"bytes that are not UTF-8 (at byte {error.start})", "a TOML file in UTF-8"
            ) from None
        except (OSError, ValueError) as error:
            got = "a folder" if isinstance(error, IsADirectoryError) else getattr(error, "strerror", None) or str(error)
            raise StudyError(where, got, f"{kind} (TOML)") from None
        text = text.replace("\r\n", "\n")
        try:
            return cls(where, file.parent, tomllib.loads(text), text)
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"at line (\d+)", str(error))
            at = f"{where}, line {line[1]}" if line else f"{where}, line {text.count(chr(10)) + 1}"
            raise StudyError(at, str(error), "valid TOML") from None
        except RecursionError:
            raise StudyError(where, "values nested too deeply", f"{kind} (TOML)") from None

    def fault(self, location: Location, got: str, want: str) -> StudyError:
        """An error at a key: the message names the file, the line where it is known, and the key."""
        return StudyError(self.where(location), got, want)

    @contextmanager
    def part(self, *location: str | int, kind: type[InputError] = InputError) -> Iterator[None]:
        """Within it the errors of a part of the study become errors of the study, at the key that names the part."""
        try:
            yield
        except kind as error:
            raise StudyError(f"{self.where(location)}: {error.where}", error.got, error.want) from None

    def where(self, location: Location) -> str:
        """File, line and key, as far as they are known."""
        line = line_of(self.text, location)
        parts = [self.path, *([f"line {line}"] if line else []), *([dotted(location)] if location else [])]
        return ", ".join(parts)

    def validated(self, model: type[Model], table: Mapping[str, Any], location: Location = ()) -> Model:
        """The table at a location as a model; a StudyError of the first thing wrong in it suggests the nearest key."""
        try:
            return model.model_validate(dict(table))
        except ValidationError as error:
            first = first_fault(error.errors())
        at = (*location, *first["loc"])
        if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
            known = [info.alias or name for name, info in model.model_fields.items()]
            raise self.fault(at, "an unknown key", nearest(str(first["loc"][0]), known)) from None
        raise self.fault(at, *got_and_want(first)) from None


def dotted(location: Sequence[str | int]) -> str:
    """A location as people write it.

    Examples
    --------
    >>> dotted(("workloads", 0, "trace"))
    'workloads[0].trace'
    """
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def line_of(text: str, location: Location) -> int | None:
    """The line of a key in a TOML text, from 1, or of the nearest key or table above it; ``None``: not found.

    Keys are found by how a person writes them: a table header or a key at the start of a line.
    """
    best, best_length = None, 0
    table: Location = ()
    counts: dict[Location, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            table = _absolute(_parts(header[2]), counts)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            found = table
        elif key := _KEY.match(line):
            found = (*table, *_parts(key[1]))
        else:
            continue
        if len(found) > best_length and location[: len(found)] == found:
            best, best_length = number, len(found)
    return best


def _parts(key: str) -> Location:
    return tuple(part.strip("\"'") for part in _PART.findall(key))


def _absolute(parts: Location, counts: Mapping[Location, int]) -> Location:
    """The parts of a header with the numbers of the array items that it continues put in."""
    found: Location = ()
    for place, part in enumerate(parts):
        found = (*found, part)
        if place < len(parts) - 1 and found in counts:
            found = (*found, counts[found])
    return found
