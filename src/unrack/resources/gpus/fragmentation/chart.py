"""Fragmentation over time as a picture: a line a policy."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np

from unrack.resources.gpus.fragmentation.steps import Steps
from unrack.resources.gpus.machines.drawing import COLOURS
from unrack.units import seconds_text

PIECES = 300
"""Pieces of time; what is drawn is the mean over each."""
LEFT, WIDTH, HEIGHT, LINE = 60, 840, 120, 16
STYLE = "text{font:11px system-ui,sans-serif;fill:currentColor}.axis{stroke:currentColor;opacity:.3}"


def chart(runs: Mapping[str, Steps]) -> str:
    """The picture as SVG; at most as many policies as there are colours.

    Parameters
    ----------
    runs
        Policy → the fragmentation of a run of it.
    """
    begin = min(float(steps.times_s[0]) for steps in runs.values())
    end = max(float(steps.times_s[-1]) for steps in runs.values())
    means = {policy: steps.means(PIECES) for policy, steps in runs.items()}
    most = max(float(values.max()) for values in means.values())
    scale, marks = (WIDTH / (end - begin), HEIGHT / max(most, 1e-9)), []
    for i, ((policy, values), colour) in enumerate(zip(means.items(), COLOURS, strict=False)):
        edges = LEFT + (np.linspace(runs[policy].times_s[0], runs[policy].times_s[-1], PIECES + 1) - begin) * scale[0]
        x, y = np.repeat(edges, 2)[1:-1], np.repeat(LINE + HEIGHT - values * scale[1], 2)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
        words = escape(f"{policy}: {values.mean():.2f} GPUs on average")
        at = LINE + HEIGHT + (i + 2) * LINE
        marks.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"><title>{words}</title>'
            f'</polyline><rect x="{LEFT}" y="{at - 8}" width="12" height="8" fill="{colour}"/>'
            f'<text x="{LEFT + 18}" y="{at}">{words}</text>'
        )
    low = LINE + HEIGHT
    axes = (
        f'<path class="axis" fill="none" d="M{LEFT} {LINE}V{low}H{LEFT + WIDTH}"/>'
        f'<text x="{LEFT - 6}" y="{LINE + 8}" text-anchor="end">{most:.1f}</text>'
        f'<text x="{LEFT - 6}" y="{low}" text-anchor="end">0</text>'
        f'<text x="{LEFT}" y="{low + 14}">{seconds_text(begin)}</text>'
        f'<text x="{LEFT + WIDTH}" y="{low + 14}" text-anchor="end">{seconds_text(end)}</text>'
    )
    width, height = LEFT + WIDTH + 8, low + (len(marks) + 1) * LINE + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'style="width:100%;max-width:{width}px"><style>{STYLE}</style>{axes}{"".join(marks)}</svg>'
    )
