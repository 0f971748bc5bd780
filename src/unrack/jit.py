"""Compiled kernels: ``@compiled`` is numba's ``njit`` with a cache, and typed.

Set ``NUMBA_DISABLE_JIT=1`` to run every kernel as plain Python (for coverage and debugging).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function on its first call; the machine code is kept on disk between processes."""
    return cast("Callable[P, R]", numba.njit(cache=True)(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`compiled`, for small functions that only kernels call."""
    return cast("Callable[P, R]", numba.njit(inline="never")(function))
