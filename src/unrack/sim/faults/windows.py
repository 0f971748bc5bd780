"""Windows in which nodes are kept for some jobs: what happens when one is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.events import CLOSE, Withdrawn
from unrack.reasons import Code, Reason

if TYPE_CHECKING:
    from unrack.sim.kernel import Kernel


class Windows:
    """The windows of a run's cluster; each is known by its number."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.windows = kernel.core.state.cluster.places.windows
        for number, window in enumerate(self.windows):
            kernel.push(window.end_us, CLOSE, number, 0)

    def close(self, number: int, now: int) -> bool:
        """Nodes are free for others again; who waits for another of its kind waits in vain if none comes."""
        owner, kernel = self.windows[number].owner, self.kernel
        if any(window.owner == owner and window.end_us > now for window in self.windows):
            return True
        state = kernel.core.state
        for job in state.queue[state.queue_start : state.queue_end].tolist():
            if state.set_owner[state.set_of[job]] == owner:
                kernel.core.handle(Withdrawn(job, Reason(Code.WITHDRAWN, "its reservation is over")), now)
                if kernel.graph is not None:
                    kernel.graph.ended(job, now, well=False)
        return True
