"""What a worker does with a task, wherever it is: the items one after another, telling how far they are."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from unrack.errors import InputError, RunError
from unrack.jit import telling_of_compiling
from unrack.sim.guard import said, with_tracebacks
from unrack.study.workers.address import Stamp, check_stamp, stamp
from unrack.study.workers.contract import Answer, Work
from unrack.study.workers.shared import Packed, Shelf, unpacked

TELL_EVERY_S = 0.25
Tell = Callable[[int, int], None]
"""Told the place of an item in its task, and how far it is."""


class CancelledError(BaseException):
    """Raised by whom work tells how far it is: nobody wants its answer any more."""


def answered(packed: Packed, found: Callable[[str], Any], tell: Tell) -> bytes:
    """The answers to a task that came as bytes, as bytes."""
    try:
        work, items = unpacked(packed, found)
    except Exception as raised:  # the code that the task names is not here, or fails when it is loaded
        error = RunError(f"a worker cannot load its task ({said(raised)})")
        return pickle.dumps((Answer(None, error, 0.0),) * packed.count, protocol=5)
    return _as_bytes(worked(work, items, tell))


def worked(work: Work, items: Sequence[Any], tell: Tell) -> tuple[Answer, ...]:
    """An answer an item; ``tell`` is told how far it is, a few times a second at most."""
    last = time.monotonic()
    answers = []
    for place, item in enumerate(items):

        def heard(done: int, place: int = place) -> None:
            nonlocal last
            if (now := time.monotonic()) - last >= TELL_EVERY_S:
                last = now
                tell(place, done)

        began = time.perf_counter()
        value, error = None, None
        try:
            value = work(item, heard)
        except CancelledError:
            raise
        except BaseException as raised:  # Ctrl-C is the business of who handed out the task
            error = _sendable(raised)
        answers.append(Answer(value, error, time.perf_counter() - began))
    return tuple(answers)


def _sendable(error: BaseException) -> BaseException:
    """The error itself if another process can surely read it, else one that says the same."""
    ours = type(error).__module__.partition(".")[0] in ("builtins", "unrack")
    if ours and not with_tracebacks():  # these do not travel, but as text
        with suppress(Exception):  # what it holds may be a user's
            if type(pickle.loads(pickle.dumps(error))) is type(error):
                return error.with_traceback(None)
    return RunError(said(error))


def _as_bytes(answers: Sequence[Answer]) -> bytes:
    """Answers as they go to another process; those that cannot be sent become an error that says so."""
    try:
        return pickle.dumps(answers, protocol=5)
    except Exception as raised:  # what an answer holds is a user's
        error = RunError(f"an answer that cannot be sent to another process ({said(raised)})")
        return pickle.dumps(tuple(Answer(None, one.error or error, one.took_s) for one in answers), protocol=5)


_inputs: Shelf[Any] = Shelf()
_alone = threading.Lock()


def answered_here(
    where: str, packed: Packed, wanted: Stamp, fetch: Callable[[str], bytes], tell: Tell, compiling: Callable[[], None]
) -> bytes:
    """The answers to a task, as bytes; tasks of one process are worked on one after another.

    Parameters
    ----------
    where
        What messages call this worker.
    wanted
        The stamp of who asks.
    fetch
        Gives an input by its key, as bytes; it is not asked for one that this process has.
    """
    try:
        check_stamp(where, stamp(), wanted)
    except InputError as error:
        return pickle.dumps((Answer(None, error, 0.0),) * packed.count, protocol=5)

    def found(key: str) -> Any:
        if key not in _inputs:
            content = fetch(key)
            _inputs.add(key, pickle.loads(content), len(content))
        _inputs.move_to_end(key)
        return _inputs[key]

    with _alone, telling_of_compiling(compiling):
        try:
            return answered(packed, found, tell)
        finally:
            with suppress(KeyError):
                _inputs.trimmed(packed.keys)
