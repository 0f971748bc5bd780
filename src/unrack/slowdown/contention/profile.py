"""Application profiles: what a job asks of memory, and how it slows down when others ask too.

Curves go through measured points: a least-squares line or parabola, or straight lines from point to point. Each becomes
a few pieces, polynomials of degree at most two from some bandwidth on, so that one small kernel evaluates them all.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from unrack.errors import InputError

READS = (50, 100)
"""The read shares of interfering traffic, percent, at which curves are measured."""

FASTEST = 2.0
"""No measured speed may be above it; speeds between 1 and this are noise, kept as measured and capped in use."""

Fault = tuple[str, str, str]
"""Of something wrong: the field, what was got, what was wanted."""


class Profile(NamedTuple):
    """One application at one size, measured alone."""

    app: int  # id of the application, 0 or more
    name: str  # its name, for people
    nodes: int  # on how many nodes it was measured
    run_s: float  # how long it ran with all its memory local
    memory_mb: int  # memory, per node
    # remote_mb_s, local_mb_s: bandwidth that it draws, reads and writes, when all its memory is remote and when all
    # is local
    remote_mb_s: float
    local_mb_s: float
    reads: float  # share of reads in it, percent
    # Its speed when all its memory is remote and no job interferes; 1 = all local. The thesis's penalty, q here.
    remote_speed: float


class Curve(NamedTuple):
    """One sensitivity curve.

    Attributes
    ----------
    app, nodes
        The application that is disturbed, and its nodes.
    reads
        Share of reads in the interfering traffic, percent: 50 or 100.
    interfering
        On how many of its nodes there is interference.
    remote
        Whether all its memory is remote; else all of it is local.
    points
        (interfering bandwidth in MB/s, speed) by bandwidth, the bandwidth being what the other draws when alone.
    """

    app: int
    nodes: int
    reads: int
    interfering: int
    remote: bool
    points: tuple[tuple[float, float], ...]

    @property
    def key(self) -> tuple[int, int, bool, int, int]:
        """What tells it from the others of a set: app, nodes, remote, reads, interfering."""
        return (self.app, self.nodes, self.remote, self.reads, self.interfering)

    def __str__(self) -> str:
        target = "remote" if self.remote else "local"
        return (
            f"the {target} curve of application {self.app} on {self.nodes} nodes, "
            f"{self.reads} % reads, {self.interfering} interfering"
        )


def profile_fault(profile: Profile) -> Fault | None:
    """What is wrong with a profile by itself; ``None``: nothing."""
    for field, least in (("app", 0), ("nodes", 1), ("memory_mb", 0)):
        if not least <= getattr(profile, field) < 2**42:
            return field, repr(getattr(profile, field)), f"a whole number from {least}"
    if not 0 < profile.run_s <= 1e12:
        return "run_s", repr(profile.run_s), "a time above 0, in seconds"
    for field in ("remote_mb_s", "local_mb_s"):
        if not 0 <= getattr(profile, field) < 2**42:
            return field, repr(getattr(profile, field)), "a bandwidth from 0, in MB/s"
    if not 0 <= profile.reads <= 100:
        return "reads", repr(profile.reads), "a share from 0 to 100 percent"
    if not 0 < profile.remote_speed <= FASTEST:
        return "remote_speed", repr(profile.remote_speed), f"a speed above 0 and at most {FASTEST:g}"
    return None


def curve_fault(curve: Curve) -> Fault | None:
    """What is wrong with a curve by itself; ``None``: nothing."""
    if curve.reads not in READS:
        return "reads", repr(curve.reads), "50 or 100"
    if not 1 <= curve.nodes < 2**31:
        return "nodes", repr(curve.nodes), "a whole number from 1"
    if not 1 <= curve.interfering <= curve.nodes:
        return "interfering", repr(curve.interfering), f"a whole number from 1 to {curve.nodes}, its nodes"
    bandwidths = [bandwidth for bandwidth, _ in curve.points]
    if any(not (math.isfinite(bandwidth) and 0 <= bandwidth < 2**42) for bandwidth in bandwidths):
        return "interfering_mb_s", repr(bandwidths), "bandwidths from 0, in MB/s"
    if any(low >= high for low, high in pairwise(bandwidths)):
        return "interfering_mb_s", repr(bandwidths), "each bandwidth once, in order"
    if len(bandwidths) < 2:
        return "points", f"{len(bandwidths)} point", "at least two"
    for _, speed in curve.points:
        if not 0 < speed <= FASTEST:
            return "speed", repr(speed), f"a speed above 0 and at most {FASTEST:g}"
    return None


@dataclass(frozen=True)
class ProfileSet:
    """Profiles and curves of applications that were measured on one machine.

    Parameters
    ----------
    profiles
        One for each application and number of nodes; put in that order.
    curves
        Of applications with a profile. At each number of nodes with curves there are local ones for both read shares;
        remote ones too, for both, or for neither. Put in the order of their keys.
    strangers
        Ids of applications with curves that were left out, as they have no profile.

    Raises
    ------
    InputError
        A profile or a curve is wrong, stands twice, or one of a pair is missing.

    Examples
    --------
    >>> calm = Profile(3, "calm", 1, 60.0, 100, 20.0, 20.0, 75.0, 0.99)
    >>> profiles = ProfileSet((calm,), ())
    >>> len(profiles), profiles[3][0].name, profiles.fallbacks
    (1, 'calm', (3,))
    """

    profiles: tuple[Profile, ...]
    curves: tuple[Curve, ...]
    strangers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "profiles", tuple(sorted(self.profiles, key=lambda p: (p.app, p.nodes))))
        object.__setattr__(self, "curves", tuple(sorted(self.curves, key=lambda c: c.key)))
        if not self.profiles:
            raise InputError("profiles", "none", "at least one")
        _refuse_faults(self)
        _refuse_gaps(self)

    @cached_property
    def applications(self) -> tuple[int, ...]:
        """Ids of the applications with a profile, in order; an application's place here is its index."""
        return tuple(dict.fromkeys(profile.app for profile in self.profiles))

    @cached_property
    def families(self) -> dict[tuple[int, int], tuple[Curve, ...]]:
        """The curves of each (application, nodes) that has any, in order."""
        found: dict[tuple[int, int], list[Curve]] = {}
        for curve in self.curves:
            found.setdefault((curve.app, curve.nodes), []).append(curve)
        return {key: tuple(curves) for key, curves in found.items()}

    @cached_property
    def fallbacks(self) -> tuple[int, ...]:
        """Ids of the applications that have a profile and no curve, in order."""
        with_curves = {curve.app for curve in self.curves}
        return tuple(app for app in self.applications if app not in with_curves)

    @cached_property
    def _by_app(self) -> dict[int, tuple[Profile, ...]]:
        return {app: tuple(p for p in self.profiles if p.app == app) for app in self.applications}

    def __len__(self) -> int:
        """How many applications there are."""
        return len(self.applications)

    def __iter__(self) -> Iterator[int]:
        return iter(self.applications)

    def __contains__(self, app: object) -> bool:
        return app in self._by_app

    def __getitem__(self, app: int) -> tuple[Profile, ...]:
        """The profiles of an application by number of nodes; :class:`InputError` if it has none."""
        if app not in self._by_app:
            raise InputError("application", repr(app), f"one of the {len(self)} with a profile")
        return self._by_app[app]

    def digest(self) -> str:
        """A SHA-256 over all that predictions depend on: the same for the same profiles however they were written."""
        text = "\n".join([*(repr(tuple(p)) for p in self.profiles), *(repr(tuple(c)) for c in self.curves)])
        return hashlib.sha256(text.encode()).hexdigest()


