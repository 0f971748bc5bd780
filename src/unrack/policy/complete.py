"""Accept a policy that only decides: what it leaves out gets a plain default."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from unrack.errors import PolicyError
from unrack.policy.contract import Decision, Policy, Traits
from unrack.policy.discipline.list_scheduler import short_of
from unrack.policy.members import traits_of
from unrack.reasons import Code, Reason
from unrack.view import View

BY_THE_WORLD = (
    "no such parameter: how fast jobs run is the world's, whatever the policy; models and contention are keys of a "
    'study (arguments of simulate), and an entry of its policies such as { name = "first-fit", world = "base" } is '
    "run without them"
)
"""What is said to whoever looks for the world in a policy."""


@dataclass(frozen=True)
class Completed:
    """A policy around an object that has ``decide`` and lacks other parts of the contract.

    Defaults: named after its class; traits as its own members say (:func:`traits_of`); no memory (``None``); asked on
    events; a job waits for lack of room, or because the policy has passed it over. All else that the object has, such
    as ``possible``, is found on the adapter too; what the object lacks, the adapter lacks.
    """

    inner: Any

    @property
    def name(self) -> str:
        """Its own name, or that of its class."""
        return str(getattr(self.inner, "name", type(self.inner).__name__))

    @cached_property
    def traits(self) -> Traits:
        """Its own traits, or what its members say."""
        return traits_of(self.inner)

    def __getattr__(self, member: str) -> Any:
        """What else the object has: the optional members of the contract."""
        if member == "inner" or member.startswith("__"):  # asked while the adapter is copied or pickled
            raise AttributeError(member)
        found = getattr(self.inner, member)
        return self._seeded if member == "seeded" else found

    def _seeded(self, seed: int) -> Policy[Any]:
        """The object's copy with a seed, completed as well."""
        return complete(self.inner.seeded(seed), f"policy {self.name}, seeded({seed})")

    def begin(self, view: View) -> Any:
        """Its own memory, or ``None``."""
        return self.inner.begin(view) if hasattr(self.inner, "begin") else None

    def decide(self, view: View, memory: Any, now: int) -> tuple[list[Decision], Any]:
        """Its own decisions.

        Raises
        ------
        PolicyError
            What it returns is not a pair of decisions and memory.
        """
        answer = self.inner.decide(view, memory, now)
        if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], list)):
            raise PolicyError(f"policy {self.name}, decide", f"{answer!r:.100}", "a pair: a list of decisions, memory")
        return answer

    def next_round(self, view: View, memory: Any, now: int) -> int | None:
        """Its own wish, or ``None``."""
        if not hasattr(self.inner, "next_round"):
            return None
        wanted: int | None = self.inner.next_round(view, memory, now)
        return wanted

    def why(self, view: View, memory: Any, job: int, now: int) -> Reason:
        """Its own reason, or whether there is room."""
        if hasattr(self.inner, "why"):
            own: Reason = self.inner.why(view, memory, job, now)
            return own
        return short_of(view, job, self.traits.whole_nodes) or Reason(Code.BEHIND, "passed over by the policy")


def complete(found: object, where: str) -> Policy[Any]:
    """The object itself if it keeps the whole contract, else the object with defaults for what it lacks.

    Raises
    ------
    PolicyError
        It has no ``decide`` to call, or a field ``models``, which would not do anything.
    """
    if hasattr(found, "models"):
        raise PolicyError(f"{where}, models", repr(found.models), BY_THE_WORLD)
    if isinstance(found, Policy):
        return found
    if not callable(getattr(found, "decide", None)):
        raise PolicyError(where, f"{found!r:.100}", "an object with a method decide(view, memory, now)")
    return Completed(found)
