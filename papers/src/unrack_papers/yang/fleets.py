"""How many servers hold a service at its peak, and what of them nobody can use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack import Cluster, Result, Workload, simulate
from unrack.errors import InputError
from unrack.policy import CORES, ESTIMATE, MEMORY
from unrack.units import SECOND_US
from unrack.workload import Intake, JobTable
from unrack_papers.reproduction import Numbers, Task
from unrack_papers.workloads.dlrm import read_dlrm

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
GPUS, GROUP = ("gpus", "count"), ("spread", "group")
MONOLITHIC, APART, MIXED = "monolithic", "apart", "mixed"
"""All on servers with GPUs; each role on servers of its own; instances without GPUs on any server."""


@dataclass(frozen=True)
class Servers:
    """A kind of server: cores, GPUs, and how many there are."""

    cores: int
    gpus: int
    count: int


class Fleet(NamedTuple):
    """What a service takes: servers with and without GPUs, what they have, and what of it is idle or stranded."""

    gpu_servers: int = 0
    cpu_servers: int = 0
    gpus: int = 0
    cores: int = 0
    idle_gpus: int = 0
    idle_cores: int = 0
    stranded_gpus: int = 0
    stranded_cores: int = 0


def fleets(task: Task) -> list[Numbers]:
    """For each row the servers of its design, and how its shares of what is stranded differ from those of monoliths.

    Raises
    ------
    InputError
        There is no list of instances.
    """
    path, keys = task.workload.get("trace"), task.workload
    if path is None:
        raise InputError("flow-dlrm", "no --trace", "--trace FILE, the list of instances")
    gpu_kind = Servers(keys["cores"], keys["gpus"], 0)
    read: dict[str, Any] = {"gpus": "topology", "leave_out": "links"}
    whole = read_dlrm(path, monolithic=True, server_cores=gpu_kind.cores, **read)
    split = read_dlrm(path, **read)
    at = peak_us(split.jobs)
    cpu_kind = Servers(keys["cpu_server_cores"], 0, 0)
    policy = task.rows[0].policy
    assert {row.policy for row in task.rows} == {policy}
    monoliths, parts = alive(whole.jobs, at), alive(split.jobs, at)
    with_gpus = parts.devices[GPUS] > 0
    beside = smallest(parts.take(with_gpus), gpu_kind, policy)
    made = {
        MONOLITHIC: lambda: smallest(monoliths.take(monoliths.devices[GPUS] > 0), gpu_kind, policy),
        APART: lambda: _both(beside, smallest(parts.take(~with_gpus), cpu_kind, policy)),
        MIXED: lambda: smallest(parts, cpu_kind, policy, (replace(gpu_kind, count=beside.gpu_servers),)),
    }
    found = {str(row.cluster): numbers(made[str(row.cluster)]()) for row in task.rows}
    before = found.get(MONOLITHIC, {})
    return [found[str(row.cluster)] | changes(found[str(row.cluster)], before) for row in task.rows]


def peak_us(jobs: JobTable) -> int:
    """The first time at which most GPUs are asked for, µs."""
    gpus = jobs.devices[GPUS] * jobs.tasks
    times = np.concatenate([jobs.submit_us, jobs.submit_us + jobs.work_us])
    change = np.concatenate([gpus, -gpus])
    order = np.lexsort((change, times))  # who ends gives back before another starts
    return int(times[order][np.argmax(np.cumsum(change[order]))])


def alive(jobs: JobTable, at_us: int) -> JobTable:
    """What runs at a time, the largest first, all submitted at 0 for a second; memory is not looked at."""
    then = jobs.take((jobs.submit_us <= at_us) & (jobs.submit_us + jobs.work_us > at_us))
    with_gpus = then.devices[GPUS] > 0
    then = then.take(np.lexsort((np.arange(len(then)), -then.cores, ~with_gpus)))
    second, asks = np.full(len(then), SECOND_US, np.int64), then.asks.copy()
    asks[ESTIMATE], asks[MEMORY] = second, 0
    return replace(then, submit_us=np.zeros(len(then), np.int64), work_us=second, asks=asks)


def smallest(jobs: JobTable, kind: Servers, policy: str, first: Sequence[Servers] = ()) -> Fleet:
    """The fewest servers of a kind with which all jobs have a place, beside those that are there ``first``.

    A rule that takes a server in use before an empty one leaves those it does not need empty: so as many are offered
    as are enough, doubled until they are.

    Raises
    ------
    InputError
        A job fits on no server.
    """
    if not len(jobs):
        return Fleet()
    count = max(-(-int(jobs.cores.sum()) // kind.cores), 1)
    while True:
        count += count // 2 + 1
        kinds = (*first, replace(kind, count=count))
        result = placed(jobs, kinds, policy)
        lost = jobs.cores[result.jobs["start_s"].is_null().to_numpy()]
        if not lost.size:
            return _measured(jobs, result, kinds)
        if count > 4 * len(jobs):
            raise InputError("flow-dlrm", f"an instance with {lost[0]} cores", f"at most {kind.cores}, a server")


def _both(one: Fleet, other: Fleet) -> Fleet:
    return Fleet(*(a + b for a, b in zip(one, other, strict=True)))


def placed(jobs: JobTable, kinds: Sequence[Servers], policy: str) -> Result:
    """All jobs come at once to these servers; who finds no place is turned away."""
    machines, first = [], 0
    for kind in kinds:
        if kind.gpus:
            nodes = f"{first}-{first + kind.count - 1}"
            machines.append({"machine": {"gpus": kind.gpus}, "nodes": nodes})
        first += kind.count
    content: dict[str, Any] = {
        "nodes": [{"count": kind.count, "cores": kind.cores} for kind in kinds],
        "spread": {"groups": max(int(jobs.devices[GROUP].max()), 1)},
        **({"gpus": {"machines": machines}} if machines else {}),
    }
    workload = Workload("peak", jobs, Intake("", "", len(jobs), len(jobs)))
    return simulate(Cluster.from_dict(content), workload, policy, audit=False)


def _measured(jobs: JobTable, result: Result, kinds: Sequence[Servers]) -> Fleet:
    """The servers that are in use, and what is free on those where no instance would still fit."""
    size = np.repeat([kind.cores for kind in kinds], [kind.count for kind in kinds])
    cards = np.repeat([kind.gpus for kind in kinds], [kind.count for kind in kinds])
    row = result.jobs.select("job").with_row_index("row").join(result.placements, on="job")
    node, of = row["first_node"].to_numpy().astype(np.int64), row["row"].to_numpy().astype(np.int64)
    cores, gpus = jobs.asks[CORES][of], jobs.devices[GPUS][of]
    used = np.bincount(node, minlength=len(size)) > 0
    free_cores = size - np.bincount(node, cores, len(size)).astype(np.int64)
    free_gpus = cards - np.bincount(node, gpus, len(size)).astype(np.int64)
    fits = np.zeros(len(size), np.bool_)
    for asks_cores, asks_gpus in np.unique(np.stack([cores, gpus]), axis=1).T.tolist():
        fits |= (free_cores >= asks_cores) & (free_gpus >= asks_gpus)
    stranded = used & ~fits
    with_gpus = used & (cards > 0)
    return Fleet(
        int(with_gpus.sum()), int((used & ~with_gpus).sum()), int(cards[used].sum()), int(size[used].sum()),
        int(free_gpus[used].sum()), int(free_cores[used].sum()),
        int(free_gpus[stranded].sum()), int(free_cores[stranded].sum()),
    )  # fmt: skip


def numbers(fleet: Fleet) -> Numbers:
    """Servers, and the shares of all GPUs and cores that are idle, and stranded."""
    return {
        "gpu_servers": float(fleet.gpu_servers), "cpu_servers": float(fleet.cpu_servers),
        "idle_gpus": fleet.idle_gpus / fleet.gpus if fleet.gpus else None,
        "idle_cores": fleet.idle_cores / fleet.cores if fleet.cores else None,
        "stranded_gpus": fleet.stranded_gpus / fleet.gpus if fleet.gpus else None,
        "stranded_cores": fleet.stranded_cores / fleet.cores if fleet.cores else None,
    }  # fmt: skip


def changes(own: Numbers, before: Numbers) -> Numbers:
    """The relative change of what is idle or stranded against monoliths; none for these themselves."""
    found: Numbers = {}
    for what in ("idle_gpus", "idle_cores", "stranded_gpus", "stranded_cores"):
        share, was = own[what], before.get(what)
        found[f"change_{what}"] = None if own is before or share is None or not was else share / was - 1
    return found
