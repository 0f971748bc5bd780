"""What a user may vary of a reproduction."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

NAMING = ("trace", "profiles", "servers", "times", "pods")
"""Options that are files, and stand in the names of what is written."""
FILES = (*NAMING, "nodes")


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
    reading
        ``"text"``, or ``"authors"``: the disaggregation-aware policy as the authors' program has it
        (:class:`unrack.policy.pools.pool_policy.Pooled`), run times and arrivals in whole seconds.
    attached
        Attached drives: ``"6-4"`` (six on node 0, four on node 2), as in §4.4.1, or ``"4-6"``, as in §4.4.3.
    servers
        File of servers, JSON as of ``unrack_papers.workloads.servers_json``, in place of drawn ones; one seed then says
        all.
    trace
        File of jobs in place of drawn ones; seed 0 is the file as it is, others have arrivals moved by up to 30 s.
    times
        File of measured run times on GPUs (:mod:`unrack_papers.workloads.measured_times`); ``None``: as a paper
        prints them.
    pods, nodes
        Files of pods and nodes of a cluster with GPUs (``openb`` lists).
    """

    seeds: int = 20
    jobs: int = 1500
    arrivals: str = "poisson"
    frozen: bool = False
    reading: str = "text"
    attached: str = "6-4"
    offers: tuple[tuple[float, float], ...] = ()
    load: float | None = None
    trace: str | None = None
    profiles: str | None = None
    profile_cores: int = 4
    servers: str | None = None
    times: str | None = None
    pods: str | None = None
    nodes: str | None = None

    def variant(self, default: Options) -> str:
        """What differs from the default, for names of files; ``""``: nothing but the number of seeds."""
        if self.frozen and self.arrivals == "fixed" and self.reading == "authors":
            parts = ["as-authors"]
        else:
            parts = [self.arrivals] if self.arrivals != default.arrivals else []
            parts += ["frozen"] if self.frozen else []
            parts += [f"reading-{self.reading}"] if self.reading != default.reading else []
        parts += [f"attached-{self.attached}"] if self.attached != default.attached else []
        parts += ["offered"] if self.offers else []
        parts += [f"load-{self.load:g}"] if self.load != default.load and self.load is not None else []
        parts += [Path(path).stem for path in map(self.__getattribute__, NAMING) if path is not None]
        parts += [f"{self.jobs}-jobs"] if self.jobs != default.jobs else []
        return "-".join(parts)

    def flags(self, default: Options) -> list[str]:
        """What differs from the default, as on the command line; files without their folders."""
        found = []
        for name in self.changed(default):
            value = getattr(self, name)
            if name == "offers":
                found += [f"{flag_of(name)} {x:g}={load:g}" for x, load in value]
            elif value is True:
                found.append(flag_of(name))
            elif value is not None and (name != "profile_cores" or self.profiles):
                text = Path(value).name if name in FILES else value
                found.append(f"{flag_of(name)} {text:g}" if isinstance(text, float) else f"{flag_of(name)} {text}")
        return found

    def words(self, takes: Collection[str]) -> str:
        """The options in words, of those that apply."""
        found = [f"{self.seeds} seed{'s' if self.seeds > 1 else ''}"] if "seeds" in takes else []
        if self.trace:
            moved = ", arrivals moved by up to 30 s but for seed 0" if self.seeds > 1 else ""
            found += [f"the jobs of {Path(self.trace).name}{moved}"]
        else:
            found += [f"{self.jobs} jobs"] if "jobs" in takes else []
            found += [f"a load of {self.load:g}"] if self.load is not None else []
        if "arrivals" in takes:
            found += ["Poisson arrivals" if self.arrivals == "poisson" else "evenly spaced arrivals"]
        if "profiles" in takes:
            found += [f"profiles of {Path(self.profiles).name}" if self.profiles else "synthetic profiles"]
        if "servers" in takes:
            found += [f"the servers of {Path(self.servers).name}" if self.servers else "servers drawn by Table 2"]
        if "times" in takes:
            found += [f"times of {Path(self.times).name}" if self.times else "times after the text"]
        if self.pods and self.nodes:
            found += [f"the pods of {Path(self.pods).name} on the nodes of {Path(self.nodes).name}"]
        found += ["frozen speeds"] if self.frozen else []
        found += ["the policy as in the authors' program, in whole seconds"] if self.reading != "text" else []
        found += ["attached drives four and six"] if self.attached != "6-4" else []
        found += [f"a load of {load:g} offered at {x:g}" for x, load in self.offers]
        return ", ".join(found) or "nothing is drawn"

    def table(self, takes: Collection[str]) -> dict[str, Any]:
        """Those that apply, as plain values."""
        names = sorted((one.name for one in fields(self) if one.name in takes), key=lambda name: name == "trace")
        return {name: getattr(self, name) for name in names} | (
            {"offers": {f"{x:g}": load for x, load in self.offers}} if "offers" in takes else {}
        )

    def changed(self, default: Options) -> list[str]:
        """The names of the options that differ."""
        return [one.name for one in fields(self) if getattr(self, one.name) != getattr(default, one.name)]


def flag_of(name: str) -> str:
    """The flag of an option.

    Examples
    --------
    >>> flag_of("profile_cores"), flag_of("jobs")
    ('--profile-cores', '--workload-jobs')
    """
    return {"jobs": "--workload-jobs", "offers": "--offer"}.get(name, f"--{name.replace('_', '-')}")


DEFAULTS = Options()
GPU_FILES = ("times", "pods", "nodes")
"""Files that reproductions of GPUs take."""
OF_POOLS = frozenset({"seeds", "jobs", "frozen", "arrivals", "offers", "reading", "attached"})
"""Options that reproductions of pooled devices take."""
