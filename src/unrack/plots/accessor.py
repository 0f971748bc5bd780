"""The charts of one result, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from unrack.extras import extra
from unrack.facts import counted
from unrack.kernels.arrays import Floats, Ints
from unrack.plots.gantt import MOST_RECTANGLES, gantt
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


class ResultPlots:
    """Charts of a result as Altair charts: they show in a notebook, and ``save`` to html, svg, png or pdf.

    They need Altair, and files other than html need vl-convert: ``pip install 'unrack[figures]'`` brings both. However
    many jobs there are, a chart stays under about 1 MB; what it leaves out or averages over is said below its title.
    """

    def __init__(
        self,
        title: str,
        jobs: pl.DataFrame,
        usage: pl.DataFrame,
        placements: pl.DataFrame,
        cores: Ints,
        total_mb: int | None,
    ) -> None:
        self._title, self._jobs, self._usage, self._placements = title, jobs, usage, placements
        self._cores, self._total_mb = cores, total_mb

    def __repr__(self) -> str:
        return f"<charts of {self._title}, {counted(len(self._jobs), 'job')}: gantt(), utilisation(), waits()>"

    def gantt(self, *, colour: str = "job", most: int = MOST_RECTANGLES, width: int = 640, height: int = 300) -> Any:
        """Who held which nodes when: an :class:`altair.Chart`; parameters as of :func:`unrack.plots.gantt.gantt`.

        Raises
        ------
        InputError
            ``colour`` or ``most`` is wrong, or Altair is not installed.
        """
        return gantt(
            self._placements, self._jobs, self._cores, f"Nodes over time: {self._title}", colour=colour, most=most,
            width=width, height=height,
        )  # fmt: skip

    def utilisation(self, *, width: int = 640, height: int = 220) -> Any:
        """Shares of cores and of memory (where it is counted) in use over time: an :class:`altair.Chart`.

        Raises
        ------
        InputError
            Altair is not installed.
        """
        alt, usage = extra("altair"), self._usage
        time_s = usage["time_s"].cast(pl.Float64).to_numpy()
        edges = bin_edges([(float(time_s[0]), float(time_s[-1]))] if len(time_s) else [(0.0, 1.0)])
        unit, size = span_unit(float(edges[-1] - edges[0]))
        found: dict[str, Floats] = {}
        if len(time_s) > 1:
            held, online, mb = (
                usage[name].cast(pl.Float64).to_numpy() for name in ("cores_held", "cores_online", "memory_mb_held")
            )
            below = binned_integral(time_s, online, edges)
            with np.errstate(invalid="ignore", divide="ignore"):
                found["cores"] = np.where(below > 0, binned_integral(time_s, held, edges) / below, np.nan)
            if self._total_mb:
                found["memory"] = binned_mean(time_s, mb, edges) / self._total_mb
        x = rounded(edges[:-1] / size, 6)
        values = [
            {"x": at, "y": share, "of": name}
            for name, shares in found.items()
            for at, share in zip(x, rounded(shares, 5), strict=True)
        ]
        legend = alt.Legend(orient="bottom") if len(found) > 1 else None
        scale = alt.Scale(domain=list(found), range=list(PALETTE[: len(found)]))
        x_axis = alt.X("x:Q", title=f"{unit} since the start of the log", scale=alt.Scale(nice=False, zero=False))
        chart = _steps(alt, values, x_axis, "share in use" if len(found) > 1 else "share of cores in use").encode(
            color=alt.Color("of:N", title=None, scale=scale, legend=legend),
            tooltip=[alt.Tooltip("of:N"), alt.Tooltip("x:Q", title=unit, format=",.4~g"),
                     alt.Tooltip("y:Q", title="in use", format=".1%")],
        )  # fmt: skip
        words = f"means over {BINS} equal spans of time"
        return chart.properties(
            width=width, height=height, description=f"Shares in use over time: {words}.",
            title=alt.TitleParams(f"In use: {self._title}", subtitle=words, anchor="start"),
        )  # fmt: skip

    def waits(self, *, width: int = 420, height: int = 220) -> Any:
        """The distribution of waits of finished jobs: an :class:`altair.Chart`.

        Raises
        ------
        InputError
            Altair is not installed.
        """
        alt, jobs = extra("altair"), self._jobs
        done = jobs.filter(pl.col("state") == "finished")
        x, share = rising(done["wait_s"].cast(pl.Float64).fill_null(float("nan")).to_numpy())
        values = [{"x": at, "y": part} for at, part in zip(rounded(x, 6), rounded(share, 5), strict=True)]
        scale = alt.Scale(type="symlog", constant=1, nice=False, zero=True)
        x_axis = alt.X("x:Q", title="wait at most (log scale)", axis=alt.Axis(**wait_axis()), scale=scale)
        chart = _steps(alt, values, x_axis, "share of jobs").encode(
            color=alt.value(PALETTE[0]),
            tooltip=[alt.Tooltip("x:Q", title="wait (s)", format=",.4~g"),
                     alt.Tooltip("y:Q", title="share of jobs", format=".1%")],
        )  # fmt: skip
        words = f"{len(done):,} finished jobs" + (f" of {len(jobs):,}" if len(done) < len(jobs) else "")
        return chart.properties(
            width=width, height=height, description=f"Share of jobs that waited at most so long: {words}.",
            title=alt.TitleParams(f"Waits: {self._title}", subtitle=words, anchor="start"),
        )  # fmt: skip


def _steps(alt: Any, values: list[dict[str, Any]], x: Any, y_title: str) -> Any:
    """A line of steps over ``x``, of shares from 0 to 1."""
    y = alt.Y("y:Q", title=y_title, axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1]))
    line = alt.Chart(alt.InlineData(values=values)).mark_line(interpolate="step-after", strokeWidth=1.5)
    return line.encode(x=x, y=y)
