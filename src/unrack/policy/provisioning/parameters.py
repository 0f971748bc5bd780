"""Parameters that any policy with memory of its own jobs takes: whether memory follows use, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unrack.errors import PolicyError
from unrack.policy.contract import Policy
from unrack.policy.members import traits_of
from unrack.policy.parameters import Parameter, count, duration, number, one_of, yes
from unrack.policy.provisioning.dynamic import RESTARTS, STOPS, Dynamic

PREFIX = "provisioning."
"""Begins the fields of these parameters: they are not the policy's own."""
STATIC, DYNAMIC = "static", "dynamic"


part = number(0, 1, "a share from 0 to 1")
band = number(0, 10, "a share of what is used, from 0 to 10, such as 0.1")


def _own(field: str, read: Any, default: str, words: str) -> Parameter:
    return Parameter(PREFIX + field, read, default, words)


PROVISIONING = {
    "provisioning": _own(
        "how", one_of((STATIC, DYNAMIC)), STATIC,
        "static: a job holds the memory that it asks until it ends; dynamic: its memory follows what it uses",
    ),
    "monitor": _own("monitor_us", duration, "5 min", "of dynamic: how often use is looked at"),
    "band": _own("band", band, "0", "of dynamic: a job keeps so much more than it uses, as a share of that"),
    "keep": _own(
        "keep", part, "0",
        "of dynamic: the share of its request that a job never gives back; requests exceed memory 1/keep times at most",
    ),
    "initial": _own("initial", part, "1", "of dynamic: the share of its request that a job starts with"),
    "admit": _own(
        "admit", part, "request",
        "of dynamic: start with this quantile of what the user's past jobs used of their requests, such as 0.9",
    ),
    "pull": _own("pull", yes, "no", "of dynamic: remote memory moves back where it is used as soon as there is room"),
    "headroom": _own(
        "headroom", part, "0", "of dynamic: the share of all memory that starts leave free, for jobs that grow"
    ),
    "stop": _own("stop", one_of(STOPS), "grower",
                 "of dynamic: which job is stopped when memory ends: " + ", ".join(STOPS)),
    "restart": _own(
        "restart", one_of(RESTARTS), "fail",
        "of dynamic: fail: a stopped job begins again; checkpoint: it goes on from the last checkpoint",
    ),
    "reserve_after": _own(
        "reserve_after", count, "3", "of dynamic: after so many stops a job keeps the most that it was seen to need"
    ),
}  # fmt: skip


def provisioned(policy: Policy[Any], values: Mapping[str, object], where: str, label: str) -> Policy[Any]:
    """The policy with memory that follows use, if the values (field → value) say so.

    A PolicyError if they say how, and that memory does not follow use; or memory is on tiers.
    """
    own: dict[str, Any] = {field.removeprefix(PREFIX): value for field, value in values.items()}
    if own.pop("how", STATIC) == DYNAMIC:
        if traits_of(policy).tiers:
            raise PolicyError(f"{where}, provisioning", "dynamic on tiers of memory", "static, or memory=own or lent")
        return Dynamic(policy, label=label, **own)
    if own:
        key = next(key for key, one in PROVISIONING.items() if one.field == PREFIX + next(iter(own)))
        raise PolicyError(f"{where}, {key}", f"it beside provisioning={STATIC}", f"provisioning={DYNAMIC}")
    return policy
