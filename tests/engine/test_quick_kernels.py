"""What is left out when kernels are compiled: it changes no answer, and holds for kernels alone."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numba.core.postproc as postproc
import numpy as np
import pytest
from numba.core.types.functions import Function

from unrack.jit import compiled, inlined
from unrack.kernels.quick import quickly

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


def _state() -> tuple[object, ...]:
    return numba.config.OPT, postproc.PostProcessor.run, Function.get_call_type, gc.isenabled()


@inlined
def _each(values: Any) -> Iterator[int]:
    for i in range(len(values)):
        if values[i] > 1:
            yield values[i]


def _sum_of_generated(values: Any) -> int:
    total = 0
    for value in _each(values):
        total += value
    return total


def _comprehended(values: Any) -> int:
    twice = np.array([2 * value for value in values])
    return int(twice.sum() + len([value for value in values if value > 1]))


def _with_function(values: Any) -> int:
    def more(value: int) -> int:
        return value + 10

    total = 0
    for value in values:
        total += more(value)
    return total


def _of_whole_arrays(values: Any) -> int:
    return int((values * values + -values)[1:].sum() + np.maximum(values, 2).sum() + np.array([4, 5, 6]).sum())


def _with_none(values: Any, also: Any = None) -> int:
    last = -1
    for i, value in enumerate(values):
        if also is None and value > 1:
            last = i
    return last


def _by_constants(values: Any) -> int:
    table = np.zeros((3, 2), np.int64)
    table[0, 1], table[2, 0] = len(values), values[-1]
    both = (table[0, 1], table[2, 0])
    return both[0] * 100 + both[1]


@pytest.mark.parametrize(
    "function", [_sum_of_generated, _comprehended, _with_function, _of_whole_arrays, _with_none, _by_constants]
)
def test_what_functions_may_hold_is_compiled_as_before(function: Callable[[Any], int]) -> None:
    values = np.array([3, 1, 4, 1, 5])
    before = _state()
    usual = numba.njit(getattr(function, "py_func", function))
    if function is not _sum_of_generated:
        assert compiled(function)(values) == function(values) == usual(values)
    else:
        assert compiled(function)(values) == 12
    assert _state() == before


def test_a_kernel_compiled_within_another_leaves_the_rest_as_quick() -> None:
    before = _state()
    with quickly():
        within = _state()
        assert within != before
        with quickly():
            assert _state() == within
        assert _state() == within
    assert _state() == before


def test_a_kernel_that_cannot_be_compiled_leaves_numba_and_the_collector_as_they_were() -> None:
    def wrong(values: Any) -> Any:
        return values.no_such_thing

    before = _state()
    with pytest.raises(numba.TypingError, match="no_such_thing"):
        compiled(wrong)(np.arange(3))
    assert _state() == before
    gc.disable()
    try:
        with pytest.raises(numba.TypingError):
            compiled(wrong)(np.arange(3))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_functions_that_others_compile_meanwhile_are_compiled_by_numba_itself() -> None:
    @numba.njit  # type: ignore[untyped-decorator]
    def others(values: Any) -> int:
        with numba.objmode(total="int64"):
            total = sum(values.tolist())
        return int(total)

    compiled(_by_constants)(np.arange(4))
    assert others(np.arange(4)) == 6
