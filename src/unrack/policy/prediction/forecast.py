"""Compiled: predicted run times of waiting jobs, and predicted ends of running ones.

The run time of a job is predicted as the average of the run times of its user's last two jobs that ended, in whole
seconds, rounded down. It is at least 1 s and at most what the job requests. Until two jobs of its user have ended, and
for jobs without a user, it is the request. A prediction is made anew until the job starts, or once only, when the job
is submitted. While the job runs it grows.

O(waiting + running) an update, and O(running) more for each job that started or was corrected since the last.

*Corrections.* Each time a job is still running at its predicted end, the prediction grows, up to the requested run
time:

* ``STEPS`` (Tsafrir, Etsion and Feitelson 2007, as their program has it): to the first prediction and 1 min; the next
  time to the first prediction and 5 min, then 15, 30 min, 1, 2, 5, 10, 20, 50, 100 h, and then to the request.
* ``REQUEST``: to the request at once.
* ``DOUBLE``: to twice what it was.
* ``ADDED_STEPS``: by the same steps, each added to the prediction before, as the paper's text can be read.

So the expected end follows from the start, the prediction made then, the request and the time; nothing is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined, plain
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import ASKED_US, ENDS_US, OF_JOB, grown, room_for
from unrack.ledger.jobs import Runs
from unrack.policy.placement.node_kernel import LedgerColumns, columns_of
from unrack.units import NEVER_US, SECOND_US
from unrack.view import View


class Correction(IntEnum):
    """How a prediction grows that its job has outlived."""

    STEPS = 0
    REQUEST = 1
    DOUBLE = 2
    ADDED_STEPS = 3


MINUTE_US = 60 * SECOND_US
STEPS_US = tuple(minutes * MINUTE_US for minutes in (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000))
"""By how much the first prediction is exceeded after the first correction, the second …"""


@inlined
def expected_end(start: int, predicted: int, request: int, after: int, rule: int) -> int:
    """The first end later than ``after`` that is expected of a job, or the end of its request; all in µs."""
    run, ran = predicted, after - start
    if rule == 1:
        return start + (run if run > ran else request)
    k = 0
    while run <= ran and run < request:
        if rule == 2:
            run = 2 * run
        elif k == 11:
            run = request
        else:
            run = (predicted if rule == 0 else run) + STEPS_US[k]
        k += 1
    return start + min(run, request)


expected_end_us = compiled(plain(expected_end))
"""The same from Python, for one job."""


SECOND = 1_000_000
"""µs; the finest difference between two predictions."""


@dataclass(slots=True)
class Forecast:
    """What is remembered of users and jobs."""

    asks: Ints  # int64[4, jobs]: what jobs ask, with predicted run times in place of requests
    # int64[jobs]: what the user's history says (a time after everything: nothing yet); and when the attempt started
    # that `running` has (-1: none)
    average_us: Ints
    noted_us: Ints
    # int64[3, users]: how many of the user's jobs have ended (counted up to 2), and the run times of the last and the
    # one before, µs
    users: Ints
    running: Ints  # int64[2, room]: predicted end and job, in order of end; the first `count` columns count
    count: int = 0
    # how many submitted and ended jobs have been taken into account
    jobs: int = 0
    ended: int = 0
    # when, if nothing happens, the next prediction is outlived, µs; a time after everything: never
    next_us: int = NEVER_US

    @classmethod
    def empty(cls) -> Forecast:
        """Nothing is known yet."""
        none = np.zeros(0, np.int64)
        return cls(np.zeros((4, 0), np.int64), none, none, np.zeros((3, 0), np.int64), np.zeros((2, 64), np.int64))

    def make_room(self, view: View) -> None:
        """Make room for the ledger's jobs and running jobs, and for as many users."""
        room = view.columns.asks.shape[1]
        if len(self.noted_us) < room:
            self.asks, self.noted_us = grown(self.asks, room), grown(self.noted_us, room, -1)
            self.average_us, self.users = grown(self.average_us, room), grown(self.users, room)
        needed = self.count + view.running_count
        if self.running.shape[1] < needed:
            self.running = grown(self.running, room_for(needed, self.running.shape[1]))


def begun(view: View, once: bool) -> Forecast:
    """The forecast as it would be if it had been kept since the first job; what happened at one time, ends first."""
    memory, runs = Forecast.empty(), view.runs
    memory.make_room(view)
    assert runs is not None
    running = view.running[OF_JOB, : view.running_count]
    jobs = np.concatenate([running, view.queue]) if once else running
    when = view.submit_us[jobs] if once else runs.started_us[jobs]
    end_us = (runs.started_us + np.maximum(runs.ran_us, 0))[runs.ended]
    asks, user = view.asks, view.user
    for i in np.argsort(when, kind="stable").tolist():
        job = jobs[i : i + 1]
        last = int(np.searchsorted(end_us, when[i], side="right"))
        learn(runs, memory.ended, last, user, memory.users)
        memory.ended = max(memory.ended, last)
        predict(job, asks, user, memory.users, False, memory.average_us, memory.asks)
    memory.asks[:3, : view.jobs] = asks[:3]
    memory.jobs = view.jobs
    return memory


