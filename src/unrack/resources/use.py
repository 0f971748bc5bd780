"""How much of a resource was used: the measures, a table by policy and a picture over time, whatever is held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import polars as pl

from unrack.errors import ClusterError
from unrack.kernels.arrays import Floats, Ints
from unrack.steps import held_between, means
from unrack.units import clock_start, seconds_text

if TYPE_CHECKING:
    from unrack.resources.contract import Nodes


class Metric(NamedTuple):
    """A metric."""

    name: str  # its column in ``summary.csv``; QUANTITY in it stands for each of a resource's
    unit: str  # of its value; ``""``: a plain number
    better: Literal["low", "high", ""]  # ``"low"``, ``"high"`` or ``""`` where neither is better
    summary: str  # one line of words
    formula: str  # how it is computed, in the notation of ``docs/metrics.md``
    # measures it on a :class:`unrack.metric.holdings.Window`; only plug-ins say so, a metric each
    measure: Callable[[Any], float | None] | None = None

    @property
    def is_share(self) -> bool:
        """True if it is shown in per cent."""
        return self.unit == "" and self.summary.startswith("share")


class Measured(NamedTuple):
    """What the metrics of a resource are measured of: a run in a window of time."""

    installed: Any  # what :meth:`Resource.installed` gave
    claims: pl.DataFrame  # the rows of the table of claims that are of the resource
    jobs: pl.DataFrame
    placements: pl.DataFrame
    # the window, s
    start_s: float
    end_s: float


class Kept(NamedTuple):
    """A finished run as a section of the report sees it."""

    # policy, seed: which run
    policy: str
    seed: int
    written: Any  # what :meth:`Installed.written` gave
    metrics: dict[str, float | None]  # all metrics of the run
    claims: pl.DataFrame  # the rows of the table of claims that are of the resource
    nodes: Nodes | None = None  # those of the cluster; ``None``: not known
    # reads one of the other tables of the run, ``jobs`` or ``placements``
    table: Callable[[str], pl.DataFrame] | None = None
    colour: str = ""  # of its policy on the page; ``""``: none is said


class Table(NamedTuple):
    """A table of the report: its title, a sentence or two, the heads of its columns, and rows of texts.

    ``picture``: an SVG above it, where there is one; a table without rows is a picture alone.
    """

    title: str
    words: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    picture: str = ""


def mean_share(values: Sequence[float | None]) -> str:
    """The mean of the shares that are known, in words of a section.

    Examples
    --------
    >>> mean_share([0.5, None, 0.25]), mean_share([None])
    ('37.5 %', '–')
    """
    known = [value for value in values if value is not None]
    return f"{100 * sum(known) / len(known):.1f} %" if known else "–"


def rows_by_policy(
    runs: Sequence[Kept], row: Callable[[str, Sequence[Kept]], tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    """A row of each policy and its runs, in order of their first ones."""
    policies = dict.fromkeys(run.policy for run in runs)
    return tuple(row(policy, [run for run in runs if run.policy == policy]) for policy in policies)


COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#777777")
"""Of lines that are no policies, or of jobs."""
PIECES = 300
"""Pieces of time; what is drawn is the mean over each."""
LEFT, WIDTH, HEIGHT, LINE = 60, 840, 120, 16
STYLE = "text{font:11px system-ui,sans-serif;fill:currentColor}.axis{stroke:currentColor;opacity:.3}"
WAITED = "Waited: mean wait of the jobs that asked for it and ran to their end; not served: those that did not."
HOUR_S = 3600.0


class Use(NamedTuple):
    """Shares of what is installed, ``None`` over a window that lasts no time, or where nothing is installed."""

    used: float | None  # what was held, averaged over time
    peak: float | None  # what was held at most, of the fullest place
    full: float | None  # the part of the time in which nothing was left of some place


def use_of(installed: Mapping[str, int], claims: pl.DataFrame, start_s: float, end_s: float) -> Use:
    """What claims hold of some places over a window.

    ``installed``: name of a place → what it has; ``claims``: those of these places alone: place, start_s, end_s,
    amount; ``start_s``, ``end_s``: the window.

    Examples
    --------
    >>> claims = pl.DataFrame({"place": ["m"] * 2, "start_s": [0.0, 2.0], "end_s": [4.0, 4.0], "amount": [1, 3]})
    >>> use_of({"m": 4}, claims, 0.0, 8.0)
    Use(used=0.3125, peak=1.0, full=0.25)
    """
    length = end_s - start_s
    if length <= 0 or not installed:
        return Use(None, None, None)
    spent = peak = 0.0
    full: list[tuple[float, float]] = []
    claimed = claims.partition_by("place", as_dict=True)
    for name, most in installed.items():
        if (own := claimed.get((name,))) is None:
            continue
        times, level = held_between(own, start_s, end_s)
        spent += float((np.diff(times) * level[:-1]).sum())
        peak = max(peak, float(level.max()) / most)
        full += ((float(times[i]), float(times[i + 1])) for i in np.flatnonzero(level[:-1] >= most).tolist())
    return Use(spent / (sum(installed.values()) * length), peak, joined_s(full) / length)


def csv_of(name: str, known: Iterable[str], where: str, as_text: bool = False) -> pl.DataFrame:
    """The table of a CSV file; a ClusterError, which says what names are ``known`` beside, if there is none."""
    path = Path(name).expanduser()
    if not path.is_file():
        raise ClusterError(where, repr(name), f"{', '.join(known)}, or a file that exists")
    try:
        return pl.read_csv(path, infer_schema=not as_text, infer_schema_length=None)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise ClusterError(where, f"{name}: {str(error).splitlines()[0]}", "a CSV file") from None


def ends_of(claims: pl.DataFrame) -> tuple[float, float]:
    """When the first of some claims begins, and the last ends, s."""
    return float(claims["start_s"].min()), float(claims["end_s"].max())  # type: ignore[arg-type]  # of floats


def joined_s(spans: Sequence[tuple[float, float]]) -> float:
    """How long at least one of some spans of time lasts."""
    total, reached = 0.0, -np.inf
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def use_tables(
    runs: Sequence[Kept],
    asked: str,
    title: str,
    words: str,
    shares: Mapping[str, str] | None = None,
    spent: tuple[str, float] = ("amount x hours", HOUR_S),
) -> tuple[Table, ...]:
    """What is used of a quantity and which jobs waited for it: a row a policy, over its seeds, and a picture over time.

    Parameters
    ----------
    runs
        Those of a setting.
    asked
        ``RESOURCE.QUANTITY``: which claims count, and what jobs have to ask for to be counted as its jobs.
    title, words
        Of the table.
    shares
        Head of a column → the metric that stands in it, a share. Default: none.
    spent
        Head of the column of amount × time, and what counts as 1 in it, in amount x s.
    """
    metrics, quantity = shares or {}, asked.partition(".")[2]

    def row(policy: str, own: Sequence[Kept]) -> tuple[str, ...]:
        held = [run.claims.filter(pl.col("quantity") == quantity) for run in own]
        jobs = sum(claims["job"].n_unique() for claims in held) / len(own)
        area = sum(float((claims["amount"] * (claims["end_s"] - claims["start_s"])).sum()) for claims in held)
        return (
            policy, f"{jobs:,.0f}", f"{max(_most(claims) for claims in held):,}",
            *(mean_share([run.metrics.get(name) for run in own]) for name in metrics.values()),
            f"{area / spent[1] / len(own):,.1f}", *_waits(own, asked),
        )  # fmt: skip

    rows = rows_by_policy(runs, row)
    if not rows:
        return ()
    first = {run.policy: run.claims.filter(pl.col("quantity") == quantity) for run in reversed(runs)}
    lines = {}
    for name in list(dict.fromkeys(run.policy for run in runs))[: len(COLOURS)]:
        if (claims := first[name]).height:
            times, level = held_between(claims, claims["start_s"].to_numpy().min(), claims["end_s"].to_numpy().max())
            lines[name] = times, level[:-1]
    head = ("policy", "jobs", "held at most", *metrics, spent[0], "waited", "not served")
    return (Table(title, f"{words} {WAITED}", head, rows, picture(lines, "held", runs) if lines else ""),)


def usual_tables(runs: Sequence[Kept], name: str, metrics: Sequence[Metric]) -> tuple[Table, ...]:
    """The tables of every quantity of a resource that jobs held, with those of its metrics that are shares."""
    shares = {told.name: told.name for told in metrics if told.is_share}
    held = dict.fromkeys(quantity for run in runs for quantity in run.claims["quantity"].unique(maintain_order=True))
    asked = [f"{name}.{quantity}" for quantity in held]
    return tuple(table for one in asked for table in use_tables(runs, one, one, "", shares))


def _most(claims: pl.DataFrame) -> int:
    return int(held_between(claims, -np.inf, np.inf)[1].max())


def _waits(runs: Sequence[Kept], asked: str) -> tuple[str, str]:
    """The mean wait of the jobs that ask for something, and how many of them did not end, in a run."""
    tables = [run.table("jobs") for run in runs if run.table is not None]
    own = [jobs.filter(pl.col(asked) > 0) for jobs in tables if asked in jobs.columns]
    if not own:
        return "–", "–"
    waits = pl.concat([jobs["wait_s"] for jobs in own]).mean()
    lost = sum(int((jobs["state"] != "finished").sum()) for jobs in own) / len(own)
    return seconds_text(waits) if isinstance(waits, float) else "–", f"{lost:,.0f}"


def picture(lines: Mapping[str, tuple[Floats, Floats | Ints]], unit: str, runs: Iterable[Kept] = ()) -> str:
    """A line a policy over time, as SVG; at most as many policies as there are colours.

    ``lines``: policy → a step function: times (s), and the value from each until the next, one less; ``unit``: what the
    values are of; ``runs``: the colours of their policies are those of the page.
    """
    colours = {run.policy: run.colour for run in runs if run.colour}
    drawn = {policy: _pieces(*steps) for policy, steps in lines.items()}
    begin = min(float(edges[0]) for edges, _ in drawn.values())
    end = max(float(edges[-1]) for edges, _ in drawn.values())
    most, origin = max(float(values.max()) for _, values in drawn.values()), clock_start(begin)
    scale, marks, low = (WIDTH / max(end - begin, 1e-9), HEIGHT / max(most, 1e-9)), [], LINE + HEIGHT
    for i, ((policy, (edges, values)), colour) in enumerate(zip(drawn.items(), COLOURS, strict=False)):
        colour = colours.get(policy, colour)
        x, y = np.repeat(LEFT + (edges - begin) * scale[0], 2)[1:-1], np.repeat(low - values * scale[1], 2)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
        words = escape(f"{policy}: {values.mean():,.2f} {unit} on average")
        at = low + (i + 2) * LINE
        marks.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"><title>{words}</title>'
            f'</polyline><rect x="{LEFT}" y="{at - 8}" width="12" height="8" fill="{colour}"/>'
            f'<text x="{LEFT + 18}" y="{at}">{words}</text>'
        )
    axes = (
        f'<path class="axis" fill="none" d="M{LEFT} {LINE}V{low}H{LEFT + WIDTH}"/>'
        f'<text x="{LEFT}" y="{LINE - 4}">{escape(unit)}</text>'
        f'<text x="{LEFT - 6}" y="{LINE + 8}" text-anchor="end">{most:,.1f}</text>'
        f'<text x="{LEFT - 6}" y="{low}" text-anchor="end">0</text>'
        f'<text x="{LEFT}" y="{low + 14}">{seconds_text(begin - origin)}</text>'
        f'<text x="{LEFT + WIDTH}" y="{low + 14}" text-anchor="end">{seconds_text(end - origin)}</text>'
    )
    return framed(LEFT + WIDTH + 8, low + (len(marks) + 1) * LINE + 8, STYLE, f"{axes}{''.join(marks)}")


def _pieces(times: Floats, values: Floats | Ints) -> tuple[Floats, Floats]:
    """The edges of equal pieces of time, and the mean in each."""
    edges = np.linspace(times[0], max(times[-1], times[0] + 1e-9), PIECES + 1)
    return edges, means(times, values, edges)


def framed(width: int, height: int, style: str, inside: str) -> str:
    """A picture as wide as there is room for."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'style="width:100%;max-width:{width}px"><style>{style}</style>{inside}</svg>'
    )
