"""Pool occupancy over time, as data for the page: who shares which composition of which devices, and when.

All of them are on the page, up to ``MOST_SHARES_A_PAGE`` shares. Beyond, whole compositions are kept or left out, so
that the number of sharers that is shown is always right; those with the most device-seconds are kept as long as the
run's budget of shares lasts, and the page says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from unrack.plots.lanes import ended
from unrack.report.charts.packed import coded, coded_jobs, packed, ticked
from unrack.report.directory import RunFiles

MOST_SHARES_A_PAGE = 500_000
MOST_RUNS = 24
_COLUMNS = ("job", "start_s", "end_s", "node", "devices", "composition", "parts")


def occupancy_data(run: RunFiles, title: str, budget: int) -> dict[str, Any]:
    """What the page draws of one run: at most ``budget`` shares.

    ``title``; ``pools``: (name, first device, devices) of each; ``devices``, ``rows`` and ``kept`` (shares), ``share``
    of the device-seconds kept (0 to 1), ``start`` and ``end`` (s), and ``data`` (see :func:`pack`).
    """
    pools = run.hardware.devices.pools
    every, start, last = ended(run.frame("shares", _COLUMNS))
    area = (pl.col("end_s") - pl.col("start_s")) * pl.col("devices").list.len()
    lives = every.group_by("composition").agg(area.sum().alias("area"), pl.len().alias("shares"))
    lives = lives.sort("area", "composition", descending=[True, False])
    chosen = lives.filter(pl.col("shares").cum_sum() <= budget)
    kept = every.join(chosen, on="composition", how="semi").sort("start_s", "job")
    total = float(lives["area"].sum())
    return {
        "title": title,
        "pools": [[pool.name, pool.first, pool.count] for pool in pools],
        "devices": len(run.hardware.devices),
        "rows": len(every),
        "kept": len(kept),
        "share": float(chosen["area"].sum()) / total if total else 1.0,
        "start": start,
        "end": max(last, start + 1.0),
        "data": pack(kept, run.frame("jobs", ("job", "app")), start),
    }


def pack(shares: pl.DataFrame, jobs: pl.DataFrame, origin: float) -> str:
    """Shares, in order of start, compositions and what is known of the jobs, packed.

    The header: ``rows`` (shares), ``lives`` (compositions), ``links`` (devices of all compositions), ``jobs``, ``tick``
    in s, ``ids`` and ``apps`` of jobs, ``names`` of compositions. One value a share, in order of start: uint32 start
    (ticks since the one before, the first since ``origin``), length (ticks), composition and job (their places in the
    header), node; one value a composition: uint32 number of devices; one a link: uint32 device; one a job: uint32
    application; then uint8 a share: parts (0 = not split). ``origin``: start of the time axis, s.
    """
    ids, job, known = coded_jobs(shares, jobs)
    apps, app = coded(known, "app")
    lives = shares.unique("composition", keep="first", maintain_order=True)
    names, life = coded(shares, "composition")
    start = shares["start_s"].cast(pl.Float64).to_numpy() - origin
    tick, gaps, lengths = ticked(start, (shares["end_s"] - shares["start_s"]).cast(pl.Float64).to_numpy())
    links = lives["devices"].list.explode(keep_nulls=False, empty_as_null=False)
    header = {
        "rows": len(shares), "lives": len(lives), "links": len(links), "jobs": len(ids), "tick": tick, "ids": ids,
        "apps": apps, "names": names,
    }  # fmt: skip
    columns = [
        gaps, lengths, life, job, shares["node"].to_numpy().astype("<u4"),
        lives["devices"].list.len().to_numpy().astype("<u4"), links.to_numpy().astype("<u4"), app,
        np.minimum(shares["parts"].to_numpy(), 255).astype(np.uint8),
    ]  # fmt: skip
    return packed(header, columns)
