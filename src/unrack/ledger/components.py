"""Whether the lease of a heterogeneous job gives each of its components what that asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unrack.errors import RefusedError
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_MB, ASKED_TASKS, ASKED_US, CPU, grown
from unrack.ledger.holding import MEETS, PROBLEMS, exchange_leases, stacked
from unrack.ledger.lease import Lease, together
from unrack.resources.contract import NodeSets
from unrack.resources.places import NO_CLAIMS

if TYPE_CHECKING:
    from unrack.ledger.leases import LeaseLedger
    from unrack.ledger.state import ClusterState


class Components(NamedTuple):
    """Heterogeneous jobs: the first component of each stands for it in the queue and among those that run.

    What is asked here is what each component asks by itself.
    """

    of: Mapping[int, tuple[int, ...]]  # the first component → all, itself included
    asks: Ints  # int64[4, jobs]
    set_of: Ints  # int64[jobs]: the set of nodes of each
    claiming: bytearray  # by job, whether it asks for anything of resources
    attaching: bytearray  # by job, whether it asks for pooled devices

    def cores(self, job: int) -> int:
        """How many cores all components of a job ask for."""
        tasks, cores = self.asks[:ASKED_MB, list(self.of[job])]
        return int(tasks @ cores)

    def spread(self, jobs: Ints) -> tuple[Ints, Ints]:
        """int64[k] twice: the components of some jobs (itself, of any other), and which of the jobs each is of."""
        rows = [self.of.get(job, (job,)) for job in jobs.tolist()]
        return np.array([one for some in rows for one in some], np.int64), np.repeat(
            np.arange(len(rows)), [*map(len, rows)]
        )

    def and_job(self, state: ClusterState, job: int) -> Components:
        """With one more job behind the others, which asks for itself; of no heterogeneous jobs nothing is kept."""
        if not self.of:
            return self
        asks, set_of = self.asks, self.set_of
        if job >= asks.shape[1]:
            asks, set_of = (grown(column, state.asks.shape[1]) for column in (asks, set_of))
        asks[:, job], set_of[job] = state.asks[:, job], state.set_of[job]
        if state.claimed is not None:
            self.claiming.append(state.claimed.asks[job])
        if state.devices is not None:
            self.attaching.append(state.devices.asking[job])
        return self._replace(asks=asks, set_of=set_of)


NO_COMPONENTS = Components({}, np.zeros((4, 0), np.int64), np.zeros(0, np.int64), bytearray(), bytearray())


def join(state: ClusterState, of: Mapping[int, tuple[int, ...]]) -> None:
    """Let the first component of each job stand for all.

    It then asks for all their tasks, each with the fewest cores and MB of any: less than that never suffices. It may
    run on the nodes of all of them.
    """
    if not of:
        return
    claimed, devices, own = state.claimed, state.devices, state.components
    if not own.of:
        claiming = bytearray() if claimed is None else bytearray(claimed.asks)
        attaching = bytearray() if devices is None else bytearray(devices.asking)
        own = Components({}, state.asks.copy(), state.set_of.copy(), claiming, attaching)
    claiming, attaching = own.claiming, own.attaching
    masks, owners = [], []
    for first, rows in of.items():
        every = list(rows)
        tasks, cores, mb, _ = own.asks[:, every]
        state.asks[:ASKED_US, first] = tasks.sum(), cores.min(), mb.min()
        state.first_unequal = min(state.first_unequal, first)
        masks.append((state.open_to[own.set_of[every], CPU] > 0).any(axis=0))
        owners.append(int(state.set_owner[own.set_of[first]]))
        if claimed is not None:
            claimed.asks[first] = any(claiming[row] for row in rows)
        if devices is not None:
            devices.asking[first] = any(attaching[row] for row in rows)
            devices.columns.model[:, first] = devices.columns.model[:, every].max(axis=1)
    firsts, alike = np.array(list(of), np.int64), np.arange(len(of))
    state.set_of[firsts] = state.numbered(NodeSets(np.stack(masks), alike, np.array(owners, np.int64)))
    state.components = own._replace(of={**own.of, **of})


def tasks_of(state: ClusterState, job: int) -> dict[int, int]:
    """Component → how many tasks it has; of a job without components itself."""
    rows, asks = state.components.of.get(job, (job,)), state.components.asks
    return {row: int((asks if len(rows) > 1 else state.asks)[ASKED_TASKS, row]) for row in rows}


def check_parts(state: LeaseLedger, lease: Lease, below: bool) -> None:
    """Refuse a lease that is not that of all components, or of which one is not what its component asks.

    Whether their devices are is looked at when these are taken. ``below``: they held it before, and hold it again. A
    refusal is a RefusedError.
    """
    if below:
        return
    job, parts = lease.job, lease.parts
    what, rows = f"start job {job}", state.components.of.get(job, (job,))
    if rows != tuple(part.job for part in parts):
        raise RefusedError(f"{what}: its lease is of jobs {[part.job for part in parts]}, wanted components {rows}")
    for part in parts:
        state.check_rows(part, what)
    whole = together(job, parts)
    same = whole.shares == lease.shares and all(
        np.array_equal(one, other)
        for one, other in zip(
            (whole.rows, whole.borrowed, whole.claims), (lease.rows, lease.borrowed, lease.claims), strict=True
        )
    )
    if not same:
        raise RefusedError(f"{what}: its lease is not what its components hold together")
    for part in parts:
        state.check_claims(part, NO_CLAIMS, f"{what}, component {part.job}", int(state.components.set_of[part.job]))
    own = stacked([part.rows for part in parts], [part.borrowed for part in parts])
    none = stacked([part.rows[:0] for part in parts], [part.borrowed[:0] for part in parts])
    jobs, asks = np.array(rows, np.int64), state.components.asks
    verdict, which, _ = exchange_leases(jobs, own, none, False, state.group, asks, state.free.copy())
    if verdict < MEETS:
        raise RefusedError(f"{what}, component {rows[which]}: {PROBLEMS[verdict]}")
    short = state.claimed is not None and (lease.claims[:, 1] > state.claimed.free[lease.claims[:, 0]]).any()
    if short:
        raise RefusedError(f"{what}: its components claim more of a place than is free")
