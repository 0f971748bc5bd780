"""Processes that carry the word of a journal, so that they can be found and ended."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from unrack.errors import RunError
from unrack.profile.machine.journal import MARK


def marked(
    argv: Sequence[str],
    token: str,
    doors: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdout: int | IO[Any] = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own.

    It keeps the journal's lock until it becomes the program (so files are closed by that, not before), and has the word
    from then on: a clean-up waits for it or finds it.

    Parameters
    ----------
    token
        The word of the journal.
    doors
        Files into which it writes 0 before it becomes the program, so that nothing of it runs outside of its groups.

    Raises
    ------
    RunError
        There is no such program.
    """
    enter = ["sh", "-c", 'for door in $DOORS; do echo 0 > "$door" || exit 125; done; exec "$@"', "sh"] if doors else []
    variables = {**os.environ, **(env or {}), MARK: token}
    if doors:
        variables["DOORS"] = " ".join(doors)
    try:
        return subprocess.Popen(
            [*enter, *argv], env=variables, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout,
            stderr=subprocess.STDOUT if stdout != subprocess.PIPE else subprocess.DEVNULL, start_new_session=True,
            close_fds=False,
        )  # fmt: skip
    except OSError as error:
        raise RunError(f"{argv[0]}: {error.strerror or error}") from None
