"""How many tasks jobs want to a GPU is asked of each once, and no user can say it of another's job."""

from __future__ import annotations

from typing import Any

from unrack.live.slurm.answers.jobs import job_of
from unrack.live.slurm.commands.per_gpu import SAID, TasksPerGpu


class Shown:
    """What ``scontrol show`` prints of jobs, and what it was asked."""

    def __init__(self) -> None:
        self.jobs = {
            1: "JobId=1 JobName=a NumTasks=4 Power= NtasksPerTRES=2",
            2: "JobId=2 JobName=a\nJobId=3 JobName=NtasksPerTRES=1 NtasksPerTRES=7 NumTasks=1 Power=",
            3: "JobId=3 JobName=c NumTasks=1 Power=",
            4: "JobId=4 JobName=b Comment=a NtasksPerTRES=9 b NumTasks=2 Power= NtasksPerTRES=1",
        }
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, *what: str) -> str:
        self.asked.append(what)
        return self.jobs[int(what[1])] if len(what) > 1 else "\n\n".join(self.jobs.values())


def answer(*numbers: int, **more: Any) -> dict[str, list[dict[str, Any]]]:
    return {"jobs": [{"job_id": one, "job_state": "PENDING", "submit_time": 5, "tasks": 4, **more} for one in numbers]}


def told(about: TasksPerGpu, found: dict[str, list[dict[str, Any]]]) -> list[Any]:
    about.tell(found)
    return [job.get(SAID) for job in found["jobs"]]


def test_how_many_tasks_a_job_wants_to_a_gpu_is_asked_once_and_not_believed_of_another_s_user() -> None:
    shown = Shown()
    about = TasksPerGpu(shown)
    assert told(about, answer(1, 2, 3, 4)) == [2, 0, 0, 1]
    assert shown.asked == [("jobs",), ("job", "3")]
    assert told(about, answer(1, 3)) == [2, 0]
    assert len(shown.asked) == 2
    assert told(about, answer(1, tres_per_job="gres:gpu:2")) == [None]
    assert told(about, answer(1, job_state="COMPLETED")) == [None]
    assert len(shown.asked) == 2
    assert told(about, answer(1)) == [2]  # it was forgotten with the job
    assert len(shown.asked) == 4


def test_gpus_come_from_tasks_where_a_job_says_how_many_share_one() -> None:
    said = {"tasks": 5, "cpus": 5, SAID: 2}
    assert job_of(answer(1, **said)["jobs"][0], {}).gres_total == {"gpu": 3}
    assert job_of(answer(1, **said, tres_per_job="gres:gpu:2")["jobs"][0], {}).gres_total == {"gpu": 2}
    assert job_of(answer(1, **{**said, SAID: {"set": False, "number": 2}})["jobs"][0], {}).gres_total == {}
    assert job_of(answer(1, **{**said, SAID: 65534})["jobs"][0], {}).gres_total == {}
