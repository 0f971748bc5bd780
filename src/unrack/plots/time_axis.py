"""Axes of time and of durations, for charts in Python."""

from __future__ import annotations

from typing import Any

_SPANS = (("days", 86400), ("hours", 3600), ("minutes", 60), ("seconds", 1))
_WAITS = ((0, "0"), (1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (21600, "6 h"),
          (86400, "1 d"), (604800, "1 w"), (2592000, "30 d"))  # fmt: skip


def span_unit(span_s: float) -> tuple[str, int]:
    """The unit that a span of time is told in, and its seconds: the largest of which there are three or more.

    Examples
    --------
    >>> span_unit(7200), span_unit(20 * 86400)
    (('minutes', 60), ('days', 86400))
    """
    return next((unit, size) for unit, size in _SPANS if span_s >= 3 * size or size == 1)


def waits(alt: Any, title: str) -> Any:
    """An x channel for seconds from 0 to months: logarithmic, but with a place for 0."""
    words = ", ".join(f"'{value}': '{text}'" for value, text in _WAITS)
    axis = alt.Axis(
        values=[value for value, _ in _WAITS], labelExpr=f"({{{words}}})[datum.value]", labelOverlap="greedy"
    )
    return alt.X("x:Q", title=title, axis=axis, scale=alt.Scale(type="symlog", constant=1, nice=False, zero=True))
