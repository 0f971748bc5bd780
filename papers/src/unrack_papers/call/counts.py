"""What is counted of a run on pools of devices, beside its metrics."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack import Result
from unrack.metric import pool_steps
from unrack.study import Run
from unrack.units import SECOND_US
from unrack_papers.reproduction import Numbers

RULES = ("max-composition", "min-fragmentation")


def jobs_on_nodes(run: Run, result: Result, took_s: float) -> Numbers:
    """How many jobs of each class ran on each node, and how the classes spread.

    Returns
    -------
    dict
        The metrics; ``node0.smufin`` …: jobs; ``busiest.smufin`` …: the share of the class that ran on the node which
        ran most of it; ``nodes.smufin`` …: on how many nodes at least 5 % of it ran; ``busiest``: the share of all jobs
        that ran on the node which ran most.
    """
    ran = result.jobs.select("job", "app").join(
        result.placements.select("job", pl.col("first_node").alias("node")).unique(), on="job"
    )
    counts = ran.group_by("app", "node").len().sort("app", "node")
    classes = [app for app in result.jobs["app"].unique().sort().to_list() if app is not None]
    values: Numbers = {f"node{node}.{app}": 0.0 for app in classes for node in range(len(run.cluster))}
    values |= {f"node{node}.{app}": float(count) for app, node, count in counts.iter_rows()}
    values["busiest"], _ = _spread(counts.group_by("node").agg(pl.col("len").sum())["len"])
    for app in classes:
        values[f"busiest.{app}"], values[f"nodes.{app}"] = _spread(counts.filter(pl.col("app") == app)["len"])
    return {**result.metrics, **values}


def _spread(counts: pl.Series) -> tuple[float | None, float | None]:
    """The share of the greatest count, and how many are at least 5 % of all; ``None`` where there are none."""
    own = counts.to_numpy()
    total = own.sum()
    return (float(own.max()) / float(total), float((own >= 0.05 * total).sum())) if total else (None, None)


def jobs_by_rule(run: Run, result: Result, took_s: float) -> Numbers:
    """The metrics; how many jobs each rule gave devices (``placed.max-composition`` …), and its share of them."""
    holds_devices = pl.any_horizontal([pl.col(name) > 0 for name in result.jobs.columns if name.startswith("nvme.")])
    placed = result.jobs.filter(holds_devices)["placed_by"].drop_nulls()
    values: Numbers = {}
    for rule in RULES:
        count = float((placed == rule).sum())
        values |= {f"placed.{rule}": count, f"share.{rule}": count / len(placed) if len(placed) else None}
    return {**result.metrics, **values}


def with_floors(run: Run, result: Result, took_s: float) -> Numbers:
    """The metrics; ``floored_size_nvme`` and ``floored_sharing_nvme``: as the authors' simulator averages them.

    Their means over the compositions in use are integer divisions. That is why their tables have 1.00 wherever a few
    compositions of two are among many of one. While no composition is in use, their size counts as 1 and their sharing
    as 0: only so do the rows of Table 4.5 come out, where devices are idle for a tenth of the time.
    """
    assert run.window_us is not None
    steps = pool_steps(result.table("shares"), "nvme", len(run.cluster.devices.of_kind("nvme")))
    start, end = (time / SECOND_US for time in run.window_us)
    groups, used, sharers = (steps[name].to_numpy() for name in ("compositions", "devices_used", "sharers"))
    size, sharing = floored_averages(steps["time_s"].to_numpy(), groups, used, sharers, start, end)
    return {**result.metrics, "floored_size_nvme": size, "floored_sharing_nvme": sharing}


def floored_averages(
    times: NDArray[np.float64],
    groups: NDArray[np.int64],
    used: NDArray[np.int64],
    sharers: NDArray[np.int64],
    start: float,
    end: float,
) -> tuple[float, float]:
    """Size and sharing from ``start`` to ``end``.

    Parameters
    ----------
    times : float64[steps]
        Rising; each holds until the next, the last one for ever.
    groups, used, sharers : int64[steps]
        Compositions in use from then on, their devices and their jobs.

    Examples
    --------
    Two compositions, of one and of two devices, for half of the time; nothing in the other half.

    >>> one = np.array
    >>> floored_averages(one([0.0, 5.0]), one([2, 0]), one([3, 0]), one([5, 0]), 0.0, 10.0)
    (1.0, 1.0)
    """
    lengths = np.diff(np.clip(np.append(times, np.inf), start, end))
    many = np.maximum(groups, 1)
    idle = (end - start) - float(lengths @ (groups > 0))
    return (float(lengths @ (used // many)) + idle) / (end - start), float(lengths @ (sharers // many)) / (end - start)
