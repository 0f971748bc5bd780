"""How a running Slurm schedules at present."""

from __future__ import annotations

from collections.abc import Mapping

from unrack.live.slurm.commands.run import clean_environment, find_command, printed, run_all
from unrack.slurm_text.scheduler import Scheduler, scheduler_of

_MOST_BYTES = 1_000_000


def read_scheduler(timeout_s: float = 10.0, environment: Mapping[str, str] | None = None) -> Scheduler:
    """Ask Slurm how it schedules.

    Raises
    ------
    UnreachableError
        It does not answer, or not in time.
    InputError
        There is no such command.
    """
    kept = clean_environment(environment)
    done = run_all([[find_command("scontrol", kept), "show", "config"]], kept, timeout_s)[0]
    return scheduler_of(printed(done, "scontrol show config")[:_MOST_BYTES])
