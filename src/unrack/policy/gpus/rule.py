"""A rule for GPUs: where a job with GPUs goes on nodes that have all memory that it asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import PolicyError
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import grown, room_for
from unrack.ledger.lease import Lease
from unrack.policy.gpus.place_kernel import GpuRoom, place_job
from unrack.policy.gpus.rules import BY_DEMANDS, BY_KIND, CLUSTERING, RULES, SHARED
from unrack.policy.placement.claiming import asks_devices
from unrack.reasons import Code, Reason
from unrack.resources.gpus.choice import Neighbours, terms, utility_of
from unrack.resources.gpus.columns import WHOLE, Ask, ask_of
from unrack.resources.gpus.fleet import Fleet
from unrack.resources.gpus.fragmentation import Demand, Demands, demands_of, no_demands
from unrack.sealed import shown
from unrack.units import SECOND_US
from unrack.view import View
from unrack.workload.job import CORES, MEMORY, TASKS

SEEN = "seen"
PATIENCE_US = 3600 * SECOND_US


@dataclass(slots=True)
class GpuNotes:
    """What a rule remembers: of the jobs it knows what they ask; of the last state that it saw, how good places are.

    ``rows``, int64[4, room]: the row of each job's application in the profiles, a number for what it asks of a GPU,
    one for what it asks of other resources, and whether it asks for whole GPUs.
    ``alike``: job → a number that jobs share that have the same place; ``best``: that number → the utility of its place
    in ``state``; below 0: it has none.
    """

    fleet: Fleet | None
    places: slice
    quantities: slice
    kind_of: dict[tuple[int, int], int] = field(default_factory=dict)
    counts: dict[Demand, float] = field(default_factory=dict)
    demands: Demands = field(default_factory=no_demands)
    rows: Ints = field(default_factory=lambda: np.zeros((4, 64), np.int64))
    beside: dict[bytes, int] = field(default_factory=dict)
    profiles: dict[int, int] = field(default_factory=dict)
    counted: int = 0
    known: int = 0
    asks: dict[int, Ask] = field(default_factory=dict)
    state: tuple[bytes, ...] = ()
    view: View | None = None
    mark: tuple[int, ...] = ()
    alike: dict[int, int] = field(default_factory=dict)
    numbers: dict[tuple[object, ...], int] = field(default_factory=dict)
    best: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuRule:
    """Chooses machines and GPUs."""

    rule: str  # a name in ``RULES``
    # whether a job waits for a place of the utility that it asks for, and lets others pass (TOPO-AWARE-P)
    postpone: bool = False
    patience_us: int = PATIENCE_US  # for how long it may wait for that, from its submission on
    # what tasks usually ask: ``"seen"``: what was submitted so far; or a CSV file with ``cores``, ``memory_mb``,
    # ``gpus``, ``milli`` and ``share``
    demands: str = SEEN

    def begin(self, view: View) -> GpuNotes:
        """Notes on a cluster as it is now."""
        return notes_on(view.cluster, self)

    def serves(self, view: View, notes: GpuNotes) -> bool:
        """Whether the rule says where jobs go: there are GPUs."""
        if view.columns.claimed is None or notes.fleet is None:
            return False
        self.learn(view, notes)
        return True

    def asks_more(self, view: View, notes: GpuNotes, job: int) -> bool:
        """Whether a job may need more than nodes and GPUs, on a cluster that the rule :meth:`serves`."""
        return bool(view.cluster.places.windows) or int(notes.rows[2, job]) >= 0 or asks_devices(view, job)

    def find(
        self, view: View, notes: GpuNotes, job: int, cores: Ints, mb: Ints, now: int, whole: bool, patient: bool
    ) -> Lease | None:
        """A lease with GPUs, on a cluster with some; ``None``: the job has no place, or is postponed.

        ``cores``, ``mb``: int64[nodes], free, overwritten; cores below 0: no task may go there. ``whole``: whether a
        node serves one job at a time; ``patient``: whether the job may be postponed.
        """
        fleet, seen, total = notes.fleet, view.columns.claimed, view.columns.total
        assert fleet is not None
        assert seen is not None
        self.learn(view, notes)
        ask = self.ask(view, notes, job)
        peers = self.neighbours(view, notes)
        before = seen.free[notes.places]
        room = GpuRoom(cores, mb, total[0], before.copy())
        nodes, on_each = np.empty(ask.tasks, np.int64), np.empty(ask.tasks, np.int64)
        found = np.empty((ask.tasks * max(ask.gpus, ask.slices, 1), 2), np.int64)
        count, claimed = place_job(
            fleet.gpus, room, peers, notes.demands, RULES[self.rule], ask, job, nodes, on_each, found
        )
        if not count:
            notes.best.setdefault(notes.alike.get(job, -1), -1.0)  # elsewhere it may have had one
            return None
        nodes, on_each, claims = nodes[:count], on_each[:count], found[:claimed]
        if self.postpone and ask.min_utility:
            notes.best[notes.alike[job]] = utility = self.utility(view, notes, ask, job, before, nodes, claims)
            if patient and utility < ask.min_utility and not self.impatient(view, job, now):
                return None
        claims = claims[np.argsort(claims[:, 0], kind="stable")] + np.array([notes.places.start, 0])
        order = np.argsort(nodes, kind="stable")
        held = total[0, nodes] if whole else on_each * ask.cores
        rows = np.column_stack([nodes, np.ones(count, np.int64), on_each, held, on_each * ask.mb])[order]
        return Lease(job, np.ascontiguousarray(rows), claims=np.ascontiguousarray(claims))

    def utility(self, view: View, notes: GpuNotes, ask: Ask, job: int, free: Ints, nodes: Ints, claims: Ints) -> float:
        """The utility of a place; 1 where it has none, as on parts of GPUs."""
        assert notes.fleet is not None
        if ask.slices or ask.milli < WHOLE or not ask.gpus:
            return 1.0
        first, at = notes.fleet.gpus.first, claims[:, 0]
        sets = np.array([(1 << (at[notes.fleet.node[at] == node] - first[node])).sum() for node in nodes], np.int64)
        cost, shares, left = terms(notes.fleet.gpus, free, self.neighbours(view, notes), job, ask, nodes, sets)
        return utility_of(cost, shares, left)

    def is_postponed(self, view: View, notes: GpuNotes, job: int, now: int) -> bool:
        """Whether it is known already that a job waits, as one that asks the same had no good place in this state."""
        if not self.postpone or view.cluster.places.windows or asks_devices(view, job):
            return False
        seen = view.columns.claimed
        assert seen is not None
        mark = view.version, view.releases, view.running_count, view.free_cores
        if notes.view is not view or notes.mark != mark:  # the same view without a change is the same state
            notes.view, notes.mark = view, mark
            state = view.columns.free.tobytes(), seen.free.tobytes(), seen.holders.tobytes()
            if state != notes.state:
                notes.state = state
                notes.best.clear()
                return False
        ask = self.ask(view, notes, job)
        best = notes.best.get(notes.alike[job])
        return best is not None and (best < 0 or (best < ask.min_utility and not self.impatient(view, job, now)))

    def impatient(self, view: View, job: int, now: int) -> bool:
        """Whether a job has waited for long enough, or nothing runs that it could wait for."""
        return view.running_count == 0 or now >= int(view.submit_us[job]) + self.patience_us

    def kind(self, view: View, notes: GpuNotes, job: int) -> object:
        """What, beside what it asks, decides whether a job has a place."""
        self.learn(view, notes)
        return *self.ask(view, notes, job)[:8], int(notes.rows[2, job])

    def opens_us(self, view: View, jobs: list[int], now: int) -> int | None:
        """When the next of some jobs has waited for long enough, µs; ``None``: they all have."""
        later = [end for job in jobs if (end := int(view.submit_us[job]) + self.patience_us) > now]
        return min(later, default=None)

    def waits(self, view: View, notes: GpuNotes, job: int) -> Reason:
        """Why a job waits that would have a place."""
        wanted = self.ask(view, notes, job).min_utility
        return Reason(Code.NOT_YET, f"a place of utility {wanted:g}, for which it waits")

    def ask(self, view: View, notes: GpuNotes, job: int) -> Ask:
        """What a job asks."""
        own = view.components  # a component asks for itself, wherever it is looked at
        asks = own.asks if job in own.of else view.asks
        mb = int(asks[MEMORY, job])
        known = notes.asks.get(job)
        if known is None or known.mb != mb:
            seen = view.columns.claimed
            assert seen is not None
            tasks, cores = asks[[TASKS, CORES], job].tolist()
            known = ask_of(seen.asked(job)[notes.quantities], tasks, cores, mb, int(notes.rows[0, job]))
            notes.asks[job] = known
            if self.postpone:
                alone = self.rule == "random" or asks_devices(view, job)
                same = *known._replace(min_utility=0.0), int(notes.rows[2, job]), job if alone else -1
                notes.alike[job] = notes.numbers.setdefault(same, len(notes.numbers))
        return known

    def neighbours(self, view: View, notes: GpuNotes) -> Neighbours:
        """Which job holds which GPU."""
        seen = view.columns.claimed
        assert seen is not None
        assert notes.fleet is not None
        holders = shown(np.ascontiguousarray(seen.holders[:, notes.places]))
        return Neighbours(holders, notes.rows[3], notes.rows[0], notes.fleet.profiles.tables[1])

    def learn(self, view: View, notes: GpuNotes) -> None:
        """Take notes of jobs that were submitted since."""
        first, notes.known = notes.known, view.jobs
        known = notes.known
        if first == known:
            return
        assert notes.fleet is not None
        rows, code = notes.fleet.profiles.rows, RULES[self.rule]
        seen = view.columns.claimed
        assert seen is not None
        if known > notes.rows.shape[1]:
            notes.rows = grown(notes.rows, room_for(known, notes.rows.shape[1]))
        apps = view.app
        for job in range(first, known):
            if rows and (app := int(apps[job])) not in notes.profiles:
                notes.profiles[app] = rows.get(view.job(job).app, 0)
            notes.rows[0, job] = notes.profiles[app] if rows else 0
            asked = seen.asked(job)
            asked[notes.quantities] = 0
            notes.rows[2, job] = notes.beside.setdefault(asked.tobytes(), len(notes.beside)) if asked.any() else -1
            ask = self.ask(view, notes, job)
            notes.rows[3, job] = ask.milli == WHOLE
            if code == CLUSTERING:
                notes.rows[1, job] = notes.kind_of.setdefault((ask.slices or ask.gpus, ask.milli), len(notes.kind_of))
            elif code in BY_KIND:
                notes.rows[1, job] = ask.gpus if ask.milli == WHOLE else SHARED
            if code in BY_DEMANDS and self.demands == SEEN:
                key = ask.cores, ask.mb, 0 if ask.slices else ask.gpus, ask.milli
                notes.counts[key] = notes.counts.get(key, 0.0) + ask.tasks
                if job + 1 >= notes.counted * 1.1:  # after so many jobs, in whichever rounds they came
                    notes.counted = job + 1
                    notes.demands = demands_of(notes.counts)
        if code in BY_KIND:
            notes.demands = notes.demands._replace(kinds=notes.rows[1])


def notes_on(cluster: Cluster, rule: GpuRule) -> GpuNotes:
    """Notes on a cluster."""
    for part in cluster.places.parts:
        if isinstance(part.installed, Fleet):
            notes = GpuNotes(part.installed, part.places, part.quantities)
            if rule.demands != SEEN:
                notes.demands = demands_of(read_demands(rule.demands))
            return notes
    return GpuNotes(None, slice(0), slice(0))


def read_demands(path: str) -> dict[Demand, float]:
    """Demands from a CSV file: cores, memory_mb, gpus, milli and share.

    A PolicyError if there is no such file, or it has other columns.
    """
    where = "policy, demands"
    try:
        table = pl.read_csv(Path(path).expanduser()).select("cores", "memory_mb", "gpus", "milli", "share")
        rows = table.group_by(pl.all().exclude("share"), maintain_order=True).sum().rows()
        return {(int(cores), int(mb), int(gpus), int(milli)): float(share) for cores, mb, gpus, milli, share in rows}
    except (OSError, pl.exceptions.PolarsError, TypeError, ValueError) as error:
        got = f"{path}: {str(error).splitlines()[0]}"
        raise PolicyError(where, got, f"{SEEN}, or a CSV file with cores, memory_mb, gpus, milli and share") from None
