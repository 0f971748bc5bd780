"""Code that can change a result is part of what a run is called."""

from __future__ import annotations

from pathlib import Path

import unrack
from unrack.study.results.record import ENGINE

WITHOUT_A_SAY = {"cli", "data", "live", "papers", "plan", "plots", "profile", "report", "study"}
"""Rooms that take finished runs, make inputs, or say what is to be run; the live worlds; figures that tables name."""


def test_every_room_that_can_change_a_result_counts() -> None:
    rooms = {path.parent.name for path in Path(unrack.__file__).parent.glob("*/__init__.py")}
    assert rooms - WITHOUT_A_SAY == set(ENGINE)
