"""What only kernels call: the same results, and no machine code of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numba import config

from unrack.jit import compiled, inlined
from unrack.kernels.parts import _PartLibrary

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")


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


def test_a_part_is_compiled_once_for_constants_and_numbers_alike() -> None:
    @inlined
    def shifted(value: int, by: int) -> int:
        return value + by

    @compiled
    def kernel(value: int) -> int:
        return shifted(value, 1) + shifted(value, 2) + shifted(value, value)

    assert kernel(5) == 23
    assert len(shifted.overloads) == 1  # type: ignore[attr-defined]
