"""Prediction of speeds under contention (Vieira Zacarias 2023, sections 4.3 and 4.4, eq. 4.3).

Which curves stand for an application is decided here; what follows from them is compiled, in ``columns.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from unrack.errors import InputError, check_choice
from unrack.kernels.arrays import Bools, Ints
from unrack.slowdown.contention.columns import ContentionColumns, columns_of, speed_of, worst_of
from unrack.slowdown.contention.profile import METHODS, Fitted, Method, Profile, ProfileSet, fitted
from unrack.workload.generate.memory import match

Fallback = Literal["nearest", "alike", "none"]
FALLBACKS: tuple[Fallback, ...] = get_args(Fallback)


class Matched(NamedTuple):
    """The application that each job is taken for."""

    # int64[jobs]: its place in ``ProfileSet.applications``; -1: none (the job neither suffers nor disturbs)
    place: Ints
    missing: Bools  # bool[jobs]: the job's own application has no profile, so that it runs as another
    curveless: Bools  # bool[jobs]: the application that it runs as has no curves of its own

    def __str__(self) -> str:
        lost, bare = int(self.missing.sum()), int((self.curveless & ~self.missing).sum())
        return f"{lost} of {len(self.place)} jobs without a profile, {bare} with a profile but no curve"


def nearest_profile(profiles: ProfileSet, nodes: ArrayLike, run_s: ArrayLike, *, with_curves: bool = False) -> Ints:
    """int64[jobs]: for each job the place in ``profiles.profiles`` of the profile nearest in size and run time.

    Euclidean distance (Vieira Zacarias 2023, section 5.2.1). Jobs run for hours and profiles for minutes, so sizes and
    run times are first scaled, as :func:`unrack.workload.generate.memory.match` says. The first of equally
    near ones is taken.

    Parameters
    ----------
    nodes, run_s
        Numbers of nodes and run times in seconds, one a job, in order of submission: a job and those before it set
        the scale, so that later ones change nothing.
    with_curves
        Consider only applications that have curves, if any has.
    """
    allowed = np.array([profile.app not in profiles.fallbacks for profile in profiles.profiles])
    if not with_curves or not allowed.any():
        allowed[:] = True
    places = np.flatnonzero(allowed)
    rows = [profiles.profiles[place] for place in places]
    nearest = match(
        np.asarray(nodes, np.int64), np.asarray(run_s, np.float64),
        np.array([row.nodes for row in rows], np.int64), np.array([row.run_s for row in rows], np.float64), so_far=True,
    )  # fmt: skip
    return places[nearest]


def matched(
    profiles: ProfileSet, app: ArrayLike, nodes: ArrayLike, run_s: ArrayLike, fallback: Fallback = "nearest"
) -> Matched:
    """The application that each job is taken for: its own where it has a profile, else as ``fallback`` says.

    Parameters
    ----------
    app
        Ids of applications, one a job; any number that is not in the set counts as unknown.
    nodes, run_s
        As in :func:`nearest_profile`.
    fallback
        ``"nearest"`` and ``"alike"``: the nearest profile with curves, by size and run time. ``"none"``: none.
    """
    ids = np.asarray(app, np.int64)
    known = np.array(profiles.applications, np.int64)
    place = np.searchsorted(known, ids).clip(0, len(known) - 1)
    missing = known[place] != ids
    if missing.any() and fallback == "none":
        place = np.where(missing, -1, place)
    elif missing.any():
        of_profile = np.searchsorted(known, [profile.app for profile in profiles.profiles])
        nearest = nearest_profile(profiles, nodes, run_s, with_curves=True)
        place = np.where(missing, of_profile[nearest], place)
    bare = np.isin(known, profiles.fallbacks)
    return Matched(place.astype(np.int64), missing, np.where(place < 0, True, bare[place]))


def lender_of_curves(profiles: ProfileSet, profile: Profile, fallback: Fallback) -> Profile | None:
    """The profile with measured curves that stands in for a profile without; ``None``: none.

    ``"nearest"``: by size and run time; ``"alike"``: by local bandwidth and remote speed, which say more about what
    an application does to memory. Both scaled from 0 to 1 over the set; the first of equally near ones is taken.
    """
    candidates = [p for p in profiles.profiles if (p.app, p.nodes) in profiles.families]
    if fallback == "none" or not candidates:
        return None

    def place(p: Profile) -> tuple[float, float]:
        return (float(p.nodes), p.run_s) if fallback == "nearest" else (p.local_mb_s, p.remote_speed)

    everyone = np.array([place(p) for p in profiles.profiles])
    span = np.ptp(everyone, axis=0)
    scale = np.where(span > 0, span, 1.0)
    apart = ((np.array([place(p) for p in candidates]) - np.array(place(profile))) / scale) ** 2
    return candidates[int(apart.sum(axis=1).argmin())]


class Family(NamedTuple):
    """The curves that stand for an application at a number of nodes."""

    nodes: int  # the number of nodes
    # (application, nodes) that they were measured on: another application's where it has none of its own
    of: tuple[int, int]
    scale: float  # what the remote curves are multiplied by, so that they start at the application's own remote speed


class Stand(NamedTuple):
    """A fallback that was taken: application ``app`` on ``nodes`` nodes has no curve and runs on those of another.

    ``of`` is (application, nodes) that lends them; ``None``: it is taken to be insensitive.
    """

    app: int
    nodes: int
    of: tuple[int, int] | None


@dataclass(frozen=True)
class Contention:
    """How fast jobs run, given which others use the same memory.

    Parameters
    ----------
    profiles
        What was measured.
    method
        How a curve goes through its points (see :func:`unrack.slowdown.contention.profile.fitted`); ``"memgen"`` takes
        every interferer to read 75 % (Memgen's single curve) and interpolates.
    tolerance
        Interferers with a bandwidth of at least (1 - tolerance) times the largest count towards the number of
        interfering nodes; from 0 to 1.
    floor
        The least that either part of a speed can be; above 0 and at most 1. A line goes on beyond what was measured.
    fallback
        What stands for the curves of an application that has a profile and none: those of the profile nearest in
        size and run time (``"nearest"``), in bandwidth and remote speed (``"alike"``), or nothing (``"none"``: it is
        insensitive and pays for distance only).

    Raises
    ------
    InputError
        A parameter is out of its range.

    Examples
    --------
    >>> from unrack.slowdown.contention.profile import Curve, Profile
    >>> stream = Profile(7, "stream", 1, 20.0, 6000, 15000.0, 35000.0, 75.0, 0.6)
    >>> curves = [Curve(7, 1, reads, 1, False, ((0.0, 1.0), (20000.0, y))) for reads, y in ((50, 0.7), (100, 0.8))]
    >>> model = Contention(ProfileSet((stream,), tuple(curves)))
    >>> model.speed(7, 1, 0.0, [(10000.0, 1, 75.0)]), model.speed(7, 1, 0.5, [])
    (0.875, 0.8)
    """

    profiles: ProfileSet
    method: Method = "line"
    tolerance: float = 0.25
    floor: float = 0.01
    fallback: Fallback = "alike"

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        if not 0 <= self.tolerance <= 1:
            raise InputError("tolerance", repr(self.tolerance), "a share from 0 to 1")
        if not 0 < self.floor <= 1:
            raise InputError("floor", repr(self.floor), "a speed above 0 and at most 1")
        check_choice("fallback", self.fallback, FALLBACKS)

    @cached_property
    def fits(self) -> dict[tuple[int, int, bool, int], tuple[tuple[int, Fitted], ...]]:
        """(application, nodes, remote, reads) → its curves, each with its number of interfering nodes, in order."""
        found: dict[tuple[int, int, bool, int], list[tuple[int, Fitted]]] = {}
        for curve in self.profiles.curves:
            fit = (curve.interfering, fitted(curve.points, self.method))
            found.setdefault((curve.app, curve.nodes, curve.remote, curve.reads), []).append(fit)
        return {key: tuple(fits) for key, fits in found.items()}

    @cached_property
    def families(self) -> dict[int, tuple[Family, ...]]:
        """The curves of each application, by number of nodes; none: it is taken to be insensitive."""
        found: dict[int, tuple[Family, ...]] = dict.fromkeys(self.profiles, ())
        for app, nodes in self.profiles.families:
            found[app] = (*found[app], Family(nodes, (app, nodes), 1.0))
        for app in self.profiles.fallbacks:
            for profile in self.profiles[app]:
                lender = lender_of_curves(self.profiles, profile, self.fallback)
                if lender is not None:
                    scale = min(profile.remote_speed, 1.0) / min(lender.remote_speed, 1.0)
                    found[app] = (*found[app], Family(profile.nodes, (lender.app, lender.nodes), scale))
        return found

    @cached_property
    def columns(self) -> ContentionColumns:
        """The model as arrays, for kernels."""
        return columns_of(self)

    @cached_property
    def fallbacks(self) -> tuple[Stand, ...]:
        """The fallbacks taken for applications that have a profile and no curve, by application and nodes."""
        stands = []
        for app in self.profiles.fallbacks:
            lent = {family.nodes: family.of for family in self.families[app]}
            stands += [Stand(app, profile.nodes, lent.get(profile.nodes)) for profile in self.profiles[app]]
        return tuple(stands)

    def speed(self, app: int, nodes: int, remote: float, interferers: Sequence[tuple[float, int, float]]) -> float:
        """The speed of a job; 1 = alone with all its memory local.

        (1 - r) S_local + r S_remote, each S from its own curves; where no job interferes (1 - r) + r q.

        Parameters
        ----------
        app
            Id of its application, which must have a profile.
        nodes
            Its nodes, 1 or more.
        remote
            Share r of its memory that is remote, 0 to 1.
        interferers
            (bandwidth in MB/s, nodes, read share in percent) of each, in any order.

        Raises
        ------
        InputError
            The application is unknown or a number is out of its range.
        """
        if not 0 <= remote <= 1:
            raise InputError("remote", repr(remote), "a share from 0 to 1")
        if nodes < 1:
            raise InputError("nodes", repr(nodes), "1 or more")
        self.profiles[app]  # an error if there is none
        for interferer in interferers:
            bandwidth, count, reads = interferer
            if not (0 <= bandwidth < 2**42 and count >= 0 and 0 <= reads <= 100):
                want = "a bandwidth and nodes from 0, and a read share from 0 to 100"
                raise InputError("interferer", repr(tuple(interferer)), want)
        place = self.profiles.applications.index(app)
        bandwidths, counts, read_shares = np.array(interferers, np.float64).reshape(-1, 3).T.copy()
        columns = self.columns.kernel
        pressure = worst_of(columns, bandwidths, counts.astype(np.int64), read_shares)
        return float(speed_of(columns, place, nodes, float(remote), *pressure))
