"""Quotas of queues as places: what a queue may use of a flavour of nodes, what it may borrow, and what it lends.

Queues and cohorts are a tree. With lending limits, what a part of it uses beyond what it keeps (what it has − lent at
most) counts in the cohort above it, of which what its parts lend, and its own quota, is shared: Σ max(0, used − kept) ≤
shared (Kueue, ClusterQueue: lendingLimit). How much of a job counts there would depend on which others run. But the sum
of parts above 0 is the largest of the sums over any of them, so that it is the same to say of *every* set of parts, and
so on downwards to the queues: Σ used ≤ shared + Σ kept. Each of these is a place that jobs of the queues in the set
claim, whatever runs; only those are made that jobs could reach.

Where jobs come one at a time, the places of limits are made of the site alone, before the first job.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from unrack.resources.contract import Place
from unrack.resources.site.keys import CohortFile, LimitFile, QueueFile, SiteFile

if TYPE_CHECKING:
    from unrack.resources.site.binding import Binding
    from unrack.resources.site.installed import Site


MOST_KEPT = 8
"""How many parts of a cohort may keep something of one amount for themselves: 2 to the power of so many places."""


@dataclass(eq=False)
class Part:
    """What a queue or a cohort has of one amount in one flavour of nodes.

    Attributes
    ----------
    what, name, flavour, measure
        ``"queue"`` or ``"cohort"``, its name, and what it is of.
    above
        The cohort that it is in.
    nominal, borrow, lend
        As of :class:`unrack.resources.site.keys.QuotaFile`.
    below
        What is in a cohort.
    """

    what: str
    name: str
    flavour: str
    measure: str
    above: Part | None
    nominal: int = 0
    borrow: int | None = None
    lend: int | None = None
    below: list[Part] = field(default_factory=list)

    @cached_property
    def has(self) -> int:
        """What it has without borrowing, with what those below lend."""
        return self.nominal + sum(one.has - one.kept for one in self.below)

    @cached_property
    def kept(self) -> int:
        """What it lends to none."""
        return 0 if self.lend is None or self.above is None else max(0, self.has - self.lend)

    @cached_property
    def most(self) -> int:
        """The most that it can use when it borrows all that it may."""
        reachable = self.has if self.above is None else self.kept + self.above.most
        return reachable if self.borrow is None else min(self.has + self.borrow, reachable)

    @property
    def upward(self) -> list[Part]:
        """Itself, and the cohorts that it is in."""
        return [self, *(self.above.upward if self.above else ())]

    def used(self, of: Callable[[Part], int]) -> int:
        """What counts as used; ``of``: what a queue uses."""
        return sum(max(0, one.used(of) - one.kept) for one in self.below) if self.below else of(self)

    def sets(self, queues: Collection[Part]) -> list[tuple[int, frozenset[str], tuple[str, ...]]]:
        """The sets of queues that count in it: what they keep, their names, and the parts that are left out of it.

        A ``TooManyKeepError`` if too many of the parts keep something.
        """
        found: list[tuple[int, frozenset[str], tuple[str, ...]]]
        found = [(0, frozenset({self.name} if self in queues else ()), ())]
        for one in self.below:
            own = one.sets(queues) if one.most > one.kept else []  # others use nothing of what is shared
            if any(names for _, names, _ in own):
                ways = [(one.kept + kept, names, out) for kept, names, out in own]
                ways += [(0, frozenset(), (one.name,))] if one.kept else []
                found = [(a + b, names | more, out + less) for a, names, out in found for b, more, less in ways]
            if len(found) > 2**MOST_KEPT:
                raise TooManyKeepError(self)
        return sorted(found, key=lambda one: len(one[2]))


class TooManyKeepError(ValueError):
    """Too many queues of a cohort keep something; ``least``: the :class:`Part` that keeps least."""

    def __init__(self, cohort: Part) -> None:
        every = [cohort]
        for one in every:
            every += [other for other in one.below if other.most > other.kept]
        keepers = sorted((one for one in every[1:] if one.kept), key=lambda one: one.kept)
        self.least = keepers[0]
        few = f"at most {MOST_KEPT} queues of a cohort that lend less than they have of {cohort.measure}"
        super().__init__(f"{few}, not {len(keepers)} of {cohort.name}")


class Quota(NamedTuple):
    """What a queue has of one amount in one flavour of nodes.

    Attributes
    ----------
    partitions
        Where it holds; ``""``: on any nodes.
    part
        The queue in the tree of its cohorts.
    places
        Names and amounts of the places where its jobs claim what they ask, its own first.
    """

    partitions: tuple[str, ...]
    part: Part
    places: tuple[tuple[str, int], ...]


def quotas_of(queues: Sequence[QueueFile], cohorts: Sequence[CohortFile] = ()) -> list[Quota]:
    """The quotas of the queues of a site, in their order.

    Raises
    ------
    TooManyKeepError
        More than ``MOST_KEPT`` parts of a cohort keep something of the same for themselves.
    """
    above, known = {one.name: one.cohort for one in cohorts}, dict[tuple[str, ...], Part]()

    def part(what: str, name: str, cohort: str, flavour: str, measure: str) -> Part:
        key = what, name, flavour, measure
        if key not in known:
            over = part("cohort", cohort, above.get(cohort, ""), flavour, measure) if cohort else None
            known[key] = Part(*key, over)
            if over is not None:
                over.below.append(known[key])
        return known[key]

    rows = [
        (quota, part(what, one.name, one.cohort, quota.flavour, measure))
        for what, some in (("queue", queues), ("cohort", cohorts))
        for one in some
        for quota in one.quotas
        for measure in quota.nominal
    ]
    for quota, own in rows:
        of = own.measure
        own.nominal, own.borrow, own.lend = quota.nominal[of], quota.borrow.get(of), quota.lend.get(of)
    leaves = [own for _, own in rows if own.what == "queue"]
    shared = {one: list(_shared_places(one, leaves)) for one in known.values() if one.what == "cohort"}
    found = list[Quota]()
    for quota, own in rows:
        if own.what == "queue":
            rest = [(name, most) for one in own.upward[1:] for name, most, names in shared[one] if own.name in names]
            places = (place_name(own.measure, f"queue {own.name}", own.flavour), own.most), *rest
            found.append(Quota(tuple(quota.partitions or (own.flavour,)), own, places))
    return found


def place_name(measure: str, owner: str, flavour: str) -> str:
    """What a place of quotas is called.

    Examples
    --------
    >>> place_name("cores", "queue a", "spot")
    'cores of queue a, flavour spot'
    """
    return f"{measure} of {owner}, {f'flavour {flavour}' if flavour else 'any flavour'}"


def _shared_places(cohort: Part, queues: Collection[Part]) -> Iterator[tuple[str, int, frozenset[str]]]:
    """The places of a cohort: names, amounts, and the queues with jobs that claim them."""
    bound = cohort.has + (cohort.borrow or 0)  # without a limit that of the cohort above is enough
    most = {one.name: one.most for one in queues if cohort in one.upward}
    for kept, names, out in () if cohort.above and cohort.borrow is None else cohort.sets(queues):
        if len(names) > 1 and sum(most[name] for name in names) > bound + kept:  # of one alone its own place says that
            less = f" less what {', '.join(out)} keep{'s' * (len(out) == 1)}" if out else ""
            name = place_name(cohort.measure, f"cohort {cohort.name}{less}", cohort.flavour)
            yield name, bound + kept, names


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
