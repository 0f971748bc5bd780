"""Curves of memory use as a tidy table: a row a step, with the job, its node, the progress and the amount."""

from __future__ import annotations

import os

import numpy as np
import polars as pl

from unrack.errors import InputError
from unrack.kernels.arrays import Floats
from unrack.workload.formats.writers import table_bytes, write_bytes
from unrack.workload.usage.curves import WHOLE, UsageCurves
from unrack.workload.usage.thin import SHARE_UNIT

ENDINGS = (".parquet", ".csv", ".csv.gz")


def tidy_table(curves: UsageCurves, ids: pl.Series, run_s: Floats, shares: bool = False) -> pl.DataFrame:
    """Columns ``job``, ``node`` (where a job has several curves), ``progress``, ``mb`` or ``memory_share``, ``run_s``.

    Parameters
    ----------
    curves
        Of all jobs, one or more each.
    ids, run_s : pl.Series, float64[jobs]
        Of the jobs; where a run time is NaN it is left empty, and where all are the column is left out.
    shares
        Whether amounts are millionths of a limit, not MB.
    """
    job = np.repeat(np.arange(len(curves)), curves.curves)
    node = np.arange(len(job)) - curves.first[job]
    of_point = np.repeat(np.arange(len(job)), np.diff(curves.point))
    columns = [ids.gather(job[of_point]).alias("job")]
    if len(job) > len(curves):
        columns.append(pl.Series("node", node[of_point]))
    columns.append(pl.Series("progress", curves.at / WHOLE))
    columns.append(pl.Series("memory_share", curves.mb / SHARE_UNIT) if shares else pl.Series("mb", curves.mb))
    if not np.isnan(run_s).all():
        columns.append(pl.Series("run_s", run_s[job[of_point]]).fill_nan(None))
    return pl.DataFrame(columns)


def write_table(path: str | os.PathLike[str], table: pl.DataFrame) -> None:
    """Write a tidy table; the file's ending says how.

    Raises
    ------
    InputError
        The ending is none of ``.parquet``, ``.csv``, ``.csv.gz``, or the file cannot be written.
    """
    name = os.fspath(path)
    check_ending(name)
    write_bytes(name, table_bytes(table, name.endswith(".parquet")))


def check_ending(name: str) -> None:
    """Refuse a name with another ending, before there is any work.

    Raises
    ------
    InputError
        As said.
    """
    if not name.endswith(ENDINGS):
        raise InputError("--out", repr(name), f"a file that ends in {', '.join(ENDINGS)}")
