"""What a reproduction is made of: rows that are compared at points, quantities, the paper's values and its claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from unrack.study.world import World

if TYPE_CHECKING:
    from unrack.papers.claim import Claim
    from unrack.papers.execution import Engine
    from unrack.papers.measured import Measured
    from unrack.papers.sheet import Sheet

X = float | int | str
Place = tuple[str, X, str]
"""Where a value stands: (group, x, row), for example ``("S1", 0.7, "First Fit")``."""
Contended = Literal["whole", "share", "off"]
Counts = Literal["", "nodes", "rules", "memory", "clock"]
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
    world: World = World.STUDY
    contention: Contended = "whole"

    @property
    def shown(self) -> str:
        """What tables and figures call it: its name, and its world where that is another."""
        return in_world(self.name, self.world)


def in_world(name: str, world: World) -> str:
    """A name, with the world where that is not the one of the other rows.

    Examples
    --------
    >>> in_world("First Fit", World.BASE)
    'First Fit, base times'
    """
    return name if world == World.STUDY else f"{name}, base times"


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
        Keys of a generator (see ``docs/study-files.md``), without the number of jobs.
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
    """

    label: str
    metric: str
    factor: float = 1.0
    decimals: int = 2
    unit: str = ""
    tolerance: float = 0.0
    share: float = 0.0


@dataclass(frozen=True)
class Options:
    """What a user may vary.

    Attributes
    ----------
    seeds
        How many; they are 0 … seeds - 1.
    jobs
        Jobs of each workload.
    frozen
        Running jobs keep the speed they started with, as in the authors' simulator.
    arrivals
        ``"poisson"``, as the papers say, or ``"fixed"``, as in some of their recorded runs.
    offers
        (place on the axis, offered load): the load that is offered there in place of the one it is called by.
    load
        Offered load of a batch workload; ``None``: that of the reproduction.
    profiles
        File or folder of measured application profiles; ``None``: the synthetic ones that come with unrack.
    profile_cores
        Cores of the nodes that they were measured on.
    late_joins, running_load, shortcuts
        Ways of the authors' simulator: see :class:`unrack.policy.pooled.Pooled`, where the loads of running jobs are
        ``load_of``.
    attached
        Attached drives: ``"6-4"`` (six on node 0, four on node 2), as in §4.4.1, or ``"4-6"``, as in §4.4.3.
    servers
        File of servers, JSON as of ``unrack.workload.servers_json``, in place of drawn ones; one seed then says all.
    trace
        File of jobs in place of drawn ones; seed 0 is the file as it is, others have arrivals moved by up to 30 s.
    """

    seeds: int = 20
    jobs: int = 1500
    frozen: bool = False
    arrivals: str = "poisson"
    offers: tuple[tuple[float, float], ...] = ()
    load: float | None = None
    profiles: str | None = None
    profile_cores: int = 4
    servers: str | None = None
    late_joins: bool = False
    running_load: bool = False
    shortcuts: bool = False
    attached: str = "6-4"
    trace: str | None = None

    def variant(self, default: Options) -> str:
        """What differs from the default, for names of files; ``""``: nothing but the number of seeds."""
        parts = [*self._ways(default)]
        parts += [
            *(["offered"] if self.offers else []),
            *([f"load-{self.load:g}"] if self.load != default.load and self.load is not None else []),
            *(Path(path).stem for path in (self.trace, self.profiles, self.servers) if path is not None),
            *([f"{self.jobs}-jobs"] if self.jobs != default.jobs else []),
        ]
        return "-".join(parts)

    def _ways(self, default: Options) -> list[str]:
        ways = ("late_joins", "running_load", "shortcuts")
        if self.frozen and self.arrivals == "fixed" and all(getattr(self, way) for way in ways):
            parts = ["as-authors"]
        else:
            parts = [self.arrivals] if self.arrivals != default.arrivals else []
            parts += ["frozen"] if self.frozen else []
            parts += [way.replace("_", "-") for way in ways if getattr(self, way)]
        return parts + ([f"attached-{self.attached}"] if self.attached != default.attached else [])

    def changed(self, default: Options) -> list[str]:
        """The names of the options that differ."""
        return [one.name for one in fields(self) if getattr(self, one.name) != getattr(default, one.name)]


OF_POOLS = frozenset(
    {"seeds", "jobs", "frozen", "arrivals", "offers", "late_joins", "running_load", "shortcuts", "attached"}
)
"""Options that reproductions of pooled devices take."""
FLAGS = {
    "jobs": "--workload-jobs", "offers": "--offer", "profile_cores": "--profile-cores", "late_joins": "--late-joins",
    "running_load": "--running-load", "shortcuts": "--shortcuts", "attached": "--attached",
}  # fmt: skip
"""Option → its flag, where it is not called by its name."""


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
    counts
        Counts beside the metrics: jobs a node by class (``"nodes"``), jobs placed a rule (``"rules"``), responses and
        attempts of jobs with memory (``"memory"``), the same with the time on the wall (``"clock"``).
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
    measure
        What runs a task, a function of a module; ``None``: the simulator.
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
    models: tuple[str | Mapping[str, Any], ...] = ("smufin",)
    printed: Mapping[Place, Mapping[str, float]] = field(default_factory=dict)
    counts: Counts = ""
    notes: tuple[str, ...] = ()
    defaults: Options = Options()
    takes: frozenset[str] = OF_POOLS
    derive: Callable[[Values], Values] | None = None
    tables: Callable[[Measured], tuple[Sheet, ...]] | None = None
    aside: Callable[[Measured], list[str]] | None = None
    exact: bool = False
    measure: Engine | None = None

    @property
    def bounded(self) -> bool:
        """Whether jobs have deadlines, and so a bound on those that must be missed."""
        return self.takes == OF_POOLS and not self.counts
