"""Where a user's code is: the line that raised something, or the definition of a function; and what was raised."""

from __future__ import annotations

import inspect
import linecache
import os
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple

from unrack.errors import RunError, UnrackError

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
