"""The sort of kernels gives the order of numpy's stable one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unrack.jit import compiled
from unrack.kernels.ordering import order_of


@compiled
def ordered(keys: Any) -> Any:
    return order_of(keys)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_it_is_the_stable_order(dtype: type) -> None:
    draws = np.random.default_rng(0)
    for n in [0, 1, 2, 15, 16, 17, 31, 32, 33, 100, 1000]:
        for most in (1, 3, 10_000):
            keys = draws.integers(-most, most, n).astype(dtype)
            assert ordered(keys).tolist() == np.argsort(keys, kind="stable").tolist()
