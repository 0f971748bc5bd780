"""What drawn curves of memory use look like: kinds of shapes, each with distributions of a few properties."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field, FiniteFloat, field_validator

from unrack.kernels.arrays import Floats, Ints
from unrack.resources.checked import Strict
from unrack.workload.formats.source import parameters_of, parameters_text
from unrack.workload.generate.distributions import Positive, ascending
from unrack.workload.usage.curves import UsageSeries
from unrack.workload.usage.thin import Thinned, thinned

KINDS = ("flat", "ramp", "phases", "spikes")
"""The kinds of shapes: nearly always at the peak; rising to it; at levels that last; mostly low, with short peaks."""

NEAR = 0.9
"""The share of the peak from which on a curve counts as near its peak."""

SHAPES = {
    "google": "one curve for all tasks of a job, of 5-minute maxima, in the manner of the Google trace of 2019",
    "grizzly": "one curve a task, related but with peaks of their own, in the manner of LANL's Grizzly",
}
"""Name → what comes with the package. No measured data is behind them; docs/usage.md says what was chosen."""


def _shares(values: tuple[float, ...]) -> tuple[float, ...]:
    if values[-1] > 1:
        raise ValueError("shares up to 1")
    return ascending(values)


def _counts(values: tuple[float, ...]) -> tuple[float, ...]:
    if values[0] < 1 or values[-1] > 1_000_000:
        raise ValueError("numbers of steps from 1 to a million")
    return ascending(values)


ShareCurve = Annotated[tuple[Positive, ...], Field(min_length=2), AfterValidator(_shares)]
StepCurve = Annotated[tuple[Positive, ...], Field(min_length=2), AfterValidator(_counts)]


class ShapeKind(Strict):
    """One kind of shape; curves are quantile curves: values, the smallest first, at equal steps of chance."""

    # how many curves are of this kind, against the weights of the others
    weight: Annotated[FiniteFloat, Field(ge=0, le=1e9)]
    mean_over_peak: ShareCurve  # quantile curve of the average use over the largest
    near_peak: ShareCurve  # quantile curve of the share of the progress at 90 % of the peak or above
    # how these two go together: the correlation of their normal scores
    together: Annotated[FiniteFloat, Field(ge=-1, le=1)] = 0.0
    steps: StepCurve  # quantile curve of the number of steps
    # how much a step is like the one before it: the correlation of neighbours, 0 to below 1
    persistence: Annotated[FiniteFloat, Field(ge=0, lt=1)] = 0.0
    # how far the steps that are not near the peak differ: 0 = not at all, 1 = as far as their mean lets them
    spread: Annotated[FiniteFloat, Field(ge=0, le=1)] = 1.0


class NodeDifferences(Strict):
    """How the nodes of one job differ."""

    # standard deviation of the logarithm of the nodes' peaks; the highest of them is the job's
    spread: Annotated[FiniteFloat, Field(ge=0, le=10)]
    # correlation of the levels of two nodes at the same progress, 0 to 1
    alike: Annotated[FiniteFloat, Field(ge=0, le=1)]


class Shapes(Strict):
    """The parameters of drawn curves."""

    source: str = ""  # what they were fitted to, or where they are from
    # the length of a sample, s: steps begin at its multiples, and a job that is shorter has one step
    interval_s: Positive = 300.0
    # kind → its parameters; a kind that is not there is not drawn
    kinds: dict[Literal["flat", "ramp", "phases", "spikes"], ShapeKind] = Field(min_length=1)
    nodes: NodeDifferences | None = None  # how nodes differ; ``None``: one curve for all tasks of a job

    @field_validator("kinds")
    @classmethod
    def _some_weight(cls, value: dict[str, ShapeKind]) -> dict[str, ShapeKind]:
        if not sum(kind.weight for kind in value.values()) > 0:
            raise ValueError("weights of which one is above 0")
        return value

    def weights(self) -> Floats:
        """float64[kinds]: the chance of each kind of :data:`KINDS`."""
        found = np.array([self.kinds[name].weight if name in self.kinds else 0.0 for name in KINDS])
        shares: Floats = found / found.sum()
        return shares


def shapes_of(which: str | os.PathLike[str]) -> Shapes:
    """The parameters of that name, or of that TOML file.

    Parameters
    ----------
    which
        A key of :data:`SHAPES`, or a path that ends in ``.toml``, such as ``unrack usage fit`` writes.

    Raises
    ------
    InputError
        There is no such file, or it does not hold parameters.

    Examples
    --------
    >>> shapes_of("google").nodes is None, shapes_of("grizzly").nodes is None
    (True, False)
    """
    name = os.fspath(which)
    content = parameters_of(name, "shapes", SHAPES, "usage/shapes")
    return Shapes.read(content, f"{name}, ", nested=list(ShapeKind.model_fields))


def written(shapes: Shapes, made_by: str = "") -> str:
    """The text of a TOML file with the parameters; ``made_by`` is a comment for its first line."""
    content = shapes.model_dump(mode="json", exclude_none=True)
    nodes = {"nodes": content.pop("nodes")} if "nodes" in content else {}
    kinds = {f"kinds.{name}": kind for name, kind in content.pop("kinds").items()}
    return parameters_text({**content, **kinds, **nodes}, made_by=made_by)


TOLERANCE, RISE = 0.05, 0.1
"""How series are thinned before their steps are counted: shares of the peak."""

_FLAT = 0.8
_RISING = 0.8
_STAIRS = 4
_SHORT = 0.1


@dataclass(frozen=True)
class Properties:
    """Of each series."""

    # int64[series]: Place in :data:`unrack.workload.usage.shapes.parameters.KINDS`. Flat: near its peak for 80 % of
    # the progress or more. Ramp: of four steps or more, and correlated with the progress by 0.8 or more. Spikes:
    # above the middle of its median and its peak for a tenth of the progress or less. Phases: all others.
    kind: Ints
    # ratio, near: float64[series]: mean over peak; share of the progress at 90 % of the peak or above
    ratio: Floats
    near: Floats
    steps: Ints  # int64[series]: steps that are left when it is thinned to 5 % of its peak
    thin: Thinned  # the thinned curves


def properties(series: UsageSeries) -> Properties:
    """The properties of series, each of which uses something.

    Parameters
    ----------
    series
        In shares of a peak (:meth:`unrack.workload.usage.curves.UsageSeries.over_peak`), lest rounding lose steps.
    """
    begin = series.point[:-1]
    owner = np.repeat(np.arange(len(begin)), np.diff(series.point))
    span = series.spans()
    level = series.amount / series.peaks()[owner]

    def mean(values: Floats) -> Floats:
        return np.add.reduceat(values * span, begin)

    ratio, near = mean(level), np.minimum(mean((level >= NEAR).astype(np.float64)), 1.0)
    middle = series.at + span / 2
    apart, along = level - ratio[owner], middle - mean(middle)[owner]
    spread = np.sqrt(mean(apart**2) * mean(along**2))
    rising = mean(apart * along) / np.maximum(spread, 1e-12)
    high = (1 + _median(level, span, owner, begin)) / 2
    above = mean((level > high[owner]).astype(np.float64))
    thin = thinned(series, TOLERANCE, RISE)
    steps = np.diff(thin.curves.point)
    kind = np.select(
        [near >= _FLAT, (rising >= _RISING) & (steps >= _STAIRS), above <= _SHORT],
        [KINDS.index("flat"), KINDS.index("ramp"), KINDS.index("spikes")],
        KINDS.index("phases"),
    )
    return Properties(kind.astype(np.int64), ratio, near, steps, thin)


def _median(level: Floats, span: Floats, owner: Ints, begin: Ints) -> Floats:
    """float64[series]: the level that is not passed for half of the progress."""
    order = np.lexsort((level, owner))
    passed = np.cumsum(span[order])
    passed -= np.repeat(np.append(0.0, passed[begin[1:] - 1]), np.diff(np.append(begin, len(level))))
    half = np.flatnonzero(passed >= 0.5 - 1e-9)
    first = half[np.searchsorted(owner[order][half], np.arange(len(begin)))]
    return level[order][first]
