"""The placements of a finished run one after the other: utility and its terms, from the table of claims."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack.kernels.arrays import Ints
from unrack.resources.gpus.asks import MIN_UTILITY, QUANTITIES, UTILITY_PARTS, WHOLE, ask_of
from unrack.resources.gpus.fleet import Fleet
from unrack.resources.gpus.utility import Neighbours, terms, utility_of


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
    who = Neighbours(
        np.zeros((2, len(fleet.places)), np.int64), np.array([*app, 0], np.int64), fleet.profiles.tables[1]
    )
    free = fleet.total.copy()
    spans = (
        claims.with_columns(pl.col("place").replace_strict(number, return_dtype=pl.Int64).alias("at"))
        .group_by("job", "attempt", maintain_order=True)
        .agg(pl.col("start_s").min(), pl.col("end_s").max(), pl.col("at"), pl.col("amount"))
        .sort("start_s")
    )
    found: list[tuple[object, ...]] = []
    ends = spans.sort("end_s", maintain_order=True).iter_rows(named=True)
    gone = next(ends, None)
    for row in spans.iter_rows(named=True):
        while gone is not None and gone["end_s"] <= row["start_s"] and gone["start_s"] < row["start_s"]:
            move(who, free, rows[gone["job"]], np.array(gone["at"]), np.array(gone["amount"]), -1)
            gone = next(ends, None)
        job = rows[row["job"]]
        at, amount = np.array(row["at"], np.int64), np.array(row["amount"], np.int64)
        ask = ask_of(asked[:, job], tasks[job], 0, 0, app[job])
        if not ask.slices and (amount == WHOLE).all():
            node = fleet.node[at]
            nodes, of = np.unique(node, return_inverse=True)
            sets = np.zeros(len(nodes), np.int64)
            np.add.at(sets, of, 1 << (at - fleet.gpus.first[node]))
            cost, shares, left = terms(fleet.gpus, free, who, job, ask, nodes, sets)
            wanted = asked[MIN_UTILITY, job] / UTILITY_PARTS or None
            utility = utility_of(cost, shares, left)
            kinds = fleet.gpus.kind[node]
            sockets = len(np.unique(node * 64 + fleet.gpus.socket[kinds, at - fleet.gpus.first[node]]))
            found.append(
                (row["job"], row["start_s"], row["end_s"], len(at), len(nodes), sockets, cost, shares, left, utility,
                 wanted)
            )  # fmt: skip
        move(who, free, job, at, amount, 1)
    return pl.DataFrame(found, schema=SCHEMA | {"job": claims.schema["job"]}, orient="row")


SCHEMA = {
    "job": pl.Int64, "start_s": pl.Float64, "end_s": pl.Float64, "gpus": pl.Int64, "machines": pl.Int64,
    "sockets": pl.Int64, "cost": pl.Float64, "interference": pl.Float64, "free": pl.Float64, "utility": pl.Float64,
    "wanted": pl.Float64,
}  # fmt: skip
"""Columns of :func:`placements`."""


def move(who: Neighbours, free: Ints, job: int, at: Ints, amount: Ints, sign: int) -> None:
    """A job comes (1) or goes (-1)."""
    free[at] -= sign * amount
    who.holders[0, at] += sign
    who.holders[1, at] += sign * job
