"""A user's Python file: read, run, and sent to processes that may not see it; and where in it something failed."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import linecache
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any, NamedTuple

from unrack.errors import InputError, RunError, UnrackError

OURS = str(Path(__file__).parents[1]) + os.sep
"""The folder of the package."""
LIBRARIES = tuple({sysconfig.get_paths()[key] + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib")})
"""Folders of code that is neither ours nor the user's."""
GENERATED = ("<frozen", "<__array_function__", "<string>")


class FileLine(NamedTuple):
    """A line of a file."""

    file: str  # as the user would name it: relative to the working folder where it is below it
    number: int  # from 1
    function: str  # in which function it is, or which one it begins
    text: str  # the line itself; ``""``: not known

    def __str__(self) -> str:
        inside = f", in {self.function}" if self.function and not self.text.startswith(("def ", "class ")) else ""
        return f"{self.file}, line {self.number}{inside}" + (f": {self.text}" if self.text else "")


def in_words(error: BaseException) -> str:
    """What an exception says: our own speak for themselves, others go by their kind."""
    try:
        text = str(error)
    except Exception:  # an exception of a user's own, with a __str__ that fails
        text = "(which cannot be printed)"
    return text if isinstance(error, UnrackError) else f"{type(error).__name__}: {text}"


def shown_path(file: str) -> str:
    """A path as the user would name it."""
    below = os.path.relpath(file) if os.path.isabs(file) else file
    return file if below.startswith("..") else below


def is_users(file: str) -> bool:
    """Whether a file is neither ours nor a library's."""
    if file.startswith("<"):
        return not file.startswith(GENERATED)
    return not file.startswith((OURS, *LIBRARIES))


def line_of(file: str, number: int, function: str = "") -> FileLine:
    """A line of a file, read from it."""
    linecache.checkcache(file)
    return FileLine(shown_path(file), number, function, linecache.getline(file, number).strip())


def frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """The frames of a traceback, the outermost first, each with the line that it was at."""
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def users_line(trace: TracebackType | None, installed: bool = False) -> FileLine | None:
    """The last line of a traceback that is in a file of the user's; ``None``: there is none.

    ``installed``: the first line instead that is not in this package: of a policy that is a library itself.
    """
    every = [(frame, number, frame.f_code.co_filename) for frame, number in frames(trace)]
    if installed:
        own = [(frame, number) for frame, number, file in every if not file.startswith((OURS, "<"))][:1]
    else:
        own = [(frame, number) for frame, number, file in every if is_users(file)]
    if not own:
        return None
    frame, number = own[-1]
    return line_of(frame.f_code.co_filename, number, frame.f_code.co_name)


@contextmanager
def blamed(what: str) -> Iterator[None]:
    """Whatever the code of a plug-in raises within is a RunError that names it, and its line; our own errors pass."""
    try:
        yield
    except UnrackError:
        raise
    except Exception as error:
        line = users_line(error.__traceback__) or users_line(error.__traceback__, installed=True)
        raise RunError(f"{what} failed: {in_words(error)}" + ("" if line is None else f"\n  {line}")) from error


def code_of(function: Any) -> CodeType | None:
    """The code behind something that can be called; ``None``: it is not written in Python."""
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    found = getattr(getattr(function, "__func__", function), "__code__", None)
    if found is None and not isinstance(function, type) and callable(function):
        found = getattr(type(function).__call__, "__code__", None)
    return found if isinstance(found, CodeType) else None


def definition(function: Any) -> FileLine | None:
    """Where a function, a method or a class is defined; ``None``: not known."""
    if isinstance(function, type):
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            return None
        file = inspect.getsourcefile(function) or ""
        ahead = next((i for i, text in enumerate(lines) if text.lstrip().startswith("class ")), 0)
        return line_of(file, first + ahead, function.__name__)
    code = code_of(function)
    if code is None:
        return None
    line = line_of(code.co_filename, code.co_firstlineno, code.co_name)
    for number in range(code.co_firstlineno, code.co_firstlineno + 12):  # behind its decorators
        text = linecache.getline(code.co_filename, number).strip()
        if text.startswith(("def ", "async def ")) or "lambda" in text:
            return line._replace(number=number, text=text)
    return line


def is_own(function: Any) -> bool:
    """Whether a function, a method, a class or an object is not of this package."""
    home = getattr(function, "__module__", None) or type(function).__module__
    return str(home).split(".")[0] != "unrack"


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
