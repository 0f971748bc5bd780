"""The resource ``gpus``: its keys, metrics and section, in one place; and each placement of a finished run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from unrack.kernels.arrays import Floats, Ints
from unrack.resources.contract import Installed, Nodes, Slowdown, UsualResource
from unrack.resources.gpus.choice import Neighbours, terms, utility_of
from unrack.resources.gpus.columns import (
    GPUS,
    MILLI,
    MIN_UTILITY,
    QUANTITIES,
    UTILITY_PARTS,
    WHOLE,
    ask_of,
    machine_of,
    read_keys,
)
from unrack.resources.gpus.fleet import Fleet
from unrack.resources.gpus.fragmentation import fragmentation_steps, undivided_gpus
from unrack.resources.use import COLOURS, PIECES, Kept, Measured, Metric, Table, framed, picture, rows_by_policy
from unrack.sealed import shown
from unrack.units import clock_start, seconds_text

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
LANES = f"At most {MOST_LANES} GPUs and {MOST_BARS:,} pieces are drawn; point at one for its job."
WORDS = (
    "In use: the share of GPU-hours that jobs held. Utility: the mean over starts on whole GPUs; t is what "
    "communication costs over the least possible, I what neighbours leave of the speed, w the share of the machine's "
    "GPUs that was free. Across sockets: the share of jobs with several GPUs that have them at several sockets. Below "
    "minimum: starts with less utility than asked. Fragmented: the share of the GPUs that were free and of no use to a "
    "usual task."
)


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
                lines[policy] = steps
    if lines:
        yield Table("Fragmentation over time", FRAGMENTATION, (), (), picture(lines, "GPUs", runs))


def _pictures(runs: Sequence[Kept]) -> Iterator[Table]:
    """Of the first run of every policy, which job was on which GPU when."""
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

    ``claims``: the rows of the table of claims of one run; ``written``: the keys of the cluster file.
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
        marks.append(f'<text x="{LANES_LEFT - 36}" y="{y + 9}" opacity=".6">GPU{gpu}</text>')
        marks.append(f'<rect class="lane" x="{LANES_LEFT}" y="{y}" width="{LANES_WIDTH}" height="{LANE - 1}"/>')
        y, last = y + LANE, (node, socket)
    begin, end = float(parts["start_s"].min()), max(float(parts["end_s"].max()), 1e-9)  # type: ignore[arg-type]
    origin = clock_start(begin)
    scale = LANES_WIDTH / max(end - begin, 1e-9)
    bars = []
    columns = ("node", "gpu", "job", "start_s", "end_s", "amount", "place")
    for node, gpu, job, start, stop, amount, place in parts.sort("start_s").select(columns).head(MOST_BARS).rows():
        if (node, gpu) in top:
            what = place.split("/")[2] if place.count("/") == 2 else f"{amount}/{WHOLE}"
            colour = COLOURS[crc32(str(job).encode()) % len(COLOURS)]  # the same in every process
            words = escape(f"job {job}: {seconds_text(start - origin)} to {seconds_text(stop - origin)}, {what}")
            bars.append(
                f'<rect x="{LANES_LEFT + (start - begin) * scale:.1f}" y="{top[node, gpu]}" height="{LANE - 1}" '
                f'width="{max((stop - start) * scale, 0.5):.1f}" fill="{colour}"><title>{words}</title></rect>'
            )
    ends = (
        f'<text x="{LANES_LEFT}" y="{y + 16}">{seconds_text(begin - origin)}</text>'
        f'<text x="{LANES_LEFT + LANES_WIDTH}" y="{y + 16}" text-anchor="end">{seconds_text(end - origin)}</text>'
    )
    return framed(LANES_LEFT + LANES_WIDTH + 8, y + 22, LANES_STYLE, f"{''.join([*marks, *bars])}{ends}")


MEASURES = (
    Metric("used_gpus", "", "", "share of the GPUs that jobs held", "∫ held dt / (installed x window)"),
    Metric("utility_mean", "", "high", "mean utility of starts on whole GPUs", "mean of (1/t + I + 1 - w) / 3"),
    Metric("gpu_nearness_mean", "", "high", "least cost of communication over what it is, at starts", "mean 1/t"),
    Metric("gpu_free_share_mean", "", "", "share of a machine's GPUs that were free before a start there", "mean w"),
    Metric("gpu_cost_mean", "", "low", "communication of jobs with several GPUs, over the least possible", "mean t"),
    Metric("gpu_interference_mean", "", "high", "run time alone over run time beside neighbours, at starts", "mean I"),
    Metric("gpus_across_sockets", "", "low", "share of jobs with several GPUs that have them at several sockets",
           "jobs at several sockets / jobs with several GPUs"),
    Metric("below_min_utility", "jobs", "low", "starts below the least utility that the job asks for", "count"),
    Metric("fragmented_gpus", "", "low", "share of the GPUs that were free and of no use to a usual task",
           "∫ F dt / (undivided GPUs x window)"),
)  # fmt: skip


class GpuResource(UsualResource):
    """See :class:`unrack.resources.contract.Resource`."""

    name = GPUS
    title = "GPUs and how they are connected"
    metrics = MEASURES

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """The GPUs of a cluster file."""
        return Fleet(read_keys(table, where), nodes, where)

    def measure(self, run: Measured) -> dict[str, float | None]:
        """How much was used, and how good the placements were; ``None`` over no time, or where there is nothing."""
        fleet, claims, jobs, placed, start_s, end_s = run
        values: dict[str, float | None] = dict.fromkeys(told.name for told in MEASURES)
        length = end_s - start_s
        kinds = fleet.gpus.kind[fleet.gpus.kind >= 0]
        installed = float(fleet.gpus.size[kinds].sum())
        if length > 0 and installed:
            of_one = 1 / (fleet.total * np.maximum(1, fleet.gpus.slices[fleet.gpus.kind[fleet.node]]))
            share = pl.col("place").replace_strict([place.name for place in fleet.places], of_one)
            until, since = pl.min_horizontal("end_s", pl.lit(end_s)), pl.max_horizontal("start_s", pl.lit(start_s))
            spent = claims.select((pl.col("amount") * share * (until - since).clip(0.0)).sum()).item()
            values["used_gpus"] = float(spent) / (installed * length)
        steps = fragmentation_steps(fleet, claims, jobs, placed, start_s, end_s)
        if steps is not None:
            values["fragmented_gpus"] = float(steps.means(1)[0]) / undivided_gpus(fleet)
        inside = jobs.filter(pl.col("submit_s").is_between(start_s, end_s)).select("job").unique()
        starts = placements(fleet, claims, jobs).join(inside, on="job", how="semi") if claims.height else None
        if starts is not None and starts.height:
            several = starts.filter(pl.col("gpus") > 1)
            values["utility_mean"] = _mean(starts["utility"])
            values["gpu_interference_mean"] = _mean(starts["interference"])
            values["gpu_nearness_mean"] = _mean(1.0 / starts["cost"])
            values["gpu_free_share_mean"] = _mean(starts["free"])
            values["gpu_cost_mean"] = _mean(several["cost"])
            values["gpus_across_sockets"] = _mean((several["sockets"] > 1).cast(pl.Float64))
            values["below_min_utility"] = float((starts["utility"] < starts["wanted"]).sum())
        return values

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """Use and quality of the placements by policy, a row each over its seeds."""
        rows = rows_by_policy(runs, _row)
        return (Table("Placements", WORDS, HEAD, rows), *_fragmentation(runs), *_pictures(runs)) if rows else ()

    def slowdown(self, cluster: Any, jobs: Any) -> Slowdown | None:
        """See :class:`unrack.resources.gpus.slowdown.GpuSpeeds`."""
        from unrack.resources.gpus.slowdown import GpuSpeeds

        return GpuSpeeds.of(cluster, jobs)


def _mean(values: pl.Series) -> float | None:
    return float(values.to_numpy().mean()) if len(values) else None


def placements(fleet: Fleet, claims: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """One row for every start of a job on whole GPUs, in order of (start, job).

    Columns: job, start_s, end_s, gpus, machines, sockets, ``cost`` (t, eq. 3, relative to the least), ``interference``
    (I, eq. 4), ``free`` (w, eq. 5), ``utility``, ``wanted`` (the least utility that the job asks, or null).
    """
    number = {place.name: i for i, place in enumerate(fleet.places)}
    rows = {job: i for i, job in enumerate(jobs["job"].to_list())}
    columns = [jobs[f"gpus.{name}"] if f"gpus.{name}" in jobs.columns else None for name in QUANTITIES]
    asked = np.array(
        [np.zeros(jobs.height, np.int64) if one is None else one.fill_null(0).to_numpy() for one in columns], np.int64
    )
    app = [fleet.profiles.rows.get(str(name), 0) for name in jobs["app"].to_list()]
    tasks = jobs["tasks"].to_list()
    holders = np.zeros((2, len(fleet.places)), np.int64)
    free = fleet.total.copy()
    whole = (asked[MILLI] % WHOLE == 0).astype(np.int64)
    peers = Neighbours(shown(holders), whole, np.array([*app, 0], np.int64), fleet.profiles.tables[1])
    at_place = pl.col("place").replace_strict(number, return_dtype=pl.Int64)
    spans = (
        claims.with_columns(at_place.alias("at"), pl.col("end_s").max().over("job", "attempt").alias("until_s"))
        .group_by("job", "attempt", "span", maintain_order=True)
        .agg(pl.col("start_s", "end_s", "until_s").first(), pl.col("at", "amount"))
        .sort("start_s", pl.col("span") == 1, maintain_order=True)  # what goes on is there before what starts
    )
    found: list[tuple[object, ...]] = []
    ends = spans.sort("end_s", maintain_order=True).iter_rows(named=True)
    gone = next(ends, None)
    for row in spans.iter_rows(named=True):
        while gone is not None and gone["end_s"] <= row["start_s"] and gone["start_s"] < row["start_s"]:
            move(holders, free, rows[gone["job"]], np.array(gone["at"]), np.array(gone["amount"]), -1)
            gone = next(ends, None)
        job = rows[row["job"]]
        at, amount = np.array(row["at"], np.int64), np.array(row["amount"], np.int64)
        ask = ask_of(asked[:, job], tasks[job], 0, 0, app[job])
        if row["span"] == 1 and not ask.slices and whole[job]:
            node = fleet.node[at]
            nodes, of = np.unique(node, return_inverse=True)
            sets = np.zeros(len(nodes), np.int64)
            np.add.at(sets, of, 1 << (at - fleet.gpus.first[node]))
            cost, shares, left = terms(fleet.gpus, shown(free), peers, job, ask, nodes, sets)
            wanted = asked[MIN_UTILITY, job] / UTILITY_PARTS or None
            utility = utility_of(cost, shares, left)
            sockets = len(np.unique(node * 64 + fleet.gpus.socket[fleet.gpus.kind[node], at - fleet.gpus.first[node]]))
            found.append((row["job"], row["start_s"], row["until_s"], len(at), len(nodes), sockets, cost, shares, left,
                          utility, wanted))  # fmt: skip
        move(holders, free, job, at, amount, 1)
    return pl.DataFrame(found, schema=SCHEMA | {"job": claims.schema["job"]}, orient="row")


SCHEMA = {
    "job": pl.Int64, "start_s": pl.Float64, "end_s": pl.Float64, "gpus": pl.Int64, "machines": pl.Int64,
    "sockets": pl.Int64, "cost": pl.Float64, "interference": pl.Float64, "free": pl.Float64, "utility": pl.Float64,
    "wanted": pl.Float64,
}  # fmt: skip
"""Columns of :func:`placements`."""


def move(holders: Ints, free: Ints, job: int, at: Ints, amount: Ints, sign: int) -> None:
    """A job comes (1) or goes (-1)."""
    free[at] -= sign * amount
    holders[0, at] += sign
    holders[1, at] += sign * job
