"""What the rows and columns of the ledger's arrays are called in kernels; of leases see :mod:`unrack.ledger.lease`."""

from __future__ import annotations

CPU, MEM = range(2)
"""Rows of ``free`` and ``total``, and of the steps of plans: cores, and MB, of each node or group of nodes."""
ASKED_TASKS, ASKED_CORES, ASKED_MB, ASKED_US = range(4)
"""Rows of ``asks``: tasks, and of each task its cores and memory; the expected run time."""
ENDS_US, WHO = range(2)
"""Rows of ``running``: when a job is booked to end, and which job it is; in this order."""
FIRST_ROW, ROW_COUNT = range(2)
"""Rows of ``lease_at``: where a job's rows are in ``pool``, and how many they are."""
JOB, ROW, ROW_END, LOAN, LOAN_END = range(5)
"""Rows of the answer of a pass: a job that starts; its rows and, where memory is lent, its loans: first and end."""
