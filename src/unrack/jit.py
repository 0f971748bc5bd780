"""Compiled kernels: ``@compiled`` is numba's ``njit`` with a cache, and typed.

Set ``NUMBA_DISABLE_JIT=1`` to run every kernel as plain Python (for coverage and debugging).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core import types
from numba.core.dispatcher import Dispatcher

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function on its first call; the machine code is kept on disk between processes."""
    return cast("Callable[P, R]", numba.njit(cache=True)(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`compiled`, for small functions that only kernels call.

    It is compiled once for whole numbers and truth values as such, not once for every constant that it is called with,
    and without an entry from Python: both halve the time of a first use.
    """
    kernel: Any = numba.njit(no_cpython_wrapper=True)(function)
    if isinstance(kernel, Dispatcher):  # not where compilation is off
        template = kernel.get_call_template

        def for_any_value(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            return template(tuple(map(types.unliteral, args)), {key: types.unliteral(kws[key]) for key in kws})

        kernel.get_call_template = for_any_value
    return cast("Callable[P, R]", kernel)
