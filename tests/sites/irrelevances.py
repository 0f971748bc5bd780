"""Random worlds, and what a site may say beside them that no job lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

import unrack
from unrack.cluster.spec import Cluster
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

S = 10**6
Row = dict[str, Any]
"""A job: its times (s), what it asks, and words of the site."""


@dataclass
class Crowd:
    """Nodes and jobs; ``site`` says what is known of the nodes."""

    nodes: list[dict[str, int]]
    jobs: list[Row]
    site: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return sum(kind["count"] for kind in self.nodes)

    def with_(self, jobs: list[Row] | None = None, first: bool = False, more: int = 0, **site: Any) -> Crowd:
        """The same with other jobs or more nodes, before the others or behind them."""
        kinds = [{"count": more, "cores": 3, "memory": 9}] if more else []
        nodes = [*kinds, *self.nodes] if first else [*self.nodes, *kinds]
        return Crowd(nodes, self.jobs if jobs is None else jobs, site)

    def starts(self, policy: str) -> dict[int, float | None]:
        """When those start that have a name, s."""
        jobs = sorted(self.jobs, key=lambda job: job["submit"])
        words = ("partition", "constraint", "exc_nodes", "req_nodes")
        table = job_table(
            **{f"{name}_us": np.array([job[name] * S for job in jobs], np.int64) for name in ("submit", "request")},
            work_us=np.array([job["work"] * S for job in jobs], np.int64),
            **{name: np.array([job[name] for job in jobs], np.int64) for name in ("tasks", "cores", "memory_mb")},
            user=pl.Series(["u"] * len(jobs)),
            extra=pl.DataFrame({word: [job.get(word, "") for job in jobs] for word in words} | sizes_of(jobs)),
        )
        site = {"site": self.site} if self.site else {}
        workload = Workload("crowd", table, Intake("", "", 0, 0))
        result = unrack.simulate(Cluster.from_dict({"nodes": self.nodes} | site), workload, policy)
        found = result.jobs.sort("job")["start_s"].to_list()
        return {job["name"]: at for job, at in zip(jobs, found, strict=True) if job["name"] >= 0}


def crowd(draw: np.random.Generator, alike: bool) -> Crowd:
    """Up to 30 jobs on nodes of up to three kinds; ``alike``: every task asks for a core and no memory.

    They come from 100 s on.
    """
    kinds = [
        {"count": int(draw.integers(1, 4)), "cores": int(draw.integers(1, 5)), "memory": int(draw.integers(2, 9))}
        for _ in range(int(draw.integers(1, 4)))
    ]
    span = int(draw.integers(5, 150))
    names = range(int(draw.integers(8, 31)))
    return Crowd(kinds, [job_of(draw, name, 100 + int(draw.integers(0, span)), alike) for name in names])


def job_of(draw: np.random.Generator, name: int, submit: int, alike: bool) -> Row:
    """A job that runs for up to 30 s; every other asks for longer."""
    work = int(draw.integers(1, 30))
    over = int(draw.integers(0, 30)) if draw.random() < 0.5 else 0
    return {
        "name": name, "submit": submit, "work": work, "request": work + over, "tasks": int(draw.integers(1, 5)),
        "cores": 1 if alike else int(draw.integers(1, 3)), "memory_mb": 0 if alike else int(draw.integers(0, 3)),
    }  # fmt: skip


SIZED = {"min_tasks": None, "max_tasks": None, "speedup": "linear", "flexibility": "rigid", "change_s": 0}
"""Columns of jobs of several sizes, and what those say that have one."""


def of_sizes(draw: np.random.Generator, before: Crowd, flexibility: str) -> Crowd:
    """The same; three jobs in four may have more tasks or fewer."""
    jobs = []
    for job in before.jobs:
        tasks, speedup = job["tasks"], str(draw.choice(["linear", "amdahl 0.2", "downey 3 1"]))
        least, most = int(draw.integers(1, tasks + 1)), tasks + int(draw.integers(0, 3))
        own = (least, most, speedup, flexibility, int(draw.integers(0, 3)))
        jobs.append(job | (dict(zip(SIZED, own, strict=True)) if draw.random() < 0.75 else {}))
    return before.with_(jobs, **before.site)


def sizes_of(jobs: list[Row]) -> dict[str, list[Any]]:
    """The columns of jobs of several sizes; none where every job has one."""
    found = {name: [job.get(name, usual) for job in jobs] for name, usual in SIZED.items()}
    return found if any("speedup" in job for job in jobs) else {}


def some(draw: np.random.Generator, size: int) -> list[str]:
    """Some of so many nodes."""
    return [str(node) for node in sorted(draw.choice(size, int(draw.integers(1, size + 1)), replace=False).tolist())]


def unasked(draw: np.random.Generator, before: Crowd) -> Crowd:
    """Partitions, which overlap, and features, that no job names."""
    partitions = [{"name": name, "nodes": some(draw, before.size)} for name in "abc"]
    return before.with_(partitions=partitions, features={"fast": some(draw, before.size)})


def of_all(draw: np.random.Generator, before: Crowd) -> Crowd:
    """Partitions and features of all nodes, which some jobs name."""
    every = [f"0-{before.size - 1}"]
    words = [{}, {"partition": "a"}, {"partition": "b"}, {"constraint": "x"}, {"constraint": "x|y"}]
    jobs = [job | words[int(draw.integers(0, len(words)))] for job in before.jobs]
    own = {"name": "c", "nodes": some(draw, before.size)}
    site = {"partitions": [{"name": "a", "nodes": every}, {"name": "b"}, own]}
    return before.with_(jobs, **site, features={"x": every, "y": some(draw, before.size)})


def far(draw: np.random.Generator, before: Crowd) -> Crowd:
    """Reservations of some nodes, on days to come."""
    found = [
        {"name": name, "nodes": some(draw, before.size), "start": f"{days} d", "duration": "1 d", "maintenance": True}
        for name, days in (("r", 90), ("s", 95))
    ]
    return before.with_(reservations=found)


def over(draw: np.random.Generator, before: Crowd) -> Crowd:
    """A reservation of some nodes, which is over before any job comes."""
    last = int(draw.integers(1, 101))
    found = {"name": "r", "nodes": some(draw, before.size), "start": 0, "duration": last, "users": ["other"]}
    return before.with_(reservations=[found])


def island(draw: np.random.Generator, before: Crowd) -> Crowd:
    """A partition of nodes of its own with jobs of its own, before the others or behind them."""
    more, first = int(draw.integers(1, 3)), bool(draw.random() < 0.5)
    alike = is_alike(before) and bool(draw.random() < 0.5)  # jobs of several cores there tell nodes here not apart
    own = f"0-{more - 1}" if first else f"{before.size}-{before.size + more - 1}"
    rest = f"{more}-{more + before.size - 1}" if first else f"0-{before.size - 1}"
    partitions = [{"name": "main", "nodes": [rest]}, {"name": "other", "nodes": [own]}]
    jobs = [job | {"partition": "main"} for job in before.jobs]
    last = max(job["submit"] for job in jobs)
    for _ in range(int(draw.integers(1, 9))):
        job = job_of(draw, -1, int(draw.integers(90, last + 10)), alike)
        jobs.append(job | {"partition": "other", "tasks": 1 + job["tasks"] % 2})
    return before.with_(jobs, first, more, partitions=partitions)


def is_alike(crowd: Crowd) -> bool:
    """Whether every task asks for a core and no memory."""
    return all(job["cores"] == 1 and job["memory_mb"] == 0 for job in crowd.jobs)


def visitor(draw: np.random.Generator, before: Crowd, late: bool = False) -> Crowd:
    """A partition of some nodes with one job, which is over before any other comes, or comes after all others."""
    late = late or bool(draw.random() < 0.5)
    job = job_of(draw, -1, 10_000 if late else int(draw.integers(0, 60)), is_alike(before))
    one = job | {"partition": "a", "tasks": 1, "cores": 1, "memory_mb": 0}
    return before.with_([*before.jobs, one], partitions=[{"name": "a", "nodes": some(draw, before.size)}])


def useless(draw: np.random.Generator, before: Crowd) -> Crowd:
    """One node more, which all jobs leave out, or in whose partition they are not."""
    size, leaves = before.size, bool(draw.random() < 0.5)
    word = {"exc_nodes": str(size)} if leaves else {"partition": "main"}
    site = {"partitions": [{"name": "main", "nodes": [f"0-{size - 1}"]}]}
    return before.with_([job | word for job in before.jobs], more=1, **site)


IRRELEVANT: Mapping[str, Callable[[np.random.Generator, Crowd], Crowd]] = {
    made.__name__: made for made in (unasked, of_all, far, over, island, visitor, useless)
}
"""What no job lacks."""


def together(draw: np.random.Generator, before: Crowd) -> Crowd:
    """What is far, what no job names, and a visitor, at once."""
    found = unasked(draw, visitor(draw, before, late=True))
    found.site = {
        "partitions": [{"name": name, "nodes": some(draw, before.size)} for name in "ab"],
        "features": {"fast": some(draw, before.size)},
        "reservations": [*over(draw, before).site["reservations"], *far(draw, before).site["reservations"][1:]],
    }
    return found
