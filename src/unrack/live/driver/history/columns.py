"""What live runs have more than simulated ones: a label, and columns of jobs."""

from __future__ import annotations

LIVE = "live: "
"""What the labels of live runs begin with."""
LATENCIES = {
    "to_decided_s": "submitted to decided",
    "to_released_s": "decided to released",
    "to_started_s": "released to seen to run",
    "end_seen_s": "seen to run, longer than by the clock there",
}
"""Column → the step that its time is of."""
