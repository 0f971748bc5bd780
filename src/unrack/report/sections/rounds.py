"""What the page shows of rounds: their cost, and the jobs placed and left; nothing where no policy tells its rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from unrack.report.charts.chart import MOST_POLICIES, Lines, time_charts
from unrack.report.sections.section import PlainTable, SectionKind, Shown, plain
from unrack.report.setting import RunFiles, Setting
from unrack.report.table import number_text
from unrack.study.results.keep import ROUNDS as TABLE

_NOTE = "The numbers of a round, until the next. "
LINES = (
    Lines("cost of rounds", "Cost of rounds over time", {"title": "cost per round"},
          pl.col("cost_placed") + pl.col("cost_waiting")),
    Lines("placed", "Jobs placed per round", {"title": "jobs per round"}, "placed"),
    Lines("left", "Jobs left waiting per round", {"title": "jobs per round"}, "left"),
)  # fmt: skip
HEADS = (
    ("rounds", "Rounds in which jobs waited."),
    ("placed per round", "Jobs that started, on average over the rounds."),
    ("left per round", "Jobs that still waited after a round, on average over the rounds."),
    ("networks per round", "Networks that were solved, on average over the rounds."),
    ("cost of places per job", "What the places of the jobs that started cost in the networks, on average over them."),
    ("half placed within (s)", "Half of the jobs that finished waited from submission to start at most so long."),
    ("95 % placed within (s)", "95 % of the jobs that finished waited from submission to start at most so long."),
)


def of_setting(setting: Setting, policies: Sequence[str]) -> Shown:
    """Costs and counts over time, and the means of the rounds, of the first seed of each policy."""
    runs = {policy: own[0] for policy, own in list(setting.runs.items())[:MOST_POLICIES]}
    frames = {policy: run.frame(TABLE) for policy, run in runs.items() if _has_rounds(run)}
    charts = [{**own, "note": _NOTE + own["note"]} for own in time_charts(frames, LINES, policies)]
    return charts, {"": _table(frames, runs)}


def _has_rounds(run: RunFiles) -> bool:
    return run.has(TABLE) and run.frame(TABLE, ("time_s",)).height > 0


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


ROUNDS = SectionKind(_has_rounds, of_setting)
