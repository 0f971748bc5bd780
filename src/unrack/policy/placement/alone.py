"""Compiled: plans and passes over the queue that ask no placement where the choice is made in a kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

from unrack.jit import compiled
from unrack.kernels.arrays import Ints
from unrack.policy.discipline import walk
from unrack.policy.discipline.heads_kernel import lacking
from unrack.policy.discipline.queue_kernel import passed
from unrack.policy.discipline.skyline.columns import (
    AT,
    CHOOSE,
    CLAIMED,
    DEVICES,
    FIT,
    LENT,
    LENT_DEVICES,
    STARTS,
    WHOLE,
)
from unrack.policy.discipline.skyline.plan_round import planned
from unrack.policy.lending.answers import answer, choose
from unrack.policy.pools.place_kernel import PoolAnswer
from unrack.policy.pools.plan_kernel import answer_devices, choose_devices, settle_last, settle_pass
from unrack.policy.pools.take_kernel import Chooser
from unrack.policy.tiers.cluster_kernel import pass_over as pass_servers


class Alone(NamedTuple):
    """Where jobs go in one round that want LENT, DEVICES or LENT_DEVICES."""

    terms: Any  # on which memory is lent (:class:`LendingTerms`); ``None``: it is not
    aware: Any  # ranks lenders; ``None``: nothing does
    room: PoolAnswer | None  # for the choice of devices
    rule: int  # by which rule devices are chosen
    fit: int  # and nodes that have all memory for them, where others may lend
    # the clusters of pools for servers on tiers of memory, and what servers ask; none: it is another cluster
    servers: tuple[Any, ...] = ()

    @property
    def without_loans(self) -> Alone:
        """The same where no job has to borrow."""
        return self._replace(terms=None, aware=None)

    def pass_over(self, *how: Any, line: Any = None) -> int:
        """As :func:`unrack.policy.discipline.queue_kernel.pass_over`; of these jobs it asks nothing.

        ``line``: as of :meth:`plan_round`.
        """
        if self.servers:
            return pass_servers(*self.servers, *how)
        room = None if line is None else self.room
        return pass_over(self.terms, self.aware, line, room, self.rule, self.fit, *how)

    def plan_round(self, line: Any, *how: Any) -> int:
        """As :func:`unrack.policy.discipline.skyline.plan_round.planned`; of these jobs it asks nothing.

        ``line``: the devices over time (:mod:`unrack.ledger.devices.line_kernel`); ``None``: no job wants any,
        or it asks about all that do.
        """
        room = None if line is None else self.room
        return plan_round(self.terms, self.aware, line, room, self.rule, self.fit, *how)


@compiled
def plan_round(
    terms: Any, aware: Any, line: Any, room: Any, rule: int, own_fit: int, order: Ints, now: int, running: int, sky: Any
) -> int:
    """As of :class:`Alone`."""
    local_fit, whole = sky.cursor[FIT] if terms is None else own_fit, sky.cursor[WHOLE] == 1
    while True:
        count = planned(order, now, running, sky)
        wants, short = sky.wants[order[sky.cursor[AT]]] if count == CHOOSE else -1, 0
        if line is not None and wants in (DEVICES, LENT_DEVICES):
            short = choose_devices(order, now, running, whole, Chooser(terms, aware, line, room, rule, local_fit), sky)
        elif terms is not None and wants == LENT:
            short = choose(order, running, whole, terms, aware, sky)
        else:
            if line is not None:
                settle_last(line, sky.turn, sky.asks, now)
            return int(count)
        if short < 0:
            return int(short)


@compiled
def pass_over(
    terms: Any, aware: Any, line: Any, room: Any, rule: int, own_fit: int, order: Ints, second: Ints, now: int,
    running: int, sky: Any,
) -> int:  # fmt: skip
    """As of :class:`Alone`."""
    local_fit, whole = sky.walk[walk.FIT] if terms is None else own_fit, sky.walk[walk.WHOLE] == 1
    while True:
        count = passed(order, second, now, running, sky)
        far, nodes = sky.walk, sky.installed.shape[2]
        job, stage = far[walk.ASKING], far[walk.STAGE]
        if line is not None and count >= 0:
            settle_pass(line, sky)
        if count != CHOOSE:
            return int(count)
        if line is not None and sky.wants[job] in (DEVICES, LENT_DEVICES):
            chooser = Chooser(terms, aware, line, room, rule, local_fit)
            short = answer_devices(now, running, chooser, sky)
            if short < 0:
                return int(short)
            continue
        if terms is None or sky.wants[job] != LENT:
            return int(count)
        if stage == walk.JUDGED and line is None and (sky.wants[far[walk.LOOKED_AT]] != LENT or far[walk.MOVES] == 1):
            return int(count)
        if stage == walk.PLACED:
            if far[walk.ROWS] + 3 * nodes > sky.out.shape[0]:
                return lacking(sky, walk.LOOK, STARTS)
            fixed = sky.fixed_at[1, job] - sky.fixed_at[0, job]
            if far[walk.CLAIMS] + 2 * nodes + fixed > sky.new_claims.shape[0]:
                return lacking(sky, walk.LOOK, CLAIMED)
        if terms is not None:
            answer(now, running, whole, terms, aware, sky)
