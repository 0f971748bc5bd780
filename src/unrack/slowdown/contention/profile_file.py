"""Files of profiles and curves: our own tidy CSV, and the header-less layout of the thesis's simulator."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from unrack.errors import InputError, TraceError
from unrack.slowdown.contention.profile import FASTEST, READS, Curve, Profile, ProfileSet, profile_fault

PROFILE_COLUMNS = (
    "app", "name", "nodes", "run_s", "memory_mb", "remote_mb_s", "local_mb_s", "reads", "remote_speed",
)  # fmt: skip
CURVE_COLUMNS = ("app", "nodes", "reads", "interfering", "target", "interfering_mb_s", "speed")
BARE_PROFILE_COLUMNS = (
    "name", "app", "run_s", "nodes", "memory_mb", "remote_mb_s", "local_mb_s", "reads", "remote_speed",
)  # fmt: skip
BARE_CURVE_COLUMNS = ("reads", "name", "nodes", "interfering_mb_s", "speed", "app", "interfering", "target")
NAMES = (("apps.csv", "memory-apps.csv"), ("curves.csv", "memory-curves.csv"))
SYNTHETIC = Path(__file__).parents[2] / "data" / "memory-profiles"
_TARGETS = {"local": False, "remote": True, "1": False, "0": True}


def read_profiles(path: str | Path, curves: str | Path | None = None) -> ProfileSet:
    """Profiles and curves from two files.

    Each is either a CSV with a header (columns ``PROFILE_COLUMNS`` and ``CURVE_COLUMNS`` in any order; ``target`` is
    ``local`` or ``remote``) or has no header and the columns ``BARE_PROFILE_COLUMNS`` and ``BARE_CURVE_COLUMNS``
    (``target`` 1 = local, 0 = remote; further columns are refused). The id of an application counts, not its name.

    Parameters
    ----------
    path
        The file of profiles, or a folder with ``apps.csv`` and ``curves.csv`` (or ``memory-apps.csv`` and
        ``memory-curves.csv``).
    curves
        The file of curves; may be left out for a folder.

    Raises
    ------
    TraceError
        A file cannot be read, or what it says is wrong.
    """
    first, second = _files(Path(path), None if curves is None else Path(curves))
    profiles = tuple(_profiles(first))
    known = {profile.app for profile in profiles}
    found, strangers = _curves(second, known)
    try:
        return ProfileSet(profiles, found, strangers)
    except InputError as error:
        raise TraceError(str(second if found else first), None, error.where, error.got, error.want) from None


@cache
def synthetic_profiles() -> ProfileSet:
    """The profiles that come with unrack: made by formula, measured on no machine (``docs/contention.md``)."""
    return read_profiles(SYNTHETIC)


def profile_texts(profiles: ProfileSet) -> dict[str, str]:
    """The content of ``apps.csv`` and ``curves.csv`` in the tidy format; reading them back gives the same set."""
    rows: list[Sequence[object]] = [tuple(profile) for profile in profiles.profiles]
    points: list[Sequence[object]] = []
    for curve in profiles.curves:
        side = "remote" if curve.remote else "local"
        points += [
            (curve.app, curve.nodes, curve.reads, curve.interfering, side, bandwidth, speed)
            for bandwidth, speed in curve.points
        ]
    texts = {}
    for (name, _), header, lines in zip(NAMES, (PROFILE_COLUMNS, CURVE_COLUMNS), (rows, points), strict=True):
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([_plain(value) for value in line] for line in lines)
        texts[name] = stream.getvalue()
    return texts


def write_profiles(profiles: ProfileSet, folder: str | Path) -> tuple[Path, Path]:
    """Write what :func:`profile_texts` gives; returns the paths.

    An InputError if the folder cannot be made or written to.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in profile_texts(profiles).items():
            (target / name).write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        want = "a folder that can be made and written to"
        raise InputError(str(target), error.strerror or str(error), want) from None
    return target / NAMES[0][0], target / NAMES[1][0]


