"""How many tasks jobs want to a GPU (``--ntasks-per-gpu``), which 22.05 tells in ``scontrol show job`` alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from unrack.slurm_text.job_ids import HOLDING, WAITING

SAID = "tasks_per_tres"
"""What later versions call it in their JSON."""
_GRES = ("tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket")
_JOB, _TASKS = re.compile(r"JobId=(\d{1,18})\b"), re.compile(r" NtasksPerTRES=(\d{1,9})\b")
_Key = tuple[int, Any]


class TasksPerGpu:
    """What is known of it, by the number of a job and when it was submitted; it does not change.

    Parameters
    ----------
    show
        What ``scontrol -o show`` prints, given further words.
    """

    def __init__(self, show: Callable[..., str]) -> None:
        self._show = show
        self._known: dict[_Key, int] = {}

    def tell(self, answer: Mapping[str, Any]) -> None:
        """Say it in the records of an answer, of jobs that wait or run and ask for nothing that has a count."""
        jobs = answer.get("jobs")
        some = [job for job in jobs if _may_want(job)] if isinstance(jobs, list) else []
        keys: list[_Key] = [(job["job_id"], job.get("submit_time")) for job in some]
        told: dict[int, int] | None = None
        known: dict[_Key, int] = {}
        for job, key in zip(some, keys, strict=True):
            if key not in self._known and told is None:
                told = self._all()
            known[key] = self._known[key] if key in self._known else (told or {}).get(key[0], 0)
            job[SAID] = known[key]
        self._known = known

    def _all(self) -> dict[int, int]:
        """Of all jobs. A user may have written a line like one of another job, of which alone is then asked."""
        found: dict[int, list[int]] = {}
        for line in self._show("jobs").splitlines():
            if (match := _JOB.match(line)) is not None:
                found.setdefault(int(match[1]), []).append(_tasks(line))
        return {job: said[0] if len(said) == 1 else _tasks(self._show("job", str(job))) for job, said in found.items()}


def _may_want(job: Any) -> bool:
    if not isinstance(job, dict) or not isinstance(job.get("job_id"), int) or any(job.get(name) for name in _GRES):
        return False
    return isinstance(job.get("job_state"), str) and job["job_state"] in WAITING | HOLDING


def _tasks(shown: str) -> int:
    """The last that is said of it, behind all that a user wrote."""
    return int((_TASKS.findall(shown) or ["0"])[-1])
