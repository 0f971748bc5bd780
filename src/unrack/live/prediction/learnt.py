"""What jobs of the past ran of the time that they asked for, by user, and run times drawn from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from unrack.kernels.arrays import Floats
from unrack.units import SECOND_US
from unrack.workload.job import JobTable

LEAST = 5
"""Runs of a user from which something is learnt of that user alone."""
MOST = 200_000
"""Runs that are looked at."""
NOTHING: Floats = np.zeros(0)


class Past(NamedTuple):
    """A run that is over: of which user, how long it ran, and how long it asked to run."""

    user: str
    ran_s: float
    limit_s: float


@dataclass(frozen=True, eq=False)
class Learnt:
    """Shares of their requests that jobs ran."""

    source: str = ""  # where the runs are from, in words; ``""``: there are none
    by_user: Mapping[str, Floats] = field(default_factory=dict)  # float64[runs] each: user → shares, 0 to 1, ascending
    every: Floats = field(default_factory=lambda: NOTHING)  # float64[runs]: of all users

    @classmethod
    def of(cls, runs: Iterable[Past], source: str) -> Learnt:
        """Learn from runs; those that asked for no time are passed over.

        Examples
        --------
        >>> found = Learnt.of([Past("ann", 30, 60), Past("bob", 90, 60), Past("bob", 5, 0)], "a list")
        >>> found.every.tolist(), found.runs
        ([0.5, 1.0], 2)
        """
        shares: dict[str, list[float]] = {}
        for run in list(runs)[-MOST:]:
            if run.limit_s > 0 and run.ran_s >= 0:
                shares.setdefault(run.user, []).append(min(run.ran_s / run.limit_s, 1.0))
        found = {user: np.sort(np.array(own)) for user, own in shares.items()}
        every = np.sort(np.concatenate([*found.values()])) if found else NOTHING
        return cls(source if len(every) else "", found, every)

    @property
    def runs(self) -> int:
        """How many runs it is learnt from."""
        return len(self.every)

    def shares(self, user: str) -> tuple[Floats, bool]:
        """What is known of a user's jobs, and whether that is the user's own; else it is of all."""
        own = self.by_user.get(user, NOTHING)
        return (own, True) if len(own) >= LEAST else (self.every, False)

    def draw_us(self, random: np.random.Generator, user: str, limit_us: int, ran_us: int = 0) -> int:
        """A run time of a job, µs, as likely as those of the past; longer than it has run already, at most its limit.

        Of a job that has run longer than any before it, in shares of its limit, nothing is known: it takes all.
        """
        known, _ = self.shares(user)
        left = known[np.searchsorted(known, ran_us / limit_us, side="right") :] if limit_us else NOTHING
        draw = random.random()  # drawn in any case, so that what one job is does not change the others' draws
        if not len(left):
            return max(limit_us, ran_us + 1)
        run_us = round(float(left[int(draw * len(left))]) * limit_us)
        return max(min(run_us, limit_us), ran_us + 1, 1)


def past_of_jobs(jobs: JobTable) -> list[Past]:
    """The runs of a trace that have requests of their own."""
    names = [*jobs.user_names, ""]
    return [
        Past(names[user], run / SECOND_US, request / SECOND_US)
        for user, run, request in zip(
            jobs.user.tolist(), jobs.work_us.tolist(), jobs.request_us.tolist(), strict=True
        )
    ]  # fmt: skip
