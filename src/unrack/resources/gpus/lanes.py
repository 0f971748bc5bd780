"""Which job was on which GPU when, as a picture: a lane a GPU, machine by machine, socket by socket."""

from __future__ import annotations

from html import escape
from typing import Any
from zlib import crc32

import polars as pl

from unrack.resources.gpus.keys import machine_of
from unrack.resources.gpus.machines.drawing import COLOURS
from unrack.units import seconds_text

MOST_LANES = 48
MOST_BARS = 4000
LEFT, WIDTH, LANE, GAP = 92, 900, 10, 8
STYLE = "text{font:11px system-ui,sans-serif;fill:currentColor}.lane{fill:currentColor;opacity:.08}"


def lanes(claims: pl.DataFrame, written: dict[str, Any]) -> str:
    """The picture as SVG; empty: nothing was held.

    Parameters
    ----------
    claims
        The rows of the table of claims of one run.
    written
        The keys of the cluster file.
    """
    parts = claims.with_columns(
        pl.col("place").str.extract(r"^node(\d+)/", 1).cast(pl.Int64).alias("node"),
        pl.col("place").str.extract(r"/gpu(\d+)", 1).cast(pl.Int64).alias("gpu"),
    ).drop_nulls(["node", "gpu"])
    if not parts.height:
        return ""
    sockets = [machine_of(part["machine"], "gpus").socket.tolist() for part in written["machines"]]
    of = sockets[0] if len(sockets) == 1 else []
    rows = parts.select("node", "gpu").unique().sort("node", "gpu").rows()
    if len(sockets) == 1:  # idle GPUs of the machines have a lane too
        rows = [(node, gpu) for node in sorted({node for node, _ in rows}) for gpu in range(len(of))]
    kept = rows[:MOST_LANES]
    top, y, marks, last = {}, 4, [], (-1, -1)
    for node, gpu in kept:
        socket = of[gpu] if gpu < len(of) else 0
        if node != last[0]:
            y += GAP if last[0] >= 0 else 0
            marks.append(f'<text x="0" y="{y + 9}">node {node}</text>')
        elif socket != last[1]:
            y += 3
        top[node, gpu] = y
        marks.append(f'<text x="{LEFT - 30}" y="{y + 9}" opacity=".6">GPU{gpu}</text>')
        marks.append(f'<rect class="lane" x="{LEFT}" y="{y}" width="{WIDTH}" height="{LANE - 1}"/>')
        y, last = y + LANE, (node, socket)
    end = max(float(parts.select(pl.col("end_s").max()).item()), 1e-9)
    begin = float(parts.select(pl.col("start_s").min()).item())
    scale = WIDTH / max(end - begin, 1e-9)
    bars = []
    for node, gpu, job, start, stop, amount in (
        parts.sort("start_s").select("node", "gpu", "job", "start_s", "end_s", "amount").head(MOST_BARS).rows()
    ):
        if (node, gpu) in top:
            colour = COLOURS[crc32(str(job).encode()) % len(COLOURS)]  # the same in every process
            words = escape(f"job {job}: {seconds_text(start)} to {seconds_text(stop)}, {amount}/1000")
            bars.append(
                f'<rect x="{LEFT + (start - begin) * scale:.1f}" y="{top[node, gpu]}" height="{LANE - 1}" '
                f'width="{max((stop - start) * scale, 0.5):.1f}" fill="{colour}"><title>{words}</title></rect>'
            )
    ends = (
        f'<text x="{LEFT}" y="{y + 16}">{seconds_text(begin)}</text>'
        f'<text x="{LEFT + WIDTH}" y="{y + 16}" text-anchor="end">{seconds_text(end)}</text>'
    )
    style, marks_and_bars = f"<style>{STYLE}</style>", "".join([*marks, *bars])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 8} {y + 22}" role="img" '
        f'style="width:100%;max-width:{LEFT + WIDTH + 8}px">{style}{marks_and_bars}{ends}</svg>'
    )
