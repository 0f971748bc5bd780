"""A Python file of a user's: read, run, and sent to processes that may not see it."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from unrack.errors import InputError
from unrack.plugins.code import in_words, shown_path, users_line


class PluginFile(NamedTuple):
    """A file as it was read, for processes that may not see it; ``path`` is as the user wrote it."""

    path: str
    content: bytes


_taken: dict[str, bytes] = {}
"""Files that stand for those of the same path, in this process, for now."""
_ran: dict[str, PluginFile] = {}
"""Modules that were run once → their files."""


def source_of(path: str) -> PluginFile:
    """The file at a path, or what stands for it; an OSError if it cannot be read."""
    return PluginFile(path, _taken[path] if path in _taken else Path(path).expanduser().read_bytes())


@contextmanager
def taking(sources: Iterable[PluginFile]) -> Iterator[None]:
    """Run what was sent, and not the files of these names."""
    sent = dict(sources)
    _taken.update(sent)
    try:
        yield
    finally:
        for path in sent:
            _taken.pop(path, None)


def is_file(text: str) -> bool:
    """Whether a text names a Python file: ``FILE.py:NAME`` or ``FILE.py``."""
    return text.endswith(".py") or text.rpartition(":")[0].endswith(".py")


def run_file(path_text: str, what: str, error: type[InputError]) -> ModuleType:
    """The module that a file makes when it is run, anew at every call.

    ``what``: what messages call it, ``"policy file"``; ``error``: raised if it is not there, or raises something when
    it is run.
    """
    name = "unrack_policy_" + hashlib.sha256(str(Path(path_text).expanduser().resolve()).encode()).hexdigest()[:12]
    return _run(path_text, name, what, error)


def run_once(path_text: str, what: str, error: type[InputError]) -> ModuleType:
    """As :func:`run_file`, but a file that has not changed is run once in a process."""
    try:
        source = source_of(path_text)
    except OSError:
        raise _not_there(path_text, what, error) from None
    name = "unrack_plugin_" + hashlib.sha256(b"\0".join((path_text.encode(), source.content))).hexdigest()[:16]
    if name not in _ran:
        _run(path_text, name, what, error)
        _ran[name] = source
    return sys.modules[name]


def _not_there(path_text: str, what: str, error: type[InputError]) -> InputError:
    return error(what, f"{path_text!r}, which is not there", "the path of a Python file")


def _run(path_text: str, module_name: str, what: str, kind: type[InputError]) -> ModuleType:
    path = Path(path_text).expanduser()
    sent = _taken.get(path_text)
    if sent is None and not path.is_file():
        raise _not_there(path_text, what, kind)
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise kind(what, repr(path_text), "the path of a Python file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        if sent is None:
            spec.loader.exec_module(module)
        else:
            exec(compile(sent, str(path), "exec"), module.__dict__)
    except BaseException as error:  # whatever the user's file raises, SystemExit too, is the user's to see
        del sys.modules[module_name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise kind(with_line(path_text, error), in_words(error), "a file that Python can run") from error
    return module


def with_line(where: str, error: BaseException) -> str:
    """Where an exception of a user's file came from, with the line where that is known."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{shown_path(error.filename)}, line {error.lineno}: {(error.text or '').strip()}"
    line = users_line(error.__traceback__)
    return where if line is None else f"{line.file}, line {line.number}: {line.text}"


def carried(thing: object) -> Any:
    """How a class of a file that was run once is pickled: with its file; ``NotImplemented``: as any other.

    For ``reducer_override`` of picklers with pickles that go to processes that have not run the file.
    """
    if isinstance(thing, type) and thing.__module__ in _ran:
        return _class_of, (_ran[thing.__module__], thing.__qualname__)
    return NotImplemented


def _class_of(source: PluginFile, name: str) -> Any:
    with taking([source]):
        return attrgetter(name)(run_once(source.path, "plug-in", InputError))
