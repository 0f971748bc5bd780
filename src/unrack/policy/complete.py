"""Accept a policy that only decides: what it leaves out gets a plain default, what it answers is looked at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from unrack.errors import PolicyError
from unrack.ledger.promises import Promises
from unrack.plugins.code import is_own
from unrack.policy.around.around import traits_of
from unrack.policy.contract import Ability, Decision, Policy, Traits
from unrack.policy.discipline.list_scheduler import short_of
from unrack.policy.own.answers import Answers
from unrack.policy.own.fault import check_members, check_parts, has_decide
from unrack.reasons import Code, Reason
from unrack.view import View

BY_THE_WORLD = (
    "no such parameter: how fast jobs run is the world's, whatever the policy; models and contention are keys of a "
    'study (arguments of simulate), and an entry of its policies such as { name = "first-fit", world = "base" } is '
    "run without them"
)
"""The message for code that looks for the world in a policy."""


@dataclass(frozen=True)
class Completed:
    """A policy around an object of a user's that has ``decide`` and may lack other parts of the contract.

    Defaults: named after its class; traits as its own members say (:func:`traits_of`); no memory (``None``); asked on
    events; a job waits for lack of room, or because the policy has passed it over. All else that the object has, such
    as ``possible``, is found on the adapter too; what the object lacks, the adapter lacks. Answers that are none raise
    a :class:`unrack.errors.FaultyPolicyError`, which says what was got and what was wanted.
    """

    inner: Any

    @property
    def name(self) -> str:
        """Its own name, or that of its class."""
        return str(getattr(self.inner, "name", type(self.inner).__name__))

    @cached_property
    def traits(self) -> Traits:
        """Its own traits, or what its members say; and which of the optional methods the object itself was given."""
        own, given = traits_of(self.inner), getattr(self.inner, "__dict__", {})
        return replace(own, does=own.does | {ability for ability in Ability if callable(given.get(ability))})

    def __getattr__(self, member: str) -> Any:
        """What else the object has: the optional members of the contract."""
        if member == "inner" or member.startswith("__"):  # asked while the adapter is copied or pickled
            raise AttributeError(member)
        found = getattr(self.inner, member)
        if member == "adjust":
            return self._adjust
        if member == "promised":
            return self._promised
        return self._seeded if member == "seeded" else found

    @cached_property
    def _answers(self) -> Answers:
        return Answers(self.name)

    def _seeded(self, seed: int) -> Policy[Any]:
        return complete(self.inner.seeded(seed), f"policy {self.name}, seeded({seed})")

    def _adjust(self, view: View, memory: Any, used: Any, now: int) -> tuple[list[Decision], Any]:
        return self._answers.plan(self.inner.adjust, self.inner.adjust(view, memory, used, now), view, now)

    def _promised(self, view: View, memory: Any) -> Promises:
        return self._answers.promises(self.inner.promised, self.inner.promised(view, memory), view)

    def inside(self, memory: Any) -> tuple[object, Any]:
        """The object and its memory: it may be able to tell its rounds."""
        return self.inner, memory

    def begin(self, view: View) -> Any:
        """Its own memory, or ``None``."""
        if not hasattr(self.inner, "begin"):
            return None
        return self._answers.memory(self.inner.begin, self.inner.begin(view), view)

    def decide(self, view: View, memory: Any, now: int) -> tuple[list[Decision], Any]:
        """Its own decisions. A FaultyPolicyError if what it returns is not a pair of decisions and memory."""
        return self._answers.plan(self.inner.decide, self.inner.decide(view, memory, now), view, now)

    def next_round(self, view: View, memory: Any, now: int) -> int | None:
        """Its own wish, or ``None``."""
        if not hasattr(self.inner, "next_round"):
            return None
        return self._answers.time(self.inner.next_round, self.inner.next_round(view, memory, now), view, now)

    def why(self, view: View, memory: Any, job: int, now: int) -> Reason:
        """Its own reason, or whether there is room."""
        if hasattr(self.inner, "why"):
            return self._answers.reason(self.inner.why, self.inner.why(view, memory, job, now), view, now)
        return short_of(view, job, self.traits.whole_nodes) or Reason(Code.BEHIND, "passed over by the policy")


def complete(found: object, where: str) -> Policy[Any]:
    """The object itself if its ``decide`` is one of ours, else the object with defaults for what it lacks.

    A PolicyError if it has no ``decide`` to call, a member that is misspelt or takes other parameters than it is given,
    or a field ``models``, which would not do anything.
    """
    if hasattr(found, "models"):
        raise PolicyError(f"{where}, models", repr(found.models), BY_THE_WORLD)
    if isinstance(found, Completed):
        return found
    has_decide(found, where)
    check_parts(found, where)
    if isinstance(found, Policy) and not is_own(found.decide):
        return found
    check_members(found, where)
    return Completed(found)
