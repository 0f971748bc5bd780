"""Windows in which some jobs run, and nodes are kept for them: what happens when one begins, and when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unrack.events import CLOSE, Opened, Withdrawn
from unrack.reasons import Code, Reason

if TYPE_CHECKING:
    from unrack.sim.kernel import Kernel


OPENS = 1
"""In place of a version: a window begins."""


class Windows:
    """The windows of a run's cluster; each is known by its number."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.windows = kernel.core.state.cluster.places.windows
        self.over: list[int] = []  # the owners of which the last window is over
        for number, window in enumerate(self.windows):
            kernel.push(max(window.start_us, 0), CLOSE, number, OPENS)
            kernel.push(max(window.end_us, 0), CLOSE, number, 0)

    def change(self, number: int, version: int, now: int) -> bool:
        """A window begins or is over; False: that matters to no job."""
        if version == OPENS and not self._waiting(number):
            return False
        self.kernel.core.handle(Opened(), now)
        if version != OPENS:
            self._close(number, now)
        return True

    def _waiting(self, number: int) -> list[int]:
        """The jobs in the queue that run in windows of this kind."""
        return self._waiting_for(self.windows[number].owner)

    def _waiting_for(self, owner: int) -> list[int]:
        state = self.kernel.core.state
        queue = state.queue[state.queue_start : state.queue_end]
        return [int(job) for job in queue[np.abs(state.set_owner[state.set_of[queue]]) == owner]]

    def _close(self, number: int, now: int) -> None:
        """A job that waits for another window of its kind waits in vain if none comes."""
        owner = self.windows[number].owner
        if owner and not any(window.owner == owner and window.end_us > now for window in self.windows):
            self.over.append(owner)

    def drop_late(self, now: int) -> None:
        """Before a round: drop jobs that wait for windows that never come again, however long ago the last was."""
        kernel = self.kernel
        for job in [job for owner in self.over for job in self._waiting_for(owner)]:
            kernel.core.handle(
                Withdrawn(job, Reason(Code.WITHDRAWN, "no window in which it may run comes any more")), now
            )
            if kernel.graph is not None:
                kernel.graph.ended(job, now, well=False)
