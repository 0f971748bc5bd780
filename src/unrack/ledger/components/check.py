"""Whether the lease of a heterogeneous job gives each of its components what that asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unrack.errors import RefusedError
from unrack.ledger.holding import MEETS, PROBLEMS, exchange_leases, stacked
from unrack.ledger.lease import Lease, together
from unrack.resources.places import NO_CLAIMS

if TYPE_CHECKING:
    from unrack.ledger.leases import LeaseLedger


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
