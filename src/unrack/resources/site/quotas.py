"""Quotas of queues as places: what a queue may use of a flavour of nodes, what it may borrow, and what it lends.

With lending limits, what a queue uses beyond its guaranteed quota (nominal − lent at most) counts in its cohort, of
which Σ min(lent at most, nominal) is shared: Σ max(0, used − guaranteed) ≤ shared (Kueue, ClusterQueue: lendingLimit).
How much of a job counts there would depend on which others run. But the sum of parts above 0 is the largest of the sums
over any of the queues, so that it is the same to say of *every* set of queues: Σ used ≤ shared + Σ guaranteed. Each of
these is a place that jobs of the queues in the set claim, whatever runs; only those are made that jobs could reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from typing import NamedTuple

from unrack.resources.site.keys import QueueFile

MOST_KEPT = 8
"""How many queues of a cohort may keep something of one amount for themselves: 2 to the power of so many places."""


class Quota(NamedTuple):
    """What a queue has of one amount in one flavour of nodes.

    Attributes
    ----------
    queue, flavour, measure
        What it is of, the partition (``""``: any nodes), and what it is of.
    nominal
        What it has without borrowing.
    most
        The most that it can use when it borrows all that it may.
    places
        Names and amounts of the places where its jobs claim what they ask, its own first.
    """

    queue: str
    flavour: str
    measure: str
    nominal: int
    most: int
    places: tuple[tuple[str, int], ...]


class Nominal(NamedTuple):
    """What a queue has of one amount without borrowing."""

    amount: int
    of: tuple[str, str]  # flavour and measure


class _Member(NamedTuple):
    queue: str
    nominal: int
    borrow: int | None
    kept: int


def quotas_of(queues: Sequence[QueueFile]) -> list[Quota]:
    """The quotas of the queues of a site, in their order.

    Raises
    ------
    ValueError
        More than ``MOST_KEPT`` queues of a cohort keep something of the same for themselves.
    """
    rows = [
        ((queue.cohort or f" {queue.name}", quota.flavour, measure),
         _Member(queue.name, nominal, quota.borrow.get(measure), max(0, nominal - quota.lend.get(measure, nominal))))
        for queue in queues
        for quota in queue.quotas
        for measure, nominal in quota.nominal.items()
    ]  # fmt: skip
    cohorts: dict[tuple[str, str, str], list[_Member]] = {}
    for key, own in rows:
        cohorts.setdefault(key, []).append(own)
    shared, found = {key: _shared_places(key, members) for key, members in cohorts.items()}, list[Quota]()
    for key, own in rows:
        (_, flavour, measure), most = key, _most(own, cohorts[key])
        rest = [(name, amount) for name, amount, members in shared[key] if own.queue in members]
        places = (place_name(measure, f"queue {own.queue}", flavour), most), *rest
        found.append(Quota(own.queue, flavour, measure, own.nominal, most, places))
    return found


def place_name(measure: str, owner: str, flavour: str) -> str:
    """What a place of quotas is called.

    Examples
    --------
    >>> place_name("cores", "queue a", "spot")
    'cores of queue a, flavour spot'
    """
    return f"{measure} of {owner}, {f'flavour {flavour}' if flavour else 'any flavour'}"


def _most(member: _Member, members: Sequence[_Member]) -> int:
    """What a queue can use at most."""
    reachable = member.kept + sum(one.nominal - one.kept for one in members)
    return reachable if member.borrow is None else min(member.nominal + member.borrow, reachable)


def _shared_places(
    key: tuple[str, str, str], members: Sequence[_Member]
) -> list[tuple[str, int, frozenset[str]]]:  # fmt: skip
    """The places of a cohort: names, amounts, and the queues with jobs that claim them."""
    cohort, flavour, measure = key
    keepers = [one for one in members if one.kept]
    if len(keepers) > MOST_KEPT:
        few = f"at most {MOST_KEPT} queues of a cohort that lend less than they have of {measure}"
        raise ValueError(f"{few}, not {len(keepers)} of {cohort}")
    others, shared, found = [one for one in members if not one.kept], sum(o.nominal - o.kept for o in members), []
    for out in chain.from_iterable(combinations(keepers, count) for count in range(len(keepers) + 1)):
        some = [*others, *(one for one in keepers if one not in out)]
        most = shared + sum(one.kept for one in some)
        if len(some) < 2 or sum(_most(one, members) for one in some) <= most:
            continue  # of one alone its own place says that
        less = f" less what {', '.join(one.queue for one in out)} keep{'s' * (len(out) == 1)}" if out else ""
        name = place_name(measure, f"cohort {cohort}{less}", flavour)
        found.append((name, most, frozenset(one.queue for one in some)))
    return found
