"""What accounts and users have used so far, and a cluster in which that counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from unrack.units import SECOND_US


class Used(NamedTuple):
    """What was used until a time."""

    at_s: float  # s since 1970
    amounts: tuple[tuple[str, str, float], ...]  # account, user (``""``: by itself), and what it used, times seconds

    def until_us(self, origin_s: float) -> int:
        """The time by a clock that begins at ``origin_s``, µs."""
        return max(0, round((self.at_s - origin_s) * SECOND_US))


def counted(content: Mapping[str, Any], amounts: tuple[tuple[str, str, float], ...], until_us: int) -> dict[str, Any]:
    """The keys of a cluster file with accounts and users that have used that until a time, by the clock of its jobs."""
    site = content.get("site", {})
    if not amounts or "priority" not in site:
        return dict(content)
    used = {(account, user): amount for account, user, amount in amounts}
    accounts = []
    for one in site.get("accounts", ()):
        users: list[dict[str, Any]] = []
        for user in one.get("users", ()):
            keys = {"name": user} if isinstance(user, str) else user
            amount = used.get((one["name"], keys["name"]), 0.0)
            users.append({**keys, **({"usage": amount} if amount else {})})
        own = {"usage": used[one["name"], ""]} if (one["name"], "") in used else {}
        accounts.append({**one, **own, **({"users": users} if users else {})})
    priority = {**site["priority"], **({"used_until": until_us / SECOND_US} if until_us else {})}
    return {**content, "site": {**site, "accounts": accounts, "priority": priority}}
