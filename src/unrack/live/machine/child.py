"""A command as a child: started behind a gate, given signals, waited for."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals to this process that the command gets in its place."""
CANNOT_EXECUTE = 126
_FROM_KERNEL = 128
"""What ``si_code`` says of signals of a terminal: all processes in its foreground have got them already."""


class Child:
    """A process that runs a command only once :meth:`release` was called; it ends if this process ends before.

    While it exists the forwarded signals are blocked here: they wait until :meth:`wait` hands them on.

    Parameters
    ----------
    command
        Its words; the first is found along ``PATH``.
    environment
        All its variables.
    cores
        The CPUs that it may use; none: as this process.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], cores: Sequence[int]) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        gate, self._gate = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._gate)
            _become(command, environment, cores, lambda: os.read(gate, 1) == b"1", self._mask)
        os.close(gate)

    def release(self) -> None:
        """Let the command run."""
        with suppress(BrokenPipeError):  # it was killed already
            os.write(self._gate, b"1")
        os.close(self._gate)
        self._gate = -1

    def give_up(self) -> None:
        """End the child where the command has not begun."""
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1
            os.waitpid(self.pid, 0)

    def wait(self) -> int:
        """Hand signals on until the command ends; its exit code, 128 + n if signal n ended it."""
        while True:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            got = signal.sigtimedwait({*FORWARDED, signal.SIGCHLD}, 1.0)
            if got is not None and got.si_signo != signal.SIGCHLD and got.si_code != _FROM_KERNEL:
                os.kill(self.pid, got.si_signo)

    def restore_signals(self) -> None:
        """Let this process get signals again."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def _become(
    command: Sequence[str],
    environment: Mapping[str, str],
    cores: Sequence[int],
    may_run: Callable[[], bool],
    mask: set[int] | set[signal.Signals],
) -> NoReturn:
    """In the child: wait at the gate, then be the command. It never returns."""
    try:
        if may_run():
            if cores:
                os.sched_setaffinity(0, cores)
            for number in (signal.SIGPIPE, signal.SIGINT):  # Python treats these in its own way
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(command[0], list(command), dict(environment))
    except OSError as error:
        os.write(2, f"error: {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(CANNOT_EXECUTE)
