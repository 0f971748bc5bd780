"""Blocks of free ports, so that several clusters on one machine do not collide."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import tempfile
from pathlib import Path

FIRST, BLOCK, BLOCKS = 20_000, 100, 120
"""Below the ports that Linux gives to whoever asks for any."""


class PortBlock:
    """A block of ports that nobody else listens on, kept for this process until :meth:`give_back`."""

    def __init__(self) -> None:
        folder = Path(tempfile.gettempdir()) / "unrack-test-ports"
        folder.mkdir(exist_ok=True)
        for block in range(BLOCKS):
            lock = os.open(folder / str(block), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            ports = range(FIRST + block * BLOCK, FIRST + (block + 1) * BLOCK)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if all(map(_is_free, ports)):
                    self.ports, self._lock = ports, lock
                    return
            os.close(lock)
        raise RuntimeError("no block of free ports is left")

    def give_back(self) -> None:
        """Let others have it."""
        os.close(self._lock)


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
