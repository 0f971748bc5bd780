"""What a user may vary of a reproduction."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path


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
DEFAULTS = Options()
