"""The members of a user's policy: what is missing, misspelt or takes other parameters, said before anything runs."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from typing import Any

from unrack.errors import PolicyError
from unrack.plugins.code import Line, definition, is_own
from unrack.policy.contract import Ability, Estimates, Traits
from unrack.vocabulary import Need

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "begin": ("view",),
    "decide": ("view", "memory", "now"),
    "next_round": ("view", "memory", "now"),
    "why": ("view", "memory", "job", "now"),
    "adjust": ("view", "memory", "used", "now"),
    "reserves_mb": ("view", "memory", "job", "asked_mb"),
    "promised": ("view", "memory"),
    "extends": ("view", "memory", "job", "now"),
    "expected_end_us": ("view", "memory", "job", "now"),
    "possible": ("cluster", "jobs"),
    "seeded": ("seed",),
    "terms": ("cluster",),
}
"""Methods of a policy → what they are given, in this order."""
ORDER = ("view", "queue", "now")
"""What an order is given."""
PLACES: Mapping[str, tuple[str, ...]] = {"ListScheduler": ("free", "total", "job"), "Placed": ("view", "job", "now")}
"""Classes of ours that take a placement of a user's → what it is given."""
CLOSE = 0.88
"""A name that is so like one of those above is taken for it."""


def at(where: str, line: Line | None) -> str:
    """Where something is wrong: what was asked for, and the line."""
    return where if line is None else f"{where} ({line.file}, line {line.number})"


def has_decide(found: object, where: str) -> None:
    """Refuse what decides nothing.

    A PolicyError if it has no ``decide`` to call; a name that is nearly that is pointed out.
    """
    if callable(getattr(found, "decide", None)):
        return
    kind = found if isinstance(found, type) else type(found)
    near = difflib.get_close_matches("decide", _own_names(found), 1, 0.6)
    got = f"{found!r:.100}" if type(found).__module__ == "builtins" else f"a {kind.__name__} without a method decide"
    hint = f" (it has {near[0]!r})" if near else ""
    want = "an object with a method decide(view, memory, now)"
    raise PolicyError(at(where, definition(kind)), f"{got}{hint}", want)


def check_members(found: object, where: str) -> None:
    """Refuse members that are misspelt, take other parameters than they are given, or are of another kind.

    A refusal is a PolicyError; it names the line.
    """
    known = {*PARAMETERS, "rounds", "round_story"}
    for name in _own_names(found):
        if name in known or not callable(getattr(found, name)):
            continue
        near = difflib.get_close_matches(name, PARAMETERS, 1, CLOSE)
        if near and not hasattr(found, near[0]):
            line = definition(getattr(found, name))
            raise PolicyError(
                at(where, line), f"a method {name!r}, which is never called", f"{near[0]!r}, or another name"
            )
    for name, given in PARAMETERS.items():
        member = getattr(found, name, None)
        if member is not None and (callable(member) or name != Ability.TERMS):  # flow has a field of that name
            takes(member, given, f"{where}, {name}")
    own = getattr(found, "traits", None)
    if own is not None and not isinstance(own, Traits):
        raise PolicyError(f"{where}, traits", f"{own!r:.100}", "Traits(…)")
    estimates = getattr(found, "estimates", Estimates.REQUESTED)
    if estimates not in tuple(Estimates):
        raise PolicyError(f"{where}, estimates", repr(estimates), f"one of {', '.join(Estimates)}")
    needs = getattr(found, "needs", ())
    if isinstance(needs, str) or not all(need in tuple(Need) for need in needs):
        raise PolicyError(f"{where}, needs", f"{needs!r:.100}", "a set of Need.DEADLINES, Need.USERS …")


def check_parts(found: object, where: str) -> None:
    """Refuse functions of a user's that a policy of ours calls with other parameters than they take.

    A refusal is a PolicyError; it names the line.
    """
    ours = {kind.__name__ for kind in type(found).__mro__ if not is_own(kind)} - {"object"}
    parts: dict[str, tuple[str, ...]] = {"order": ORDER, "backfill_order": ORDER} if ours else {}
    for name in sorted(ours & set(PLACES)):
        parts["place"] = PLACES[name]
    for part, given in parts.items():
        function = getattr(found, part, None)
        if callable(function) and is_own(function):
            takes(function, given, f"{where}, {part}")


def takes(function: Any, given: tuple[str, ...], where: str) -> None:
    """Refuse a function that cannot be called with so many arguments. A refusal is a PolicyError; it names the line."""
    if not callable(function):
        raise PolicyError(where, f"{function!r:.100}", f"a method ({', '.join(given)})")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of code that is not written in Python nothing is known
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        got = f"{name}{_names(signature)}: {error}"
        raise PolicyError(at(where, definition(function)), got, f"{name}({', '.join(given)})") from None


def _names(signature: inspect.Signature) -> str:
    return f"({', '.join(str(one.replace(annotation=one.empty)) for one in signature.parameters.values())})"


def _own_names(found: object) -> list[str]:
    """The public names of an object that are not from a class of ours."""
    kinds = [kind for kind in type(found).__mro__ if is_own(kind) and kind is not object]
    names = {name for kind in kinds for name in vars(kind)} | set(getattr(found, "__dict__", {}))
    return sorted(name for name in names if not name.startswith("_"))
