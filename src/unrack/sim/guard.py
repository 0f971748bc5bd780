"""Users' code at work: it may raise anything, and must not end the program that runs it."""

from __future__ import annotations

import os
import signal
import threading
from traceback import format_exception
from types import FrameType, TracebackType
from typing import Any

from unrack.errors import FaultyPolicyError, RefusedError, RunError
from unrack.plugins.code import in_words
from unrack.policy.contract import Policy
from unrack.policy.own.fault import raised, refused


class PolicyAtWork:
    """While a policy is asked, whatever its code raises is an error of its run that names the user's line.

    Raises
    ------
    FaultyPolicyError
        A user's code raised something, which is the ``__cause__``.
    RefusedError
        As before, with the policy and the view on which it decided, where that was a user's code.
    RunError
        The policy's code raised SystemExit or GeneratorExit: the end of its run, not of the program.
    """

    def __init__(self, policy: Policy[Any]) -> None:
        self.policy = policy

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None or isinstance(error, KeyboardInterrupt | FaultyPolicyError):
            return
        name = self.policy.name
        fault = raised(self.policy, name, error)
        if fault is not None:
            raise fault from error
        if isinstance(error, RefusedError):
            more = refused(self.policy, name, error)
            if more is not None:
                raise RefusedError(more) from error
        if isinstance(error, SystemExit | GeneratorExit):
            raise RunError(f"policy {name} ended the run: {in_words(error)}") from error


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
    """What went wrong in a run: our own errors speak for themselves, others go by their kind.

    With the environment variable ``UNRACK_DEBUG`` (``--debug``) the whole traceback is there too: of a run in another
    process only this text comes back.
    """
    text = in_words(error)
    if error.__traceback__ is None or not with_tracebacks():  # without one it is the text of another process
        return text
    origin = error.__cause__ if isinstance(error, FaultyPolicyError) and error.__cause__ is not None else error
    return f"{text}\n{''.join(format_exception(origin)).rstrip()}"


def with_tracebacks() -> bool:
    """Whether whole tracebacks are wanted: ``UNRACK_DEBUG`` is set, as ``--debug`` does."""
    return bool(os.environ.get("UNRACK_DEBUG"))
