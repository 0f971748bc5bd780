"""Compiled: a pass over the queue that places jobs of one task with their pooled devices itself."""

from __future__ import annotations

from typing import Any, NamedTuple

from unrack.jit import compiled
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.columns import ASKED_US
from unrack.ledger.devices.columns import DeviceColumns
from unrack.policy.discipline import walk
from unrack.policy.discipline.heads_kernel import PassRule
from unrack.policy.discipline.queue_kernel import passed
from unrack.policy.discipline.skyline.columns import CHOOSE
from unrack.policy.pools.lookahead_kernel import cheapest_place
from unrack.policy.pools.place_kernel import LATE, NO_CORES, NO_DEVICES, PoolAnswer, place


class Ahead(NamedTuple):
    """What look-ahead knows, as of :func:`unrack.policy.pools.lookahead_kernel.cheapest_place`."""

    big: int
    worths: Floats
    dear: Floats


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
        if node in (NO_CORES, NO_DEVICES):
            sky.refused[kind] = walk.REFUSED
            continue
        sky.refused[kind] = walk.LATE if node == LATE else walk.CLOSED
        far[walk.CLOSES] = sky.late[walk.IS_CLOSED, kind] = 1
        sky.late[walk.LATE_US, kind], sky.late[walk.LATE_END, kind] = sky.asks[ASKED_US, job], answer.earliest[0]
