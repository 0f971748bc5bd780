"""What of a reservation is looked at in the steps of a plan."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from unrack.jit import compiled
from unrack.kernels.arrays import Ints
from unrack.policy.discipline.skyline.steps import RowSpan, Slots, fits_at


class Steps(NamedTuple):
    """Of a plan over two nodes and one place, with what is free in each step."""

    times: Ints
    at: Ints
    level: Ints
    may_lend: Ints


@compiled
def fits(sky: Any, start: int, length: int, slots: Slots, span: RowSpan) -> bool:
    return fits_at(sky, 3, start, length, slots, span)


@pytest.mark.whole
@pytest.mark.parametrize("what", range(3))
@pytest.mark.parametrize(("start", "length", "meets"), [(0, 10, False), (0, 11, True), (19, 9, True), (20, 5, False)])
def test_all_that_a_reservation_holds_is_to_be_free_in_every_step_that_it_meets(
    what: int, start: int, length: int, meets: bool
) -> None:
    level = np.zeros((3, 2, 3), np.int64)
    level[:, 0], level[:, 1, :2] = (2, 2, 4), 8
    place = (0, 0), (1, 1), (0, 2)  # cores of the first node, MB of the second, the place
    level[1, *place[what]] -= 1  # from 10 to 20
    sky = Steps(np.array([0, 10, 20]), np.arange(3), level, np.zeros(0, np.int64))
    rows, claims = np.array([[0, 2, 1, 2, 8]]), np.array([[5, 4]])
    slots = Slots(np.array([-1] * 5 + [0]), np.array([5]), np.zeros(6, np.int64), 2)
    assert fits(sky, start, length, slots, RowSpan(rows, 0, 1, claims, 0, 1)) != meets
