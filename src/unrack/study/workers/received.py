"""The worker's side of a cluster: inputs are read once a process, and a worker of another version answers so."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from unrack.errors import InputError
from unrack.jit import telling_of_compiling
from unrack.study.workers.contract import Answer
from unrack.study.workers.shared import Packed, Shelf
from unrack.study.workers.stamp import Stamp, check_stamp, stamp
from unrack.study.workers.work import Tell, answered

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
