"""When jobs started and how long they ran: what a policy may learn from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.growing import grown

Ints = NDArray[np.int64]


class Runs(NamedTuple):
    """Columns of the ledger about runs; they are kept for policies that declare ``learns``.

    Attributes
    ----------
    started_us : int64[jobs]
        When the last attempt of a job started. Means nothing for a job that waits.
    ran_us : int64[jobs]
        How long the attempt ran in which a job ended by itself; -1: it has not ended.
    ended : int64[ended]
        The jobs that ended by themselves, in the order in which they did.
    """

    started_us: Ints
    ran_us: Ints
    ended: Ints


def no_runs(jobs: int) -> Runs:
    """Nobody has run yet; there is room for so many jobs."""
    return Runs(np.full(jobs, -1, np.int64), np.full(jobs, -1, np.int64), np.zeros(jobs, np.int64))


def with_room(runs: Runs, jobs: int) -> Runs:
    """The same, with room for so many jobs."""
    return Runs(grown(runs.started_us, jobs, -1), grown(runs.ran_us, jobs, -1), grown(runs.ended, jobs))
