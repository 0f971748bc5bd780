"""The physics of a run: how fast jobs run, what fails, what changes cost, and what happens first at one time.

The work left of jobs that change speed falls by elapsed time x speed (Vieira Zacarias 2023, eq. 6.1). Users' code that
is at work in a run may raise anything, and must not end the program that runs it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import ceil
from traceback import format_exception
from types import FrameType, TracebackType
from typing import Any

from unrack.cluster.pools.pool import Pace
from unrack.cluster.spec import Cluster
from unrack.errors import FaultyPolicyError, InputError, RefusedError, RunError, check_choice
from unrack.plugins.code import in_words
from unrack.policy.contract import Policy
from unrack.policy.own.fault import raised, refused
from unrack.resources.contract import Slowdown
from unrack.sim.faults import Fault
from unrack.sim.usage.following import MemoryChanges, make_memory_changes
from unrack.slowdown.combined import Together, by_resource, make_together, together
from unrack.slowdown.memory.settings import MemoryContention, make_contention
from unrack.slowdown.memory.speeds import MemorySpeeds
from unrack.slowdown.model import Model, PoolSpeeds, make_models, pace_of, sets_speeds
from unrack.units import NEVER_US
from unrack.workload.job import JobTable


class Ties(StrEnum):
    """What happens first at one time."""

    TOGETHER = "together"
    FINISH_FIRST = "finish-first"
    SUBMIT_FIRST = "submit-first"


@dataclass(frozen=True, init=False)
class World:
    """What the policy does not decide: the same for every policy of a comparison.

    Parameters
    ----------
    models
        How jobs run on shared and composed devices: names of ``unrack models``, tables, or models; see
        :class:`unrack.slowdown.model.ModelTable`.
    contention
        How jobs that use each other's memory slow each other down: ``"synthetic"``, a folder of profiles, a table, or
        settings; see :func:`unrack.slowdown.memory.settings.make_contention`. ``None``: they do not.
    slowdowns
        How speeds combine where several causes set them: ``"add"`` (delays add, the default), ``"min"`` or
        ``"product"``; see :func:`unrack.slowdown.combined.combined`. Or a slowdown of one's own, which takes the place
        of models and contention.
    faults
        Failures of nodes and of whole failure domains.
    changes
        What it costs that memory changes while jobs run, and their checkpoints: a table with ``bandwidth``, ``pause``,
        ``checkpoint_every``, ``checkpoint_cost`` and ``restart_cost``; see
        :class:`unrack.sim.usage.following.MemoryChanges`. ``None``: nothing, and there are none.
    ties
        What happens first at one time: ``"together"``, ``"finish-first"`` or ``"submit-first"``.

    Raises
    ------
    InputError
        A part is wrong, or a time of a fault is below 0.

    Examples
    --------
    >>> World(models=["smufin"], ties="finish-first").models[0].name
    'smufin'
    """

    models: tuple[Model, ...]
    contention: MemoryContention | None
    slowdowns: Together | Slowdown | None
    faults: tuple[Fault, ...]
    changes: MemoryChanges | None
    ties: Ties

    def __init__(
        self,
        models: Sequence[str | Mapping[str, Any] | Model] = (),
        contention: str | Sequence[str] | Mapping[str, Any] | MemoryContention | None = None,
        slowdowns: str | Slowdown | None = None,
        faults: Sequence[Fault] = (),
        changes: Mapping[str, Any] | MemoryChanges | None = None,
        ties: str = Ties.TOGETHER,
    ) -> None:
        check_choice("ties", ties, Ties)
        for fault in faults:
            if fault.at_us < 0 or fault.repair_us < 0:
                raise InputError("faults", repr(fault), "a time and a repair time of 0 or more")
        made: dict[str, Any] = {
            "models": make_models(models),
            "contention": make_contention(contention),
            "slowdowns": make_together(slowdowns) if isinstance(slowdowns, str) else slowdowns,
            "faults": tuple(faults),
            "changes": None if changes is None else make_memory_changes(changes),
            "ties": Ties(ties),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    @property
    def together(self) -> Together | None:
        """How speeds combine, where that was said."""
        return self.slowdowns if isinstance(self.slowdowns, Together) else None

    def pace(self, cluster: Cluster) -> Callable[[JobTable], Pace]:
        """How any jobs run on the devices of a cluster, for its core."""
        return partial(pace_of, self.models, cluster.devices)

    def slowdown(self, cluster: Cluster, jobs: JobTable) -> tuple[Slowdown | None, MemorySpeeds | None]:
        """What slows jobs down on a cluster, and the part of it that memory has in it; ``None``: nothing does."""
        if self.slowdowns is not None and not isinstance(self.slowdowns, Together):
            return self.slowdowns, None
        parts: list[Slowdown] = [PoolSpeeds()] if sets_speeds(cluster.devices, self.models) else []
        memory = None if self.contention is None else MemorySpeeds(self.contention, cluster, jobs)
        parts += [] if memory is None else [memory]
        return together([*parts, *by_resource(cluster, jobs)], self.together or Together.ADD), memory

    def overruns(self, cluster: Cluster, jobs: JobTable) -> bool:
        """Whether a job may run for longer than it asks."""
        slower = self.changes is not None or self.slowdown(cluster, jobs)[0] is not None
        return slower or bool((jobs.work_us > jobs.request_us).any())


NOTHING_SPECIAL = World()
"""Jobs run their base times, nothing fails, and all that happens at one time is looked at together."""


class PolicyAtWork:
    """While a policy is asked, whatever its code raises is an error of its run that names the user's line.

    Raises
    ------
    FaultyPolicyError
        A user's code raised something, which is the ``__cause__``.
    RefusedError
        As before, with the policy and the view on which it decided, where that was a user's code.
    RunError
        The policy's code raised SystemExit or GeneratorExit: the end of its run, not of the program.
    """

    def __init__(self, policy: Policy[Any]) -> None:
        self.policy = policy

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None or isinstance(error, KeyboardInterrupt | FaultyPolicyError):
            return
        name = self.policy.name
        fault = raised(self.policy, name, error)
        if fault is not None:
            raise fault from error
        if isinstance(error, RefusedError):
            more = refused(self.policy, name, error)
            if more is not None:
                raise RefusedError(more) from error
        if isinstance(error, SystemExit | GeneratorExit):
            raise RunError(f"policy {name} ended the run: {in_words(error)}") from error


class Interrupts:
    """Tells a user's Ctrl-C, or a request to end, from a KeyboardInterrupt that a policy raised."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._came = False

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is signal.default_int_handler:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        signal.default_int_handler(number, frame)

    def meant(self, error: BaseException | None = None) -> bool:
        """Whether the program was asked to stop; without an error: whether a policy swallowed that."""
        unknown = not self._before and threading.current_thread() is threading.main_thread()
        unknown &= signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # as of what a shell starts beside others
        return self._came or (unknown and isinstance(error, KeyboardInterrupt))


