"""What systemd is told by a service of ``Type=notify``: that it is ready, alive, stopping."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from unrack.live.printable import printable


class Notifier:
    """Tells systemd how the service is; does nothing where systemd did not ask.

    A message that cannot be sent is lost: systemd restarts a service that it does not hear of.

    Parameters
    ----------
    environment
        With ``NOTIFY_SOCKET`` and ``WATCHDOG_USEC``, which systemd sets.
    clock
        Seconds that never go back.
    """

    def __init__(
        self, environment: Mapping[str, str] = os.environ, clock: Callable[[], float] = time.monotonic
    ) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        self._address = ("\0" + path[1:] if path.startswith("@") else path) if path[:1] in ("/", "@") else ""
        usual = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        limit = environment.get("WATCHDOG_USEC", "")
        asked = usual and limit.isascii() and limit.isdigit() and 0 < int(limit) < 2**53
        self._clock = clock
        self._told_s = float("-inf")
        self.interval_s: float | None = int(limit) / 3e6 if self._address and asked else None
        """How often :meth:`alive` says something: a third of what systemd waits; ``None``: it does not watch."""

    def ready(self, status: str = "") -> None:
        """It is ready, and works."""
        self._send("READY=1", status)

    def alive(self, status: str = "") -> None:
        """The loop has turned; told no more often than needed, so that it may be called at each turn."""
        if self.interval_s is not None and self._clock() - self._told_s >= self.interval_s:
            self._told_s = self._clock()
            self._send("WATCHDOG=1", status)

    def stopping(self, status: str = "") -> None:
        """It is about to end."""
        self._send("STOPPING=1", status)

    def _send(self, word: str, status: str) -> None:
        if not self._address:
            return
        text = word + (f"\nSTATUS={printable(status, 200)}" if status else "")
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
            to.settimeout(1.0)
            to.sendto(text.encode("utf-8", "replace"), self._address)
