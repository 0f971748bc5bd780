"""The tree of accounts and users: which share of the cluster each was promised, in columns.

References
----------
Slurm, sacctmgr(1), "Fairshare": what shares are, and what ``parent`` means for a user and for an account.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field, TypeAdapter

from unrack.errors import InputError, nearest
from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.resources.checked import Path, Strict, validated

ROOT = "root"
"""The parent of accounts that have no other; it is in no column. Users may be its own."""

FROM_PARENT = -1
"""In place of shares: the user or account has none of its own."""

MOST_SHARES = 2**31 - 1


def _raw(shares: Any) -> int:
    if shares == "parent":
        return FROM_PARENT
    if type(shares) is not int or not 0 <= shares <= MOST_SHARES:
        raise ValueError(f"{shares!r} is not a whole number from 0 to {MOST_SHARES}, or 'parent'")
    return shares


def _user(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


Shares = Annotated[int, BeforeValidator(_raw)]


class UserTable(Strict):
    """A user of an account."""

    name: str = Field(min_length=1)
    shares: Shares = 1


class AccountTable(Strict):
    """An account: a part of its parent, which it divides among its users and the accounts below it."""

    name: str = Field(min_length=1)
    parent: str = ROOT
    shares: Shares = 1
    users: list[Annotated[UserTable, BeforeValidator(_user)]] = Field(default=[])


_ACCOUNTS: TypeAdapter[list[AccountTable]] = TypeAdapter(list[AccountTable])


class Associations(NamedTuple):
    """Accounts and users, one a row; each after its parent. A user of two accounts has two rows."""

    name: tuple[str, ...]
    parent: Ints  # int64[k]: the account above; -1: the root
    shares: Ints  # int64[k]: FROM_PARENT, or the raw shares among siblings
    is_user: Bools  # bool[k]
    # int64[k]: the nearest account above with shares of its own, as which accounts without count; -1: the root
    above: Ints
    # of int64: the rows at each depth of the tree of ``above``, from the top
    levels: tuple[Ints, ...]

    def rows(self) -> dict[tuple[str, str], int]:
        """Account and user to row; the user of an account's own row is empty."""
        of = [
            (self.name[up] if up >= 0 else ROOT, name) if user else (name, "")
            for name, up, user in zip(self.name, self.parent.tolist(), self.is_user.tolist(), strict=True)
        ]
        return {key: row for row, key in enumerate(of)}


def associations(accounts: Sequence[Any], where: str = "accounts") -> Associations:
    """The tree of tables ``{name, parent, shares, users}``.

    An InputError if a key is unknown, missing or wrong; a parent is unknown; accounts are in a circle; two accounts
    have the same name, or two users of one account; the root has shares, or a parent.

    Parameters
    ----------
    accounts
        Tables, in any order: ``name``; ``parent``, the name of another (default: the root); ``shares``, at least 0 or
        ``"parent"`` (default 1); and ``users``, each a name or a table of ``name`` and ``shares``.
    where
        What errors begin with.

    Examples
    --------
    >>> tree = associations([{"name": "chem", "parent": "science"}, {"name": "science", "shares": 3, "users": ["ann"]}])
    >>> tree.name, tree.parent.tolist()
    (('science', 'ann', 'chem'), [-1, 0, 0])
    """

    def known(path: Path) -> list[str]:
        return list((UserTable if "users" in path else AccountTable).model_fields)

    tables = validated(_ACCOUNTS.validate_python, list(accounts), f"{where}, ", known, InputError)
    usual = root = AccountTable(name=ROOT)
    below: dict[str, list[AccountTable]] = {ROOT: []}
    for i, table in enumerate(tables):
        if table.name == ROOT and root is usual and (table.parent, table.shares) == (ROOT, 1):
            root = table
        elif table.name in below:
            raise InputError(f"{where}, {i}.name", repr(table.name), "a name that no other account has")
        else:
            below[table.name] = []
    for i, table in enumerate(tables):
        if table.parent not in below:
            raise InputError(f"{where}, {i}.parent", repr(table.parent), nearest(table.parent, below))
        if table is not root:
            below[table.parent].append(table)
    name: list[str] = []
    columns: list[tuple[int, int, bool]] = []
    waiting = [(root, -1)]
    while waiting:
        table, parent = waiting.pop()
        row = -1 if table is root else len(name)
        users = [user.name for user in table.users]
        if len(set(users)) < len(users):
            raise InputError(f"{where}, {table.name}.users", ", ".join(users), "each user once")
        if table is not root:
            name.append(table.name)
            columns.append((parent, table.shares, False))
        name += users
        columns += [(row, user.shares, True) for user in table.users]
        waiting += [(child, row) for child in reversed(below.pop(table.name))]
    lost = [table.name for table in tables if table.name in below]
    if lost:
        raise InputError(f"{where}, parent", f"{', '.join(lost)}: in or below a circle", f"a way from each to {ROOT!r}")
    parents, shares, is_user = np.array(columns, np.int64).reshape(-1, 3).T
    return from_columns(tuple(name), parents, shares, is_user.astype(np.bool_))


def from_columns(name: tuple[str, ...], parent: Ints, shares: Ints, is_user: Bools) -> Associations:
    """The tree of columns as of :class:`Associations`: parents before their children, users without any."""
    above, depth = np.full(len(name), -1), np.zeros(len(name), np.int64)
    for row, up in enumerate(parent.tolist()):
        assert up < row
        if up >= 0:
            assert not is_user[up]
            above[row] = up if shares[up] != FROM_PARENT else above[up]
            depth[row] = depth[above[row]] + 1 if above[row] >= 0 else 0
    levels = tuple(np.flatnonzero(depth == at) for at in range(depth.max(initial=-1) + 1))
    return Associations(name, np.asarray(parent), np.asarray(shares), np.asarray(is_user), above, levels)


def with_descendants(tree: Associations, usage: Floats) -> Floats:
    """What each row and all below it have used, from what each has used itself: float64[k].

    Summed in order of rows, from the last to the first, so the same usage gives the same sums. O(k).
    """
    total = usage.tolist()
    parents = tree.parent.tolist()
    for row in range(len(total) - 1, -1, -1):
        if parents[row] >= 0:
            total[parents[row]] += total[row]
    return np.array(total, np.float64)


def of_siblings(tree: Associations, amount: Floats) -> Floats:
    """For each row, the sum over the rows that share its ``above``, itself included: float64[k]."""
    return np.bincount(tree.above + 1, amount, 1).astype(np.float64)[tree.above + 1]
