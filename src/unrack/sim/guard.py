"""Users' code at work: it may raise anything, and must not end the program that runs it."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from unrack.errors import RunError, UnrackError


class PolicyAtWork:
    """While a policy is asked, ``sys.exit`` is a failure of its run and not the end of the program.

    Raises
    ------
    RunError
        The policy's code raised SystemExit or GeneratorExit.
    """

    def __init__(self, policy: str) -> None:
        self.policy = policy

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, SystemExit | GeneratorExit):
            raise RunError(f"policy {self.policy} ended the run: {said(error)}") from error


class Interrupts:
    """Tells a user's Ctrl-C, or a request to end, from a KeyboardInterrupt that a policy raised."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._came = False

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is signal.default_int_handler:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        signal.default_int_handler(number, frame)

    def meant(self, error: BaseException | None = None) -> bool:
        """Whether the program was asked to stop; without an error: whether a policy swallowed that."""
        unknown = not self._before and threading.current_thread() is threading.main_thread()
        return self._came or (unknown and isinstance(error, KeyboardInterrupt))


def said(error: BaseException) -> str:
    """What went wrong in a run: our own errors speak for themselves, others go by their kind."""
    try:
        text = str(error)
    except Exception:  # an exception of a user's own, with a __str__ that fails
        text = "(which cannot be printed)"
    return text if isinstance(error, UnrackError) else f"{type(error).__name__}: {text}"
