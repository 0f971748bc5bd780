"""Windows in which some jobs run, and nodes are kept for them: what happens when one begins, and when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.events import CLOSE, Opened, Withdrawn
from unrack.ledger.state import QUEUED
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
        for number, window in enumerate(self.windows):
            kernel.push(max(window.start_us, 0), CLOSE, number, OPENS)
            kernel.push(max(window.end_us, 0), CLOSE, number, 0)

    def change(self, number: int, version: int, now: int) -> bool:
        """A window begins or is over; False: that matters to nobody."""
        if version == OPENS and not self._waiting(number):
            return False
        self.kernel.core.handle(Opened(), now)
        if version != OPENS:
            self._close(number, now)
        return True

    def _waiting(self, number: int) -> list[int]:
        """The jobs in the queue that run in windows of this kind."""
        state, owner = self.kernel.core.state, self.windows[number].owner
        queue = state.queue[state.queue_start : state.queue_end].tolist()
        return [job for job in queue if abs(state.set_owner[state.set_of[job]]) == owner]

    def _close(self, number: int, now: int) -> None:
        """Who waits for another window of its kind waits in vain if none comes."""
        for job in self._waiting(number):
            self.came_back(job, now)

    def came_back(self, job: int, now: int) -> None:
        """A job waits, again or still: in vain if all windows in which it may run are over."""
        kernel, state = self.kernel, self.kernel.core.state
        owner = abs(int(state.set_owner[state.set_of[job]])) if self.windows else 0
        still = any(window.owner == owner and window.end_us > now for window in self.windows)
        if owner == 0 or still or state.condition(job) != QUEUED:
            return
        kernel.core.handle(Withdrawn(job, Reason(Code.WITHDRAWN, "no window in which it may run comes any more")), now)
        if kernel.graph is not None:
            kernel.graph.ended(job, now, well=False)