def update(view: View, memory: Forecast, now: int, once: bool, rule: int) -> None:
    """Bring a forecast up to date at time ``now``."""
    memory.make_room(view)
    seen = view.columns
    runs = seen.runs
    assert runs is not None
    news = News(memory.jobs, view.jobs, memory.ended, view.ended)
    told = Predicted(memory.asks, memory.average_us, memory.noted_us, memory.users, memory.running)
    memory.count, memory.next_us = follow(
        now, view.queue, news, once, rule, columns_of(view), view.user, seen.status, runs, told, memory.count
    )
    memory.jobs, memory.ended = view.jobs, view.ended


class News(NamedTuple):
    """What has come since the last update: jobs from number ``known`` to ``jobs``, ``runs.ended[first:last]``."""

    known: int
    jobs: int
    first: int
    last: int


class Predicted(NamedTuple):
    """The arrays of a :class:`Forecast`."""

    asks: Ints
    average_us: Ints
    noted_us: Ints
    users: Ints
    running: Ints


@compiled
def learn(runs: Runs, first: int, last: int, user: Ints, users: Ints) -> None:
    """Take note of the jobs ``runs.ended[first:last]``."""
    for i in range(first, last):
        job = runs.ended[i]
        of = user[job]
        if of >= 0:
            users[0, of] = min(2, users[0, of] + 1)
            users[2, of] = users[1, of]
            users[1, of] = runs.ran_us[job]


@compiled
def predict(queue: Ints, asks: Ints, user: Ints, users: Ints, once: bool, average_us: Ints, told: Ints) -> None:
    """Predict the run times of jobs from the history of now; ``once``: of those of which nothing was told before."""
    for job in queue:
        if not once or told[3, job] == 0:
            of = user[job]
            average_us[job] = NEVER_US
            if of >= 0 and users[0, of] == 2:
                average_us[job] = max(1, (users[1, of] + users[2, of]) // (2 * SECOND)) * SECOND
        told[3, job] = min(asks[ASKED_US, job], average_us[job])


@inlined
def sort_by_end(running: Ints, count: int) -> None:
    """Insertion sort: what was in order before is nearly so."""
    for i in range(1, count):
        end, job = running[ENDS_US, i], running[OF_JOB, i]
        k = i
        while k > 0 and running[ENDS_US, k - 1] > end:
            running[ENDS_US, k], running[OF_JOB, k] = running[ENDS_US, k - 1], running[OF_JOB, k - 1]
            k -= 1
        running[ENDS_US, k], running[OF_JOB, k] = end, job


@compiled
def follow(
    now: int, queue: Ints, news: News, once: bool, rule: int, seen: LedgerColumns, user: Ints,
    status: NDArray[np.int8], runs: Runs, forecast: Predicted, count: int,
) -> tuple[int, int]:  # fmt: skip
    """The update itself.

    ``once``: whether predictions are made once, when a job is submitted; ``forecast``, ``count``: changed: what was
    told so far; and how many jobs ran then.

    Returns
    -------
    int
        How many jobs run.
    int
        When the next prediction is outlived, µs.
    """
    asks, booked, booked_count = seen.asks, seen.running, seen.running_count
    told, average_us, noted_us, users, running = forecast
    learn(runs, news.first, news.last, user, users)
    for job in range(news.known, news.jobs):
        for row in range(3):
            told[row, job] = asks[row, job]
    predict(queue, asks, user, users, once, average_us, told)
    ran_when_they_came = booked[OF_JOB, :booked_count]
    predict(ran_when_they_came, asks, user, users, True, average_us, told)
    kept = 0
    for i in range(count):
        end, job = running[ENDS_US, i], running[OF_JOB, i]
        if status[job] != 2 or noted_us[job] != runs.started_us[job]:
            noted_us[job] = -1  # it has ended, or it was stopped
            continue
        if end <= now:
            end = expected_end(noted_us[job], told[3, job], asks[ASKED_US, job], now, rule)
        running[ENDS_US, kept], running[OF_JOB, kept] = end, job
        kept += 1
    for i in range(booked_count):
        job = booked[1, i]
        if noted_us[job] < 0:
            noted_us[job] = runs.started_us[job]
            running[ENDS_US, kept] = expected_end(noted_us[job], told[3, job], asks[ASKED_US, job], now, rule)
            running[OF_JOB, kept] = job
            kept += 1
    sort_by_end(running, kept)
    following = NEVER_US
    for i in range(kept):
        job = running[OF_JOB, i]
        if running[ENDS_US, i] < noted_us[job] + asks[ASKED_US, job]:
            following = running[ENDS_US, i]
            break
    return kept, following
