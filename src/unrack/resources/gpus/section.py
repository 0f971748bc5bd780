"""The section of the report: how the GPUs were used, and how good the placements were, by policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from unrack.kernels.arrays import Floats
from unrack.resources.gpus.fleet import Fleet
from unrack.resources.gpus.fragmentation.steps import fragmentation_steps
from unrack.resources.gpus.keys import machine_of, read_keys
from unrack.resources.telling import Kept, Table, rows_by_policy
from unrack.resources.use import COLOURS, PIECES, framed, picture
from unrack.units import seconds_text

MOST_LANES = 48
MOST_BARS = 4000
LANES_LEFT, LANES_WIDTH, LANE, GAP = 92, 900, 10, 8
LANES_STYLE = "text{font:11px system-ui,sans-serif;fill:currentColor}.lane{fill:currentColor;opacity:.08}"
HEAD = ("policy", "GPUs in use", "utility", "1/t", "I", "1 - w", "across sockets", "below minimum",
        "fragmented")  # fmt: skip
FRAGMENTATION = (
    "Expected number of free GPUs that a usual task cannot use (Weng et al. 2023): its machine has too few of them, "
    "too little left of each, or too few free cores, or the task asks for none. Usual are the most frequent demands "
    "that make up 95 % of the run's tasks. GPUs that are divided into slices are left out. Each line is the first run "
    f"of a policy, drawn as means over {PIECES} equal pieces of its time."
)
MOST_PICTURES = 4
LANES = f"At most {MOST_LANES} GPUs and {MOST_BARS} pieces are drawn; point at one for its job."
WORDS = (
    "In use: the share of GPU-hours that jobs held. Utility: the mean over starts on whole GPUs; t is what "
    "communication costs over the least possible, I what neighbours leave of the speed, w the share of the machine's "
    "GPUs that was free. Across sockets: the share of jobs with several GPUs that have them at several sockets. Below "
    "minimum: starts with less utility than asked. Fragmented: the share of the GPUs that were free and of no use to a "
    "usual task."
)


def tables(runs: Sequence[Kept]) -> tuple[Table, ...]:
    """One table: a row a policy, over its seeds."""
    rows = rows_by_policy(runs, _row)
    return (Table("Placements", WORDS, HEAD, rows), *_fragmentation(runs), *_pictures(runs)) if rows else ()


def _fragmentation(runs: Sequence[Kept]) -> Iterator[Table]:
    first = {run.policy: run for run in reversed(runs)}
    lines: dict[str, tuple[Floats, Floats]] = {}
    fleet = None
    for policy in list(dict.fromkeys(run.policy for run in runs))[: len(COLOURS)]:
        run = first[policy]
        if run.nodes is None or run.table is None:
            continue
        fleet = fleet or Fleet(read_keys(run.written, "gpus"), run.nodes, "gpus")  # runs of a setting have one cluster
        jobs, placed = run.table("jobs"), run.table("placements")
        if placed.height:
            begin, end = (float(value) for value in (placed["start_s"].min(), placed["end_s"].max()))
            if steps := fragmentation_steps(fleet, run.claims, jobs, placed, begin, end):
                edges = np.linspace(steps.times_s[0], steps.times_s[-1], PIECES + 1)
                lines[policy] = edges, steps.means(PIECES)
    if lines:
        yield Table("Fragmentation over time", FRAGMENTATION, (), (), picture(lines, "GPUs"))


def _pictures(runs: Sequence[Kept]) -> Iterator[Table]:
    """Of the first run of every policy, who was on which GPU when."""
    first = {run.policy: run for run in reversed(runs)}
    for policy in list(dict.fromkeys(run.policy for run in runs))[:MOST_PICTURES]:
        run = first[policy]
        if picture := lanes(run.claims, run.written):
            yield Table(f"GPUs over time, {policy}", f"A lane a GPU, a colour a job. {LANES}", (), (), picture)


def _row(policy: str, runs: Sequence[Kept]) -> tuple[str, ...]:
    def mean(name: str) -> float | None:
        known = [value for run in runs if (value := run.metrics.get(name)) is not None]
        return sum(known) / len(known) if known else None

    used, utility, near, alone, free, across, below, lost = (
        mean(name) for name in ("used_gpus", "utility_mean", "gpu_nearness_mean", "gpu_interference_mean",
                                "gpu_free_share_mean", "gpus_across_sockets", "below_min_utility", "fragmented_gpus")
    )  # fmt: skip
    return (
        policy, _text(used, 100, " %"), _text(utility, 1, "", 3), _text(near, 1, "", 3), _text(alone, 1, "", 3),
        _text(None if free is None else 1 - free, 1, "", 3), _text(across, 100, " %"), _text(below, 1, ""),
        _text(lost, 100, " %"),
    )  # fmt: skip


def _text(value: float | None, times: float, unit: str, digits: int = 1) -> str:
    return "–" if value is None else f"{times * value:.{digits}f}{unit}"


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
        marks.append(f'<text x="{LANES_LEFT - 30}" y="{y + 9}" opacity=".6">GPU{gpu}</text>')
        marks.append(f'<rect class="lane" x="{LANES_LEFT}" y="{y}" width="{LANES_WIDTH}" height="{LANE - 1}"/>')
        y, last = y + LANE, (node, socket)
    end = max(float(parts.select(pl.col("end_s").max()).item()), 1e-9)
    begin = float(parts.select(pl.col("start_s").min()).item())
    scale = LANES_WIDTH / max(end - begin, 1e-9)
    bars = []
    for node, gpu, job, start, stop, amount in (
        parts.sort("start_s").select("node", "gpu", "job", "start_s", "end_s", "amount").head(MOST_BARS).rows()
    ):
        if (node, gpu) in top:
            colour = COLOURS[crc32(str(job).encode()) % len(COLOURS)]  # the same in every process
            words = escape(f"job {job}: {seconds_text(start)} to {seconds_text(stop)}, {amount}/1000")
            bars.append(
                f'<rect x="{LANES_LEFT + (start - begin) * scale:.1f}" y="{top[node, gpu]}" height="{LANE - 1}" '
                f'width="{max((stop - start) * scale, 0.5):.1f}" fill="{colour}"><title>{words}</title></rect>'
            )
    ends = (
        f'<text x="{LANES_LEFT}" y="{y + 16}">{seconds_text(begin)}</text>'
        f'<text x="{LANES_LEFT + LANES_WIDTH}" y="{y + 16}" text-anchor="end">{seconds_text(end)}</text>'
    )
    return framed(LANES_LEFT + LANES_WIDTH + 8, y + 22, LANES_STYLE, f"{''.join([*marks, *bars])}{ends}")
