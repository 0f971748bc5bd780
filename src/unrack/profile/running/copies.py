"""One run: copies of an application, started together, timed apart."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from unrack.errors import InputError, RunError
from unrack.profile.application import Application
from unrack.profile.axes.axis import LevelNeeds, Rig, Usage
from unrack.profile.machine.cgroups import in_front
from unrack.profile.machine.journal import OF_RUN, end_processes
from unrack.profile.machine.machine import usable_cores
from unrack.profile.machine.marked import marked

TAIL = 2**20
"""So many bytes at the end of what it prints are looked at."""
PLACEHOLDER = re.compile(r"\{(copy|mount|level|drive|peer)\}")


@dataclass(frozen=True)
class Copy:
    """What one copy did."""

    time_s: float  # of its unit of progress
    wall_s: float  # from its start to its end
    cpu_s: float
    faults: int  # page faults that waited for a device


@contextmanager
def for_a_run(held: LevelNeeds, rig: Rig) -> Iterator[LevelNeeds]:
    """Go before other programs for one run; all that it leaves behind ends with it."""
    try:
        with in_front(rig.machine, rig.journal, held.doors) as doors:
            yield held.beside(LevelNeeds(doors))
    finally:
        end_processes(rig.token, OF_RUN)


def run_copies(application: Application, held: LevelNeeds, token: str) -> tuple[list[Copy], Usage]:
    """Run the copies that a level asks for, all at once, on the first cores that may be used.

    Each has cores of its own as far as there are enough.

    Raises
    ------
    RunError
        One failed, or took longer than it may.
    """
    if application.file.prepare:
        prepare(application, held, token)
    outputs: list[IO[bytes]] = [TemporaryFile() for _ in range(held.copies)]  # noqa: SIM115 -- closed below
    begun = time.monotonic()
    started: list[Started] = []
    try:
        for copy, output in enumerate(outputs):
            started.append(start(application, held, token, copy, output))
        for one in started:
            one.thread.join()
        wall_s = time.monotonic() - begun
        found = [one.copy() for one in started]
    finally:
        for one in started:
            one.end()
        for output in outputs:
            output.close()
    return found, Usage(wall_s, sum(copy.cpu_s for copy in found))


class Started:
    """A copy that runs, and a thread that waits for it."""

    def __init__(self, application: Application, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        self.begun = time.monotonic()
        self._application, self._process, self._output = application, process, output
        self._late = threading.Timer(application.timeout_s, self._give_up)
        self._late.daemon = True
        self._late.start()
        self._timed_out = False
        self._ended: tuple[float, int, float, int] | None = None
        self.thread = threading.Thread(target=self._wait, daemon=True)
        self.thread.start()

    def _wait(self) -> None:
        _, status, usage = os.wait4(self._process.pid, 0)
        ended = time.monotonic()
        self._late.cancel()
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._ended = (ended, self._process.returncode, usage.ru_utime + usage.ru_stime, usage.ru_majflt)

    def _give_up(self) -> None:
        self._timed_out = True
        self.end()

    def end(self) -> None:
        """End it with all that it started."""
        self._late.cancel()
        if self._ended is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            if threading.current_thread() is not self._late:
                self.thread.join()

    def copy(self) -> Copy:
        """What it did; it has ended."""
        assert self._ended is not None
        ended, code, cpu_s, faults = self._ended
        file, wall_s = self._application.file, ended - self.begun
        where = f"{self._application.name}: {' '.join(file.command):.200}"
        if self._timed_out:
            raise RunError(f"{where}: not done after {self._application.timeout_s:g} s (timeout)")
        self._output.seek(max(0, self._output.seek(0, os.SEEK_END) - TAIL))
        said = self._output.read().decode(errors="replace")
        if code:
            raise RunError(f"{where}: exit code {code}: {said.strip()[-500:] or 'it said nothing'}")
        if file.progress is None:
            return Copy(wall_s, wall_s, cpu_s, faults)
        matches = re.findall(file.progress.regex, said)
        try:
            value = float(matches[-1])
        except (IndexError, ValueError):
            got = repr(matches[-1]) if matches else f"no match in {said.strip()[-200:]!r}"
            raise InputError(f"{where}, progress.regex", got, "a number") from None
        if not 0 < value < float("inf"):
            raise RunError(f"{where}: progress of {value:g}; wanted a number above 0")
        return Copy(value if file.progress.unit == "seconds" else 1 / value, wall_s, cpu_s, faults)


def start(application: Application, held: LevelNeeds, token: str, copy: int, output: IO[bytes]) -> Started:
    """Start a copy; ``copy``: its number, from 0, ``{copy}`` in its command."""
    usable, cores = usable_cores(), application.file.cores
    first = copy * cores % max(1, len(usable) - cores + 1)
    pinned = ["taskset", "-c", ",".join(map(str, usable[first : first + cores]))] if cores < len(usable) else []
    argv = filled(application, [*held.prefix, *pinned, *application.file.command], held.words, copy)
    process = marked(argv, token, held.doors, {**held.env, OF_RUN: token}, application.folder, output)
    return Started(application, process, output)


def prepare(application: Application, held: LevelNeeds, token: str) -> None:
    """Run what is to be run before, once for each copy, and outside of the level's limits."""
    for copy in range(held.copies):
        argv = filled(application, application.file.prepare, held.words, copy)
        with TemporaryFile() as output:
            process = marked(argv, token, (), {**held.env, OF_RUN: token}, application.folder, output)
            try:
                code = process.wait(application.timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise RunError(f"{application.name}, prepare: not done after {application.timeout_s:g} s") from None
            if code:
                output.seek(0)
                said = output.read().decode(errors="replace").strip()[-500:]
                raise RunError(f"{application.name}, prepare: {' '.join(argv)}: exit code {code}: {said}")


def filled(application: Application, argv: Sequence[str], words: Mapping[str, str], copy: int) -> list[str]:
    """A command with its placeholders filled in.

    ``{mount}`` is the folder of its inputs, on whatever device, ``{copy}`` the copy's number; the others are an axis's.
    """
    known = {"copy": str(copy), "mount": str(application.folder), "level": "none", **words}
    known["mount"] = known["mount"].replace("{copy}", known["copy"])

    def word(match: re.Match[str]) -> str:
        if match[1] not in known:
            got, want = f"{match[0]} where no axis sets it", f"one of {', '.join(known)}"
            raise InputError(f"{application.name}, command", got, want)
        return known[match[1]]

    return [PLACEHOLDER.sub(word, part) for part in argv]


@contextmanager
def scratch(out: Path) -> Iterator[Path]:
    """A folder beside the results for large files; it goes if it is empty at the end."""
    folder = out / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        with suppress(OSError):
            folder.rmdir()
