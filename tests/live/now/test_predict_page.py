"""What ``unrack slurm predict`` prints for people."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from unrack.cli.live.prediction import page
from unrack.live.prediction.forecast import Forecast
from unrack.live.prediction.learnt import Learnt, Past
from unrack.live.prediction.starts import Prediction, Start


@pytest.mark.parametrize(("runs", "range_"), [(1, False), (2, True)])
def test_one_run_makes_no_range(runs: int, range_: bool) -> None:
    learnt = Learnt.of([Past("ann", 30, 60)] * runs, "a list")
    start: dict[str, Any] = {"job": "7", "requested_s": 9.0, "early_s": 1.0, "middle_s": 1.0, "late_s": 1.0}
    start |= {"runs": runs, "of_user": False}
    made: dict[str, Any] = {
        "learnt": learnt,
        "source": "now",
        "facts": {},
        "aside": (),
        "notes": (),
        "at_s": 0.0,
        "saved": None,
    }
    made |= {"predictions": (Prediction("easy", (Start(**start),)),)}
    out = io.StringIO()
    console = Console(file=out, width=120)
    for part in page(Forecast(**made), None, 10, 120):
        console.print(part)
    assert ("1s..1s" in out.getvalue()) == range_
    assert ("no range can be told" in out.getvalue()) != range_
