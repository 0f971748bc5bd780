"""Memory and applications for jobs of logs that do not say them: drawn by size, or those of the nearest profile.

References
----------
The thesis on disaggregated memory, section 5.2.1: jobs that need a large node and jobs that do not are sampled without
replacement so that the node-hours of the two are in a given ratio. Step 3, the application a job is like: Euclidean
distance by size and run time, the first of equals. It is silent on how the two are scaled. Here each is scaled to 0 … 1
between its smallest and largest value, jobs and profiles by themselves. The jobs published with the thesis's simulator
follow this rule: with 1 … 128 nodes and 0 … 184 000 s it gives 1 822 of 1 838 the application they have, and 10 of the
others have one that is not in the table of profiles. Their memory per core is a quarter of the profile's MB, rounded
down: profiles were measured on 4 cores.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np
import polars as pl
from pydantic import ValidationError

from unrack.errors import InputError, first_fault, got_and_want
from unrack.kernels.arrays import Floats, Ints
from unrack.workload.formats.source import Locator, load
from unrack.workload.formats.table.text import csv_frame
from unrack.workload.generate.batch.model import SYNTHETIC, MeasuredApplication

_FILES = ("apps.csv", "memory-apps.csv")
_NAMES = ("id", "nodes", "run_s", "memory_mb")
_BARE = (2, 4, 3, 5)
_WANT = "columns app, nodes, run_s (and memory_mb), or no header and application, id, run time, nodes, memory …"
BAND_GB = (0, 12, 24, 48, 96, 128)
"""Edges of the bands, GB a node."""

LARGEST_SMALL = 32
"""The most nodes of a job that counts as small."""

SMALL_SHARES = (69.5, 19.4, 7.7, 3.0, 0.4)
LARGE_SHARES = (53.0, 16.9, 14.8, 11.2, 4.2)
"""Per cent of the jobs in each band; rounding in the table makes the latter 100.1."""

_CLOSE = 0.002
_SHUFFLES = 16


def chosen_for_share(rng: np.random.Generator, node_hours: Floats, large: np.ndarray, share: float, jobs: int) -> Ints:
    """``int64[chosen]``: rows drawn without replacement, such that large ones do a share of the node-hours, 0 to 1.

    ``node_hours``: float64[rows], 0 or more; ``large``: bool[rows]; ``jobs``: how many rows. Of up to 16 shuffles the
    one closest to the share is taken, the first within 0.002 of it; large rows come first. Too few rows of a kind are
    refused.
    """
    if not 0 <= share <= 1:
        raise InputError("share of large jobs", repr(share), "a number from 0 to 1")
    kinds = [np.flatnonzero(large), np.flatnonzero(~large)]
    if not len(kinds[0]) and share > 0:
        raise InputError("share of large jobs", "no large job", "jobs with more memory than a normal node has")
    if not len(kinds[1]) and share < 1:
        raise InputError("share of large jobs", "no normal job", "jobs with no more memory than a normal node has")
    best, closest = np.empty(0, np.int64), np.inf
    for _ in range(_SHUFFLES):
        first, second = (rng.permutation(rows) for rows in kinds)
        counts = _counts(np.cumsum(node_hours[first]), np.cumsum(node_hours[second]), share, jobs)
        rows = np.concatenate([first[: counts[0]], second[: counts[1]]])
        total = float(node_hours[rows].sum())
        off = abs(float(node_hours[first[: counts[0]]].sum()) / total - share) if total > 0 else 0.0
        if off < closest:
            best, closest = rows, off
        if closest <= _CLOSE:
            break
    return best


def _counts(large: Floats, normal: Floats, share: float, jobs: int) -> tuple[int, int]:
    """How many of each kind, from their cumulative node-hours in the order they would be taken."""
    if share in (0, 1):
        there = len(large) if share else len(normal)
        if there < jobs:
            raise InputError("share of large jobs", f"{there} {'large' if share else 'normal'} jobs", f"{jobs} of them")
        return (jobs, 0) if share else (0, jobs)
    large, normal = np.concatenate([[0.0], large]), np.concatenate([[0.0], normal])
    counts = np.arange(max(0, jobs - len(normal) + 1), min(jobs, len(large) - 1) + 1)
    if not len(counts):
        raise InputError("share of large jobs", f"{len(large) + len(normal) - 2} jobs", f"{jobs} to choose")
    total = large[counts] + normal[jobs - counts]
    found = np.divide(large[counts], total, out=np.zeros(len(counts)), where=total > 0)
    place = int(np.abs(found - share).argmin())
    return int(counts[place]), jobs - int(counts[place])


def memory_by_size_mb(rng: np.random.Generator, nodes: Ints) -> Ints:
    """``int64[jobs]``: MB per node, 1 or more and below 128 GB, drawn by Table 5.5 for sizes ``nodes`` (int64[jobs]).

    Bands are drawn first, then places in them.
    """
    chance = rng.random(len(nodes))
    within = rng.random(len(nodes))
    band = np.where(nodes <= LARGEST_SMALL, _bands(SMALL_SHARES, chance), _bands(LARGE_SHARES, chance))
    edges = np.array(BAND_GB, np.float64) * 1024
    mb = np.ceil(edges[band] + within * (edges[band + 1] - edges[band])).astype(np.int64)
    found: Ints = np.clip(mb, 1, BAND_GB[-1] * 1024 - 1)
    return found


def _bands(shares: tuple[float, ...], chance: Floats) -> Ints:
    edges: Floats = np.cumsum(shares) / sum(shares)
    found: Ints = np.searchsorted(edges, chance, side="right").astype(np.int64)
    return np.minimum(found, len(shares) - 1)


def read_profiles(path: str) -> list[MeasuredApplication]:
    """The profiles in a CSV file, or in one that comes with unrack: ``"synthetic"``.

    Of a folder it is ``apps.csv`` or ``memory-apps.csv``. A file with a header has the columns ``app`` (or ``id``),
    ``nodes``, ``run_s`` and, if known, ``memory_mb``; others are ignored. Without: application, id, run time in s,
    nodes, MB per node, and whatever follows. Files of profiles for contention are of these kinds.
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
    folder = Path(path).expanduser()
    if path == SYNTHETIC:
        folder = Path(str(resources.files("unrack").joinpath("data", "memory-profiles")))
    if not folder.is_dir():
        return path
    return str(next((folder / name for name in _FILES if (folder / name).is_file()), folder / _FILES[0]))


