"""What workers do in tests; in a file of its own, as they have to load it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def touched(folder: Path, number: int, heard: Callable[[int], None]) -> int:
    """Leave a file a call; the answer is the number."""
    (folder / f"{number}-{os.getpid()}-{time.monotonic_ns()}").touch()
    return number


def killing(folder: Path, killers: dict[int, int], number: int, heard: Callable[[int], None]) -> int:
    """As :func:`touched`, but a killer ends its worker so many times."""
    touched(folder, number, heard)
    if len(list(folder.glob(f"{number}-*"))) <= killers.get(number, 0):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.3)  # so that tasks have one item
    return number


def seen_in(thing: object, number: int) -> tuple[int, int]:
    """The process, and where the thing lies in it."""
    time.sleep(0.02)
    return os.getpid(), id(thing)


def slowly(number: int, heard: Callable[[int], None]) -> int:
    """Tell of ten steps that take a second and a half together."""
    for step in range(10):
        heard(step)
        time.sleep(0.15)
    return number


def raising(number: int, heard: Callable[[int], None]) -> int:
    """Odd numbers are not liked."""
    if number % 2:
        raise ValueError(f"odd: {number}")
    return number


def unsendable(number: int, heard: Callable[[int], None]) -> Any:
    """A lambda cannot go to another process."""
    return (lambda: number) if number else number
