"""One instance only: a lock on the folder where a live scheduler keeps its state, and which process holds it.

The lock is ``flock`` on a file in the folder, so that it is free as soon as its owner has ended, also by ``kill -9``.
The file says which process holds it. On network file systems ``flock`` may hold on one machine only; so a lock that
another host has not given back is never taken, whatever ``flock`` says.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from unrack.errors import InputError
from unrack.live.machine.processes import Process, is_alive, machine_run, process, process_space

NAME = "lock"
ATTEMPTS, PAUSE_S = 10, 0.05
"""How often a lock is tried, as a process that asks for its owner holds it for a moment."""
_BYTES_MAX = 4096


class Owner(BaseModel):
    """The process that holds a lock."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    # pid, started: the process, and when it started, in ticks since the machine did
    pid: int
    started: int
    # boot, space: the run of the machine and the space of process ids in which these count
    boot: str
    space: str
    host: str  # the machine
    since: str  # since when, in ISO 8601, UTC

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"

    @property
    def is_elsewhere(self) -> bool:
        """True if it is on another host, so that nothing can be known of it from here."""
        return self.host != socket.gethostname()

    @property
    def is_seen(self) -> bool | None:
        """True if it runs and False if it does not, where the processes of this machine tell; ``None``: they do not."""
        if self.is_elsewhere:
            return None
        if self.boot != machine_run():
            return False
        return is_alive(Process(self.pid, self.started)) if self.space == process_space() else None


class Lock:
    """The lock on a folder, held from :meth:`take` until :meth:`release`, or until this process ends.

    Processes that this one forks without running another program hold it with it.
    """

    def __init__(self, path: Path, file: int, owner: Owner) -> None:
        self.path, self.owner = path, owner
        self._file = file

    @classmethod
    def take(cls, folder: Path) -> Self:
        """Take the lock on a folder, which is made if need be.

        Raises
        ------
        InputError
            Another instance holds it: which, and since when. Or the folder cannot be used.
        """
        try:
            return cls._take(folder)
        except OSError as error:
            want = "a folder for the state of a scheduler"
            raise InputError(str(folder), error.strerror or str(error), want) from None

    @classmethod
    def _take(cls, folder: Path) -> Self:
        path = folder / NAME
        folder.mkdir(parents=True, exist_ok=True, mode=0o750)
        file = _locked(path)
        try:
            before = _read(file)
            if before is not None and (before.is_elsewhere or before.is_seen):
                raise _held(path, before)
            own = process(os.getpid())
            assert own is not None
            owner = Owner(
                pid=own.pid,
                started=own.started,
                boot=machine_run(),
                space=process_space(),
                host=socket.gethostname(),
                since=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            content = owner.model_dump_json().encode() + b"\n"
            os.pwrite(file, content, 0)  # first the new, then the end of the old: a reader looks at the first line
            os.ftruncate(file, len(content))
            os.fsync(file)
        except BaseException:
            os.close(file)
            raise
        return cls(path, file, owner)

    @property
    def is_held(self) -> bool:
        """True while the file is still the one that is locked: it may have been removed, and another made."""
        return self._file >= 0 and _is_same(self._file, self.path)

    def release(self) -> None:
        """Give the lock back; it may be given back twice."""
        if self._file >= 0:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *what: object) -> None:
        self.release()


def owner(folder: Path) -> Owner | None:
    """The holder of the lock on a folder; ``None``: none. One on another host counts until it gives the lock back.

    Raises
    ------
    InputError
        The file cannot be read, or holds something else.
    """
    path = folder / NAME
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "the lock of a scheduler") from None
    try:
        known = _read(file)
        if known is None or known.is_elsewhere or known.is_seen:
            return known
        return None if known.is_seen is False or _lock(file, fcntl.LOCK_SH) else known
    finally:
        os.close(file)


def _locked(path: Path) -> int:
    for attempt in range(ATTEMPTS):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        if _lock(file, fcntl.LOCK_EX) and _is_same(file, path):
            return file
        known = _read(file) if attempt == ATTEMPTS - 1 else None
        os.close(file)
        if known is not None:
            raise _held(path, known)
        time.sleep(PAUSE_S)
    raise _held(path, None)


def _lock(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _read(file: int) -> Owner | None:
    text = os.pread(file, _BYTES_MAX, 0).partition(b"\n")[0]
    if not text:
        return None
    try:
        return Owner.model_validate_json(text)
    except ValidationError:
        got = f"{text[:60]!r} in the file {NAME!r}"
        raise InputError("the lock", got, "the process that holds it; remove the file if no scheduler runs") from None


def _held(path: Path, known: Owner | None) -> InputError:
    got = f"a folder that is in use by {known or 'another process'}"
    want = "one that no other scheduler uses, or its end"
    if known is not None and known.is_elsewhere:
        want = f"its end; if it has ended and could not say so, as after a crash of {known.host}, remove {path}"
    return InputError(str(path.parent), got, want)
