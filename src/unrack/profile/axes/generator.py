"""Traffic to memory at a set rate and share of reads: ``python -m unrack.profile.axes.generator MB_S READS``.

stress-ng's memrate alternates whole passes of reads and of writes, so that their share cannot be set; here it can. What
is moved is counted by the generator itself and printed, in MB/s, when it is told to end.
"""

from __future__ import annotations

import signal
import sys
import time

import numpy as np

BUFFER_MB, CHUNK_MB = 256, 1
LATE_S = 0.05
"""What it is late by is caught up with no further than this."""


def generate(mb_s: float, reads: float, buffer_mb: int = BUFFER_MB) -> None:
    """Move MB/s until SIGTERM, so many per cent of them read; print what was moved a second."""
    size = CHUNK_MB * 10**6 // 8
    buffer = np.ones(buffer_mb * 10**6 // 8)
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    print("ready", flush=True)  # noqa: T201
    begun = due = time.monotonic()
    moved, read, at = 0.0, 0.0, 0
    while not ended:
        chunk = buffer[at : at + size]
        if read * 100 <= reads * moved and reads > 0:  # the side that is behind its share
            chunk.max()
            read += CHUNK_MB
        else:
            chunk.fill(1.0)
        moved += CHUNK_MB
        at = at + size if at + 2 * size <= len(buffer) else 0
        now = time.monotonic()
        due = max(due + CHUNK_MB / mb_s, now - LATE_S)
        if due > now:
            time.sleep(due - now)
    print(f"{moved / max(1e-9, time.monotonic() - begun):.3f}", flush=True)  # noqa: T201


if __name__ == "__main__":
    generate(float(sys.argv[1]), float(sys.argv[2]))
