"""Limits on jobs that come one at a time: their places are made of the site alone, before anybody comes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from unrack.resources.contract import Place
from unrack.resources.site.keys import LimitFile, SiteFile

if TYPE_CHECKING:
    from unrack.resources.site.binding import Binding
    from unrack.resources.site.installed import Site


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
        for measure, most in limit.amounts.items()
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
