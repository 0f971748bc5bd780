"""A user's own policy: one Python file that needs nothing but the public API."""

from __future__ import annotations

import hashlib
import inspect
from types import ModuleType
from typing import Any

from unrack.errors import PolicyError
from unrack.plugins import file
from unrack.plugins.code import definition, in_words
from unrack.plugins.file import PluginFile
from unrack.policy.complete import complete
from unrack.policy.contract import Policy
from unrack.policy.own.fault import at


def source_of(spec: str) -> PluginFile:
    """The file that ``FILE.py:NAME`` names."""
    return file.source_of(_parted(spec)[0])


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
    return file.run_file(path_text, "policy file", PolicyError)


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
    """The name of the only policy of a file."""
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
        raise PolicyError(file.with_line(f"{where}()", error), in_words(error), "a policy") from error
