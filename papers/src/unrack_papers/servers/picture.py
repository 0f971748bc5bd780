"""A picture of servers on tiers of memory: every pool a bar, every server a slice of it. SVG, without a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from unrack.cluster import names_of_clusters
from unrack_papers.servers.answer import PlacedServers

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bb7733", "#7788cc")
"""Of servers, in turn; of P. Tol's bright scheme, and two more."""
LEFT, TOP, GAP, TALL, FOOT = 150, 44, 26, 130, 22
"""Pixels: room for words at the left and on top, between rows, of the tallest bar of a row, and under the last row."""
WIDE, NARROW, ALL = 110, 7, 1600
"""Pixels: the widest and the narrowest column, and what all columns try to fit into."""
FEW = 24
"""So many clusters are all shown; of more, those that hold a server."""


@dataclass(frozen=True)
class Bar:
    """A pool, drawn once: from where to where, what it has, and which server has how much of it."""

    pool: int  # its node
    # left, right: columns, from the first to the last one of its clusters
    left: int
    right: int
    size: int  # what it has
    parts: tuple[tuple[int, int], ...]  # (server, amount), in order of the servers


def picture(placed: PlacedServers) -> str:
    """The clusters side by side: cores on top, then a row for each tier; a pool of several clusters spans them.

    The height of a bar is what its pool has, on the scale of its row. Where clusters that share a pool are not
    neighbours, the bar stands at the first of them. A browser says which server a slice is when the mouse is on it.
    """
    tiers = placed.cluster.tiers
    assert tiers is not None
    shown = _shown(placed)
    width = int(min(WIDE, max(NARROW, ALL // max(len(shown), 1))))
    rows = [("cores", 1, "cores", _bars(placed, shown, -1))]
    rows += [(name, 1024, "GB", _bars(placed, shown, tier)) for tier, name in enumerate(tiers.names)]
    right, bottom = LEFT + width * len(shown) + 20, TOP + len(rows) * (TALL + GAP) + FOOT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {max(right, 640)} {bottom}" font-family="sans-serif" '
        f'font-size="13" role="img" aria-label="{escape(_title(placed))}">',
        f'<rect width="{max(right, 640)}" height="{bottom}" fill="#fff"/>',
        f'<text x="{LEFT}" y="24" font-weight="bold">{escape(_title(placed))}</text>',
    ]
    for index, (name, unit, words, bars) in enumerate(rows):
        base = TOP + index * (TALL + GAP) + TALL
        most = max((bar.size for bar in bars), default=0)
        lines.append(f'<text x="{LEFT - 10}" y="{base - 14}" text-anchor="end">{escape(name)}</text>')
        scale = f"up to {most / unit:,.4g} {words}"
        lines.append(f'<text x="{LEFT - 10}" y="{base}" text-anchor="end" fill="#555" font-size="11">{scale}</text>')
        for bar in bars:
            lines += _drawn(placed, bar, base, width, most, (unit, words))
    names = names_of_clusters(placed.cluster)
    every = max(1, -(-40 // width)) if len(shown) > 1 else 1
    for column, cluster in enumerate(shown):
        if column % every == 0:
            x = LEFT + column * width + width / 2
            words = escape(f"cluster {names[cluster]}" if width > 60 else str(names[cluster]))
            lines.append(f'<text x="{x:g}" y="{bottom - 10}" text-anchor="middle" font-size="11">{words}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _title(placed: PlacedServers) -> str:
    on, servers = placed.clusters_used, len(placed.request) - len(placed.unplaced)
    return f"{placed.policy}: {servers} of {len(placed.request)} servers in {on} clusters"


def _shown(placed: PlacedServers) -> list[int]:
    every = placed.supply.clusters
    if every <= FEW:
        return list(range(every))
    used: list[int] = np.unique(placed.allocation.cluster[placed.allocation.cluster >= 0]).tolist()
    return used


def _bars(placed: PlacedServers, shown: Sequence[int], tier: int) -> list[Bar]:
    """The pools of a tier; -1: the cores of the compute pools."""
    supply, at = placed.supply, placed.allocation.cluster
    columns: dict[int, list[int]] = {}
    for column, cluster in enumerate(shown):
        for place, pool in enumerate(supply.pools(cluster).tolist()):
            if (place == 0 and tier < 0) or (tier >= 0 and supply.tier[pool] == tier):
                columns.setdefault(pool, []).append(column)
    parts: dict[int, list[tuple[int, int]]] = {pool: [] for pool in columns}
    for server in np.flatnonzero(at >= 0).tolist():
        for place, pool in enumerate(supply.pools(int(at[server])).tolist()):
            amount = placed.asked.cores[server] if tier < 0 else placed.allocation.mb[server, place]
            if pool in parts and amount and (tier >= 0 or place == 0):
                parts[pool].append((server, int(amount)))
    sizes = supply.all_cores if tier < 0 else supply.all_mb
    return [
        Bar(pool, own[0], own[-1] if own[-1] - own[0] == len(own) - 1 else own[0], int(sizes[pool]), tuple(parts[pool]))
        for pool, own in columns.items()
    ]


def _drawn(placed: PlacedServers, bar: Bar, base: int, width: int, most: int, unit: tuple[int, str]) -> Iterator[str]:
    """The bar of a pool, and the slices of its servers from the bottom up."""
    inset = 4 if width > 20 else 1
    x, wide = LEFT + bar.left * width + inset, (bar.right - bar.left + 1) * width - 2 * inset
    pixels = TALL / most if most else 0.0
    tall = bar.size * pixels
    yield f'<rect x="{x}" y="{base - tall:.2f}" width="{wide}" height="{tall:.2f}" fill="#f2f2f2" stroke="#555"/>'
    y = float(base)
    for server, amount in bar.parts:
        part = amount * pixels
        y -= part
        called, much = escape(str(placed.request.ids[server])), f"{amount / unit[0]:,.4g} {unit[1]}"
        colour = COLOURS[server % len(COLOURS)]
        yield (
            f'<rect x="{x}" y="{y:.2f}" width="{wide}" height="{part:.2f}" fill="{colour}" stroke="#fff" '
            f'stroke-width="{0.8 if part > 3 else 0.2}"><title>{called}: {much}</title></rect>'
        )
        words = f"{called}: {much}"
        fits = [words for words in (words, called) if len(words) * 6.2 < wide]
        if part >= 12 and fits:
            yield (
                f'<text x="{x + wide / 2:g}" y="{y + part / 2 + 4:.2f}" text-anchor="middle" font-size="11" '
                f'fill="#fff" pointer-events="none">{fits[0]}</text>'
            )
