"""Compiled: a pass over the queue that places jobs of one task with their pooled devices itself."""

from __future__ import annotations

from typing import Any, NamedTuple

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.devices.columns import DeviceColumns
from unrack.policy.discipline import walk
from unrack.policy.discipline.heads_kernel import PassRule, refuse
from unrack.policy.discipline.queue_kernel import passed
from unrack.policy.discipline.skyline.columns import CHOOSE
from unrack.policy.pools.lookahead_kernel import cheapest_place
from unrack.policy.pools.place_kernel import LATE, NO_CORES, NO_DEVICES, PoolAnswer, place


class Ahead(NamedTuple):
    """What look-ahead knows, as of :func:`unrack.policy.pools.lookahead_kernel.cheapest_place`."""

    big: int
    worths: Floats
    dear: Floats


@inlined
def refusal_of(node: int) -> int:
    """Why a job has no place, one of ``refused``, by the answer of a rule for pools."""
    if node in (NO_CORES, NO_DEVICES):
        return walk.REFUSED
    return walk.LATE if node == LATE else walk.CLOSED


@compiled
def pass_over(
    c: DeviceColumns, total: Ints, deadline_us: Ints, rule: int, authors: bool, ahead: Any, answer: PoolAnswer,
    order: Ints, second: Ints, now: int, running: int, free_cores: int, backfill: int, depth: int, whole: bool,
    fit: int, alike: bool, sky: Any,
) -> int:  # fmt: skip
    """As :func:`unrack.policy.discipline.queue_kernel.pass_over`, and FOUND_HERE.

    Of kinds that are IN_KERNEL it asks nothing, as long as all is done that was decided.

    Parameters
    ----------
    c, total, deadline_us, rule, authors, answer
        As of :func:`unrack.policy.pools.place_kernel.place`.
    ahead
        :class:`Ahead`, for look-ahead; ``None``: by ``rule``.
    """
    far = sky.walk
    while True:
        how = PassRule(backfill, depth, whole, fit)
        count = passed(order, second, now, running, free_cores, how, alike, sky)
        job = far[walk.ASKING]
        kind = sky.kind[job]
        here = count == CHOOSE and far[walk.STAGE] == walk.PLACED and far[walk.COUNT] == 0
        if not here or kind < 0 or sky.late[walk.IN_KERNEL, kind] == 0:
            return int(count)
        if ahead is None:
            node = place(c, sky.asks, sky.now, total, deadline_us, job, rule, now, 0.0, 0.0, answer, authors)
        else:
            late = sky.due[walk.DUE_END, job] < now
            node = cheapest_place(
                c, sky.asks, sky.now, deadline_us, job, late, ahead.big, ahead.worths, ahead.dear, now, answer
            )
            if node == LATE and running == 0:  # late even where no job runs: waiting would not help
                node = cheapest_place(
                    c, sky.asks, sky.now, deadline_us, job, True, ahead.big, ahead.worths, ahead.dear, now, answer
                )
        if node >= 0:
            far[walk.ANSWER] = node
            return walk.FOUND_HERE
        refuse(job, kind, refusal_of(node), answer.earliest[0], sky)