def said(error: BaseException) -> str:
    """What went wrong in a run: our own errors speak for themselves, others go by their kind.

    With the environment variable ``UNRACK_DEBUG`` (``--debug``) the whole traceback is there too: of a run in another
    process only this text comes back.
    """
    text = in_words(error)
    if error.__traceback__ is None or not with_tracebacks():  # without one it is the text of another process
        return text
    origin = error.__cause__ if isinstance(error, FaultyPolicyError) and error.__cause__ is not None else error
    return f"{text}\n{''.join(format_exception(origin)).rstrip()}"


def with_tracebacks() -> bool:
    """Whether whole tracebacks are wanted: ``UNRACK_DEBUG`` is set, as ``--debug`` does."""
    return bool(os.environ.get("UNRACK_DEBUG"))


class Work:
    """What is left to do, by job.

    Speeds are floats and times whole µs: a job ends at the first whole µs at which nothing is left. A job that always
    runs at speed 1 ends exactly ``work`` µs after it started.
    """

    def __init__(self) -> None:
        self._left: dict[int, float] = {}
        self._speed: dict[int, float] = {}
        self._since: dict[int, int] = {}

    def start(self, job: int, work: float, now: int) -> None:
        """Start a job with ``work`` µs (at speed 1) to do; nothing is done before ``now``, which may lie ahead."""
        self._left[job] = work
        self._speed[job] = 1.0
        self._since[job] = now

    def left(self, job: int, now: int) -> float:
        """What is left at ``now``, µs at speed 1."""
        return max(0.0, self._left[job] - max(0, now - self._since[job]) * self._speed[job])

    def change_speed(self, job: int, speed: float, now: int) -> bool:
        """Let a job go on at ``speed``; False if it had that speed already."""
        if speed == self._speed[job]:
            return False
        self._left[job] = self.left(job, now)
        self._since[job] = max(now, self._since[job])
        self._speed[job] = speed
        return True

    def end_us(self, job: int) -> int:
        """When it ends if its speed does not change again, µs."""
        return self._since[job] + ceil(self._left[job] / self._speed[job])

    def hold(self, job: int, now: int) -> int:
        """Let nothing be done until :meth:`go_on`; returns for how much longer nothing would have been done, µs."""
        self._left[job], since = self.left(job, now), self._since[job]
        self._since[job] = NEVER_US
        return max(0, since - now)

    def go_on(self, job: int, now: int) -> None:
        """Let a job that was held go on."""
        self._since[job] = now

    def more(self, job: int, work: float, now: int) -> None:
        """Let a job have ``work`` µs more to do."""
        self._left[job] = self.left(job, now) + work
        self._since[job] = max(now, self._since[job])

    def stop(self, job: int) -> None:
        """Forget a job."""
        del self._left[job], self._speed[job], self._since[job]

    def after(self, job: int, work: float, now: int) -> int:
        """When it will have done ``work`` µs more than at ``now`` if its speed does not change, µs."""
        return max(now, self._since[job]) + ceil(work / self._speed[job])

    def stall(self, job: int, time_us: int, now: int) -> None:
        """Let nothing be done for so long from now on."""
        self._left[job] = self.left(job, now)
        self._since[job] = max(now, self._since[job]) + time_us
