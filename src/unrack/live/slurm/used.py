"""What accounts and users have used so far, as ``sshare`` says it, and a cluster in which that counts."""

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


def used_by(printed: str, at_s: float) -> Used:
    r"""What ``sshare --all --parsable2 --noheader --format=Account,User,RawUsage`` prints; odd lines are left out.

    An account used by itself what none of its users and accounts below used: that of users who are gone.

    Examples
    --------
    >>> used_by("root||100\n phys||90\n  phys|ann|60\n  phys|bob|10\n chem||10\n  chem|cy|10", 5.0).amounts
    (('phys', 'ann', 60.0), ('phys', 'bob', 10.0), ('chem', 'cy', 10.0), ('phys', '', 20.0))
    """
    users: list[tuple[str, str, float]] = []
    left, above = dict[str, float](), list[tuple[int, str]]()
    for line in printed.split("\n"):
        fields = line.split("|")
        if len(fields) != 3 or not (fields[2].isascii() and fields[2].isdigit() and len(fields[2]) < 18):
            continue
        account, user, amount = fields[0].strip().lower(), fields[1].strip(), float(fields[2])
        depth = len(fields[0]) - len(fields[0].lstrip())
        while above and above[-1][0] >= depth:
            above.pop()
        if user:
            users.append((account, user, amount))
            if account in left:
                left[account] -= amount
            continue
        if above:
            left[above[-1][1]] -= amount
        above.append((depth, account))
        left[account] = amount
    left.pop("root", None)
    return Used(at_s, (*users, *((account, "", amount) for account, amount in left.items() if amount > 0)))


def counted(content: Mapping[str, Any], amounts: tuple[tuple[str, str, float], ...], until_us: int) -> dict[str, Any]:
    """The keys of a cluster file whose accounts and users have used that until a time, by the clock of its jobs."""
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
