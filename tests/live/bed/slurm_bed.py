"""A real Slurm on one host: a controller and some nodes, for tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from free_ports import PortBlock
from munge_service import start_munge
from slurm_files import Layout, write

from unrack.slurm_text.values import records

ANSWERING = {"idle", "mixed", "allocated", "drained", "draining", "completing"}
"""States of nodes whose slurmd has answered."""


class Kill(NamedTuple):
    """A controller that was killed: when, and as of when it had written down what it knew of jobs, s since 1970."""

    at_s: float
    written_s: float  # 0: it had written down nothing


class Bed:
    """A cluster of its own ports and folder. Many may be there at a time; stop it, or use it in a ``with``.

    What it starts ends with the thread that made it, even when that is killed. ``options`` are those of
    :class:`Layout`.
    """

    def __init__(self, folder: Path, nodes: int = 16, **options: Any) -> None:
        start_munge()
        self.folder = folder
        self.layout = Layout(nodes=nodes, **options)
        self._block = PortBlock()
        self.conf = write(folder, self.layout, self._block.ports)
        self.env = {**os.environ, "SLURM_CONF": str(self.conf)}
        self._controller: subprocess.Popen[bytes] | None = None
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._stopped = False
        self.kills: list[Kill] = []
        try:
            self.start_controller()
            for name in self.names:
                self._start_node(name)
            self.wait_until(lambda: self._node_states() == {"idle"}, 30, "all nodes idle")
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Bed:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def names(self) -> list[str]:
        """The names of its nodes."""
        return self.layout.names

    @property
    def last_port(self) -> int:
        """A port of its own that no daemon of Slurm uses."""
        return self._block.ports[-1]

    # The daemons

    def start_controller(self) -> None:
        """Start slurmctld and wait until it answers."""
        self._controller = self._daemon("slurmctld", "-D")
        self.wait_until(lambda: self.call("scontrol", "ping", check=False).returncode == 0, 20, "slurmctld answers")

    def stop_controller(self) -> None:
        """End slurmctld as an operator does: it writes down what it knows, unless it takes too long and is killed."""
        if not self._end(self._controller, signal.SIGTERM):
            self._note_kill()

    def kill_controller(self) -> None:
        """Kill slurmctld at once."""
        self._end(self._controller, signal.SIGKILL)
        self._note_kill()

    def _note_kill(self) -> None:
        """Note how much it forgets: its file of jobs begins with a text, two bytes of a version, and the time."""
        path = self.folder / "state" / "job_state"
        head = path.read_bytes()[:64] if path.exists() else bytes(64)
        begins = 4 + int.from_bytes(head[:4], "big") + 2
        self.kills.append(Kill(time.time(), int.from_bytes(head[begins : begins + 8], "big")))

    def restart_controller(self) -> None:
        """End slurmctld and start it again."""
        self.stop_controller()
        self.start_controller()

    def pause_controller(self) -> None:
        """Let slurmctld hang: it takes connections and does not answer."""
        assert self._controller is not None
        self._controller.send_signal(signal.SIGSTOP)

    def resume_controller(self) -> None:
        """Let it go on."""
        assert self._controller is not None
        self._controller.send_signal(signal.SIGCONT)

    def node_down(self, name: str) -> None:
        """Kill a node's slurmd, and let the controller know at once."""
        self._end(self._nodes.get(name), signal.SIGKILL)
        self.scontrol("update", f"NodeName={name}", "State=DOWN", "Reason=test")

    def node_up(self, name: str) -> None:
        """Start it again, and wait until jobs can be started on it."""
        if self._nodes[name].poll() is not None:
            self._start_node(name)
        self.scontrol("update", f"NodeName={name}", "State=RESUME", check=False)
        self.wait_until(lambda: self.node(name)["State"] in ("IDLE", "MIXED", "ALLOCATED"), 20, f"{name} is back")

    def drain(self, name: str, reason: str = "test") -> None:
        """Let no more jobs start on it."""
        self.scontrol("update", f"NodeName={name}", "State=DRAIN", f"Reason={reason}")

    def resume(self, name: str) -> None:
        """Take :meth:`drain` back."""
        self.scontrol("update", f"NodeName={name}", "State=RESUME")

    def rewrite(self, **options: Any) -> None:
        """Change what the cluster is like, and start it anew with what it knows: more nodes, other licences, …"""
        self.layout = Layout(**{**vars(self.layout), **options})
        write(self.folder, self.layout, self._block.ports)
        self.stop_controller()
        for process in self._nodes.values():
            self._end(process, signal.SIGTERM)
        self.start_controller()
        for name in self.names:
            self._start_node(name)
        self.wait_until(lambda: self._node_states() <= ANSWERING, 30, "all nodes answer")

    def stop(self) -> None:
        """End everything, jobs too, and give the ports back; once is enough."""
        if self._stopped:
            return
        self._stopped = True
        with contextlib.suppress(OSError, RuntimeError, subprocess.SubprocessError):
            self.clear(timeout_s=5)
        for process in [self._controller, *self._nodes.values()]:
            self._end(process, signal.SIGKILL if process is None or process.poll() is not None else signal.SIGTERM)
        for pid in self._left_over():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._block.give_back()

    # Commands

    def call(
        self, *words: str | bytes, check: bool = True, given: bytes | None = None, user: str | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command against this cluster; as another user, if one is named."""
        extra = {"user": user, "group": user if user != "nobody" else "nogroup", "extra_groups": []} if user else {}
        done = subprocess.run(  # type: ignore[call-overload]
            list(words), env=self.env, input=given, capture_output=True, timeout=60, cwd="/tmp", check=False, **extra
        )
        if check and done.returncode:
            raise RuntimeError(f"{words!r}: {done.stderr.decode(errors='replace')[:2000]}")
        return done  # type: ignore[no-any-return]

    def scontrol(self, *words: str, check: bool = True, user: str | None = None) -> str:
        """What ``scontrol`` prints."""
        return self.call("scontrol", *words, check=check, user=user).stdout.decode(errors="replace")

    def submit(self, script: str = "sleep 1", *, user: str | None = None, **options: Any) -> int:
        """Queue a job that runs some lines of shell; return its number.

        Options are those of ``sbatch``, with ``_`` for ``-``: ``nodes=2, mem="4G", hold=True``.
        """
        words: list[Any] = ["sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp"]
        for key, value in options.items():
            name = "--" + key.replace("_", "-")
            if isinstance(value, bytes):
                words.append(name.encode() + b"=" + value)
            elif value is not False:
                words.append(name if value is True else f"{name}={value}")
        done = self.call(*words, given=f"#!/bin/sh\n{script}\n".encode(), user=user)
        return int(done.stdout.split()[-1].split(b";")[0])

    def submit_many(self, asked: Sequence[dict[str, Any]], at_a_time: int = 6) -> list[int]:
        """Queue many jobs, a few at a time, in no particular order; return their numbers in the order asked."""
        with ThreadPoolExecutor(at_a_time) as pool:
            return list(pool.map(lambda options: self.submit(**options), asked))

    def cancel(self, *jobs: int | str) -> None:
        """Cancel jobs."""
        if jobs:
            self.call("scancel", *map(str, jobs))

    def clear(self, timeout_s: float = 30) -> None:
        """Cancel all jobs, and wait until none holds or waits for anything."""
        jobs = self._waiting_or_running()
        if jobs:
            self.call("scancel", "--full", *jobs, check=False)
            self.wait_until(lambda: not self._waiting_or_running(), timeout_s, "no job is left")

    # What there is

    def job(self, job: int | str) -> dict[str, str]:
        """What ``scontrol show job`` says of a job, field by field."""
        return next(iter(self._records("job", str(job), "JobId")))

    def jobs(self) -> list[dict[str, str]]:
        """The same of all that Slurm remembers."""
        return self._records("job", "", "JobId")

    def node(self, name: str) -> dict[str, str]:
        """What ``scontrol show node`` says of a node."""
        return self._records("node", name, "NodeName")[0]

    def state(self, job: int | str) -> str:
        """The state of a job, such as ``RUNNING``."""
        return self.job(job)["JobState"]

    def wait_until(self, holds: Callable[[], bool], timeout_s: float = 20, what: str = "it holds") -> None:
        """Wait until something holds; ``TimeoutError`` if it does not in time."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {timeout_s} s in vain until {what}; see {self.folder}/log")
            time.sleep(0.05)

    def wait_for(self, jobs: Iterable[int | str], *states: str, timeout_s: float = 20) -> None:
        """Wait until all these jobs are in one of these states."""
        for job in jobs:
            self.wait_until(lambda job=job: self.state(job) in states, timeout_s, f"job {job} is {states}")  # type: ignore[misc]

    # What is behind it

    def _records(self, kind: str, name: str, first_key: str) -> list[dict[str, str]]:
        text = self.scontrol("show", "-o", kind, *([name] if name else []))
        return [record.fields for record in records(text, first_key)]

    def _waiting_or_running(self) -> list[str]:
        return self.call("squeue", "-h", "-o", "%A", "-a").stdout.decode().split()

    def _node_states(self) -> set[str]:
        done = self.call("sinfo", "-h", "-N", "-o", "%T", check=False)
        return set(done.stdout.decode().split())

    def _start_node(self, name: str) -> None:
        self._nodes[name] = self._daemon("slurmd", "-D", "-N", name)

    def _daemon(self, *words: str) -> subprocess.Popen[bytes]:
        with open(self.folder / "log" / "daemons", "ab") as log:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *words],
                env={**self.env, "PATH": f"{self.env.get('PATH', '')}:/usr/sbin:/sbin"},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _end(self, process: subprocess.Popen[bytes] | None, how: signal.Signals) -> bool:
        """End a process; False: it did not end in time, and was killed."""
        if process is None:
            return True
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)  # one that hangs does not end
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False
        return True

    def _left_over(self) -> list[int]:
        """Processes of this cluster's jobs and their keepers, known by their environment."""
        mark = f"SLURM_CONF={self.conf}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes().split(b"\0") and int(path.parent.name) != os.getpid():
                    found.append(int(path.parent.name))
        return found
