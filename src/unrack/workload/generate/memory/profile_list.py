"""The sizes and run times of measured applications, from a CSV file: what jobs are matched with."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import polars as pl
from pydantic import ValidationError

from unrack.errors import first_fault, got_and_want
from unrack.workload.formats.source import Locator, load
from unrack.workload.formats.table.text import csv_frame
from unrack.workload.generate.batch.spec import SYNTHETIC, Profile

_FILES = ("apps.csv", "memory-apps.csv")
_NAMES = ("id", "nodes", "run_s", "memory_mb")
_BARE = (2, 4, 3, 5)
_WANT = "columns app, nodes, run_s (and memory_mb), or no header and application, id, run time, nodes, memory …"


def read_profiles(path: str) -> list[Profile]:
    """The profiles in a CSV file.

    Parameters
    ----------
    path
        ``"synthetic"``: the set that comes with unrack. A folder: its ``apps.csv`` or ``memory-apps.csv``. A file with
        a header: columns ``app`` (or ``id``), ``nodes``, ``run_s`` and, if known, ``memory_mb``; others are
        ignored. Without: application, id, run time in s, nodes, MB per node, and whatever follows. Files of profiles
        for contention are of these kinds.

    Raises
    ------
    TraceError
        The file cannot be read, lacks a column, or has a value that cannot be.
    """
    source = load(_file(path))
    frame, at = csv_frame(source, None, None)
    if frame.columns[0] == "column_1":
        if frame.width < max(_BARE):
            raise source.fault(1, "", f"{frame.width} columns", _WANT)
        found = {name: frame.to_series(column - 1) for name, column in zip(_NAMES, _BARE, strict=True)}
    else:
        if "app" in frame.columns and "id" not in frame.columns:
            frame = frame.rename({"app": "id"})
        found = {name: frame[name] for name in _NAMES if name in frame.columns}
        if lacking := [name for name in _NAMES[:3] if name not in found]:
            raise source.fault(None, f"column {'app' if lacking[0] == 'id' else lacking[0]}", "no such column", _WANT)
    rows = pl.DataFrame([values.str.strip_chars().alias(name) for name, values in found.items()])
    profiles = [_profile(row, place, at) for place, row in enumerate(rows.iter_rows(named=True))]
    if not profiles:
        raise source.fault(None, "", "no row", _WANT)
    return profiles


def _file(path: str) -> str:
    """The file of profiles that a path means."""
    folder = Path(path).expanduser()
    if path == SYNTHETIC:
        folder = Path(str(resources.files("unrack").joinpath("data", "memory-profiles")))
    if not folder.is_dir():
        return path
    return str(next((folder / name for name in _FILES if (folder / name).is_file()), folder / _FILES[0]))


def _profile(row: dict[str, str], place: int, at: Locator) -> Profile:
    try:
        return Profile.model_validate(row)
    except ValidationError as error:
        fault = first_fault(error.errors())
        raise at.fault(place, str(fault["loc"][0]), *got_and_want(fault)) from None
