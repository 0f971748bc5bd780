"""What makes a finished run's folder believed: a record of the right shape, and files as they were written."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unrack.errors import InputError, UnrackError, first_fault, got_and_want
from unrack.workload.formats.writers import write_whole as write_whole

RECORD = "run.json"
FILES, CHECKSUM = "files", "checksum"
"""Keys of the record: SHA-256 of each file beside it, and of the rest of the record itself."""
WRITTEN = "what 'unrack run' wrote: run the study again, which makes this run anew"


class _Kept(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class _Class(_Kept):
    name: str
    nodes: int
    cores: int
    memory_mb: int | None = None


class _Cluster(_Kept):
    name: str
    classes: list[_Class] = Field(default_factory=list)
    rack_names: list[str] = Field(default_factory=list)
    domains: dict[str, list[int]] = Field(default_factory=dict)
    columns: dict[str, list[int]] = Field(default_factory=dict)


class _Workload(_Kept):
    name: str


class RunRecord(_Kept):
    """The keys of ``run.json`` that readers rely on; there may be others."""

    id: str
    cluster: _Cluster
    workload: _Workload
    policy: str
    policy_label: str | None = None
    policy_table: dict[str, Any] = Field(default_factory=dict)
    seed: int
    metrics: dict[str, float | None]
    parameters: dict[str, Any] | None = None
    faults: list[list[Any]] = Field(default_factory=list)
    files: dict[str, str] = Field(default_factory=dict)


def defused(value: object) -> object:
    """A value of a table; a text that a spreadsheet would take for a formula gets a ``'`` in front.

    Examples
    --------
    >>> defused("=1+1"), defused("-5 %"), defused(-5.0), defused("easy")
    ("'=1+1", "'-5 %", -5.0, 'easy')
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def packed(frame: pl.DataFrame) -> bytes:
    """A table as Parquet; polars itself, writing to a full disk, says that it has "computed" wrongly."""
    stream = BytesIO()
    frame.write_parquet(stream, compression="zstd")
    return stream.getvalue()


def sealed(record: dict[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    """The record with the checksums of all files of its folder, and its own."""
    digests = {name: _digest(files[name]) for name in sorted(files, key=lambda name: name.split("/"))}
    whole = {**record, FILES: digests}
    return {**whole, CHECKSUM: _own(whole)}


def read_record(folder: Path) -> dict[str, Any]:
    """The record of a finished run; the files beside it are what they were when it was written.

    An InputError if there is none, it is not the record of a run, or something was changed since.
    """
    path = folder / RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(str(path), f"a file that cannot be read ({error.strerror})", WRITTEN) from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}", f"broken JSON ({error.msg})", WRITTEN) from None
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), f"no text in JSON ({error})", WRITTEN) from None
    try:
        RunRecord.model_validate(record)
    except ValidationError as error:
        faults = sorted(error.errors(), key=lambda fault: fault["type"] == "missing")  # what is wrong tells more
        fault = first_fault(faults)
        got, want = got_and_want(fault)
        key = ".".join(map(str, fault["loc"]))
        raise InputError(f"{path}, {key}" if key else str(path), got, f"{want}, as 'unrack run' wrote it") from None
    if CHECKSUM in record:
        _check(folder, record)
    return {**record, "policy_label": record.get("policy_label") or record["policy"]}


def is_intact(folder: Path, run_id: str) -> bool:
    """Whether a folder holds this finished run, as it was written."""
    try:
        return str(read_record(folder)["id"]) == run_id
    except InputError:
        return False


@contextmanager
def believed(folder: Path, records: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """While records are used that only look right, of an earlier version or written by hand.

    What goes wrong then is their fault, an InputError, if one has no checksum.
    """
    try:
        yield
    except UnrackError:
        raise
    except Exception as error:
        if all(CHECKSUM in record for record in records):
            raise
        got = f"a record that cannot be read back ({type(error).__name__}: {error})"
        raise InputError(str(folder), got, WRITTEN) from error


@contextmanager
def readable(path: Path, want: str = WRITTEN, kind: str = "file") -> Iterator[None]:
    """While a file is read: where that fails, an InputError names it and says what is wanted in its place."""
    try:
        yield
    except (OSError, ValueError, TypeError, RecursionError, pl.exceptions.PolarsError) as error:
        raise InputError(str(path), f"a {kind} that cannot be read ({error})", want) from error


def _check(folder: Path, record: dict[str, Any]) -> None:
    if record[CHECKSUM] != _own({key: value for key, value in record.items() if key != CHECKSUM}):
        raise InputError(str(folder / RECORD), "a record that was changed since it was written", WRITTEN)
    for name, digest in record.get(FILES, {}).items():
        path = folder / name
        try:
            found = _digest(path.read_bytes())
        except OSError as error:
            raise InputError(str(path), f"a file that cannot be read ({error.strerror})", WRITTEN) from None
        if found != digest:
            raise InputError(str(path), "a file that was changed or cut off since it was written", WRITTEN)


def _own(record: dict[str, Any]) -> str:
    return _digest(json.dumps(json.loads(json.dumps(record)), sort_keys=True).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


ENGINE = (
    "plugins", "kernels", "slurm_text", "resources", "cluster", "ledger", "workload", "slowdown",
    "solver", "policy", "view", "core", "sim", "metric",
)  # fmt: skip
"""Rooms with code that can change a result."""


def id_of_run(names: Sequence[Any], seed: int, identity: Sequence[Any]) -> str:
    """Readable names, and eight hexadecimal digits of a hash of all that matters."""
    code = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:8]
    return "--".join(slug(str(name)) for name in names) + f"--s{seed}-{code}"


@cache
def engine_digest() -> str:
    """SHA-256 over the source of all that can change a result: a run of another engine is another run."""
    total = hashlib.sha256(version("unrack").encode())
    root = Path(__file__).parents[2]
    rooms = [path for room in ENGINE for path in sorted((root / room).rglob("*.py"))]
    for path in [*sorted(root.glob("*.py")), *rooms]:
        total.update(path.read_bytes())
    return total.hexdigest()


def slug(text: str) -> str:
    """A name as part of a folder's name.

    Examples
    --------
    >>> slug("easy(order=sjf)")
    'easy-order-sjf'
    >>> slug("easy++")
    'easy-plus-plus'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", text.replace("+", "-plus")).strip("-")[:48] or "x"
