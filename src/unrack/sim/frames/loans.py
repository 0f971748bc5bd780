"""The loans of memory of a run as a table for people. Times in seconds."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack.ledger.lease import BORROWER, LENDER, LOAN_MB
from unrack.sim.frames.spans import rows_of, span_columns, span_order
from unrack.sim.log import RunLog


def loans_frame(log: RunLog) -> pl.DataFrame:
    """One row for every loan of every span, in order of (start, job); of one span as the policy made them.

    Columns: job, attempt, span, start_s, end_s, node (whose tasks use the memory), lender (the node that it is in), mb.
    """
    spans = span_order(log)
    at, count = rows_of(log.span_loans, spans)
    loans = log.loans[at]
    return pl.DataFrame(
        {
            **span_columns(log, spans, count),
            "node": loans[:, BORROWER].astype(np.int32),
            "lender": loans[:, LENDER].astype(np.int32),
            "mb": loans[:, LOAN_MB],
        }
    )
