"""The driver's orders in Slurm's words: to place and then release, to hold back and ask again, to requeue held."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from unrack.live.driver.contract import Acknowledgement, Act, Order
from unrack.live.driver.portable import nodes_in
from unrack.live.driver.seen import Seen
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.stage import Running
from unrack.live.slurm import orders as words
from unrack.live.slurm.adapter.asked import asked_before, asks_by_name
from unrack.live.slurm.adapter.seen import key_of
from unrack.live.slurm.client import Client
from unrack.live.slurm.orders import AskAgain, HoldBack, Lengthen, Place, Release, RequeueHeld
from unrack.units import SECOND_US

KILLED_S = 2
"""So many seconds after its run was killed a job is released again at the earliest.

A node that has killed a job in a second of the controller's clock takes a start in the same second for one of before
that, and does not launch it; Slurm then ends the job as failed. One second more is for clocks that differ.
"""


def ready_us(seen: Seen, now: int) -> dict[str, int]:
    """When jobs that were queued again may be released, µs, of those that may not be yet."""
    found = {}
    for key, job in seen.jobs.items():
        if job.restarts:
            killed_s = max(part.submit_s for part in job.own.job.every)  # Slurm submits a job anew once it is killed
            if (late_s := killed_s + KILLED_S - seen.at_s) > 0:
                found[key] = now + round(late_s * SECOND_US)
    return found


def carried_out(client: Client, orders: Sequence[Order], early: Collection[str]) -> Iterator[list[Acknowledgement]]:
    """Give orders, and those that follow on what Slurm has taken.

    A job that was not placed must not be released; one that is held again asks for what it asked for before. Jobs that
    are ``early`` are placed and not released, so that the order is given again.
    """
    of = {order.entry.key: order for order in orders}
    answers = client.carry_out([_first(order) for order in orders])
    yield [_told(of[str(answer.order.job)], answer) for answer in answers]
    taken = [answer.order for answer in answers if answer.done]
    taken = [order for order in taken if not (isinstance(order, Place) and str(order.job) in early)]
    if more := [one for order in taken for one in _then(order, of[str(order.job)].entry)]:
        yield [_told(of[str(answer.order.job)], answer) for answer in client.carry_out(more)]


def _first(order: Order) -> words.Order:
    entry = order.entry
    job, asked = key_of(entry.key), asked_before(entry)
    if order.act == Act.START:
        inside = asked.inside if asked.partition else ""
        again = entry.said.restarts > 0
        limit_s = entry.known.before_s if again else None
        numbered = not asked.crowded
        named = bool(asked.features), asked.reservation
        return Place(job, tuple(entry.nodes), again, inside, _parts(entry), limit_s, numbered, *named)
    if order.act == Act.STOP:
        return RequeueHeld(job)
    if order.act == Act.MORE:
        assert isinstance(entry.stage, Running)
        return Lengthen(job, entry.stage.more.given_s or 0)
    if asked.parts:
        return HoldBack(job, together=True)
    return HoldBack(job, 0 if asked.crowded else asked.nodes_min, asked.nodes_max)


def _then(order: words.Order, entry: Entry) -> list[words.Order]:
    if isinstance(order, Place):
        return [Release(order.job)]
    asked = asked_before(entry)
    if not isinstance(order, HoldBack) or not asks_by_name(asked):
        return []
    parts = tuple((part.excluded, part.partition) for part in asked.parts)
    named = ((), "", "") if parts else (asked.wanted, asked.partition, asked.features)
    return [AskAgain(order.job, *named, parts)]


def _told(order: Order, answer: words.OrderAnswer) -> Acknowledgement:
    asked = asked_before(order.entry)  # of what was asked by name, Slurm may forget that it was given back
    restored = answer.done and isinstance(answer.order, HoldBack) and not asks_by_name(asked)
    own = asked._replace(pinned=False) if restored else None
    word = type(answer.order).__name__
    return Acknowledgement(order, word, answer.problem, not isinstance(answer.order, Place), own)


def _parts(entry: Entry) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The nodes and the partition of each component of a heterogeneous job."""
    leases = [] if entry.lease is None else entry.lease.get("parts", ())
    return tuple(
        (tuple(nodes_in(lease)), part.inside if part.partition else "")
        for lease, part in zip(leases, asked_before(entry).parts, strict=False)
    )