def _profile(row: dict[str, str], place: int, at: Locator) -> MeasuredApplication:
    try:
        return MeasuredApplication.model_validate(row)
    except ValidationError as error:
        fault = first_fault(error.errors())
        raise at.fault(place, str(fault["loc"][0]), *got_and_want(fault)) from None


_ROWS = 8192


def match(nodes: Ints, run_s: Floats, profile_nodes: Ints, profile_run_s: Floats, *, so_far: bool = False) -> Ints:
    """``int64[jobs]``: for each job the row of the profile nearest to it, the first of equals.

    Parameters
    ----------
    nodes, run_s : int64[jobs], float64[jobs]
        Of the jobs.
    profile_nodes, profile_run_s : int64[profiles], float64[profiles]
        Of the profiles: a row for each application and size it was measured at.
    so_far
        Whether each job is scaled by itself and those before it only: later ones then change nothing.

    Raises
    ------
    InputError
        There is no profile.

    Examples
    --------
    >>> match(np.array([1, 8, 2]), np.array([50.0, 900.0, 800.0]), np.array([1, 1, 4]), np.array([10.0, 60.0, 70.0]))
    array([0, 2, 1])
    """
    if not len(profile_nodes):
        raise InputError("profiles", "none", "at least one profile to match jobs to")
    jobs = _scaled(nodes, so_far), _scaled(run_s, so_far)
    profiles = _scaled(profile_nodes), _scaled(profile_run_s)
    found = np.empty(len(nodes), np.int64)
    for first in range(0, len(nodes), _ROWS):
        part = slice(first, first + _ROWS)
        apart = [(mine[part, None] - theirs) ** 2 for mine, theirs in zip(jobs, profiles, strict=True)]
        found[part] = (apart[0] + apart[1]).argmin(axis=1)
    return found


def scaled_memory_mb(profile_mb: Floats, cores: int, profile_cores: int = 4) -> Ints:
    """``int64[profiles]``: MB per node of ``cores``, where every core needs what one did when it was measured.

    ``profile_mb``: float64[profiles], MB per node as measured, on ``profile_cores`` cores. MB per core are rounded
    down, as in the published jobs, to 1 or more.

    Examples
    --------
    >>> scaled_memory_mb(np.array([6383.0]), 32).tolist()
    [51040]
    """
    return np.maximum(np.floor(np.asarray(profile_mb, np.float64) / profile_cores), 1).astype(np.int64) * cores


def _scaled(values: Ints | Floats, so_far: bool = False) -> Floats:
    if not len(values):
        return np.empty(0)
    plain = np.asarray(values, np.float64)
    if so_far:
        low, span = np.minimum.accumulate(plain), np.maximum.accumulate(plain) - np.minimum.accumulate(plain)
        return (plain - low) / np.where(span > 0, span, 1.0)
    least, most = float(plain.min()), float(plain.max())
    return (plain - least) / ((most - least) or 1.0)
