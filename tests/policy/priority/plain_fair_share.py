"""Both formulas of fair share in plain Python, in exact numbers, by recursion over the tree as it is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby


@dataclass
class Member:
    """An account or a user; ``shares`` None: ``parent``."""

    row: int
    shares: int | None
    user: bool
    used: int
    children: list[Member] = field(default_factory=list)

    def total(self) -> int:
        return self.used + sum(child.total() for child in self.children)

    def siblings_below(self) -> list[Member]:
        """Those that divide this account: its children, and the children of such as have no shares of their own."""
        found = []
        for child in self.children:
            found.append(child)
            if child.shares is None:
                found += child.siblings_below()
        return found


def drawn(parent: Sequence[int], shares: Sequence[int], is_user: Sequence[bool], used: Sequence[int]) -> Member:
    members = [
        Member(row, None if own < 0 else own, user, amount)
        for row, (own, user, amount) in enumerate(zip(shares, is_user, used, strict=True))
    ]
    root = Member(-1, 1, False, 0)
    for member, up in zip(members, parent, strict=True):
        (members[up] if up >= 0 else root).children.append(member)
    return root


def classic(root: Member) -> dict[int, float]:
    """Row to F."""
    everything = root.total()
    factors: dict[int, float] = {}

    def visit(account: Member, share: Fraction, effective: Fraction, top: bool) -> None:
        below = account.siblings_below()
        of_all = sum(child.shares or 0 for child in below)
        for child in below:
            if child.shares is None:
                s, u = share, effective
            else:
                part = Fraction(child.shares, of_all) if of_all else Fraction(0)
                actual = Fraction(child.total(), everything) if everything else Fraction(0)
                s, u = share * part, actual if top else actual + (effective - actual) * part
                visit(child, s, u, False)
            factors[child.row] = 2.0 ** -float(u / s) if s else 0.0

    visit(root, Fraction(1), Fraction(1 if everything else 0), True)
    return factors


def level(child: Member, below: Sequence[Member], account: Member) -> Fraction | float:
    if child.shares is None:
        return math.inf
    if child.shares == 0:
        return Fraction(0)
    if child.total() == 0:
        return math.inf
    s = Fraction(child.shares, sum(other.shares or 0 for other in below))
    return s / Fraction(child.total(), account.total())


def ranked(root: Member) -> dict[int, int]:
    """Row of a user to its rank, the highest the first."""
    ranks: dict[int, int] = {}

    def count(account: Member) -> int:
        return sum(child.user + count(child) for child in account.children)

    left = count(root)

    def visit(accounts: Sequence[Member], rank: int) -> None:
        nonlocal left
        rows = []
        for account in accounts:
            below = account.siblings_below()
            rows += [(level(c, below, account), c) for c in below if c.user or c.shares is not None]
        rows.sort(key=lambda row: -row[0])
        before = left
        for _, same in groupby(rows, key=lambda row: row[0]):
            members = [member for _, member in same]
            here = rank if left == before else left
            users = [member for member in members if member.user]
            for user in users:
                ranks[user.row] = here
            left -= len(users)
            merged = [member for member in members if not member.user]
            if merged:
                visit(merged, here)

    visit([root], left)
    return ranks
