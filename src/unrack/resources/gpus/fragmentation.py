"""Fragmentation over the time of a finished run, from its tables: exact, moment by moment.

O(n log n + n x g x D) for n changes (claims, and nodes of placements), g GPUs of a machine, and D usual demands, since
only the machine that changes is looked at again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.resources.gpus.columns import WHOLE, Gpus
from unrack.resources.gpus.fleet import Fleet
from unrack.sealed import shown
from unrack.steps import each_of, means

Demand = tuple[int, int, int, int]
"""Cores, MB, GPUs, and 1/1000 of each."""
TYPICAL = 0.95
"""The most frequent demands that make up so much of all are the typical ones."""


class Demands(NamedTuple):
    """What tasks usually ask."""

    # int64[demands]: of a task; `milli` of each of its GPUs
    cores: Ints
    gpus: Ints
    milli: Ints
    share: Floats  # float64[demands]: of all tasks; they add up to 1
    per_gpu: Floats  # float64[2]: cores and MB that all tasks together ask for every GPU that they ask for
    kinds: Ints  # int64[jobs]: a number for what each job asks of a GPU: equal ones ask the same


def demands_of(counts: Mapping[Demand, float]) -> Demands:
    """The most frequent demands with their shares, most frequent first, of demands with how often each is asked."""
    order = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    total, kept, reached = sum(counts.values()), [], 0.0
    for demand, count in order:
        kept.append((demand, count))
        reached += count
        if reached >= TYPICAL * total:
            break
    cores, gpus, milli = (np.array([demand[i] for demand, _ in kept], np.int64) for i in (0, 2, 3))
    share = np.array([count for _, count in kept], np.float64)
    asked = sum(count * gpus * milli / WHOLE for (_, _, gpus, milli), count in order)
    per_gpu = [sum(count * demand[i] for demand, count in order) / max(asked, 1e-300) for i in range(2)]
    none = np.zeros(1, np.int64)
    return Demands(cores, gpus, milli, share / max(share.sum(), 1e-300), np.array(per_gpu), none)


def no_demands() -> Demands:
    """Nothing is known of them."""
    none = np.zeros(0, np.int64)
    return Demands(none, none, none, np.zeros(0), np.zeros(2), np.zeros(1, np.int64))


@inlined
def fragments(left: Ints, cores: int, demands: Demands) -> float:
    """F of a machine with so much left of each GPU and so many free cores, in 1/1000 of a GPU."""
    total = 0
    for i in range(left.shape[0]):
        total += left[i]
    found = 0.0
    for k in range(demands.share.shape[0]):
        lost = total
        if demands.gpus[k] > 0 and demands.cores[k] <= cores:
            enough, short = 0, 0
            for i in range(left.shape[0]):
                if left[i] >= demands.milli[k]:
                    enough += 1
                else:
                    short += left[i]
            if enough >= demands.gpus[k]:
                lost = short
        found += demands.share[k] * lost
    return found


class Changes(NamedTuple):
    """Changes of what is free, in order of (time, node), int64[changes] each."""

    node: Ints  # where
    # a GPU, counted from the first one of the resource, and by how much what is free of it grows; -1: of none
    place: Ints
    milli: Ints
    cores: Ints  # by how much the node's free cores grow
    last: Bools  # bool[changes]: whether it is the last one of its moment and node


class FragmentationSteps(NamedTuple):
    """Fragmentation of all machines: ``gpus[i]`` from ``times_s[i]`` to ``times_s[i + 1]``."""

    times_s: Floats  # float64[steps + 1]: from the start of the window to its end, never falling
    gpus: Floats  # float64[steps]: free GPUs that a usual task cannot use, as expected

    def means(self, pieces: int) -> Floats:
        """float64[pieces]: the mean over each of so many equal pieces of the window."""
        edges = np.linspace(self.times_s[0], self.times_s[-1], pieces + 1)
        return means(self.times_s, self.gpus, edges)


def fragmentation_steps(
    fleet: Fleet, claims: pl.DataFrame, jobs: pl.DataFrame, placements: pl.DataFrame, start_s: float, end_s: float
) -> FragmentationSteps | None:
    """Fragmentation over a window; ``None``: it lasts no time, no job asks for GPUs, or there are only slices.

    ``claims``, ``jobs``, ``placements``: the tables of a run; of the claims the rows that are of GPUs.
    """
    gpus = fleet.gpus
    undivided = gpus.slices[gpus.kind] == 0
    undivided &= gpus.kind >= 0
    usual = usual_demands(jobs)
    if end_s <= start_s or not undivided.any() or not (usual.gpus > 0).any():
        return None
    times, changes = _changes(fleet, undivided, claims, placements, start_s, end_s)
    first, after = lost_after(gpus, undivided, fleet.total, shown(fleet.nodes.cores), usual, changes)
    levels = np.concatenate([[first], after[changes.last]]).clip(0.0) / WHOLE
    return FragmentationSteps(np.concatenate([[start_s], times[changes.last], [end_s]]), levels)


def undivided_gpus(fleet: Fleet) -> int:
    """Installed GPUs that are not divided into slices."""
    kinds = fleet.gpus.kind[fleet.gpus.kind >= 0]
    return int((fleet.gpus.size[kinds] * (fleet.gpus.slices[kinds] == 0)).sum())


def usual_demands(jobs: pl.DataFrame) -> Demands:
    """What the tasks of a run usually ask; those that want slices can use no undivided GPU, and ask for none.

    Jobs that were rejected count for nothing.
    """
    asked = [pl.col(f"gpus.{name}") if f"gpus.{name}" in jobs.columns else pl.lit(0) for name in ("count", "milli")]
    slices = pl.col("gpus.slices").fill_null(0) if "gpus.slices" in jobs.columns else pl.lit(0)
    count, milli = (one.fill_null(0).cast(pl.Int64) for one in asked)
    gpus = pl.when(slices > 0).then(0).otherwise(pl.max_horizontal(count, (milli > 0).cast(pl.Int64)))
    rows = (
        jobs.filter(pl.col("state") != "rejected")
        .select(
            pl.col("cores_per_task"), pl.col("memory_mb_per_task"), gpus.alias("gpus"),
            pl.when((milli > 0) & (gpus > 0)).then(milli).otherwise(WHOLE).alias("milli"), pl.col("tasks"),
        )
        .group_by(pl.all().exclude("tasks"), maintain_order=True)
        .agg(pl.col("tasks").cast(pl.Int64).sum())
        .rows()
    )  # fmt: skip
    counts: dict[Demand, float] = {(cores, mb, own, part): float(tasks) for cores, mb, own, part, tasks in rows}
    return demands_of(counts)


def _changes(
    fleet: Fleet, counts: Bools, claims: pl.DataFrame, placements: pl.DataFrame, start_s: float, end_s: float
) -> tuple[Floats, Changes]:
    """The times of all changes on nodes that count, and what they are."""
    number = {place.name: i for i, place in enumerate(fleet.places)}
    place = claims["place"].replace_strict(number, return_dtype=pl.Int64).to_numpy()
    row, where = each_of(*(placements[name].cast(pl.Int64).to_numpy() for name in ("first_node", "nodes")))
    node = np.concatenate([fleet.node[place], where])
    place = np.concatenate([place, np.full(len(row), -1)])
    held = np.concatenate([claims["amount"].cast(pl.Int64).to_numpy(), np.zeros(len(row), np.int64)])
    cores = placements["cores_per_node"].cast(pl.Int64).to_numpy()[row]
    cores = np.concatenate([np.zeros(claims.height, np.int64), cores])
    since, until = (
        np.concatenate([one.to_numpy(), other.to_numpy()[row]]).clip(start_s, end_s)
        for one, other in (
            (claims["start_s"], placements["start_s"]),
            (claims["end_s"].fill_null(end_s), placements["end_s"].fill_null(end_s)),
        )
    )
    kept = counts[node] & (until > since)
    times = np.concatenate([since[kept], until[kept]])
    both = [np.concatenate([one[kept], one[kept]]) for one in (node, place)]
    grown = [np.concatenate([-one[kept], one[kept]]) for one in (held, cores)]
    order = np.lexsort((both[0], times))
    times, columns = times[order], [column[order] for column in (*both, *grown)]
    last = (np.diff(times, append=np.inf) > 0) | (np.diff(columns[0], append=-1) != 0)
    return times, Changes(columns[0], columns[1], columns[2], columns[3], last)


@compiled
def lost_after(
    gpus: Gpus, counts: Bools, total: Ints, cores: Ints, usual: Demands, changes: Changes
) -> tuple[float, Floats]:
    """F of all machines that count, in 1/1000 of a GPU: before all changes, and after each (float64[changes])."""
    free, left = total.copy(), cores.copy()
    own, found = np.zeros(len(counts)), np.zeros(len(changes.node))
    for node in range(len(counts)):
        if counts[node]:
            own[node] = fragments(free[gpus.first[node] : gpus.first[node + 1]], left[node], usual)
    before = own.sum()
    now = before
    for i in range(len(changes.node)):
        node = changes.node[i]
        left[node] += changes.cores[i]
        if changes.place[i] >= 0:
            free[changes.place[i]] += changes.milli[i]
        if changes.last[i]:
            now -= own[node]
            own[node] = fragments(free[gpus.first[node] : gpus.first[node + 1]], left[node], usual)
            now += own[node]
        found[i] = now
    return before, found
