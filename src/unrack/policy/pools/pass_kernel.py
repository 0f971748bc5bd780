"""Compiled: a pass over the queue that places jobs of one task with their pooled devices itself."""

from __future__ import annotations

from typing import Any

from unrack.jit import compiled
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_CORES, ASKED_MB
from unrack.ledger.devices.columns import DeviceColumns
from unrack.policy.discipline import walk
from unrack.policy.discipline.heads_kernel import PassRule, refuse
from unrack.policy.discipline.queue_kernel import passed
from unrack.policy.discipline.skyline.columns import CHOOSE
from unrack.policy.placement.node_kernel import add_node
from unrack.policy.pools.lookahead_kernel import cheapest
from unrack.policy.pools.place_kernel import LEADER, PoolAnswer, place


@compiled
def pass_over(
    c: DeviceColumns, total: Ints, deadline_us: Ints, rule: int, authors: bool, ahead: Any, answer: PoolAnswer,
    takes: bool, order: Ints, second: Ints, now: int, running: int, free_cores: int, backfill: int, depth: int,
    whole: bool, fit: int, alike: bool, sky: Any,
) -> int:  # fmt: skip
    """As :func:`unrack.policy.discipline.queue_kernel.pass_over`.

    Of kinds that are IN_KERNEL it asks nothing as long as no job has taken devices, but where one has a place and it is
    not to take it. The one that does is TAKER, on the node ANSWER, with the devices of ``answer``.

    Parameters
    ----------
    c, total, deadline_us, rule, authors, answer
        As of :func:`unrack.policy.pools.place_kernel.place`.
    ahead
        :class:`unrack.policy.pools.lookahead_kernel.Ahead`, for look-ahead; ``None``: by ``rule``.
    takes
        Whether jobs that have a place are started here; False: it is asked about them.
    """
    far = sky.walk
    while True:
        how = PassRule(backfill, depth, whole, fit)
        count = passed(order, second, now, running, free_cores, how, alike, sky)
        job = far[walk.ASKING]
        kind = sky.kind[job]
        here = count == CHOOSE and far[walk.STAGE] == walk.PLACED and far[walk.TAKER] < 0
        closed = backfill == 0 and far[walk.HEADS] > 0  # nodes are set aside for those that wait
        if not here or closed or kind < 0 or sky.late[walk.IN_KERNEL, kind] == 0:
            return int(count)
        if ahead is None:
            node = place(c, sky.asks, sky.now, total, deadline_us, job, rule, now, 0.0, 0.0, answer, authors)
        else:
            late, alone = sky.due[walk.DUE_END, job] < now, running + far[walk.COUNT] == 0
            node = cheapest(c, sky.asks, sky.now, deadline_us, job, late, alone, ahead, now, answer)
        if node >= 0 and not takes:
            return int(count)
        if node < 0:
            refuse(job, kind, -node, answer.earliest[0], sky)
            continue
        far[walk.FOUND] = add_node(
            sky.out, far[walk.ROWS], far[walk.ROWS], node, 1, sky.asks[ASKED_CORES, job], sky.asks[ASKED_MB, job]
        )
        for asked in range(c.needs.shape[0]):
            if c.needs[asked, job]:
                far[walk.TAKER], far[walk.ANSWER] = job, node
                far[walk.OPENS] = max(far[walk.OPENS], int(answer.rows[asked, LEADER] < 0))