def _plain(value: object) -> object:
    """Whole floats without their ``.0``."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _files(path: Path, curves: Path | None) -> tuple[Path, Path]:
    if not path.is_dir():
        if curves is None:
            raise TraceError(str(path), None, "", "one file", "a folder, or a file of profiles and one of curves")
        return path, curves
    found = []
    for names in NAMES:
        place = next((path / name for name in names if (path / name).is_file()), None)
        if place is None and not (curves is not None and names is NAMES[1]):
            raise TraceError(str(path), None, "", f"no {names[0]}", f"a folder with {' or '.join(names)}")
        found.append(place)
    first, second = found
    assert first is not None
    last = curves or second
    assert last is not None
    return first, last


def _rows(path: Path, tidy: Sequence[str], bare: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, column → text) of each row of a file, with a header or without."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            rows = [(reader.line_num, [text.strip() for text in row]) for row in reader if any(map(str.strip, row))]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        got = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TraceError(str(path), None, "", got, "a CSV that can be read") from None
    if not rows:
        raise TraceError(str(path), None, "", "no rows", f"the columns {', '.join(tidy)}")
    columns = bare
    if not any(_is_number(text) for text in rows[0][1]):
        line, header = rows.pop(0)
        columns = header
        if sorted(header) != sorted(tidy):
            odd = [name for name in header if name not in tidy or header.count(name) > 1]
            got = f"{odd[0]!r}" if odd else f"no {next(name for name in tidy if name not in header)!r}"
            raise TraceError(str(path), line, "header", got, f"the columns {', '.join(tidy)}, each once")
    for line, row in rows:
        if len(row) != len(columns):
            raise TraceError(str(path), line, "", f"{len(row)} values", f"{len(columns)}: {', '.join(columns)}")
        yield line, dict(zip(columns, row, strict=True))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(path: Path, line: int, row: Mapping[str, str], field: str, kind: Callable[[str], float]) -> Any:
    try:
        value = kind(row[field])
        if not math.isfinite(value):
            raise ValueError
    except ValueError:
        want = "a whole number" if kind is int else "a number"
        raise TraceError(str(path), line, field, repr(row[field]), want) from None
    return value


def _profiles(path: Path) -> Iterator[Profile]:
    lines: dict[tuple[int, int], int] = {}
    for line, row in _rows(path, PROFILE_COLUMNS, BARE_PROFILE_COLUMNS):
        numbers = {
            field: _number(path, line, row, field, int if field in ("app", "nodes") else float)
            for field in PROFILE_COLUMNS
            if field != "name"
        }
        numbers["memory_mb"] = math.ceil(numbers["memory_mb"])
        profile = Profile(name=row["name"], **numbers)
        if (fault := profile_fault(profile)) is not None:
            raise TraceError(str(path), line, *fault)
        before = lines.setdefault((profile.app, profile.nodes), line)
        if before != line:
            got = f"application {profile.app} on {profile.nodes} nodes again, after line {before}"
            raise TraceError(str(path), line, "app", got, "one profile for each number of nodes")
        yield profile


def _curves(path: Path, known: set[int]) -> tuple[tuple[Curve, ...], tuple[int, ...]]:
    points: dict[tuple[int, int, bool, int, int], dict[float, tuple[int, float]]] = {}
    strangers: set[int] = set()
    for line, row in _rows(path, CURVE_COLUMNS, BARE_CURVE_COLUMNS):
        app, nodes, count = (_number(path, line, row, field, int) for field in ("app", "nodes", "interfering"))
        reads, bandwidth, speed = (
            _number(path, line, row, field, float) for field in ("reads", "interfering_mb_s", "speed")
        )
        if app < 0 or nodes < 1:
            field = "app" if app < 0 else "nodes"
            raise TraceError(str(path), line, field, row[field], "a whole number from 0, and nodes from 1")
        if not 1 <= count <= nodes:
            raise TraceError(str(path), line, "interfering", row["interfering"], f"from 1 to {nodes}, its nodes")
        if reads not in READS:
            raise TraceError(str(path), line, "reads", row["reads"], "50 or 100")
        if row["target"] not in _TARGETS:
            raise TraceError(str(path), line, "target", repr(row["target"]), "local (1) or remote (0)")
        if not 0 <= bandwidth < 2**42:
            raise TraceError(str(path), line, "interfering_mb_s", row["interfering_mb_s"], "a bandwidth from 0")
        if app not in known:
            strangers.add(app)
        elif not 0 < speed <= FASTEST:
            raise TraceError(str(path), line, "speed", row["speed"], f"a speed above 0 and at most {FASTEST:g}")
        curve = points.setdefault((app, nodes, _TARGETS[row["target"]], int(reads), count), {})
        if bandwidth in curve:
            got = f"{row['interfering_mb_s']} MB/s again, after line {curve[bandwidth][0]}"
            raise TraceError(str(path), line, "interfering_mb_s", got, "each bandwidth of a curve once")
        curve[bandwidth] = line, speed
    curves = []
    for (app, nodes, remote, reads, count), measured in points.items():
        if len(measured) < 2:
            line = next(iter(measured.values()))[0]
            raise TraceError(str(path), line, "", "a curve of one point", "at least two points a curve")
        if app in known:
            pairs = tuple((bandwidth, measured[bandwidth][1]) for bandwidth in sorted(measured))
            curves.append(Curve(app, nodes, reads, count, remote, pairs))
    return tuple(curves), tuple(sorted(strangers))
