"""Quotas of queues as places: what a queue may use of a flavour of nodes, what it may borrow, and what it lends.

With lending limits, what a queue uses beyond its guaranteed quota (nominal − lent at most) counts in its cohort, of
which Σ min(lent at most, nominal) is shared: Σ max(0, used − guaranteed) ≤ shared (Kueue, ClusterQueue: lendingLimit).
How much of a job counts there would depend on which others run. But the sum of parts above 0 is the largest of the sums
over any of the queues, so that it is the same to say of *every* set of queues: Σ used ≤ shared + Σ guaranteed. Each of
these is a place that jobs of the queues in the set claim, whatever runs; only those are made that jobs could reach.

Where jobs come one at a time, the places of limits are made of the site alone, before the first job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, combinations
from typing import TYPE_CHECKING, NamedTuple

from unrack.resources.contract import Place
from unrack.resources.site.keys import LimitFile, QueueFile, SiteFile

if TYPE_CHECKING:
    from unrack.resources.site.binding import Binding
    from unrack.resources.site.installed import Site


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
    shared = sum(one.nominal - one.kept for one in members)
    most_of = {one.queue: _most(one, members) for one in members}
    members = [one for one in members if most_of[one.queue] > one.kept]  # others use nothing of what is shared
    keepers = [one for one in members if one.kept]
    if len(keepers) > MOST_KEPT:
        few = f"at most {MOST_KEPT} queues of a cohort that lend less than they have of {measure}"
        raise ValueError(f"{few}, not {len(keepers)} of {cohort}")
    others, found = [one for one in members if not one.kept], []
    for out in chain.from_iterable(combinations(keepers, count) for count in range(len(keepers) + 1)):
        some = [*others, *(one for one in keepers if one not in out)]
        most = shared + sum(one.kept for one in some)
        if len(some) < 2 or sum(most_of[one.queue] for one in some) <= most:
            continue  # of one alone its own place says that
        less = f" less what {', '.join(one.queue for one in out)} keep{'s' * (len(out) == 1)}" if out else ""
        name = place_name(measure, f"cohort {cohort}{less}", flavour)
        found.append((name, most, frozenset(one.queue for one in some)))
    return found


def places_of(file: SiteFile) -> list[Place]:
    """A place for each limit and each of those that it is of: users and accounts that the site names."""
    users = dict.fromkeys(f"user {user.name}" for account in file.accounts for user in account.users)
    owners_of: Mapping[str, Collection[str]] = {
        "all": ("all",), "user": users, "account": [f"account {one.name}" for one in file.accounts],
    }  # fmt: skip
    owners = [("site", file.limits), *((f"partition {one.name}", one.limits) for one in file.partitions)]
    owners += [(f"quality of service {one.name}", one.limits) for one in file.qos]
    for account in file.accounts:
        owners.append((f"account {account.name}", account.limits))
        owners += [(f"user {user.name} in account {account.name}", user.limits) for user in account.users]
    found = {
        f"{measure} of {subject}, {owner}": Place(f"{measure} of {subject}, {owner}", measure, most)
        for owner, limits in owners
        for limit in limits
        if limit.per != "job"
        for measure in limit.amounts
        for most in [min(one.amounts[measure] for one in limits if one.per == limit.per and measure in one.amounts)]
        for subject in owners_of[limit.per]
    }
    return list(found.values())


def counted(site: Site, binding: Binding) -> int:
    """The number of what the only job of a binding counts for; a new one comes behind those there are; 0: nothing.

    A user or account that the site does not name counts for nothing.
    """
    row = next(iter(binding.rows), ())
    names = {number: place.name for number, place in binding.places.values()}
    number_of = {place.name: number for number, place in enumerate(site.places)}
    known = ((number_of.get(names[place], -1), amount, inside) for place, amount, inside in row)
    own = tuple(sorted(one for one in known if one[0] >= 0))
    if not own:
        return 0
    if own not in site.counts:
        site.counts = (*site.counts, own)
    return site.counts.index(own) + 1


class OpenLimit(NamedTuple):
    """A limit, and what it is of."""

    file: LimitFile
    owner: str  # as in "partition debug"
    partition: str = ""  # counts for those alone that run there


USER, ACCOUNT, QOS = "user ", "account ", "quality of service "
"""How the names of owners of limits begin."""


def nearest(rules: Sequence[OpenLimit]) -> list[OpenLimit]:
    """The rules for a job that count in Slurm, of accounts from its own on up.

    What a QOS allows to all of its jobs together is in place of what accounts allow to all of theirs, by amount; what
    it allows to each user is in place of what they allow to each. Of the latter the nearest counts, from the user up.
    Of what a user's own association says it is not known which of both it is: either is in place of it. What is allowed
    to each account is in place of nothing.
    """
    found = [rule for rule in rules if not rule.owner.startswith((USER, ACCOUNT, "site"))]
    together, each = set[str](), set[str]()
    for rule in found:
        if rule.owner.startswith(QOS) and rule.file.per != "account":
            (together if rule.file.per == "all" else each).update(rule.file.amounts)
    for level in (USER, ACCOUNT, "site"):
        for owner in dict.fromkeys(rule.owner for rule in rules if rule.owner.startswith(level)):
            nearer = set(each)
            for rule in [rule for rule in rules if rule.owner == owner]:
                per = rule.file.per
                own = level == USER and per != "account"
                without = together | nearer if own else {"all": together, "user": nearer}.get(per, set())
                if amounts := {measure: most for measure, most in rule.file.amounts.items() if measure not in without}:
                    found.append(rule._replace(file=rule.file.model_copy(update={"amounts": amounts})))
                if own or per == "user":
                    each |= set(rule.file.amounts)
    return found
