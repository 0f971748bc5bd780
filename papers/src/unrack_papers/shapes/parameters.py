"""What drawn curves of memory use look like: kinds of shapes, each with distributions of a few properties."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, FiniteFloat, field_validator

from unrack.workload.formats import parameters_of, parameters_text
from unrack.workload.generate import Positive, Strict, ascending
from unrack.workload.usage import KINDS

Floats = NDArray[np.float64]

SHAPES = {
    "google": "one curve for all tasks of a job, of 5-minute maxima, in the manner of the Google trace of 2019",
    "grizzly": "one curve a task, related but with peaks of their own, in the manner of LANL's Grizzly",
}
"""Name → what comes with this package. No measured data is behind them; docs/usage.md says what was chosen."""


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
    content = parameters_of(name, "shapes", SHAPES, __package__)
    return Shapes.read(content, f"{name}, ")


def written(shapes: Shapes, made_by: str = "") -> str:
    """The text of a TOML file with the parameters; ``made_by`` is a comment for its first line."""
    content = shapes.model_dump(mode="json", exclude_none=True)
    nodes = {"nodes": content.pop("nodes")} if "nodes" in content else {}
    kinds = {f"kinds.{name}": kind for name, kind in content.pop("kinds").items()}
    return parameters_text({**content, **kinds, **nodes}, made_by=made_by)
