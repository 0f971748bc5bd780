"""How well a set of profiles predicts itself: what was measured is left out and predicted from the rest.

In the form of tables 4.2 to 4.4 of Vieira Zacarias 2023. There predictions are held against runs of real applications
side by side; here against points of the curves themselves, which is all that a set of profiles has.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from unrack.errors import InputError
from unrack.slowdown import METHODS, Contention, Curve, Fallback, Method, ProfileSet, fitted

Reads = Literal["right", "50", "75", "100"]
Left = Literal["point", "count", "nodes", "curves"]
LEFT: tuple[Left, ...] = get_args(Left)
TABLE: tuple[tuple[Method, Reads], ...] = (
    ("quadratic", "right"), ("quadratic", "50"), ("quadratic", "75"), ("quadratic", "100"),
    ("line", "right"), ("line", "50"), ("line", "75"), ("line", "100"),
    ("interpolate", "right"), ("interpolate", "50"), ("interpolate", "75"), ("interpolate", "100"),
    ("memgen", "75"),
)  # fmt: skip
"""The rows of tables 4.2 and 4.3: a method, and the curve that it uses."""


class Miss(NamedTuple):
    """One prediction held against its measurement: which curve, at which bandwidth, and both speeds."""

    curve: Curve
    bandwidth: float
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """By how much it is off, in points of percent of the speed alone."""
        return 100.0 * abs(self.predicted - self.measured)


class LeftOut(NamedTuple):
    """All predictions of one method.

    Attributes
    ----------
    method
        How curves go through points.
    reads
        The curve that was used: ``"right"``, at the interferer's own read share, or always that of 50, 75 (the mean
        of the two that are measured) or 100 % reads.
    misses
        The predictions, in the order of the curves.
    """

    method: Method
    reads: Reads
    misses: tuple[Miss, ...]

    @property
    def mean(self) -> float:
        """Mean error in points of percent; not a number where nothing was predicted."""
        return math.fsum(miss.error for miss in self.misses) / len(self.misses) if self.misses else math.nan

    @property
    def deviation(self) -> float:
        """Standard deviation of the errors, in points of percent."""
        if not self.misses:
            return math.nan
        return math.sqrt(math.fsum((miss.error - self.mean) ** 2 for miss in self.misses) / len(self.misses))

    @property
    def greatest(self) -> float:
        """The largest error in points of percent."""
        return max((miss.error for miss in self.misses), default=math.nan)

    @property
    def nearly_greatest(self) -> float:
        """The 95th percentile of the errors (linear between two), in points of percent."""
        return float(np.percentile([miss.error for miss in self.misses], 95)) if self.misses else math.nan

    def only(self, apps: Collection[int]) -> LeftOut:
        """The predictions for some applications."""
        return self._replace(misses=tuple(miss for miss in self.misses if miss.curve.app in apps))

    def of_applications(self) -> dict[int, tuple[float, float]]:
        """Application → (mean error, largest error), in points of percent."""
        found: dict[int, list[float]] = {}
        for miss in self.misses:
            found.setdefault(miss.curve.app, []).append(miss.error)
        return {app: (math.fsum(errors) / len(errors), max(errors)) for app, errors in sorted(found.items())}


def leave_one_out(
    profiles: ProfileSet,
    method: Method = "line",
    reads: Reads = "right",
    left: Left = "point",
    *,
    nodes: Sequence[int] | None = None,
    ends: bool = False,
    fallback: Fallback = "alike",
) -> LeftOut:
    """Leave out what was measured, a piece at a time, and predict it from the rest.

    Parameters
    ----------
    method, reads
        As in :class:`LeftOut`. ``"memgen"`` goes with ``"75"`` only.
    left
        ``"point"``: a point of a local curve. ``"count"``: the curves for a number of interfering nodes that has
        measured ones on both sides. ``"nodes"``: all curves at a number of nodes that has measured ones on both
        sides. ``"curves"``: all curves of an application, so that it falls back. But for ``"point"``, ``reads`` must
        be ``"right"`` (or the method be ``"memgen"``), and remote curves are predicted too.
    nodes
        Only targets of these numbers of nodes; ``None``: all.
    ends
        Whether the last point of a curve is left out as well, which is then beyond what the rest covers. The point
        without interference is never left out: it is 1 by definition.
    fallback
        For ``"curves"``: as in :class:`unrack.slowdown.contention.predict.Contention`.

    Raises
    ------
    InputError
        There is no such method, or it does not go with the rest.
    """
    if method not in METHODS or (method == "memgen") != (reads == "75" and method == "memgen"):
        raise InputError("method", f"{method!r} with {reads!r}", f"one of {', '.join(METHODS)}; memgen with '75'")
    if left not in LEFT or (left != "point" and reads != "right" and method != "memgen"):
        raise InputError("left", f"{left!r} with {reads!r}", f"one of {', '.join(LEFT)}; all but point with 'right'")
    if left == "point":
        misses = _points(profiles, method, reads, ends)
    else:
        misses = _parts(profiles, method, left, fallback)
    return LeftOut(method, reads, tuple(miss for miss in misses if nodes is None or miss.curve.nodes in nodes))


def thirds(profiles: ProfileSet, *, nodes: Sequence[int] | None = None) -> tuple[frozenset[int], ...]:
    """Applications with local curves in three parts, as equal as can be, by how much they suffer at worst.

    Counts the largest loss of speed at any point of an application's local curves; of equal ones the lower id comes
    first.

    Parameters
    ----------
    nodes
        Only curves on these numbers of nodes; ``None``: all.

    Returns
    -------
    tuple
        Those that suffer least, the middle, and those that suffer most.
    """
    worst: dict[int, float] = {}
    for curve in profiles.curves:
        if not curve.remote and (nodes is None or curve.nodes in nodes):
            slowest = min(speed for _, speed in curve.points)
            worst[curve.app] = min(worst.get(curve.app, slowest), slowest)
    order = sorted(worst, key=lambda app: (-worst[app], app))
    third = len(order) // 3
    return tuple(frozenset(part) for part in (order[:third], order[third : len(order) - third], order[-third:]))


def prediction_table(profiles: ProfileSet, *, nodes: Sequence[int] | None = None) -> tuple[LeftOut, ...]:
    """A row for each of :data:`TABLE`, as in tables 4.2 and 4.3: points left out of local curves."""
    return tuple(leave_one_out(profiles, method, reads, nodes=nodes) for method, reads in TABLE)


def _points(profiles: ProfileSet, method: Method, reads: Reads, ends: bool) -> Iterator[Miss]:
    by_key = {curve.key: curve for curve in profiles.curves}
    for curve in profiles.curves:
        if curve.remote:
            continue
        other = by_key.get(curve._replace(reads=150 - curve.reads).key)
        for place, (bandwidth, speed) in enumerate(curve.points):
            last = place == len(curve.points) - 1
            rest = curve.points[:place] + curve.points[place + 1 :]
            if bandwidth <= 0 or (last and not ends) or len(rest) < 2 or (reads != "right" and other is None):
                continue
            own = fitted(rest, method).at(bandwidth)
            far = own if other is None else fitted(other.points, method).at(bandwidth)
            share = {"right": 0.0, "75": 0.5}.get(reads, 0.0 if reads == str(curve.reads) else 1.0)
            yield Miss(curve, bandwidth, speed, min(own * (1.0 - share) + far * share, 1.0))


def _parts(profiles: ProfileSet, method: Method, left: Left, fallback: Fallback) -> Iterator[Miss]:
    whole = profiles.curves
    dropped: dict[tuple[object, ...], list[Curve]] = {}
    for curve in whole:
        if left == "count":
            family = profiles.families[curve.app, curve.nodes]
            alike = [c.interfering for c in family if (c.remote, c.reads) == (curve.remote, curve.reads)]
            inside = min(alike) < curve.interfering < max(alike)
            part: tuple[object, ...] = curve.key
        elif left == "nodes":
            alike = [c.nodes for c in whole if c.app == curve.app]
            inside, part = min(alike) < curve.nodes < max(alike), (curve.app, curve.nodes)
        else:
            inside, part = True, (curve.app,)
        if inside:
            dropped.setdefault(part, []).append(curve)
    for curves in dropped.values():
        gone = set(curves)
        own = curves[0].app  # its other curves are all that matters, unless it has to borrow
        rest = ProfileSet(
            profiles.profiles if left == "curves" else profiles[own],
            tuple(curve for curve in whole if curve not in gone and (left == "curves" or curve.app == own)),
        )
        model = Contention(rest, method, fallback=fallback)
        for curve in curves:
            remote = 1.0 if curve.remote else 0.0
            for bandwidth, speed in curve.points:
                if bandwidth > 0:
                    interferer = (bandwidth, curve.interfering, float(curve.reads))
                    predicted = model.speed(curve.app, curve.nodes, remote, [interferer])
                    yield Miss(curve, bandwidth, speed, predicted)
