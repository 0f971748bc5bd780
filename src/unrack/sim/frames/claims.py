"""What the jobs of a run claimed of the places of resources, as a table for people. Times in seconds."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack.resources.places import AMOUNT, PLACE
from unrack.sim.frames.spans import span_columns, span_order
from unrack.sim.log import RunLog


def claims_frame(log: RunLog) -> pl.DataFrame:
    """One row for every claim of every span, in order of (start, job).

    Columns: job, attempt, span, start_s, end_s, resource (such as ``counted``), quantity, place, amount.
    """
    rank = np.empty(len(log.span_attempt), np.int64)
    rank[span_order(log)] = np.arange(len(rank))
    order = np.argsort(rank[log.claim_span], kind="stable")
    span, claims = log.claim_span[order], log.claims[order]
    of = [log.cluster.places.at(place) for place in claims[:, PLACE].tolist()]
    return pl.DataFrame(
        {
            **span_columns(log, span),
            "resource": pl.Series([resource for resource, _ in of], dtype=pl.String),
            "quantity": pl.Series([place.quantity for _, place in of], dtype=pl.String),
            "place": pl.Series([place.name for _, place in of], dtype=pl.String),
            "amount": claims[:, AMOUNT].copy(),
        }
    )
