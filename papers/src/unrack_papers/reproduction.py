"""What a reproduction is made of: rows that are compared at points, quantities, the paper's values and its claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from unrack.study import RunTimes
from unrack_papers.options import DEFAULTS, Options

if TYPE_CHECKING:
    from unrack import Result
    from unrack.study import Run
    from unrack_papers.claim import Claim
    from unrack_papers.measured import Measured
    from unrack_papers.pages.sheet import Sheet

X = float | int | str
Place = tuple[str, X, str]
"""Where a value stands: (group, x, row), for example ``("S1", 0.7, "First Fit")``."""
Contended = Literal["whole", "share", "off"]
Spec = dict[str, Any]
Numbers = dict[str, float | None]
Values = dict[Place, tuple[Numbers, ...]]
"""Place → metric → value, for each seed."""


@dataclass(frozen=True)
class Row:
    """A policy on a cluster, as a row of the paper's table; or a method of prediction.

    Attributes
    ----------
    name
        As the paper's table has it.
    policy
        As :func:`unrack.simulate` takes it; of a prediction, the method.
    cluster
        A preset's name, or the keys of a cluster file; of a prediction, the curve.
    printed
        The paper has it; rows that it has not are marked.
    world
        ``"study"``: its jobs run as the reproduction's models and contention say; ``"base"``: without them.
    contention
        Under what contention for memory its world is, where the reproduction has any: ``"whole"``, ``"share"`` (the
        ``traffic`` of the contention model), or ``"off"``: nobody slows anybody down. A row whose world is another
        than that of the rows beside it says so in its name.
    """

    name: str
    policy: str
    cluster: str | Mapping[str, Any]
    printed: bool = True
    world: RunTimes = RunTimes.STUDY
    contention: Contended = "whole"

    @property
    def shown(self) -> str:
        """What tables and figures call it: its name, and its world where that is another."""
        return in_world(self.name, self.world)


def in_world(name: str, world: RunTimes) -> str:
    """A name, with the world where that is not the one of the other rows.

    Examples
    --------
    >>> in_world("First Fit", RunTimes.BASE)
    'First Fit, base times'
    """
    return name if world == RunTimes.STUDY else f"{name}, base times"


@dataclass(frozen=True)
class Point:
    """A workload under which rows are compared: one panel and one place on the x axis.

    Attributes
    ----------
    group
        The panel: a scenario or a layout.
    x
        The place on the axis.
    workload
        Keys of a generator (see ``docs/study-files.md``), without the number of jobs; and filters of its jobs, by name.
    rows
        What is compared.
    ideal
        The cluster whose fat node gives the window of measurement, a preset's name or keys; ``None``: all is measured,
        from the first submission to the last end.
    """

    group: str
    x: X
    workload: Mapping[str, Any]
    rows: tuple[Row, ...]
    ideal: str | Mapping[str, Any] | None = None


class Quantity(NamedTuple):
    """A measured quantity, as the paper prints it.

    Attributes
    ----------
    label
        Its column in the paper's table.
    metric
        What is measured: a metric of ``unrack metrics``, or a count named by the reproduction.
    factor
        From the metric to the printed unit (100: per cent).
    decimals
        How many the paper prints.
    unit
        ``"%"``, ``"s"`` or ``""``.
    tolerance, share
        Up to which difference to a printed value we agree with it: so much, in the printed unit, or this share of the
        value if that is more; the paper's rounding is added. Without either it must be the same number.
    steps
        It has one of a few values, such as a size of those that are tried.
    """

    label: str
    metric: str
    factor: float = 1.0
    decimals: int = 2
    unit: str = ""
    tolerance: float = 0.0
    share: float = 0.0
    steps: bool = False


@dataclass(frozen=True)
class Task:
    """One workload of one seed, and the rows to run it under.

    Attributes
    ----------
    workload
        Keys of the generator.
    seed
        Of the workload, and of policies that draw.
    rows
        What is compared.
    ideal
        The cluster whose fat node gives the window; ``None``: all is measured.
    models
        As :func:`unrack.simulate` takes them.
    profiles
        For runs under contention: file or folder of application profiles, ``""``: the synthetic ones. ``None``: jobs
        do not contend.
    """

    workload: Mapping[str, Any]
    seed: int
    rows: tuple[Row, ...]
    ideal: str | Mapping[str, Any] | None
    models: tuple[str | Mapping[str, Any], ...]
    profiles: str | None = None


Measurement = Callable[["Run", "Result", float], Numbers]
"""What is kept of a finished run: see :data:`unrack.study.runner.Measure`."""
Solve = Callable[[Task], list[Numbers]]
"""Numbers for each row of a task."""


def metrics(run: Run, result: Result, took_s: float) -> Numbers:
    """The metrics of a run."""
    return dict(result.metrics)


@dataclass(frozen=True)
class Reproduction:
    """A table or figure of a paper.

    Attributes
    ----------
    name
        What ``unrack reproduce`` calls it.
    shows
        The table or figure, for example ``"Table 4.3"``.
    paper
        Which paper.
    summary
        One line of words.
    setup
        What is run, in a paragraph for people.
    points
        What is run, for the engine.
    quantities
        What is compared, in the order of the paper's columns.
    claims
        What the paper says about it.
    draw
        The figure, as a Vega-Lite specification.
    x_title, group_title
        What the axis and the panels are.
    groups
        Panel → words for it.
    models
        Performance models of modelled jobs.
    printed
        The paper's values where it prints them: (group, x, row) → quantity's label → value.
    bounded
        Jobs have deadlines, and tables show the bound on those that must be missed.
    measure
        What is kept of a run, a function of a module.
    solve
        What finds the numbers of a task in a way of its own, a function of a module; ``None``: each row is one run.
    notes
        Where our setup is known or suspected to differ from the paper's.
    defaults, takes
        What the options are unless given, and which of them apply.
    derive
        Numbers that follow from those of several places, and places for them; ``None``: there are none.
    tables
        Tables of its own in place of the usual ones.
    aside
        Lines for the terminal only: what is not the same on every run.
    exact
        Nothing in it is drawn: one seed says all.
    """

    name: str
    shows: str
    paper: str
    summary: str
    setup: str
    points: tuple[Point, ...]
    quantities: tuple[Quantity, ...]
    claims: tuple[Claim, ...]
    draw: Callable[[Measured], Spec]
    x_title: str
    group_title: str = "scenario"
    groups: Mapping[str, str] = field(default_factory=dict)
    models: tuple[str | Mapping[str, Any], ...] = ()
    printed: Mapping[Place, Mapping[str, float]] = field(default_factory=dict)
    bounded: bool = False
    measure: Measurement = metrics
    solve: Solve | None = None
    notes: tuple[str, ...] = ()
    defaults: Options = DEFAULTS
    takes: frozenset[str] = frozenset()
    derive: Callable[[Values], Values] | None = None
    tables: Callable[[Measured], tuple[Sheet, ...]] | None = None
    aside: Callable[[Measured], list[str]] | None = None
    exact: bool = False
