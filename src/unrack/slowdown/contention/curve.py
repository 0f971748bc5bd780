"""Curves through measured points: a least-squares line or parabola, or straight lines from point to point.

Every curve becomes a few pieces, each a polynomial of degree at most two from some bandwidth on, so that one small
kernel evaluates them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

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
