"""What is left out when kernels are compiled: it changes no answer, and holds for kernels alone."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import event, ir

from unrack.jit import compiled, inlined, melted, telling_of_each
from unrack.kernels import quick
from unrack.kernels.quick import quickly

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


def _state() -> tuple[object, ...]:
    replaced = [getattr(owner, name) for owner, name, _ in quick._QUICK]
    return numba.config.OPT, gc.isenabled(), *replaced


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


@melted
def _twice(value: int) -> int:
    more = value
    while more < 2 * value:
        more += 1
    return more


@melted
def _four_times(value: int) -> int:
    return _twice(_twice(value)) + 0 * _twice(1)


def _of_melted(values: Any) -> int:
    return _four_times(values[0]) * 100 + _four_times(values[2]) + _twice(values[1])


def _by_dictionary(values: Any) -> int:
    table = {1: 2, 3: 4}
    table[5] = len(values)
    return table[1] + table[values[0]] * 10 + table[5] * 100


@pytest.mark.parametrize(
    "function",
    [_sum_of_generated, _comprehended, _with_function, _of_whole_arrays, _with_none, _by_constants, _by_dictionary],
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


def test_what_is_put_into_callers_is_compiled_as_before() -> None:
    assert compiled(_of_melted)(np.array([3, 1, 4])) == 1218


def test_a_kernel_compiled_within_another_leaves_the_rest_as_quick() -> None:
    before = _state()
    with quickly():
        within = _state()
        assert within != before
        with quickly():
            assert _state() == within
        assert _state() == within
    assert _state() == before


def test_the_variables_of_a_statement_are_those_that_numba_finds() -> None:
    at = ir.Loc("here", 1)
    scope = ir.Scope(None, at)
    one, two, three, four = (ir.Var(scope, name, at) for name in "abcd")
    call = ir.Expr.call(one, (two, three), (("key", four),), at, vararg=two)
    for inst in (ir.Assign(call, one, at), ir.SetItem(one, two, three, at), ir.Return(four, at), ir.Del("a", at), call):
        found = sorted(var.name for var in inst.list_vars())
        with quickly():
            assert sorted(var.name for var in inst.list_vars()) == found


def test_listeners_are_told_of_kernels_that_are_compiled_and_not_of_locks() -> None:
    with event.install_recorder("numba:compile") as told, event.install_recorder("numba:compiler_lock") as locked:
        with quickly(), event.trigger_event("numba:compile"):
            event.start_event("numba:compiler_lock")
        assert [each.is_start for _, each in told.buffer] == [True, False]
        assert not locked.buffer
        event.start_event("numba:compiler_lock")
        assert len(locked.buffer) == 1


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
    told = list[int]()
    with telling_of_each(told.append):
        assert others(np.arange(4)) == 6
    assert not told
