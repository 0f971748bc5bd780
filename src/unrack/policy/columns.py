"""The ledger in columns, and what one job asks, as the kernels of policies take them."""

from __future__ import annotations

from typing import NamedTuple

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_CORES, ASKED_MB, ASKED_TASKS, ASKED_US
from unrack.view import View


class LedgerColumns(NamedTuple):
    """What is free and which job runs on what; arrays are those of :class:`unrack.ledger.state.ClusterState`."""

    # what jobs ask; what nodes have free and installed
    asks: Ints
    free: Ints
    total: Ints
    free_cores: int  # free cores of all nodes
    # booked ends of running jobs, and how many run
    running: Ints
    running_count: int
    # what each of them holds
    pool: Ints
    lease_at: Ints


def columns_of(view: View) -> LedgerColumns:
    """The columns of the ledger that a view shows."""
    seen = view.columns
    return LedgerColumns(
        seen.asks, seen.free, seen.total, seen.free_cores, seen.running, seen.running_count, seen.pool, seen.lease_at
    )


class Gang(NamedTuple):
    """What one job asks: tasks, cores and MB of each, and its expected run time, µs."""

    tasks: int
    cores: int
    mb: int
    us: int


@inlined
def gang_of(asks: Ints, job: int) -> Gang:
    """What a job asks."""
    return Gang(asks[ASKED_TASKS, job], asks[ASKED_CORES, job], asks[ASKED_MB, job], asks[ASKED_US, job])
