"""Events of a live scheduler, as records of the standard ``logging``."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from unrack.live.watch.log.forms import FIELDS, JsonLines, TextLines

ROOT = "unrack.live"
"""The logger above all that live schedulers log."""


class Events:
    """Logs events with fields: ``events.info("job started", job=17, nodes=["n1"])``.

    Parameters
    ----------
    name
        The part of the scheduler, such as ``"slurm"``: its logger is ``unrack.live.slurm``.
    """

    def __init__(self, name: str = "") -> None:
        self._log = logging.getLogger(f"{ROOT}.{name}" if name else ROOT)

    def debug(self, event: str, /, **fields: object) -> None:
        """Log what only helps to find a fault."""
        self._say(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """Log what happens as it should."""
        self._say(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Log what an operator should look at some day."""
        self._say(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        """Log what an operator should look at now."""
        self._say(logging.ERROR, event, fields)

    def _say(self, level: int, event: str, fields: dict[str, object]) -> None:
        if self._log.isEnabledFor(level):
            self._log.log(level, "%s", event, extra={FIELDS: fields}, stacklevel=3)


def start_log(level: str = "info", form: str = "auto", stream: TextIO | None = None) -> logging.Handler:
    """Write what live schedulers log to a stream, until the handler that is returned is taken off again.

    Parameters
    ----------
    level, form
        As in the ``[log]`` table of a site file.
    stream
        Default: standard error.
    """
    to = sys.stderr if stream is None else stream
    for_people = form == "text" or (form == "auto" and to.isatty())
    writer = logging.StreamHandler(to)
    writer.setFormatter(TextLines() if for_people else JsonLines())
    log = logging.getLogger(ROOT)
    log.setLevel(level.upper())
    log.propagate = False
    log.addHandler(writer)
    return writer
