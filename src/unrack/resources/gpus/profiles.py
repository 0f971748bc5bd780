"""How applications run on GPUs that are apart, and beside each other: factors on their run time.

A factor of 1.3 makes a job take 1.3 times as long. ``apart`` counts when the GPUs of a job are not all at one socket
although they could be; ``beside`` when another job has GPUs at one of its sockets: of several neighbours the worst
counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

import numpy as np
import polars as pl

from unrack.errors import ClusterError
from unrack.kernels.arrays import Floats
from unrack.resources.use import csv_of

_PREFIX = "bvlc_"
_OTHER_NAMES = {"reference_caffenet": "cafferef"}


def app_name(application: str, batch_size: int) -> str:
    """The name of an application with a batch size, by which jobs and profiles find each other.

    Names of Caffe's models lose the prefix of their makers.

    Examples
    --------
    >>> app_name("bvlc_alexnet", 4), app_name("alexnet", 4), app_name("bvlc_reference_caffenet", 1)
    ('alexnet/4', 'alexnet/4', 'cafferef/1')
    """
    short = application.lower().removeprefix(_PREFIX)
    return f"{_OTHER_NAMES.get(short, short)}/{batch_size}"


MOST = 1.5
"""A measured factor above this is taken for a run that failed: the published ones go up to 1.37."""
TIMES = ("kind", "application", "batch_size", "gpus", "other_application", "other_batch_size", "placement", "time_s")
FACTORS = ("kind", "application", "other", "factor")
KIND_APART, KIND_BESIDE = "apart", "beside"
INTRA, INTER = "intra", "inter"
"""Placements: all GPUs at one socket, or at several."""


@dataclass(frozen=True)
class Profiles:
    """Factors of applications by name.

    Attributes
    ----------
    apart
        Application → factor when its GPUs are at several sockets of a machine that holds as many at one.
    beside
        (application, neighbour) → factor.
    measured
        (application, GPUs) → factor when so many GPUs are at several sockets, whatever the machine holds at one: where
        just that was measured. 1: the time alone was itself measured across sockets.
    source
        Where they are from: a name or a file.
    left_out
        How many measured pairs were not credible.
    """

    apart: Mapping[str, float]
    beside: Mapping[tuple[str, str], float]
    source: str = ""
    left_out: int = 0
    measured: Mapping[tuple[str, int], float] = field(default_factory=dict)

    @cached_property
    def rows(self) -> dict[str, int]:
        """Application → its row of the tables; 0 is every application that is not known."""
        names = {*self.apart, *(one for pair in self.beside for one in pair), *(name for name, _ in self.measured)}
        return {name: i + 1 for i, name in enumerate(sorted(names))}

    @cached_property
    def tables(self) -> tuple[Floats, Floats]:
        """float64[rows, counts] and float64[rows, rows]: the factors; 1 where nothing is known.

        Column n of the first is of n GPUs where that was measured, else 0; column 0 is of all other numbers.
        """
        apart = np.zeros((len(self.rows) + 1, 1 + max((gpus for _, gpus in self.measured), default=0)))
        beside = np.ones((len(self.rows) + 1, len(self.rows) + 1))
        apart[:, 0] = 1.0
        for name, factor in self.apart.items():
            apart[self.rows[name], 0] = factor
        for (name, gpus), factor in self.measured.items():
            apart[self.rows[name], gpus] = factor
        for (one, other), factor in self.beside.items():
            beside[self.rows[one], self.rows[other]] = factor
        return apart, beside


NO_PROFILES = Profiles({}, {})
"""No application slows another down."""

_SPREAD = {1: 1.27, 2: 1.30, 4: 1.25, 8: 1.20, 16: 1.10, 32: 1.0, 64: 1.0, 128: 1.0}
"""AlexNet across sockets, by batch size (paper 001, §3.2.3: 1, 2 and 8 as printed, even above 16; 4 and 16 between)."""
_BESIDE = ((1.30, 1.28, 1.26, 1.24), (1.26, 1.25, 1.23, 1.21), (1.05, 1.04, 1.03, 1.02), (1.0, 1.0, 1.0, 1.0))
"""Slowdown of tiny, small, medium and big batches (rows) beside tiny … big ones (columns). Paper 001, §3.2.4 prints
1.30, 1.24 and 1.21 (small beside big) and calls big beside big nothing; the others lie between."""
_CLASSES = {1: 0, 2: 0, 4: 1, 8: 1, 16: 2, 32: 2, 64: 2, 128: 3}


def deep_learning() -> Profiles:
    """The training jobs of paper 001: AlexNet, CaffeRef and GoogLeNet by batch size, as ``alexnet/4``."""
    networks = ("alexnet", "cafferef", "googlenet")
    apart = {
        f"{net}/{size}": 1.0 if net == "googlenet" else factor for net in networks for size, factor in _SPREAD.items()
    }
    beside = {
        (f"{one}/{a}", f"{other}/{b}"): _BESIDE[_CLASSES[a]][_CLASSES[b]]
        for one in networks for a in _CLASSES for other in networks for b in _CLASSES
    }  # fmt: skip
    return Profiles(apart, beside, "deep-learning")


BUILT_IN = {"deep-learning": deep_learning}
"""Profiles that come with unrack, by name."""


def read_profiles(name: str, where: str) -> Profiles:
    """Profiles by name, or from a CSV file of measured times or of factors.

    Raises
    ------
    ClusterError
        There is no such name or file, or the file has other columns.
    """
    if not name:
        return NO_PROFILES
    if name in BUILT_IN:
        return BUILT_IN[name]()
    table = csv_of(name, BUILT_IN, where)
    try:
        if set(TIMES) <= set(table.columns):
            return _from_times(table, name)
        if set(FACTORS) <= set(table.columns):
            return from_factors(table, name, where)
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        raise ClusterError(where, f"{name}: a value that is no number", "times in s, or factors") from None
    want = f"{', '.join(TIMES)}; or {', '.join(FACTORS)}"
    raise ClusterError(where, f"{name} with the columns {', '.join(table.columns)}", want)


def from_factors(table: pl.DataFrame, name: str, where: str) -> Profiles:
    """Factors as they are: ``apart`` of an application, ``beside`` of one and another."""
    apart: dict[str, float] = {}
    beside: dict[tuple[str, str], float] = {}
    for row, (kind, one, other, factor) in enumerate(table.select(FACTORS).rows()):
        if kind not in (KIND_APART, KIND_BESIDE) or one is None or not float(factor) >= 1:
            raise ClusterError(
                where, f"{name}, row {row + 2}: {kind} {one} {factor}",
                f"{KIND_APART} or {KIND_BESIDE}, an application, and a factor of 1 or more",
            )  # fmt: skip
        if str(one) in apart if kind == KIND_APART else (str(one), str(other)) in beside:
            got = f"{name}, row {row + 2}: {kind} {one} {other or ''}".rstrip()
            raise ClusterError(where, f"{got} again", "one factor of each")
        if kind == KIND_APART:
            apart[str(one)] = float(factor)
        else:
            beside[str(one), str(other)] = float(factor)
    return Profiles(apart, beside, name)


def _from_times(table: pl.DataFrame, name: str) -> Profiles:
    """Factors from measured times: alone at one socket or two (``solo``, intra and inter), and beside another job.

    A factor is over the time alone in the same place, so that what being apart costs is counted once. A pair is
    taken to have met if its row does not say where its GPUs were: a job on several GPUs was then at both sockets, if it
    was measured so alone. A pair is taken by the middle of what was measured for it on several numbers of GPUs. What is
    faster than alone counts as 1; what is slower than ``MOST`` times as a run that failed. A pair without a credible
    time has the middle factor of its application.
    """
    rows = table.select(*TIMES[:6], "placement", "time_s").rows()
    solo: dict[tuple[str, int], dict[str, float]] = {}
    for kind, app, batch, gpus, _, _, placement, time in rows:
        if kind == "solo":
            solo.setdefault((app_name(str(app), batch), int(gpus)), {})[placement or INTRA] = float(time)
    left_out = 0
    pairs: dict[tuple[str, str], list[float]] = {}
    for kind, app, batch, gpus, other, size, placement, time in rows:
        one = app_name(str(app), batch)
        if kind != "solo" and (alone := solo.get((one, int(gpus)))):
            factor = float(time) / alone.get(placement or INTER, min(alone.values()))
            found = pairs.setdefault((one, app_name(str(other), size)), [])
            if 0.5 < factor <= MOST:
                found.append(max(1.0, factor))
            else:
                left_out += 1
    measured = {key: max(1.0, alone[INTER] / alone.get(INTRA, alone[INTER]))
                for key, alone in sorted(solo.items()) if INTER in alone}  # fmt: skip
    both: dict[str, list[float]] = {}
    for (app, gpus), factor in measured.items():
        both.setdefault(app, []).extend([factor] if INTRA in solo[app, gpus] else [])
    apart = {app: median(factors) for app, factors in both.items() if factors}
    usual: dict[str, list[float]] = {}
    for (one, _), factors in pairs.items():
        usual.setdefault(one, []).extend(factors)
    beside = {pair: median(factors) if factors else median(usual[pair[0]] or [1.0]) for pair, factors in pairs.items()}
    names = sorted({app for app, _ in solo})
    for one in names:
        for other in names:
            beside.setdefault((one, other), median(usual.get(one) or [1.0]))
    return Profiles(apart, beside, name, left_out, measured)
