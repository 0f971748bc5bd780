"""What the page shows of rounds: their cost, and the jobs placed and left; nothing where no policy tells its rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from unrack.plots.series import bin_edges, binned_mean
from unrack.report.charts.chart import MOST_POLICIES, Chart, noted, time_chart
from unrack.report.column import number_text
from unrack.report.directory import RunFiles
from unrack.report.section import Part, PlainTable, Section, plain
from unrack.report.setting import Setting
from unrack.study.results.keep import ROUNDS

COST = pl.col("cost_placed") + pl.col("cost_waiting")
CHARTS = (
    ("cost of rounds", "Cost of rounds over time", "cost", COST),
    ("placed", "Jobs placed per round", "jobs", pl.col("placed")),
    ("left", "Jobs left waiting per round", "jobs", pl.col("left")),
)
HEADS = (
    ("rounds", "Rounds in which jobs waited."),
    ("placed per round", "Jobs that started, on average over the rounds."),
    ("left per round", "Jobs that still waited after a round, on average over the rounds."),
    ("networks per round", "Networks that were solved, on average over the rounds."),
    ("cost of places per job", "What the places of the jobs that started cost in the networks, on average over them."),
    ("half placed within (s)", "Half of the jobs that finished waited from submission to start at most so long."),
    ("95 % placed within (s)", "95 % of the jobs that finished waited from submission to start at most so long."),
)


def round_section(settings: Sequence[Setting], policies: Sequence[str]) -> Section | None:
    """Read what the section shows of these settings, the first seed of each policy; ``None``: there are no rounds."""
    found = []
    for setting in settings:
        runs = {policy: own[0] for policy, own in list(setting.runs.items())[:MOST_POLICIES]}
        frames = {policy: run.frame(ROUNDS) for policy, run in runs.items() if run.has(ROUNDS)}
        frames = {policy: frame for policy, frame in frames.items() if frame.height}
        if frames:
            found.append(Part(setting.title, noted(_charts(frames, policies), setting), {"": _table(frames, runs)}))
    return Section(tuple(found)) if found else None


def _charts(frames: Mapping[str, pl.DataFrame], policies: Sequence[str]) -> list[Chart]:
    edges = bin_edges([(float(frame["time_s"][0]), float(frame["time_s"][-1])) for frame in frames.values()])
    charts = []
    for name, title, unit, values in CHARTS:
        series = {
            policy: binned_mean(
                frame["time_s"].to_numpy(), frame.select(values.cast(pl.Float64).alias("y"))["y"].to_numpy(), edges
            )
            for policy, frame in frames.items()
        }
        chart = time_chart(name, title, {"title": f"{unit} per round"}, series, edges, policies)
        note = f"The numbers of a round, until the next. {chart['note']}"
        charts.append({**chart, "note": note})
    return charts


def _table(frames: Mapping[str, pl.DataFrame], runs: Mapping[str, RunFiles]) -> PlainTable:
    """A row a policy; of the others, which tell no rounds, how long jobs waited."""
    rows = []
    for policy, run in runs.items():
        frame = frames.get(policy)
        placed = 0 if frame is None else int(frame["placed"].sum())
        texts = ["–"] * 5
        if frame is not None:
            per_round = [number_text(float(frame[name].cast(pl.Float64).mean() or 0.0))  # type: ignore[arg-type]  # floats
                         for name in ("placed", "left", "networks")]  # fmt: skip
            texts = [f"{frame.height:,}", *per_round, number_text(float(frame["cost_placed"].sum()) / max(placed, 1))]
        waits = run.frame("jobs", ("wait_s", "state")).filter(pl.col("state") == "finished")["wait_s"]
        texts += [number_text(waits.quantile(share, "nearest")) for share in (0.5, 0.95)]
        rows.append((policy, plain(*texts)))
    return PlainTable(HEADS, tuple(rows))
