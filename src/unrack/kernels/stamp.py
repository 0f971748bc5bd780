"""Which code a kernel is made of: what numba's kept machine code is held to.

Numba keeps the machine code of a function for as long as the file of that function is unchanged. A kernel is also made
of the functions that it calls and of the constants that it names, wherever they stand; if one of those changed in a
file of its own, the old machine code would go on running, with the old values. So what is kept here is held to all of
it, and to no file's date: a file that was only touched costs nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from hashlib import sha256
from types import CodeType, FunctionType, ModuleType
from typing import Any

from unrack.kernels import counting, parts, quick

_COMPILER = "".join(map(inspect.getsource, (counting, parts, quick))).encode()
"""What compiles kernels."""
PLAIN = int, float, complex, str, bytes, bool, type(None)


def stamp(function: FunctionType) -> str:
    """The code of a function and of all that it calls in this package, their constants, and how they are compiled."""
    digest = sha256(_COMPILER)
    for fact in _of_function(function, set()):
        digest.update(fact.encode() + b"\n")
    return digest.hexdigest()


def _of_function(function: FunctionType, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:
        yield f"again {function.__qualname__}"
        return
    seen.add(id(function))
    yield f"{function.__module__}.{function.__qualname__} {function.__defaults__}"
    names: dict[str, None] = {}
    yield from _of_code(function.__code__, names)
    cells = function.__closure__ or ()
    known = dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in cells), strict=True))
    for name in [*names, *known]:
        if name in known or name in function.__globals__:
            yield from _of_value(name, known.get(name, function.__globals__.get(name)), names, seen)


def _of_code(code: CodeType, names: dict[str, None]) -> Iterator[str]:
    names.update(dict.fromkeys(code.co_names))
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames}"
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _of_code(one, names)
        else:
            yield repr(sorted(map(repr, one)) if isinstance(one, frozenset) else one)


def _of_value(name: str, value: Any, names: dict[str, None], seen: set[int]) -> Iterator[str]:
    function = getattr(value, "py_func", value)
    if isinstance(function, FunctionType):
        yield from _of_function(function, seen)
    elif isinstance(value, ModuleType):
        if value.__name__.partition(".")[0] == __name__.partition(".")[0]:
            for attribute in names:
                if hasattr(value, attribute):
                    yield from _of_value(f"{name}.{attribute}", getattr(value, attribute), names, seen)
    elif isinstance(value, PLAIN):
        yield f"{name} = {value!r}"
    elif isinstance(value, tuple) or hasattr(value, "tobytes"):
        yield f"{name} = {value!r} {value.tobytes().hex() if hasattr(value, 'tobytes') else ''}"
    elif hasattr(value, "_fields"):
        yield f"{name} of {value._fields}"
