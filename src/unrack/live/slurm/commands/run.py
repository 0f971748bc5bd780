"""Commands that run side by side, in bounded time and with bounded output; what is late is killed with its children."""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO, NamedTuple

from unrack.errors import InputError
from unrack.live.driver.seen import UnreachableError
from unrack.live.slurm.commands.batch import problem_in

MOST_BYTES = 1 << 30
"""The longest output that is read of a command."""
_PIECE = 1 << 18
_PIPE = 1 << 20
_SETTINGS_OF_A_USER = ("SQUEUE_", "SINFO_", "SCONTROL_", "SBATCH_", "SLURM_TIME_FORMAT", "SLURM_JSON", "SLURM_YAML")


class Done(NamedTuple):
    """What a command left: its exit code and what it printed."""

    code: int
    out: bytes
    err: bytes


def clean_environment(environment: Mapping[str, str] | None) -> dict[str, str]:
    """An environment in which what a user set for Slurm's commands does not change what they print."""
    kept = {
        key: value
        for key, value in (os.environ if environment is None else environment).items()
        if not key.startswith(_SETTINGS_OF_A_USER)
    }
    # Seconds since 1970, lists of array members at full length, messages in English.
    return {**kept, "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "LC_ALL": "C"}


def find_command(name: str, environment: Mapping[str, str]) -> str:
    """Where a command is.

    Raises
    ------
    InputError
        It is not on the ``PATH``.
    """
    path = shutil.which(name, path=environment.get("PATH", os.defpath))
    if path is None:
        raise InputError(name, "no such command", "Slurm's commands on the PATH")
    return path


def printed(done: Done, name: str) -> str:
    """What a command printed, if it did what it was asked.

    Raises
    ------
    UnreachableError
        It did not; with its first complaint.
    """
    if done.code:
        complaint = problem_in(done.err.decode("utf-8", "replace").splitlines())
        raise UnreachableError(f"{name}: {complaint or f'ended with {done.code}'}")
    return done.out.decode("utf-8", "replace")


def run_all(
    commands: Sequence[Sequence[str]], environment: Mapping[str, str], timeout_s: float, given: Sequence[bytes] = ()
) -> list[Done]:
    """Run commands at the same time; ``given`` are their standard inputs, by default none.

    Raises
    ------
    UnreachableError
        One could not be run, was late or printed without end. None of them runs any more.
    """
    running: list[subprocess.Popen[bytes]] = []
    try:
        for words in commands:
            process = _started(words, environment, is_given=bool(given))
            running.append(process)
        return _gather(running, given, time.monotonic() + timeout_s, timeout_s)
    except OSError as error:
        raise UnreachableError(f"{commands[len(running) - 1][0]} could not be run: {error}") from error
    finally:
        for process in running:
            _end(process)


def _started(words: Sequence[str], environment: Mapping[str, str], is_given: bool) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(words),
        env=dict(environment),
        start_new_session=True,
        stdin=subprocess.PIPE if is_given else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )


def _gather(
    running: Sequence[subprocess.Popen[bytes]], given: Sequence[bytes], until: float, timeout_s: float
) -> list[Done]:
    outputs: dict[IO[bytes], bytearray] = {}
    left: dict[IO[bytes], memoryview] = {}
    with selectors.DefaultSelector() as watched:
        for number, process in enumerate(running):
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                outputs[stream] = bytearray()
                with contextlib.suppress(OSError):  # fewer turns for long listings; some systems allow no more
                    fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, _PIPE)
                watched.register(stream, selectors.EVENT_READ)
            if process.stdin is not None:
                os.set_blocking(process.stdin.fileno(), False)
                left[process.stdin] = memoryview(given[number])
                watched.register(process.stdin, selectors.EVENT_WRITE)
        while watched.get_map():
            ready = watched.select(max(until - time.monotonic(), 0))
            if not ready and time.monotonic() >= until:
                raise UnreachableError(f"{_name(running)} did not answer within {timeout_s:g} s")
            for key, _ in ready:
                pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]
                over = _write(pipe, left) if pipe in left else _read(pipe, outputs[pipe])
                if over:
                    watched.unregister(pipe)
                    pipe.close()
                elif pipe in outputs and len(outputs[pipe]) > MOST_BYTES:
                    raise UnreachableError(f"{_name(running)} printed over {MOST_BYTES >> 20} MB")
    done = []
    for process in running:
        try:
            code = process.wait(max(until - time.monotonic(), 0.05))
        except subprocess.TimeoutExpired:
            raise UnreachableError(f"{_name([process])} did not end within {timeout_s:g} s") from None
        assert process.stdout is not None
        assert process.stderr is not None
        done.append(Done(code, bytes(outputs[process.stdout]), bytes(outputs[process.stderr])))
    return done


def _read(stream: IO[bytes], into: bytearray) -> bool:
    piece = os.read(stream.fileno(), _PIECE)
    into += piece
    return not piece


def _write(stream: IO[bytes], left: dict[IO[bytes], memoryview]) -> bool:
    try:
        written = os.write(stream.fileno(), left[stream][:_PIECE])
    except BrokenPipeError:  # it ended early; what it printed says why
        return True
    left[stream] = left[stream][written:]
    return not left[stream]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what still runs, with all of its session, and close what is open."""
    if process.returncode is None:
        # A session of its own: its leader has not been waited for, so that the number cannot be another's.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _name(running: Sequence[subprocess.Popen[bytes]]) -> str:
    """What was asked for, in short: the words are ours, never a user's."""
    return " or ".join(" ".join(os.path.basename(str(word)) for word in list(each.args)[:3])[:60] for each in running)  # type: ignore[arg-type]
