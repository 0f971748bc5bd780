"""Nearest profiles: for jobs of unknown applications, and for applications without curves."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from unrack.errors import InputError
from unrack.kernels.arrays import Bools, Ints
from unrack.slowdown.contention.profile import Profile, ProfileSet
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
    """The profile at whose size curves were measured that stands in for a profile without; ``None``: nobody.

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


def check_fallback(fallback: Any) -> None:
    """Refuse an unknown fallback with an :class:`InputError`."""
    if fallback not in FALLBACKS:
        raise InputError("fallback", repr(fallback), f"one of {', '.join(FALLBACKS)}")
