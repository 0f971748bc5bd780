"""Every start of every job as a table for people: planned and real, by the driver's clock and the orchestrator's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import polars as pl

from unrack.live.driver.history.stay import Attempt, Stay
from unrack.live.driver.history.told import Told
from unrack.live.driver.portable import devices_in
from unrack.units import SECOND_US

COLUMNS: dict[str, type[pl.DataType]] = {
    "job": pl.String, "stay": pl.Int64, "attempt": pl.Int64, "user": pl.String, "ours": pl.Boolean,
    "tasks": pl.Int64, "cores_per_task": pl.Int64, "memory_mb_per_task": pl.Int64, "request_s": pl.Float64,
    "came_s": pl.Float64, "decided_s": pl.Float64, "released_s": pl.Float64, "started_s": pl.Float64,
    "ended_s": pl.Float64, "freed_s": pl.Float64, "left_s": pl.Float64, "their_submit_s": pl.Int64,
    "their_start_s": pl.Int64, "their_end_s": pl.Int64, "planned_nodes": pl.String, "ran_on": pl.String,
    "devices": pl.String, "restarts": pl.Int64, "became": pl.String, "why": pl.String,
}  # fmt: skip
"""Columns and their types, where those of the orchestrator begin with ``their``."""


def starts_frame(told: Told, their: str, listed: Callable[[Sequence[str]], str] = " ".join) -> pl.DataFrame:
    """One row a start, and one for each stay in the queue without any, in the order in which jobs came.

    Times are in s by the driver's clock, null: not, or not known.

    Parameters
    ----------
    their
        What the columns of the orchestrator's own times begin with, which are in s since 1970.
    listed
        How names of nodes are written.
    """
    seen: dict[str, int] = {}
    rows = []
    for stay in told.stays:
        seen[stay.key] = seen.get(stay.key, 0) + 1
        rows += [{"stay": seen[stay.key], **row} for row in _rows(stay, listed)]
    return pl.DataFrame(rows, schema=COLUMNS).rename(lambda name: name.replace("their_", f"{their}_"))


def _rows(stay: Stay, listed: Callable[[Sequence[str]], str]) -> Iterator[dict[str, Any]]:
    asked = stay.job
    own = {
        "job": stay.key, "user": asked.get("user") or None, "ours": stay.ours, "tasks": asked["tasks"],
        "cores_per_task": asked.get("cores", 0), "memory_mb_per_task": asked.get("mb", 0),
        "request_s": asked["request"] / SECOND_US, "came_s": _s(stay.came_us), "left_s": _s(stay.left_us),
        "their_submit_s": stay.submit_s or None, "restarts": stay.restarts,
    }  # fmt: skip
    if not stay.attempts:
        yield {**own, "became": str(stay.became), "why": stay.why or None}
    for number, one in enumerate(stay.attempts, 1):
        yield {**own, "attempt": number, **_of_attempt(one, stay.adopted, listed)}


def _of_attempt(one: Attempt, adopted: bool, listed: Callable[[Sequence[str]], str]) -> dict[str, Any]:
    return {
        "decided_s": None if adopted else _s(one.decided_us), "released_s": _s(one.released_us),
        "started_s": _s(one.started_us), "ended_s": _s(one.ended_us), "freed_s": _s(one.freed_us),
        "their_start_s": one.start_s or None, "their_end_s": one.end_s or None,
        "planned_nodes": None if adopted else listed(one.planned),
        "ran_on": listed(one.ran_on) or None, "devices": " ".join(devices_in(one.lease)) or None,
        "became": str(one.became), "why": one.why or None,
    }  # fmt: skip


def _s(time_us: int) -> float | None:
    return None if time_us < 0 else time_us / SECOND_US
