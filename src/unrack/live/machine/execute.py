"""Run a command on GPUs and CPUs of this machine that no other command holds."""

from __future__ import annotations

import getpass
import os
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from unrack.errors import InputError
from unrack.live.machine.child import Child
from unrack.live.machine.claims_file import Claims, MachineClaim, locked
from unrack.live.machine.here import can_bind_memory, nodes_of
from unrack.live.machine.plan import MachinePlan, WantedGpus, plan
from unrack.live.machine.processes import machine_run, process, process_space
from unrack.reasons import Code, Reason
from unrack.resources.gpus.machines.machine import Machine

POLL_S = 0.2


def execute(
    machine: Machine,
    wanted: WantedGpus,
    command: Sequence[str],
    locks: Path,
    wait_s: float = 0.0,
    on_start: Callable[[MachinePlan], None] = lambda plan: None,
) -> int | Reason:
    """Claim GPUs and CPUs, run the command on them, and release them when it ends.

    Parameters
    ----------
    machine
        This machine.
    wanted
        What the command gets.
    command
        Its words.
    locks
        The file of claims.
    wait_s
        How long to try again while others hold what it needs.
    on_start
        Called once, when the GPUs are claimed and before the command runs.

    Returns
    -------
    int or Reason
        The command's exit code, 128 + n if signal n ended it; or why it was not started.

    Raises
    ------
    InputError
        There is no such command, the machine has too few GPUs, or the file of claims is damaged.

    Notes
    -----
    The claim lasts as long as this process or the command lives. Should this process be killed, the command goes on,
    and so does its claim: the command waits to begin until it is written down as a holder. The other way, to have the
    kernel end the command together with this process, would lose work, and would not reach what the command started.
    """
    if not command or shutil.which(command[0]) is None:
        raise InputError("the command", repr(command[0]) if command else "nothing", "a command that can be run")
    until = time.monotonic() + wait_s
    while True:
        taken = _claim(machine, wanted, command, locks)
        if not isinstance(taken, Reason):
            break
        left = until - time.monotonic()
        if taken.code == Code.TOO_BIG or left <= 0:
            return taken
        time.sleep(min(POLL_S, left))
    planned, claim = taken
    try:
        on_start(planned)
        return _run(planned, claim, command, locks)
    finally:
        with locked(locks) as claims:
            claims.drop(claim.id)


def held_plan(machine: Machine, wanted: WantedGpus, claims: Claims, usable: set[int] | None) -> MachinePlan | Reason:
    """What the command would get now, beside these claims."""
    return plan(machine, wanted, claims.gpus.keys(), claims.cores, usable)


def _claim(
    machine: Machine, wanted: WantedGpus, command: Sequence[str], locks: Path
) -> tuple[MachinePlan, MachineClaim] | Reason:
    with locked(locks) as claims:
        planned = held_plan(machine, wanted, claims, os.sched_getaffinity(0))
        if isinstance(planned, Reason):
            return planned
        own = process(os.getpid())
        assert own is not None
        claim = MachineClaim(
            id=uuid.uuid4().hex,
            processes=[(own.pid, own.started)],
            boot=machine_run(),
            space=process_space(),
            user=_user(),
            command=list(command),
            since=datetime.now(UTC).isoformat(timespec="seconds"),
            gpus=list(planned.choice.gpus),
            cores=list(planned.cores),
        )
        claims.add(claim)
        return planned, claim


def _run(planned: MachinePlan, claim: MachineClaim, command: Sequence[str], locks: Path) -> int:
    nodes = nodes_of(planned.cores) if len(planned.sockets) == 1 else ()
    if can_bind_memory(nodes):
        command = ["numactl", f"--membind={','.join(map(str, nodes))}", *command]
    child = Child(command, {**os.environ, **planned.environment}, planned.cores)
    try:
        holder = process(child.pid)
        if holder is not None:  # it was not killed at once
            with locked(locks) as claims:
                claims.add_process(claim.id, holder)
        child.release()
        return child.wait()
    finally:
        child.give_up()
        child.restore_signals()


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for the user
        return str(os.getuid())
