"""A user's own policy: one Python file that needs nothing but the public API."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from unrack.errors import PolicyError
from unrack.policy.complete import complete
from unrack.policy.contract import Policy
from unrack.policy.own.fault import in_words
from unrack.policy.own.members import at
from unrack.policy.own.source import definition, shown_path, users_line


class Source(NamedTuple):
    """A policy's file as it was read, for processes that may not see it.

    Attributes
    ----------
    path
        As it stands in ``FILE.py:NAME``.
    """

    path: str
    content: bytes


_taken: dict[str, bytes] = {}
"""Files that stand for those of the same path, in this process, for now."""


def source_of(spec: str) -> Source:
    """The file that ``FILE.py:NAME`` names."""
    path = _parted(spec)[0]
    return Source(path, Path(path).expanduser().read_bytes())


@contextmanager
def taking(source: Source | None) -> Iterator[None]:
    """Load policies from what was sent, and not from the file of that name."""
    if source is None:
        yield
        return
    _taken[source.path] = source.content
    try:
        yield
    finally:
        _taken.pop(source.path, None)


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
    found = getattr(module, name)
    if isinstance(found, ModuleType):
        raise PolicyError(f"{path_text}, {name}", "a module", "an object with a method decide(view, memory, now)")
    if isinstance(found, type) or (callable(found) and not hasattr(found, "decide")):
        found = _made(found, f"{path_text}, {name}")
    return complete(found, f"{path_text}, {name}")


def with_name(spec: str) -> str:
    """``FILE.py:NAME``, the name found in the file where only ``FILE.py`` is said.

    Raises
    ------
    PolicyError
        As :func:`load_policy`; the file has no policy, or several.
    """
    path_text, name = _parted(spec)
    return f"{path_text}:{name or _only_name(_module(path_text), path_text)}"


def is_file(spec: str) -> bool:
    """Whether a text names a file and not a built-in policy: ``FILE.py:NAME`` or ``FILE.py``."""
    return spec.endswith(".py") or spec.rpartition(":")[0].endswith(".py")


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
    """The file, run."""
    path = Path(path_text).expanduser()
    sent = _taken.get(path_text)
    if sent is None and not path.is_file():
        raise PolicyError("policy file", f"{path_text!r}, which is not there", "the path of a Python file")
    module_name = "unrack_policy_" + hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    module_spec = importlib.util.spec_from_file_location(module_name, path)
    if module_spec is None or module_spec.loader is None:
        raise PolicyError("policy file", repr(path_text), "the path of a Python file that ends in .py")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_name] = module
    try:
        if sent is None:
            module_spec.loader.exec_module(module)
        else:
            exec(compile(sent, str(path), "exec"), module.__dict__)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the user's file raises, SystemExit too, is the user's to see
        raise PolicyError(_with_line(path_text, error), in_words(error), "a file that Python can run") from error
    return module


def _with_line(where: str, error: BaseException) -> str:
    """Where an exception of a user's file came from, with the line where that is known."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{shown_path(error.filename)}, line {error.lineno}: {(error.text or '').strip()}"
    line = users_line(error.__traceback__)
    return where if line is None else f"{line.file}, line {line.number}: {line.text}"


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
        raise PolicyError(_with_line(f"{where}()", error), in_words(error), "a policy") from error
