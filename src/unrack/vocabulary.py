"""The words in which traces, clusters and policies say what they have, need and place."""

from __future__ import annotations

from enum import StrEnum


class Need(StrEnum):
    """What a trace says of jobs, a cluster has, or a policy needs, looks at or places: one word each."""

    REQUESTS = "request"
    DEADLINES = "deadline"
    PRIORITIES = "priority"
    USERS = "user"
    ACCOUNTS = "account"
    APPS = "app"
    MEMORY = "memory"
    LOANS = "loans"
    DEVICES = "devices"
    TIERS = "tiers"
    COUNTED = "counted"
    RACKS = "racks"

    @property
    def words(self) -> str:
        """For sentences: "requested run times"."""
        return WORDS[self]


WORDS = {
    Need.REQUESTS: "requested run times", Need.DEADLINES: "deadlines", Need.PRIORITIES: "priorities",
    Need.USERS: "users", Need.ACCOUNTS: "accounts", Need.APPS: "applications", Need.MEMORY: "memory",
    Need.LOANS: "memory of other nodes", Need.DEVICES: "devices", Need.TIERS: "tiers of memory",
    Need.COUNTED: "what is counted", Need.RACKS: "racks",
}  # fmt: skip
