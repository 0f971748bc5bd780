"""Whether a live scheduler is well: its loop has turned a short while ago."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from unrack.live.printable import printable


class Health:
    """What ``/healthz`` and ``/readyz`` say. The loop calls :meth:`turned`; all else may be called from any thread.

    Parameters
    ----------
    stalled_after_s
        The loop is stalled if it has not turned for so long.
    name
        What is told of the orchestrator is told under that name.
    clock
        Seconds that never go back.
    """

    def __init__(self, stalled_after_s: float, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._stalled_after_s, self._name = stalled_after_s, name
        self._clock = clock
        self._lock = threading.Lock()
        self._begun = self._turned = clock()
        self._turns = 0
        self._unreachable: float | None = None
        self._failed = ""

    def turned(self) -> None:
        """The loop has turned."""
        with self._lock:
            self._turned = self._clock()
            self._turns += 1
            self._failed = ""

    def reached(self, reachable: bool) -> None:
        """Whether the orchestrator answered; that it does not makes nothing ill here, but it is told."""
        with self._lock:
            if reachable:
                self._unreachable = None
            elif self._unreachable is None:
                self._unreachable = self._clock()

    def failed(self, reason: str) -> None:
        """The scheduler has stopped, such as after a fault of its policy; for good, or until the loop turns again."""
        with self._lock:
            self._failed = printable(reason, 300)

    def told(self, is_ready: bool = False) -> tuple[bool, dict[str, Any]]:
        """Whether it is well, and what is told of it; ``is_ready``: if it has begun, and is answered, too."""
        with self._lock:
            now = self._clock()
            since_s = max(now - self._turned, 0.0)
            told: dict[str, Any] = {
                "since_turn_s": round(since_s, 3),
                "turns": self._turns,
                "up_s": round(now - self._begun, 3),
                self._name: "reachable" if self._unreachable is None else "unreachable",
            }
            if self._unreachable is not None:
                told["unreachable_s"] = round(now - self._unreachable, 3)
            reason = self._failed
            if not reason and since_s > self._stalled_after_s:
                reason = f"the loop has not turned for {since_s:.1f} s; it should within {self._stalled_after_s:g} s"
            if reason:
                return False, {"status": "ill", "reason": reason, **told}
            status = "well" if self._turns else "starting"
            return not is_ready or (bool(self._turns) and self._unreachable is None), {"status": status, **told}
