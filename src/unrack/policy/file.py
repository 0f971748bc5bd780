"""A user's own policy: one Python file that needs nothing but the public API.

A policy that only decides is accepted: what it leaves out gets a plain default, what it answers is looked at.
"""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any

from unrack.errors import PolicyError
from unrack.ledger.jobs import Promises
from unrack.plugins import code
from unrack.plugins.code import PluginFile, definition, in_words, is_own
from unrack.policy.around import traits_of
from unrack.policy.contract import Ability, Decision, Policy, Traits
from unrack.policy.discipline.list_scheduler import short_of
from unrack.policy.own.answers import Answers
from unrack.policy.own.fault import at, check_members, check_parts, has_decide
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


def source_of(spec: str) -> PluginFile:
    """The file that ``FILE.py:NAME`` names."""
    return code.source_of(_parted(spec)[0])


def load_policy(spec: str) -> Policy[Any]:
    """The policy that ``FILE.py:NAME`` names: an object, or a class or function that makes one when called bare.

    Of a file with a single policy the name may be left out.

    Raises
    ------
    PolicyError
        The file cannot be read or run, or NAME is not a policy.
    """
    path_text, name = _parted(spec)
    module = _module(path_text)
    name = name or _only_name(module, path_text)
    if not hasattr(module, name):
        there = ", ".join(_names(module)) or ", ".join(key for key in vars(module) if not key.startswith("_"))
        raise PolicyError(path_text, f"no {name!r} in it", f"one of the names it defines: {there}")
    return policy_of(getattr(module, name), f"{path_text}, {name}")


def policy_of(found: Any, where: str) -> Policy[Any]:
    """The policy that an object of a user's is, or makes when it is called bare. A PolicyError if it is none."""
    if isinstance(found, ModuleType):
        raise PolicyError(where, "a module", "an object with a method decide(view, memory, now)")
    if isinstance(found, type) or (callable(found) and not hasattr(found, "decide")):
        found = _made(found, where)
    return complete(found, where)


def with_name(spec: str) -> str:
    """``FILE.py:NAME``, the name found in the file where only ``FILE.py`` is said.

    Errors as of :func:`load_policy`; the file has no policy, or several.
    """
    path_text, name = _parted(spec)
    return f"{path_text}:{name or _only_name(_module(path_text), path_text)}"


def source_digest(spec: str) -> str:
    """SHA-256 of the file that ``FILE.py:NAME`` names."""
    return hashlib.sha256(source_of(spec).content).hexdigest()


def _parted(spec: str) -> tuple[str, str]:
    """The path, and the name or ``""``."""
    if spec.endswith(".py"):
        return spec, ""
    path_text, colon, name = spec.rpartition(":")
    if not colon or not path_text or not name.isidentifier():
        raise PolicyError("policy file", repr(spec), "FILE.py:NAME")
    return path_text, name


def _module(path_text: str) -> ModuleType:
    return code.run_file(path_text, "policy file", PolicyError)


def _names(module: ModuleType) -> list[str]:
    """The policies that a file defines: objects with ``decide``, and classes of its own of which it has no object."""
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    objects = [n for n, value in public.items() if hasattr(value, "decide") and not isinstance(value, type)]
    made = {type(public[name]) for name in objects}
    classes = [
        name
        for name, value in public.items()
        if isinstance(value, type)
        and hasattr(value, "decide")
        and value.__module__ == module.__name__
        and value not in made
    ]
    return [*classes, *(name for name in objects if not isinstance(public[name], ModuleType))]


def _only_name(module: ModuleType, path_text: str) -> str:
    names = _names(module)
    if len(names) == 1:
        return names[0]
    if not names:
        raise PolicyError(path_text, "a file without a policy", "a class or an object with decide(view, memory, now)")
    raise PolicyError(path_text, f"{len(names)} policies and no name", " or ".join(f"{path_text}:{n}" for n in names))


def _made(maker: Any, where: str) -> Any:
    """What a class or a function makes when it is called bare."""
    try:
        missing = [
            one.name
            for one in inspect.signature(maker).parameters.values()
            if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        ]
    except (TypeError, ValueError):  # not written in Python
        missing = []
    if missing:
        words, values = ", ".join(missing), ", ".join(f"{name}=…" for name in missing)
        name = where.rpartition(", ")[2]
        got = f"{name} without {words}, which it needs"
        want = f"defaults for them, or an object with a name of its own: MINE = {name}({values})"
        raise PolicyError(at(where, definition(maker)), got, want)
    try:
        return maker()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the same
        raise PolicyError(code.with_line(f"{where}()", error), in_words(error), "a policy") from error
