"""Kernels of GPUs are compiled for read-only columns alone, whether or not their callers may write them."""

from __future__ import annotations

import numpy as np
from plain_gpus import fleet_of

from unrack.resources.gpus.choice import tasks_that_fit
from unrack.resources.gpus.columns import ask_of
from unrack.sealed import sealed


def kinds() -> list[object]:
    """The types of arguments for which it is compiled."""
    return list(getattr(tasks_that_fit, "signatures", []))


def test_what_is_free_and_what_there_is_take_one_kernel() -> None:
    fleet = fleet_of({"machine": {"gpus": 4}})
    ask = ask_of(np.array([1, 0, 0, 0, 0, 0, 0, 0], np.int64), 1, 0, 0, 0)
    assert fleet.fit(ask, fleet.total).tolist() == [4]
    known = len(kinds())
    assert fleet.fit(ask, sealed(fleet.total)).tolist() == [4]
    assert len(kinds()) == known
