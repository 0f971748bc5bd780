"""The same service without disaggregation: what ran on CPU nodes goes where the GPUs are."""

from __future__ import annotations

import polars as pl

from unrack.workload.formats.intake import DEVICE, EXTRA, Tally

_ROLE = f"{EXTRA}queue"


def folded(frame: pl.DataFrame, server_cores: int | None, tally: Tally, cpu_role: str, gpu_role: str) -> pl.DataFrame:
    """Instances with GPUs take over their app's instances without; apps that have only one sort stay as they are.

    While an app's instance with a GPU runs, it has the cores and the memory that the app's instances without had for
    each of those with, on average over time: core-seconds and MB-seconds of the former, over the run time of the
    latter, rounded up to whole cores and MB. So the work of an app stays the same, though not its course in time.

    Parameters
    ----------
    frame
        Instances as the readers' frames have them, with a role each.
    server_cores
        The most cores of a server: a job that needs more becomes as many as are needed, each with the GPUs of the
        instance and an equal part of cores, memory and disk, rounded up. ``None``: however many it needs.
    tally
        Joined and split instances are counted.
    cpu_role, gpu_role
        The two roles.
    """
    of_cpu, of_gpu = pl.col(_ROLE) == cpu_role, pl.col(_ROLE) == gpu_role
    time = pl.col("work_us").cast(pl.Float64)
    apps = frame.group_by("app").agg(
        (pl.col("cores") * time).filter(of_cpu).sum().alias("core_us"),
        (pl.col("memory_mb") * time).filter(of_cpu).sum().alias("mb_us"),
        time.filter(of_gpu).sum().alias("gpu_us"),
        of_cpu.any().alias("some"),
    ).filter((pl.col("gpu_us") > 0) & pl.col("some"))  # fmt: skip
    joined = pl.col("gpu_us").is_not_null()
    frame = frame.join(apps, on="app", how="left", maintain_order="left")
    frame = tally.drop(frame, "joined to instances with GPUs", of_cpu & joined)

    def more(share: str) -> pl.Expr:
        return (pl.col(share) / pl.col("gpu_us")).round(6).ceil().cast(pl.Int64).fill_null(0)

    frame = frame.with_columns(
        cores=pl.col("cores") + pl.when(of_gpu).then(more("core_us")).otherwise(0),
        memory_mb=pl.col("memory_mb") + pl.when(of_gpu).then(more("mb_us")).otherwise(0),
    ).drop("core_us", "mb_us", "gpu_us", "some")
    return frame if server_cores is None else _split(frame, server_cores, tally, of_gpu)


def _split(frame: pl.DataFrame, server_cores: int, tally: Tally, of_gpu: pl.Expr) -> pl.DataFrame:
    frame = frame.with_columns(pieces=pl.when(of_gpu).then(-(-pl.col("cores") // server_cores)).otherwise(1))
    tally.change_where(frame, "split over servers", pl.col("pieces") > 1)
    frame = frame.with_columns(piece=pl.int_ranges(1, pl.col("pieces") + 1)).explode("piece")
    parts = [name for name in ("cores", "memory_mb", f"{DEVICE}disk.capacity_mb") if name in frame.columns]
    split = pl.col("pieces") > 1
    return frame.with_columns(
        *(-(-pl.col(name) // pl.col("pieces")) for name in parts),
        id=pl.when(split).then(pl.format("{}.{}", "id", "piece")).otherwise(pl.col("id")),
    ).drop("pieces", "piece")