def _refuse_faults(profiles: ProfileSet) -> None:
    seen: set[tuple[int, ...]] = set()
    for profile in profiles.profiles:
        where = f"profile of application {profile.app} on {profile.nodes} nodes"
        if (fault := profile_fault(profile)) is not None:
            raise InputError(f"{where}, {fault[0]}", fault[1], fault[2])
        if (profile.app, profile.nodes) in seen:
            raise InputError(where, "a second one", "one for each number of nodes")
        seen.add((profile.app, profile.nodes))
    keys: set[tuple[int, ...]] = set()
    for curve in profiles.curves:
        if (fault := curve_fault(curve)) is not None:
            raise InputError(f"{curve}, {fault[0]}", fault[1], fault[2])
        if curve.key in keys:
            raise InputError(str(curve), "a second one", "one of each")
        if curve.app not in profiles:
            raise InputError(str(curve), "an application without a profile", "a profile of it")
        keys.add(curve.key)


def _refuse_gaps(profiles: ProfileSet) -> None:
    for (app, nodes), curves in profiles.families.items():
        have = {(curve.remote, curve.reads) for curve in curves}
        for remote in (False, True):
            missing = [reads for reads in READS if (remote, reads) not in have]
            if missing and (not remote or len(missing) < len(READS)):
                where = f"application {app} on {nodes} nodes"
                side = "remote" if remote else "local"
                want = f"{side} curves for 50 and 100 % reads" + (", or neither" if remote else "")
                raise InputError(where, f"no {side} curve for {' and '.join(map(str, missing))} % reads", want)


