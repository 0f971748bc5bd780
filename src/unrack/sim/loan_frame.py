"""The loans of memory of a run as a table for people. Times in seconds."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack.cluster.lease import BORROWER, LENDER, LOAN_MB
from unrack.sim.frame import attempt_numbers
from unrack.sim.log import RunLog
from unrack.units import SECOND_US


def loans_frame(log: RunLog) -> pl.DataFrame:
    """One row for every loan of every attempt, in order of (start, job); of one attempt as the policy made them.

    Columns: job, attempt, start_s, end_s, node (whose tasks use the memory), lender (the node that it is in), mb.
    """
    number = attempt_numbers(log)
    order = np.lexsort((number, log.attempt_job, log.attempt_start_us))
    count = np.diff(log.attempt_loans)[order]
    attempt = np.repeat(order, count)
    within = np.arange(len(attempt)) - np.repeat(np.cumsum(count) - count, count)
    loans = log.loans[log.attempt_loans[attempt] + within]
    return pl.DataFrame(
        {
            "job": log.jobs.ids.gather(log.attempt_job[attempt]),
            "attempt": number[attempt],
            "start_s": log.attempt_start_us[attempt] / SECOND_US,
            "end_s": log.attempt_end_us[attempt] / SECOND_US,
            "node": loans[:, BORROWER].astype(np.int32),
            "lender": loans[:, LENDER].astype(np.int32),
            "mb": loans[:, LOAN_MB],
        }
    )
