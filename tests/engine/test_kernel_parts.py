"""What only kernels call: the same results, and no machine code of its own."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import config, typeof
from numba.core.runtime import _nrt_python, rtsys

from unrack.jit import compiled, inlined
from unrack.kernels.parts import _PartLibrary
from unrack.kernels.structs import InKernels
from unrack.sealed import sealed

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")


@pytest.fixture(autouse=True)
def _optimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """As outside of tests."""
    monkeypatch.setattr(config, "OPT", type(config.OPT)(1))


@inlined
def double(values: np.ndarray, at: int) -> int:
    """Twice an entry, by a part that calls numpy itself."""
    return int(np.array([values[at], values[at]]).sum())


@inlined
def doubled_sum(values: np.ndarray) -> int:
    """A part of a part."""
    total = 0
    for i in range(values.shape[0]):
        total += double(values, i)
    return total


def test_a_kernel_runs_with_its_parts_and_they_alone_have_no_machine_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))  # a kernel that was kept brings no parts

    @compiled
    def kernel(values: np.ndarray) -> int:
        if values.shape[0] > 4:
            raise ValueError("too many")
        return doubled_sum(values) + double(values, 0)

    assert kernel(np.array([1, 2, 3])) == 14
    with pytest.raises(ValueError, match="too many"):
        kernel(np.arange(9))
    parts = [found for part in (double, doubled_sum) for found in part.overloads.values()]  # type: ignore[attr-defined]
    assert len(parts) == 2
    assert all(isinstance(found.library, _PartLibrary) for found in parts)
    assert all(found.library.get_pointer_to_function(found.fndesc.llvm_func_name) == 0 for found in parts)
    (whole,) = kernel.overloads.values()  # type: ignore[attr-defined]
    assert whole.library.get_pointer_to_function(whole.fndesc.llvm_func_name) != 0


@pytest.mark.parametrize("how", [inlined, compiled])
def test_what_kernels_call_is_compiled_once_for_constants_and_numbers_alike(
    how: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    @how
    def shifted(value: int, by: int) -> int:
        return value + by

    @compiled
    def kernel(value: int) -> int:
        return shifted(value, 1) + shifted(value, 2) + shifted(value, value)

    assert kernel(5) == 23
    assert len(shifted.overloads) == 1


def test_entries_count_from_the_front_but_for_negative_constants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(config, "BOUNDSCHECK", None)

    @compiled
    def between(values: np.ndarray, table: np.ndarray, first: int, last: int) -> int:
        total = values[-1] + table[-1, first] + table[first, 1:][-1]
        for i in range(first, last):
            values[i] += table[1, i]
            total += values[i] - table[0, i]
        return total

    values, table = np.array([5, 7, 11, 13]), np.arange(8).reshape(2, 4)
    assert between(values, table, 1, 3) == 13 + 5 + 7 + (7 + 5 - 1) + (11 + 6 - 2)
    assert values.tolist() == [5, 12, 17, 13]

    @compiled
    def total(values: np.ndarray, first: int, last: int) -> int:
        found = 0
        for i in range(first, last):
            found += values[i]
        return found

    assert total(values, 1, 3) == 29
    (code,) = total.inspect_llvm().values()  # type: ignore[attr-defined]
    own = next(one for one in code.split("\ndefine ")[1:] if "total" in one.partition("(")[0])
    assert own.count("%arg.values.5.0") == 1  # how long it is matters nowhere


LAYOUTS = {
    "C": lambda table: table.copy(),
    "F": np.asfortranarray,
    "strided": lambda table: np.repeat(np.repeat(table, 2, 0), 3, 1)[::2, ::3],
    "turned": lambda table: table.T.copy().T,
    "backward": lambda table: table[::-1, ::-1].copy()[::-1, ::-1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.float32, np.float64, np.bool_])
def test_entries_are_those_of_numpy(layout: str, dtype: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(config, "BOUNDSCHECK", None)

    def turned(table: np.ndarray, rows: np.ndarray, copy: np.ndarray) -> float:
        total = 0.0
        for i in range(rows.shape[0]):
            row = rows[i]
            for j in range(1, table.shape[1]):
                copy[j - 1, row] = table[row, j]
                total += 1.0 * table[row][j] * (i + 2 * j) + 1.0 * (table[rows[0], -1])
            for j in range(table.shape[1] - 1, -1, -2):
                table[row, j] = copy[j, row]
        for _ in range(3, 1):
            total += 1000.0
        for j in range(table.shape[1]):
            total += 1.0 * table[1][j] - 1.0 * table[0, :][j]
        return total

    start = (np.arange(12).reshape(3, 4) * 7 % 5).astype(dtype)
    results = []
    for run in (turned, compiled(turned)):
        table, copy = LAYOUTS[layout](start), LAYOUTS[layout](np.zeros((4, 3), dtype))
        found = run(table, np.array([2, 0, 1, 2], np.int32), copy)
        results.append((found, table.tolist(), copy.tolist()))
    assert results[0] == results[1]


def test_looked_at_closely_an_entry_before_the_first_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(config, "BOUNDSCHECK", 1)

    @compiled
    def entry(values: np.ndarray, at: int) -> int:
        return values[at]

    assert entry(np.array([3, 4]), 1) == 4
    for at in (-1, 2):
        with pytest.raises(IndexError):
            entry(np.array([3, 4]), at)


class _Columns(NamedTuple):
    left: np.ndarray
    right: np.ndarray


class Columns(InKernels, _Columns):
    """Two arrays as one thing."""


@inlined
def moved(columns: Any, pair: _Columns, by: int) -> int:
    """A part that is handed all that is not counted, and makes an array of its own."""
    made, total = np.empty(by, np.int64), 0
    for i in range(columns.left.shape[0]):
        made[i % by] = pair.right[i]
        columns.left[i] += made[i % by]
        total += columns.left[i]
    return total


@inlined
def first_of(values: np.ndarray, count: int) -> np.ndarray:
    """A part that returns what it was handed."""
    return values[:count]


def test_a_kernel_that_returns_no_array_counts_none_that_it_is_handed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    @compiled
    def total(columns: Any, pair: _Columns) -> int:
        result = 0
        for i in range(3):
            result += columns.left[i] + pair.right[i] + pair.left[0]
        return result

    columns = Columns(np.arange(3), np.arange(3) * 10)
    assert total(columns.kernel, _Columns(*columns)) == 33
    (machine_code,) = total.inspect_asm().values()  # type: ignore[attr-defined]
    assert "NRT_incref" not in machine_code


def test_no_kernel_is_compiled_again_for_a_copy_of_columns() -> None:
    columns = Columns(sealed(np.arange(3)), np.arange(3))
    copied = copy.deepcopy(columns)
    copied.right[0] = 7
    assert columns.right[0] == 0
    assert not np.shares_memory(copied.left, columns.left)
    assert typeof(copied.kernel) == typeof(columns.kernel)


class _Mixed(NamedTuple):
    yes: bool
    no: np.bool_
    inner: Any
    share: float
    small: np.ndarray
    late: bool
    count: int
    table: np.ndarray


class Mixed(InKernels, _Mixed):
    """All that stands in structs, one after the other."""


def test_each_field_of_a_struct_is_where_kernels_look_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    @compiled
    def seen(m: Any) -> float:
        flags = 1 * m.yes + 10 * m.no + 100 * m.late
        m.inner.left[1] += 1
        return flags + 1000 * m.count + m.share + m.small[2] + m.table[1, 2] + m.table.shape[1] + m.inner.right[1]

    inner = Columns(np.arange(3), np.array([0, 40]))
    table = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    mixed = Mixed(True, np.bool_(False), inner.kernel, 0.25, np.arange(3, dtype=np.uint8), True, -7, table)
    assert seen(mixed.kernel) == 101 - 7000 + 0.25 + 2 + 5 + 3 + 40
    assert inner.left.tolist() == [0, 2, 2]
    held = Mixed(False, np.bool_(True), Columns(np.arange(3), np.array([0, 2])).kernel, 0.5, *mixed[4:]).kernel
    assert [np.full(1_000, -1).sum() for _ in range(20)] == [-1_000] * 20  # what nobody holds is given to others
    assert seen(held) == 110 - 7000 + 0.5 + 2 + 5 + 3 + 2


def test_arrays_of_kernels_live_as_long_as_somebody_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    @compiled
    def half(values: np.ndarray) -> np.ndarray:
        return first_of(values, values.shape[0] // 2)

    @compiled
    def made(columns: Any, count: int) -> tuple[int, np.ndarray, np.ndarray]:
        fresh = first_of(first_of(np.arange(count), count - 1), count - 2)
        return moved(columns, _Columns(columns.left, fresh), 2), fresh, columns.right

    @compiled
    def looped(columns: Any, count: int) -> int:
        total, values = 0, columns.left
        for i in range(count):
            values = first_of(np.arange(i + 3), 3) if i % 2 else columns.left
            total += moved(columns, _Columns(values, values), i + 1) + values[2]
        return total

    counts = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    columns = Columns(np.zeros(3, np.int64), np.full(1_000, 7))
    assert half(np.arange(2_000)).sum() == 499_500
    before = rtsys.get_allocation_stats()
    for _ in range(200):
        tail = half(np.full(1_000, 5))
        number, fresh, right = made(columns.kernel, 5)
        trash = [np.full(1_000, -1) for _ in range(20)]
        assert tail.tolist() == [5] * 500
        assert fresh.tolist() == [0, 1, 2]
        del trash
    assert number == 3 * 200
    assert right.tolist() == [7] * 1_000
    small = Columns(np.zeros(3, np.int64), np.zeros(3, np.int64))
    left, expected = [0, 0, 0], 0
    for i in range(6):
        values = [0, 1, 2] if i % 2 else left
        for j in range(3):
            left[j] += values[j]
            expected += left[j]
        expected += values[2]
    assert looped(small.kernel, 6) == expected > 0
    del tail, fresh, right, columns, small
    after = rtsys.get_allocation_stats()
    if not counts:
        _nrt_python.memsys_disable_stats()
    assert after.alloc - after.free == pytest.approx(before.alloc - before.free, abs=8)


def test_a_kernel_that_is_not_optimised_is_kept_though_it_calls_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "OPT", type(config.OPT)(0))
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    @compiled
    def kernel(values: np.ndarray) -> int:
        return doubled_sum(values)

    assert kernel(np.array([1, 2, 3])) == 12
    assert len(list(tmp_path.rglob("*.nbc"))) == 1
