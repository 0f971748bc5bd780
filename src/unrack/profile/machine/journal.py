"""A journal of what is made on a machine, so that all of it can be undone, also after a kill -9.

Each thing is written down, and on disk, before it is made. Processes are found by a word in their environment, the
other things by names that hold the same word; so nothing else is ever touched.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir
from typing import IO

from unrack.errors import InputError, RunError
from unrack.profile.machine.machine import called

MARK = "UNRACK_PROFILE"
"""The variable in the environment of every process that is started."""
OF_RUN = "UNRACK_PROFILE_RUN"
"""The one that those of a run have beside it, and what they start in turn."""
_GIVEN_UP_S = 5.0


def default_folder() -> Path:
    """Where journals are: a folder that goes with the machine's start, if there is one."""
    if os.geteuid() == 0:
        return Path("/run/unrack-profile")
    return Path(os.environ.get("XDG_RUNTIME_DIR") or gettempdir(), f"unrack-profile-{os.geteuid()}")


class Journal:
    """What this process made and has not undone yet.

    Parameters
    ----------
    folder
        Where journals are kept; made if it is not there.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_folder()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.folder.stat().st_uid != os.geteuid():  # commands are read from it, and run
            raise InputError(str(self.folder), "a folder of another user", "one of your own, or XDG_RUNTIME_DIR set")
        while not self._opened():
            pass

    def _opened(self) -> bool:
        """Open a journal and lock it until this process ends, however it does; False: a clean-up was faster."""
        self.token = f"unrack-{os.getpid()}-{secrets.token_hex(4)}"
        self.path = self.folder / f"{self.token}.jsonl"
        self._file = self.path.open("a", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return self.path.exists()

    def note(self, kind: str, what: Sequence[str]) -> None:
        """Write down, on disk, what is about to be made."""
        self._file.write(json.dumps({"kind": kind, "what": list(what)}) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    @contextmanager
    def made(self, kind: str, *what: str) -> Iterator[None]:
        """Undo something at the end that is made inside; what cannot be undone stays in the journal."""
        self.note(kind, what)
        try:
            yield
        finally:
            undo(kind, what, self.token)
            self.note(f"no-{kind}", what)

    def called(self, *argv: str) -> str:
        """What a short program printed that makes something; it has the word, and so is ended before that is undone.

        Raises
        ------
        OSError
            It failed.
        """
        return called(argv, {MARK: self.token})

    def close(self) -> list[str]:
        """End the processes that are left, and forget the journal if all is undone; returns what is left."""
        left = _undo_all(self.path, self.token)
        self._file.close()
        return left

    def __enter__(self) -> Journal:
        clean(self.folder)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def clean(folder: Path | None = None) -> tuple[int, list[str]]:
    """Undo what processes that are gone left behind: how many journals were worked off, and what could not be undone.

    Journals of processes that run are left alone.
    """
    done, left = 0, []
    for path in sorted((folder or default_folder()).glob("unrack-*.jsonl")):
        with suppress(FileNotFoundError), path.open("a", encoding="utf-8") as file:
            if _locked(file, path):
                time.sleep(0.05)  # what becomes a program just now has its word a moment after it let go of the lock
                left += _undo_all(path, path.stem)
                done += 1
    return done, left


def running(folder: Path | None = None) -> list[int]:
    """Processes, but for this one, that have a journal: each measures what the others do to the machine."""
    found = {int(path.stem.split("-")[1]) for path in (folder or default_folder()).glob("unrack-*.jsonl")}
    return sorted(pid for pid in found - {os.getpid()} if Path("/proc", str(pid)).exists())


def _locked(file: IO[str], path: Path) -> bool:
    """Lock a journal that no process has; a child of one that was killed may have it until it becomes a program."""
    deadline = time.monotonic() + _GIVEN_UP_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if Path("/proc", path.stem.split("-")[1]).exists() or time.monotonic() > deadline:
                return False
            time.sleep(0.02)


def _undo_all(path: Path, token: str) -> list[str]:
    entries: dict[tuple[str, ...], None] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
            key = (str(entry["kind"]), *map(str, entry["what"]))
        except (ValueError, TypeError, KeyError):  # the last line, cut off
            continue
        if key[0].startswith("no-"):
            entries.pop((key[0].removeprefix("no-"), *key[1:]), None)
        else:
            entries.pop(key, None)
            entries[key] = None
    end_processes(token)
    left = []
    for kind, *what in reversed(entries):
        try:
            undo(kind, what, token)
        except (OSError, RunError) as error:
            left.append(f"{kind} {' '.join(what)}: {error}")
    if not left:
        path.unlink(missing_ok=True)
    return left


def undo(kind: str, what: Sequence[str], token: str) -> None:
    """Undo one thing; nothing happens if it is not there.

    Raises
    ------
    OSError
        It is still there.
    """
    if kind not in _UNDO:
        raise OSError(f"no way to undo a {kind}")
    _UNDO[kind](what, token)


def end_processes(token: str, mark: str = MARK) -> None:
    """End every process that has the word in its environment, as the variable that is named, but for this one."""
    proc, word = Path("/proc"), f"{mark}={token}".encode()
    deadline = time.monotonic() + _GIVEN_UP_S
    while time.monotonic() < deadline:
        found = []
        for folder in proc.glob("[0-9]*"):
            with suppress(OSError):
                if int(folder.name) != os.getpid() and word in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _end_group(what: Sequence[str], token: str) -> None:
    folder = Path(what[0])
    if not folder.is_dir() or token not in folder.name:
        return
    name = "tasks" if "resctrl" in folder.parts else "cgroup.procs"
    deadline = time.monotonic() + _GIVEN_UP_S
    while True:
        with suppress(OSError):
            for pid in (folder / name).read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        try:
            folder.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _detach_loop(what: Sequence[str], token: str) -> None:
    """Detach the devices of a file, also of one that was removed meanwhile."""
    for line in called(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"]).splitlines():
        device, _, file = line.strip().partition(" ")
        if token in file and Path(what[0]).name in file:
            called(["losetup", "-d", device])


def _unmount(what: Sequence[str], token: str) -> None:
    if os.path.ismount(what[0]) and token in what[0]:
        called(["umount", what[0]])


def _remove(what: Sequence[str], token: str) -> None:
    path = Path(what[0])
    if token not in path.name:
        return
    if os.path.ismount(path):
        raise OSError(f"{path}: still mounted")
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _remove_zram(what: Sequence[str], token: str) -> None:
    del token
    if not Path(f"/sys/block/zram{what[0]}").is_dir():
        return
    device = f"/dev/zram{what[0]}"
    if any(line.startswith(f"{device} ") for line in Path("/proc/swaps").read_text().splitlines()):
        called(["swapoff", device])
    Path(f"/sys/block/zram{what[0]}/reset").write_text("1")
    Path("/sys/class/zram-control/hot_remove").write_text(what[0])


def _remove_netns(what: Sequence[str], token: str) -> None:
    if token in what[0] and Path("/run/netns", what[0]).exists():
        called(["ip", "netns", "del", what[0]])


def _run(what: Sequence[str], token: str) -> None:
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            what, env={**os.environ, MARK: token}, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise OSError(f"{what[0]}: {done.stderr.strip() or f'exit code {done.returncode}'}")


_UNDO: dict[str, Callable[[Sequence[str], str], None]] = {
    "cgroup": _end_group,
    "resctrl": _end_group,
    "loop": _detach_loop,
    "mount": _unmount,
    "file": _remove,
    "zram": _remove_zram,
    "netns": _remove_netns,
    "command": _run,
}
"""Kind of thing → what undoes it, given what was noted and the word of the journal."""
