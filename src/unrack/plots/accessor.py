"""The charts of one result as Altair charts: nodes × time, shares in use, waits.

Altair gets them as pandas tables, made without PyArrow, which Polars' own ``to_pandas`` wants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, check_choice
from unrack.extras import extra
from unrack.facts import counted
from unrack.kernels.arrays import Floats, Ints
from unrack.plots.series import (
    BINS,
    PALETTE,
    bin_edges,
    binned_integral,
    binned_mean,
    clock_start,
    ended,
    lanes,
    rising,
    rounded,
    span_unit,
    thinned,
    wait_axis,
)

MOST_RECTANGLES = 4_000
"""What a notebook draws at once, and what keeps a chart under about 1 MB."""
COLOUR_BY = ("job", "user", "app", "outcome")
_MOST_NAMES = 8
_OTHERS = "#D0D4D9"


def gantt(
    placements: pl.DataFrame,
    jobs: pl.DataFrame,
    cores: Ints,
    title: str,
    *,
    colour: str = "job",
    most: int = MOST_RECTANGLES,
    width: int = 640,
    height: int = 300,
) -> Any:
    """Draw which job held which nodes when.

    An InputError if ``colour`` or ``most`` is wrong, or Altair is not installed.

    Parameters
    ----------
    placements, jobs
        Tables of a result.
    cores : int64[nodes]
        Cores of each node: jobs that share a node lie side by side in it.
    title
        Of the chart; what was left out is said below it.
    colour
        ``"job"`` (neighbours differ, no legend), ``"user"``, ``"app"`` or ``"outcome"``.
    most
        At most so many rectangles: of every job the largest first, then the largest others.
    width, height
        In pixels.
    """
    check_choice("colour", colour, COLOUR_BY)
    if most < 1:
        raise InputError("most", repr(most), "1 rectangle or more")
    alt = extra("altair")
    rows, words = _rectangles(placements, cores, most)
    start_s, end_s = float(rows["start_s"].min() or 0.0), float(rows["end_s"].max() or 1.0)  # type: ignore[arg-type]
    unit, size = span_unit(end_s - start_s)
    begin = clock_start(start_s)
    rows = rows.with_columns(pl.col("start_s", "end_s") - begin)
    values = _values(rows, jobs, cores, size, colour)
    x = alt.X("x:Q", title=f"{unit} since the start of the log", scale=alt.Scale(nice=False, zero=False))
    y = alt.Y("y:Q", title="node", axis=alt.Axis(grid=False, tickMinStep=1),
              scale=alt.Scale(domain=[0, max(len(cores), 1)], reverse=True, nice=False))  # fmt: skip
    tooltip = [
        alt.Tooltip("job:N"), alt.Tooltip("nodes:N"), alt.Tooltip("cores:Q", title="cores a node"),
        alt.Tooltip("x:Q", title=f"from ({unit})", format=",.4~f"),
        alt.Tooltip("x2:Q", title=f"to ({unit})", format=",.4~f"),
        alt.Tooltip("wait_s:Q", title="wait (s)", format=",.4~g"), alt.Tooltip("outcome:N"),
    ]  # fmt: skip
    mark = alt.Chart(alt.InlineData(values=values)).mark_rect(stroke="white", strokeWidth=0.3)
    chart = mark.encode(x=x, x2="x2:Q", y=y, y2="y2:Q", color=_colour(alt, values, colour), tooltip=tooltip)
    described = f"Gantt chart: nodes over time. {words}"
    return chart.properties(
        width=width, height=height, title=alt.TitleParams(title, subtitle=words, anchor="start"), description=described
    )


def _rectangles(placements: pl.DataFrame, cores: Ints, most: int) -> tuple[pl.DataFrame, str]:
    """The rows that are drawn, in order of start, and what is said of those that are not."""
    area = ((pl.col("end_s") - pl.col("start_s")) * pl.col("nodes")).alias("area")
    every = ended(placements)[0].with_columns(area, pl.int_range(pl.len()).alias("row"))
    kept = thinned(every, most)
    room = cores[np.minimum(kept["first_node"].cast(pl.Int64).to_numpy(), len(cores) - 1)]
    drawn = pl.when(pl.col("cores_per_node") < pl.Series(room)).then("nodes").otherwise(1).cast(pl.Int64)
    kept = kept.with_columns(drawn.alias("drawn"))
    if int(kept["drawn"].sum()) > most:  # parts of several nodes are a rectangle a node
        kept = kept.sort("area", "row", descending=[True, False])
        kept = kept.filter((pl.col("drawn").cum_sum() <= most) | (pl.int_range(pl.len()) == 0))
    kept = kept.sort("start_s", "row")
    if len(kept) == len(every):
        return kept, counted(every["job"].n_unique(), "job")
    total = float(every["area"].sum())
    share = 100 * float(kept["area"].sum()) / total if total else 100.0
    kept_jobs, jobs = kept["job"].n_unique(), every["job"].n_unique()
    of_jobs = f"{kept_jobs:,} of {jobs:,} jobs" if kept_jobs < jobs else f"all {jobs:,} jobs"
    part = f"the {len(kept):,} largest of {len(every):,} rectangles"
    return kept, f"{of_jobs}, {part}: {share:.3g} % of the node-time"


def _values(rows: pl.DataFrame, jobs: pl.DataFrame, cores: Ints, size: int, colour: str) -> list[dict[str, Any]]:
    """A row a rectangle, in the unit of the axis and in nodes; parts of several nodes are a rectangle a node."""
    known = jobs.select("job", *(name for name in ("wait_s", "user", "app") if name in jobs.columns))
    missing = (pl.lit(None, pl.String).alias(name) for name in ("wait_s", "user", "app") if name not in known.columns)
    last, place = pl.col("first_node") + pl.col("nodes") - 1, pl.int_ranges(0, "drawn", dtype=pl.Int64)
    parts = (
        rows.with_columns(place.alias("node"), hue=(pl.int_range(pl.len()) * 7 % len(PALETTE)).cast(pl.String))
        .explode("node")
        .join(known.with_columns(missing), on="job", how="left", maintain_order="left")
        .with_columns(
            pl.col("start_s", "end_s").cast(pl.Float64), pl.col("node") + pl.col("first_node"),
            count=pl.when(pl.col("drawn") == pl.col("nodes")).then(1).otherwise("nodes").cast(pl.Int64),
            hue=pl.col("hue" if colour == "job" else colour).cast(pl.String).replace("", None).fill_null("not known"),
        )
    )  # fmt: skip
    start, end, node, count = (parts[name].to_numpy() for name in ("start_s", "end_s", "node", "count"))
    asked = parts["cores_per_node"].cast(pl.Int64).to_numpy()
    bottom, tall = lanes(start, end, node, count, asked, np.maximum(cores, 1))
    whole, low = pl.Series(tall == 255), pl.Series(bottom / 255)
    high = pl.when(whole).then("count").otherwise(low + pl.Series(tall / 255))
    found = parts.select(
        pl.col("job").cast(pl.String), (pl.col("start_s") / size).round(6).alias("x"),
        (pl.col("end_s") / size).round(6).alias("x2"), pl.col("cores_per_node").alias("cores"), "outcome",
        pl.when(pl.col("nodes") == 1).then(pl.col("first_node").cast(pl.String))
        .otherwise(pl.format("{}–{}", "first_node", last)).alias("nodes"),
        pl.col("wait_s").cast(pl.Float64).round_sig_figs(6), "hue",
        (pl.col("node") + pl.when(whole).then(0).otherwise(low)).cast(pl.Float64).round(4).alias("y"),
        (pl.col("node") + high).cast(pl.Float64).round(4).alias("y2"),
    )  # fmt: skip
    area = (pl.col("x2") - pl.col("x")) * (pl.col("y2") - pl.col("y"))
    named = found.group_by("hue").agg(area.sum().alias("area")).sort("area", "hue", descending=[True, False])["hue"]
    if colour != "job" and len(named) > _MOST_NAMES:
        kept = pl.col("hue").is_in(named.head(_MOST_NAMES - 1).implode())
        found = found.with_columns(pl.when(kept).then("hue").otherwise(pl.lit("all others")).alias("hue"))
    return found.to_dicts()


def _colour(alt: Any, values: list[dict[str, Any]], colour: str) -> Any:
    names = sorted({row["hue"] for row in values})
    names = [name for name in names if name != "all others"] + ["all others"] * ("all others" in names)
    hues = [_OTHERS if name == "all others" else PALETTE[place % len(PALETTE)] for place, name in enumerate(names)]
    legend = None if colour == "job" else alt.Legend(orient="bottom", columns=5)
    title = {"app": "application"}.get(colour, colour)
    return alt.Color("hue:N", title=title, scale=alt.Scale(domain=names, range=hues), legend=legend)


class ResultPlots:
    """Charts of a result as Altair charts: they show in a notebook, and ``save`` to html, svg, png or pdf.

    They need Altair, and files other than html need vl-convert: ``pip install 'unrack[figures]'`` brings both. However
    many jobs there are, a chart stays under about 1 MB; what it leaves out or averages over is said below its title.
    """

    def __init__(self, title: str, tables: Mapping[str, pl.DataFrame], cluster: Cluster) -> None:
        self._title, self._tables, self._cluster = title, tables, cluster

    def __repr__(self) -> str:
        jobs = counted(len(self._tables["jobs"]), "job")
        return f"<charts of {self._title}, {jobs}: gantt(), utilisation(), waits()>"

    def gantt(self, *, colour: str = "job", most: int = MOST_RECTANGLES, width: int = 640, height: int = 300) -> Any:
        """Jobs on their nodes over time: an :class:`altair.Chart`; parameters of :func:`unrack.plots.accessor.gantt`.

        An InputError if ``colour`` or ``most`` is wrong, or Altair is not installed.
        """
        return gantt(
            self._tables["placements"], self._tables["jobs"], self._cluster.cores, f"Nodes over time: {self._title}",
            colour=colour, most=most, width=width, height=height,
        )  # fmt: skip

    def utilisation(self, *, width: int = 640, height: int = 220) -> Any:
        """Shares of cores and of memory (where it is counted) in use over time: an :class:`altair.Chart`.

        An InputError if Altair is not installed.
        """
        alt, usage = extra("altair"), self._tables["usage"]
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
            if self._cluster.total_mb:
                found["memory"] = binned_mean(time_s, mb, edges) / self._cluster.total_mb
        x = rounded((edges[:-1] - clock_start(float(edges[0]))) / size, 6)
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

        An InputError if Altair is not installed.
        """
        alt, jobs = extra("altair"), self._tables["jobs"]
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


def to_pandas(frame: pl.DataFrame) -> Any:
    """The same columns in the same order, as a pandas.DataFrame; an InputError if pandas is not installed.

    Numbers, truth values and times become NumPy columns (whole numbers with gaps: floats with NaN, as Polars has it);
    text and lists become columns of Python objects, in which a gap is ``None``.
    """
    pandas = extra("pandas")
    columns = {name: _column(frame[name]) for name in frame.columns}
    return pandas.DataFrame(columns, columns=frame.columns, index=pandas.RangeIndex(frame.height))


def _column(column: pl.Series) -> Any:
    if column.dtype.is_numeric() or column.dtype.is_temporal():
        return column.to_numpy()
    if column.dtype == pl.Boolean and column.null_count() == 0:
        return column.to_numpy()
    return np.fromiter(column.to_list(), object, len(column))
