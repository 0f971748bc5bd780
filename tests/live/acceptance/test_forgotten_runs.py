"""Which runs of a job the auditor puts down to a controller that was killed."""

from __future__ import annotations

from typing import Any

import pytest
from driven_bed import forgotten_by_all
from slurm_bed import Kill

BEGIN: dict[str, Any] = {"k": "begin", "now": 0, "origin_s": 0.0}
TOLD = {"k": "turn", "now": 11_000_000, "entries": {"7": {"started_us": 11_000_000}}}
ANOTHER = {"k": "begin", "now": 19_000_000, "why": "the driver started"}
RELEASED = {"k": "did", "now": 19_500_000, "entries": {"7": {"phase": "released"}}}
OVER = {"k": "turn", "now": 13_000_000, "over": [{"key": "7"}]}


@pytest.mark.parametrize(
    ("records", "kill", "forgotten"),
    [
        ([], Kill(15, 12), 1),  # no driver saw that it ran
        ([TOLD], Kill(15, 12), 0),  # the controller had written down that it ran
        ([TOLD], Kill(19, 9), 1),  # it had not, however late it was killed
        ([TOLD, OVER], Kill(16, 9), 0),  # the driver knew that it had ended
        ([TOLD, OVER], Kill(18, 9), 1),  # and was not given the time to hold it
        ([TOLD, OVER, ANOTHER], Kill(15, 9), 1),  # that driver was gone when Slurm started it again
        ([TOLD, OVER, ANOTHER, RELEASED], Kill(15, 9), 0),  # the next one did
        ([], Kill(8, 7), 0),  # it was killed before the first run
        ([], Kill(21, 7), 0),  # and after the second
        ([TOLD], Kill(15, 0), 1),  # it had never written down anything
    ],
)
def test_a_run_is_forgotten_if_what_the_controller_had_written_down_is_older(
    records: list[dict[str, Any]], kill: Kill, forgotten: int
) -> None:
    assert forgotten_by_all([BEGIN, *records], "7", [10.0, 20.0], [kill]) == forgotten
