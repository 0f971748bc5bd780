"""Maps of memory: nodes over time, and lenders against borrowers, in few enough cells to draw."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.kernels.arrays import Floats, Ints
from unrack.plots.series import clock_start, span_unit
from unrack.report.charts.canvas import packed
from unrack.report.charts.chart import span_axis
from unrack.report.charts.spec import Spec, framed, number, told
from unrack.steps import spans

Bands = Sequence[tuple[str, int]]
"""(name, first node) of every run of nodes of one class, in order; empty: all are of one."""

ROWS = 128
"""Groups of nodes of a map over time, at most."""

COLUMNS = 200
"""Spans of time of a map."""

SIDE = 64
"""Groups of nodes on each side of a map of lenders and borrowers, at most."""

PLACES = 10_000
"""The length of an axis of nodes."""

LEAST = 0.05
"""The least share of the axis that a class of nodes has, however few: a memory pool is one node."""


MOST_BANDS = 12


def bands_of(group: Ints, names: Sequence[str]) -> Bands:
    """The bands of nodes, given the group of each (int64[nodes], indices into ``names``).

    Empty where all are of one, and where there are more than ``MOST_BANDS``.
    """
    first = np.flatnonzero(np.diff(group, prepend=-1)).tolist()
    return tuple((names[group[node]], node) for node in first) if 1 < len(first) <= MOST_BANDS else ()


def node_bounds(nodes: int, most: int, bands: Bands = ()) -> Ints:
    """int64[groups + 1]: group i is of the nodes from bound i up to, without, bound i + 1.

    Sizes differ by at most 1, but that no group is of two classes: each may split one.

    Examples
    --------
    >>> node_bounds(5, 2).tolist(), node_bounds(3, 8).tolist(), node_bounds(5, 2, [("a", 0), ("b", 4)]).tolist()
    ([0, 2, 5], [0, 1, 2, 3], [0, 2, 4, 5])
    """
    groups = min(nodes, most)
    bounds = np.arange(groups + 1, dtype=np.int64) * nodes // groups
    return np.union1d(bounds, np.array([first for _, first in bands], np.int64))


def places_of(at: Ints, nodes: int, bands: Bands) -> Ints:
    """Where nodes begin on an axis of ``PLACES``: in proportion, but that each class has ``LEAST`` of it.

    Examples
    --------
    >>> places_of(np.array([0, 50, 99, 100]), 100, [("normal", 0), ("pool", 99)]).tolist()
    [0, 4808, 9519, 10000]
    """
    knots = np.array([*(first for _, first in bands or [("", 0)]), nodes])
    shares = np.maximum(np.diff(knots) / nodes, LEAST)
    ends = np.concatenate([[0.0], np.cumsum(shares)]) / shares.sum()
    places: Ints = np.rint(PLACES * np.interp(at, knots, ends)).astype(np.int64)
    return places


def lent_over_time(loans: pl.DataFrame, bounds: Ints, edges: Floats) -> Floats:
    """What groups of nodes lent, averaged over spans of time; O(loans + cells).

    ``loans``: start_s, end_s (null: never ends), lender, mb; in any order; ``bounds``: int64[rows + 1], of the groups
    of nodes, as :func:`node_bounds` has them; ``edges``: float64[columns + 1], spans of time of equal length, s.
    Returns float64[rows, columns]: MB, all nodes of a group together.

    Examples
    --------
    >>> loans = pl.DataFrame({"start_s": [1.0, 2.0], "end_s": [4.0, 6.0], "lender": [0, 2], "mb": [100, 10]})
    >>> lent_over_time(loans, np.array([0, 1, 3]), np.array([0.0, 2.0, 4.0])).tolist()
    [[50.0, 100.0], [0.0, 10.0]]
    """
    rows, columns, width = len(bounds) - 1, len(edges) - 1, float(edges[1] - edges[0])
    row = np.searchsorted(bounds, loans["lender"].cast(pl.Int64).to_numpy(), side="right") - 1
    amount = loans["mb"].cast(pl.Float64).to_numpy()
    level, part = np.zeros(rows * (columns + 1)), np.zeros(rows * (columns + 1))
    for sign, when in zip((1.0, -1.0), spans(loans), strict=True):
        inside = np.clip(when, edges[0], edges[-1])
        column = np.minimum(np.searchsorted(edges, inside, side="right") - 1, columns - 1)
        place = row * (columns + 1) + column
        left = (edges[column + 1] - inside) / width  # how much of its span is left when it comes or goes
        part += np.bincount(place, sign * amount * left, len(part))
        level += np.bincount(place + 1, sign * amount, len(level))
    whole = np.cumsum(level.reshape(rows, columns + 1), axis=1)
    return np.maximum((whole + part.reshape(rows, columns + 1))[:, :columns], 0.0)


def lent_between(loans: pl.DataFrame, bounds: Ints, start_s: float, end_s: float) -> Floats:
    """float64[groups, groups]: what each group of nodes (rows) lent to each (columns) over a time, on average, MB.

    Loans and bounds are as in :func:`lent_over_time`; loans have a node, too.
    """
    groups = len(bounds) - 1
    lender, node = (
        np.searchsorted(bounds, loans[name].cast(pl.Int64).to_numpy(), side="right") - 1 for name in ("lender", "node")
    )
    start, end = spans(loans)
    lasts = np.maximum(np.minimum(end, end_s) - np.maximum(start, start_s), 0.0) / (end_s - start_s)
    amount = loans["mb"].cast(pl.Float64).to_numpy() * lasts
    return np.bincount(lender * groups + node, amount, groups * groups).astype(np.float64).reshape(groups, groups)


@dataclass(frozen=True)
class CellMap:
    """The cells of a map. The page draws it of what is packed, charts outside the page of its rows.

    The header has ``nodes``, the bounds of the groups, and ``places``, where they are on the axis (:func:`places_of`);
    ``installed``, MB of each group (0: not counted); and either ``from``, ``step``, ``columns`` and ``unit``, the spans
    of time as the axis counts them, or none of these: then the columns are the groups of nodes.
    """

    head: Mapping[str, Any]
    mb: NDArray[np.uint32]  # [rows, columns], to three digits

    def packed(self) -> str:
        """The header and the cells, row by row, for the page."""
        return packed(self.head, [self.mb])

    def rows(self, share: bool) -> list[dict[str, Any]]:
        """A row a cell that is not empty; ``share``: it tells the share of the memory installed there, not GB."""
        head, places, bounds = self.head, self.head["places"], self.head["nodes"]
        found = []
        for lane, column in zip(*(own.tolist() for own in np.nonzero(self.mb)), strict=True):
            amount = float(self.mb[lane, column])
            row = {"y": places[lane], "y2": places[lane + 1]}
            if "columns" in head:
                x = head["from"] + column * head["step"]
                installed, nodes = head["installed"][lane], bounds[lane + 1] - bounds[lane]
                row |= {"x": x, "x2": x + head["step"], "value": amount / installed if share else amount / nodes / 1024}
            else:
                row |= {"x": places[column], "x2": places[column + 1], "value": amount / 1024}
            found.append(row)
        return found


def cell_map(
    cells: Floats, bounds: Ints, installed: Ints, bands: Bands, edges: Floats | None = None, unit: str = ""
) -> CellMap:
    """A map of amounts, MB.

    ``cells``: float64[rows, columns], MB, all nodes of a group together; ``bounds``: int64[rows + 1], of the groups;
    ``installed``: int64[nodes], MB; ``edges``: float64[columns + 1], of the spans of time, in the ``unit``.
    """
    head = {
        "nodes": bounds.tolist(), "places": places_of(bounds, len(installed), bands).tolist(),
        "installed": np.add.reduceat(installed, bounds[:-1]).tolist(),
    }  # fmt: skip
    times = {} if edges is None else {
        "from": float(edges[0]), "step": float(edges[1] - edges[0]), "columns": len(edges) - 1,
        "unit": unit,
    }  # fmt: skip
    digits = 10.0 ** (np.floor(np.log10(np.maximum(cells, 1.0))) - 2)
    rounded = np.rint(cells / np.maximum(digits, 1.0)) * np.maximum(digits, 1.0)
    return CellMap({**head, **times}, np.minimum(rounded, 2**32 - 1).astype("<u4"))


class Words(NamedTuple):
    """What a map over time is called: its nodes, what the colour is of, and the noun for several nodes and classes."""

    tips: Mapping[str, str]  # a field of its tooltip → what it is called
    of: str  # the axis of nodes
    colour: str
    nodes: str
    bands: str


LENT = Words({"who": "lent by", "when": "when", "amount": "memory", "share": "of their memory"}, "node that lends",
             "GB lent a node", "nodes", "classes of nodes")  # fmt: skip
IN_POOLS = Words({"who": "pool", "when": "when", "amount": "memory in use", "share": "of its memory"}, "pool",
                 "share of the pool's memory that is in use", "pools", "tiers")  # fmt: skip


def held_map(
    rows: pl.DataFrame, installed: Ints, bands: Bands, edges: Floats, words: Words, note: str, **more: Any
) -> dict[str, Any]:
    """What is held of each node over time, as a chart: a rectangle a cell. How nodes are grouped follows the ``note``.

    ``rows``: as of :func:`lent_over_time`; ``installed``: int64[nodes], MB, 0: not counted; ``edges``: float64[columns
    + 1], spans of time of equal length, s; ``more``: further keys of the chart, ``id``, ``title`` and ``shares``.
    """
    nodes, (x, _), (unit, size) = len(installed), span_axis(edges), span_unit(float(edges[-1] - edges[0]))
    spans, bounds = (edges - clock_start(float(edges[0]))) / size, node_bounds(nodes, ROWS, bands)
    grouped = f" A row is up to {np.diff(bounds).max():,} {words.nodes}." if nodes > ROWS else ""
    dashed = f" Dashed: {words.bands}." if bands else ""
    return {
        **more, "wide": True, "series": [], "note": f"{note}{grouped}{dashed}",
        "map": cell_map(lent_over_time(rows, bounds, edges), bounds, installed, bands, spans, unit),
        "spec": _cells({**x, "axis": {"grid": False}}, nodes, bands, False, words.colour, words.tips, words.of),
    }  # fmt: skip


def matrix_spec(nodes: int, bands: Bands) -> Spec:
    """Lent memory by lender and borrower, as :func:`held_map` has it."""
    x = _nodes("x", "node of the tasks that use it", nodes, bands)
    words = {"who": "lent by", "when": "used by", "amount": "memory", "share": "of all that was lent"}
    return _cells(x, nodes, bands, True, "GB lent, averaged over time", words)


def _nodes(field: str, title: str, nodes: int, bands: Bands) -> Spec:
    """A channel of nodes, by their places, with some of their numbers."""
    scale = {"domain": [0, PLACES], "nice": False, "zero": False}
    step = next(size * 10**power for power in range(9) for size in (1, 2, 5) if nodes <= 10 * size * 10**power)
    numbers = np.arange(0, nodes, step)
    places = places_of(numbers, nodes, bands).tolist()
    words = dict(zip(places, map(str, numbers.tolist()), strict=True))
    axis = {"grid": False, "values": places, "labelExpr": f"({json.dumps(words)})[datum.value]", "labelOverlap": True}
    return number(field, title, scale=scale, axis=axis)


def _cells(
    x: Spec, nodes: int, bands: Bands, square: bool, title: str, words: Mapping[str, str], of: str = "node that lends"
) -> Spec:
    y = _nodes("y", of, nodes, bands)
    y["scale"]["reverse"] = True
    legend = {"orient": "bottom", "direction": "horizontal", "gradientLength": 240, "gradientThickness": 10,
              "title": title, "titleLimit": 300, "format": ",.3~g"}  # fmt: skip
    colour = {"field": "value", "type": "quantitative", "scale": {"domainMin": 0}, "legend": legend}
    edges = {"x": x, "x2": {"field": "x2"}, "y": y, "y2": {"field": "y2"}}
    layers: list[Spec] = [
        {"mark": {"type": "rect", "strokeWidth": 0},
         "encoding": {**edges, "color": colour, "tooltip": told(*words.items())}}
    ]  # fmt: skip
    if bands:
        bounds = places_of(np.array([*(first for _, first in bands), nodes]), nodes, bands).tolist()
        middles = [(first + end) // 2 for first, end in itertools.pairwise(bounds)]
        names = {middle: name for (name, _), middle in zip(bands, middles, strict=True)}
        label = {"orient": "right", "values": middles, "labelExpr": f"({json.dumps(names)})[datum.value]",
                 "title": None, "ticks": False, "domain": False, "grid": False, "labelLimit": 120}  # fmt: skip
        bars = {"values": [{"y": place, "x": place} for place in bounds[1:-1]]}
        rule = {"type": "rule", "strokeDash": [5, 3], "strokeWidth": 1, "opacity": 0.8}
        layers.append({"data": bars, "mark": rule, "encoding": {"y": {**y, "title": None, "axis": label}}})
        if square:
            layers.append({"data": bars, "mark": rule, "encoding": {"x": {**x, "title": None}}})
    return framed({"layer": layers, "resolve": {"axis": {"y": "independent"}}}, 420 if square else 380)
