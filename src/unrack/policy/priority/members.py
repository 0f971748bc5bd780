"""The accounts and users of a site as jobs bring them: those that it declares, and any others that come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unrack.policy.priority.tree import ROOT, Associations, associations, from_columns
from unrack.resources.site.keys import AccountFile


class Members:
    """A tree that grows. Whoever the site does not declare has one share: of its account, or under the root.

    Of a user who names no account, it is the first that declares him. Rows stay where they are.
    """

    def __init__(self, accounts: Sequence[AccountFile]) -> None:
        tables = [
            {
                "name": one.name, "parent": one.parent or ROOT, "shares": one.shares,
                "users": [{"name": user.name, "shares": user.shares} for user in one.users],
            }
            for one in accounts
        ]  # fmt: skip
        self.tree = associations(tables, "site.accounts")
        rows = self.tree.rows()
        self._accounts = {account: row for (account, user), row in rows.items() if not self.tree.is_user[row]}
        self._users = {key: row for key, row in rows.items() if self.tree.is_user[row]}
        self._home = {user.name: one.name for one in reversed(accounts) for user in one.users}
        own = {(one.name, ""): one.priority for one in accounts}
        own |= {(one.name, user.name): user.priority for one in accounts for user in one.users}
        self.priority = np.zeros(len(rows), np.int64)  # the factor of each row
        used = {(one.name, ""): one.usage for one in accounts}
        used |= {(one.name, user.name): user.usage for one in accounts for user in one.users}
        self.used = np.array([used[key] for key in rows])  # what each row used before the run, times seconds
        for key, row in rows.items():
            up, said = int(self.tree.parent[row]), own[key]
            self.priority[row] = said if said is not None else self.priority[up] if up >= 0 else 0

    def row(self, account: str, user: str) -> int:
        """The row of a user in an account, which are added if need be; ``""``: nobody knows."""
        account = account or self._home.get(user, "")
        if (account, user) not in self._users:
            if account not in ("", ROOT) and account not in self._accounts:
                self._accounts[account] = self._add(account, -1, is_user=False)
            self._users[account, user] = self._add(user, self._accounts.get(account, -1), is_user=True)
        return self._users[account, user]

    def _add(self, name: str, parent: int, is_user: bool) -> int:
        tree: Associations = self.tree
        self.tree = from_columns(
            (*tree.name, name), np.append(tree.parent, parent), np.append(tree.shares, 1),
            np.append(tree.is_user, is_user),
        )  # fmt: skip
        self.priority = np.append(self.priority, self.priority[parent] if parent >= 0 else 0)
        return len(tree.name)