Method = Literal["line", "quadratic", "interpolate", "memgen"]
METHODS: tuple[Method, ...] = get_args(Method)
Points = Sequence[tuple[float, float]]


class Piece(NamedTuple):
    """A part of a curve: speed = c0 + c1 x + c2 x² for x from ``start`` MB/s to where the next piece starts."""

    start: float
    c0: float
    c1: float
    c2: float

    def at(self, x: float) -> float:
        """Its value at ``x``, wherever it ends."""
        return self.c0 + x * (self.c1 + x * self.c2)


class Fitted(NamedTuple):
    """A curve ready for use: its pieces, the first from minus infinity."""

    pieces: tuple[Piece, ...]

    def at(self, x: float) -> float:
        """The speed at an interfering bandwidth of ``x`` MB/s, as the curve has it: not capped."""
        return next(piece for piece in reversed(self.pieces) if x >= piece.start).at(x)


def fitted(points: Points, method: Method) -> Fitted:
    """The curve through measured points.

    Parameters
    ----------
    points
        (bandwidth, speed), by bandwidth, which are all different; at least one.
    method
        ``"line"``: the least-squares line, which goes on beyond the last point. ``"quadratic"``: the least-squares
        parabola (below three points: the line); beyond the last point it stays as there, since a parabola that
        bends upwards would promise more speed for more interference. ``"interpolate"`` and ``"memgen"``: straight
        from point to point; outside it stays as at the end.

    Examples
    --------
    >>> points = [(0.0, 1.0), (1000.0, 0.8), (2000.0, 0.9)]
    >>> [round(fitted(points, method).at(500.0), 4) for method in ("line", "quadratic", "interpolate")]
    [0.925, 0.8625, 0.9]
    """
    if method in ("interpolate", "memgen"):
        return Fitted(_straight(points))
    degree = 2 if method == "quadratic" and len(points) > 2 else 1
    c0, c1, c2 = least_squares(points, min(degree, len(points) - 1))
    first = Piece(-math.inf, c0, c1, c2)
    if degree < 2:
        return Fitted((first,))
    top = points[-1][0]
    return Fitted((first, Piece(top, first.at(top), 0.0, 0.0)))


def least_squares(points: Points, degree: int) -> tuple[float, float, float]:
    """Coefficients (c0, c1, c2) of the polynomial of degree 0 to 2 that is nearest to the points in least squares.

    Fitted by orthogonal polynomials, in plain arithmetic with exact sums: the same to the last bit everywhere.

    Examples
    --------
    >>> [round(c, 9) for c in least_squares([(0.0, 1.0), (1.0, 3.0), (2.0, 7.0)], 2)]
    [1.0, 1.0, 1.0]
    """
    n = len(points)
    mean_x, mean_y = math.fsum(x for x, _ in points) / n, math.fsum(y for _, y in points) / n
    offsets = [x - mean_x for x, _ in points]
    c0, c1, c2 = mean_y, 0.0, 0.0
    if degree >= 1:
        squares = math.fsum(u * u for u in offsets)
        c1 = math.fsum(u * (y - mean_y) for u, (_, y) in zip(offsets, points, strict=True)) / squares
        c0 -= c1 * mean_x
    if degree >= 2:
        slant, spread = math.fsum(u * u * u for u in offsets) / squares, squares / n
        bends = [u * u - slant * u - spread for u in offsets]  # orthogonal to 1 and to u
        weights = math.fsum(b * b for b in bends)
        c2 = math.fsum(b * y for b, (_, y) in zip(bends, points, strict=True)) / weights
        c0 += c2 * (mean_x * mean_x + slant * mean_x - spread)
        c1 -= c2 * (2 * mean_x + slant)
    return c0, c1, c2


def _straight(points: Points) -> tuple[Piece, ...]:
    pieces = [Piece(-math.inf, points[0][1], 0.0, 0.0)]
    for (x, y), (next_x, next_y) in pairwise(points):
        slope = (next_y - y) / (next_x - x)
        pieces.append(Piece(x, y - slope * x, slope, 0.0))
    pieces.append(Piece(points[-1][0], points[-1][1], 0.0, 0.0))
    return tuple(pieces)
