"""Charts of a run as lines, as Altair charts: what is in use over time, and how waits are distributed."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.extras import extra
from unrack.plots.series import (
    BINS,
    PALETTE,
    bin_edges,
    binned_integral,
    binned_mean,
    rising,
    rounded,
    span_unit,
    wait_axis,
)

Floats = NDArray[np.float64]


def utilisation(
    usage: pl.DataFrame, total_mb: int | None, title: str, *, width: int = 640, height: int = 220, bins: int = BINS
) -> Any:
    """Shares of cores and memory in use over time.

    Parameters
    ----------
    usage
        Table of a result.
    total_mb
        Installed memory, MB; ``None``: it is not counted, and not drawn.
    title
        Of the chart; over how many spans of time it averages is said below it.
    width, height
        In pixels.
    bins
        Spans of time.

    Returns
    -------
    altair.Chart

    Raises
    ------
    InputError
        Altair is not installed.
    """
    alt = extra("altair")
    time_s = usage["time_s"].cast(pl.Float64).to_numpy()
    edges = bin_edges([(float(time_s[0]), float(time_s[-1]))] if len(time_s) else [(0.0, 1.0)], bins)
    unit, size = span_unit(float(edges[-1] - edges[0]))
    found: dict[str, Floats] = {}
    if len(time_s) > 1:
        held, online = (
            binned_integral(time_s, usage[name].cast(pl.Float64).to_numpy(), edges)
            for name in ("cores_held", "cores_online")
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            found["cores"] = np.where(online > 0, held / online, np.nan)
        if total_mb:
            found["memory"] = binned_mean(time_s, usage["memory_mb_held"].cast(pl.Float64).to_numpy(), edges) / total_mb
    x = rounded(edges[:-1] / size, 6)
    values = [
        {"x": at, "y": share, "of": name}
        for name, shares in found.items()
        for at, share in zip(x, rounded(shares, 5), strict=True)
    ]
    words = f"means over {bins} equal spans of time"
    colour = alt.Color(
        "of:N", title=None, scale=alt.Scale(domain=list(found), range=list(PALETTE[: len(found)])),
        legend=alt.Legend(orient="bottom") if len(found) > 1 else None,
    )  # fmt: skip
    y = alt.Y("y:Q", title="share in use" if len(found) > 1 else "share of cores in use", axis=alt.Axis(format=".0%"),
              scale=alt.Scale(domain=[0, 1]))  # fmt: skip
    x_axis = alt.X("x:Q", title=f"{unit} since the start of the log", scale=alt.Scale(nice=False, zero=False))
    tooltip = [alt.Tooltip("of:N"), alt.Tooltip("x:Q", title=unit, format=",.4~g"),
               alt.Tooltip("y:Q", title="in use", format=".1%")]  # fmt: skip
    return _line(alt, values, x_axis, y).encode(color=colour, tooltip=tooltip).properties(
        width=width, height=height, title=alt.TitleParams(title, subtitle=words, anchor="start"),
        description=f"Shares in use over time: {words}.",
    )  # fmt: skip


def wait_times(jobs: pl.DataFrame, title: str, *, width: int = 420, height: int = 220) -> Any:
    """The distribution of waits of finished jobs.

    Parameters
    ----------
    jobs
        Table of a result.
    title
        Of the chart; of how many jobs it is, is said below it.
    width, height
        In pixels.

    Returns
    -------
    altair.Chart

    Raises
    ------
    InputError
        Altair is not installed.
    """
    alt = extra("altair")
    done = jobs.filter(pl.col("state") == "finished")
    x, share = rising(done["wait_s"].cast(pl.Float64).fill_null(float("nan")).to_numpy())
    values = [{"x": at, "y": part} for at, part in zip(rounded(x, 6), rounded(share, 5), strict=True)]
    words = f"{len(done):,} finished jobs" + (f" of {len(jobs):,}" if len(done) < len(jobs) else "")
    y = alt.Y("y:Q", title="share of jobs", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1]))
    scale = alt.Scale(type="symlog", constant=1, nice=False, zero=True)
    x_axis = alt.X("x:Q", title="wait at most (log scale)", axis=alt.Axis(**wait_axis()), scale=scale)
    return _line(alt, values, x_axis, y).encode(
        color=alt.value(PALETTE[0]),
        tooltip=[alt.Tooltip("x:Q", title="wait (s)", format=",.4~g"),
                 alt.Tooltip("y:Q", title="share of jobs", format=".1%")],
    ).properties(
        width=width, height=height, title=alt.TitleParams(title, subtitle=words, anchor="start"),
        description=f"Share of jobs that waited at most so long: {words}.",
    )  # fmt: skip


def _line(alt: Any, values: list[dict[str, Any]], x: Any, y: Any) -> Any:
    return (
        alt.Chart(alt.InlineData(values=values)).mark_line(interpolate="step-after", strokeWidth=1.5).encode(x=x, y=y)
    )
