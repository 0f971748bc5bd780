"""Which runs have stretches that a compiled loop can do by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unrack.core import Core
from unrack.kernels.arrays import Ints
from unrack.ledger.claims import Claimed
from unrack.ledger.columns import ASKED_TASKS
from unrack.policy.discipline.list_scheduler import ListNotes, ListScheduler
from unrack.policy.discipline.reservations import Conservative
from unrack.policy.discipline.skyline.columns import Wants
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.orders import is_fixed
from unrack.policy.placement.lent_memory import FITS, LocalMemory
from unrack.resources.places import NO_CLAIMS
from unrack.sim.compiled.planned import PlannedStretch
from unrack.sim.compiled.stretch import Stretch

if TYPE_CHECKING:
    from unrack.sim.kernel import Kernel

LEAST_JOBS = 10_000
"""With fewer jobs, at some 25 µs each, a run is done long before the loop would be compiled."""
KINDS: dict[type, tuple[type, type[Stretch]]] = {
    ListScheduler: (ListNotes, Stretch), Conservative: (Plan, PlannedStretch)
}  # fmt: skip
"""A policy → its memory, and its stretches."""


def fixed_claims(claimed: Claimed | None, asks: Ints) -> dict[str, Ints] | None:
    """What jobs claim wherever they run, as columns of a pass; ``None``: of one of them that is a choice."""
    count = asks.shape[1]
    wants, at, rows = np.zeros(count, np.int64), np.zeros((2, count), np.int64), [NO_CLAIMS]
    used = 0
    for job in [] if claimed is None else np.flatnonzero(np.frombuffer(claimed.asks, np.uint8)).tolist():
        assert claimed is not None
        claims = claimed.anywhere(job, int(asks[ASKED_TASKS, job]))
        if claims is None:
            return None
        wants[job], at[:, job], used = Wants.CLAIMS, (used, used + len(claims)), used + len(claims)
        rows.append(claims)
    return {"wants": wants, "fixed_at": at, "fixed": np.concatenate(rows)}


def stretch_of(kernel: Kernel) -> Stretch | None:
    """The compiled loop for a run; ``None``: something is involved that it does not know."""
    core = kernel.core
    policy, state = core.policy, core.state
    found, kind = KINDS.get(type(policy), (None, Stretch))
    if type(core) is not Core or type(core.memory) is not found:
        return None
    memory: Any = core.memory
    if vars(core).keys() & {"handle", "next_round"}:  # a wrapper stands between the kernel and the core
        return None
    assert isinstance(policy, ListScheduler | Conservative)
    simple = (
        is_fixed(policy.order)
        and isinstance(policy.place, str)
        and policy.place in FITS
        and isinstance(policy.memory, LocalMemory)
        and not memory.every
        and kind.serves(policy)
        and state.devices is None
        and state.memory is None
        and len(state.open_to) == 1
        and not state.cluster.places.windows
        and kernel.slowdown is None
        and kernel.shown
        and len(kernel.jobs) >= max(LEAST_JOBS, 1)
    )
    fixed = fixed_claims(state.claimed, kernel.core.state.asks) if simple else None
    return None if fixed is None else kind(kernel, fixed)
