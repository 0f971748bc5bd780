"""Compiled kernels: ``@compiled`` is numba's ``njit`` with a cache, and typed.

Set ``NUMBA_DISABLE_JIT=1`` to run every kernel as plain Python (for coverage and debugging).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

try:
    import fcntl
except ImportError:  # not a POSIX system: every process compiles for itself
    fcntl = None  # type: ignore[assignment]

from numba import njit
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.types import unliteral

from unrack.kernels import cache
from unrack.kernels.arrays import Bools as Bools
from unrack.kernels.arrays import Floats as Floats
from unrack.kernels.arrays import Ints as Ints
from unrack.kernels.parts import KernelCompiler, PartCompiler
from unrack.kernels.quick import quickly
from unrack.kernels.stamp import stamp

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function on its first call; the machine code is kept on disk between processes.

    It is kept for as long as the code is the same, that of all functions that it calls too
    (:mod:`unrack.kernels.stamp`), where it can be (:mod:`unrack.kernels.cache`). Of several processes that need it at
    once, one compiles it, and the others wait for what it keeps.
    """
    kernel = njit(no_cfunc_wrapper=True, pipeline_class=KernelCompiler)(function)
    if isinstance(kernel, Dispatcher):  # not where compilation is off
        kernel._cache = cache.kept(kernel.py_func)
        compile_it = kernel.compile

        def compile_alone(signature: Any) -> Any:
            kept = getattr(kernel._cache, "_cache_file", None)
            if kept is not None:
                kept._source_stamp = stamp(kernel.py_func)
            with global_compiler_lock, quickly(), _alone(kernel):
                return compile_it(signature)  # looks on the disk first

        kernel.compile = compile_alone
        _for_any_value(kernel)
    return cast("Callable[P, R]", kernel)


def _for_any_value(kernel: Any) -> None:
    """Let a function be compiled for numbers and truth values as such, not once for each constant that it is given."""
    template = kernel.get_call_template

    def for_any_value(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return template(tuple(map(unliteral, args)), {key: unliteral(value) for key, value in dict(kws).items()})

    kernel.get_call_template = for_any_value


@contextmanager
def _alone(kernel: Any) -> Iterator[None]:
    """Let no other process compile a kernel meanwhile, where files can be locked."""
    try:
        folder = Path(kernel.stats.cache_path)
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / f"{kernel.__module__}.{kernel.__qualname__}.lock").open("w") if fcntl else None
    except (OSError, TypeError):  # nothing can be written there, or nothing is kept
        lock = None
    if lock is None:
        yield
        return
    with lock:  # closing it gives it up
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`compiled`, for small functions that only kernels call.

    It is compiled without an entry from Python, and only into the kernels that call it (:mod:`unrack.kernels.parts`).
    """
    kernel = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=PartCompiler)(function)
    if isinstance(kernel, Dispatcher):  # not where compilation is off
        _for_any_value(kernel)
    return cast("Callable[P, R]", kernel)


def plain(function: Callable[P, R]) -> Callable[P, R]:
    """The Python function of one that kernels call, to ask it once: no machine code is made for that."""
    return cast("Callable[P, R]", getattr(function, "py_func", function))


def melted(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`inlined`, but put into its callers' code: for small functions in hot loops that take many arrays.

    An array is seven numbers, all handed on otherwise: that may take longer than what such a function does.
    """
    return cast("Callable[P, R]", njit(inline="always", no_cpython_wrapper=True)(function))


class _Compiling(event.Listener):  # type: ignore[misc]
    """Tells when kernels begin (1) and end (-1) to be compiled, with all they call, in whatever package."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self.tell = tell
        self.depth = 0

    def on_start(self, event: Any) -> None:
        """A function is compiled; nothing on disk did for it."""
        self._change(event, 1)

    def on_end(self, event: Any) -> None:
        """It has been compiled."""
        self._change(event, -1)

    def _change(self, event: Any, by: int) -> None:
        compiler = getattr(event.data["dispatcher"], "_compiler", None)  # ``None``: of a block in objmode
        if compiler is not None and issubclass(compiler.pipeline_class, KernelCompiler):
            self.depth += by
            if self.depth == max(by, 0):
                self.tell(by)


def on_first_compile(tell: Callable[[], None]) -> None:
    """Call ``tell`` when this process first compiles a kernel, as no machine code of it is kept yet."""
    once = functools.cache(tell)
    event.register("numba:compile", _Compiling(lambda _: once()))


def telling_of_each(tell: Callable[[int], None]) -> AbstractContextManager[None]:
    """Call ``tell`` with 1 when this process begins to compile a kernel, and with -1 at its end, within the context."""
    return cast("AbstractContextManager[None]", event.install_listener("numba:compile", _Compiling(tell)))
