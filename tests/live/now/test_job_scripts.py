"""Job scripts as Slurm reads them, and what they become in a what-if."""

from __future__ import annotations

from pathlib import Path

import pytest
from now_readings import node, reading, running, waiting

from unrack.cli.what_if import opened
from unrack.errors import InputError, TraceError
from unrack.live.slurm.job_script import read_script
from unrack.live.slurm.snapshot.snapshot import snapshot_of
from unrack.plan.what_if.answer import Question, answer
from unrack.slurm_text.scheduler import Scheduler


def script(folder: Path, *options: str, first: str = "#!/bin/bash", rest: str = "srun ./a\n") -> Path:
    path = folder / "job.sh"
    path.write_text("\n".join([first, "# a comment", *(f"#SBATCH {one}" for one in options), "", rest]))
    return path


def test_options_are_those_before_the_first_command(tmp_path: Path) -> None:
    path = script(
        tmp_path, "-J mine -N2 --ntasks-per-node=4", "--cpus-per-task=2 --mem=4G -t 1-2:30", '-p "main,short" # why',
        "--gres=gpu:a100:2,nvme:1 -L matlab:2", "-w n[1-2] -x n7 --mail-type=END --exclusive", "--burst=x",
        rest="srun ./a\n#SBATCH -p late\n",
    )  # fmt: skip
    job, left_out = read_script(path)
    assert (job.name, job.partition, job.limit_s) == ("mine", "main,short", 95_400)
    assert (job.nodes_min, job.nodes_max, job.cpus, job.cpus_per_task, job.tasks_per_node) == (2, 2, 16, 2, 4)
    assert (job.node_memory_mb, dict(job.gres), dict(job.licences)) == (4096, {"gpu": 2, "nvme": 1}, {"matlab": 2})
    assert (job.required_nodes, job.excluded_nodes, job.exclusive) == (("n1", "n2"), ("n7",), True)
    assert job.types == ("gpu:a100",)
    assert left_out == ("burst",)


@pytest.mark.whole
@pytest.mark.parametrize(("time", "limit_s"), [
    ("0", None), ("0:00", None), ("UNLIMITED", None), ("0:01", 60), ("1:30", 120), ("2", 120), ("1-0", 86_400),
])  # fmt: skip
def test_a_time_limit_is_in_whole_minutes_and_none_where_it_is_0(
    time: str, limit_s: int | None, tmp_path: Path
) -> None:
    assert read_script(script(tmp_path, f"--time={time}"))[0].limit_s == limit_s


@pytest.mark.parametrize(
    ("options", "gres", "total"),
    [
        (["--gpus=a100:4"], {}, {"gpu": 4}),
        (["-G 3"], {}, {"gpu": 3}),
        (["--gpus-per-node=2 -N 2"], {"gpu": 2}, {}),
        (["--gpus-per-task=1 -n 8"], {}, {"gpu": 8}),
    ],
)
def test_gpus_are_said_in_many_ways(
    options: list[str], gres: dict[str, int], total: dict[str, int], tmp_path: Path
) -> None:
    job, _ = read_script(script(tmp_path, *options))
    assert (dict(job.gres), dict(job.gres_total)) == (gres, total)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-N two"], "line 3, --nodes: got 'two'"),
        (["-N 1", "-N 4-2"], "line 4, --nodes: got '4-2'"),
        (["-t soon"], "--time: got 'soon'"),
        (["--mem=lots"], "--mem: got 'lots'"),
        (["-n 0"], "--ntasks: got '0'"),
        (["--gres=gpu:x:y:z"], "--gres: got"),
        (["-p"], "'-p' without a value"),
        (["main"], "got 'main'"),
        (['-p "main'], "its quotes closed"),
        (["-Z 3"], "got '-Z'"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(options: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as caught:
        read_script(script(tmp_path, *options))
    assert said in str(caught.value)


def test_what_is_no_script_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"begins with #!"):
        read_script(script(tmp_path, first="name = 1"))
    with pytest.raises(TraceError, match="No such file"):
        read_script(tmp_path / "absent.sh")


def now_of(tmp_path: Path) -> Path:
    nodes = [node(f"n{number}", gres={"gpu": 4}) for number in range(1, 5)]
    jobs = [running(1, {"n1": (8, 100)}), running(2, {"n2": (4, 100)}), waiting(3, cpus=8)]
    taken = snapshot_of(reading(jobs, nodes=nodes), Scheduler(kind="builtin"))
    taken.write(tmp_path / "now.toml")
    return tmp_path / "now.toml"


def test_gpus_that_no_job_asks_for_are_there_for_a_script(tmp_path: Path) -> None:
    now = now_of(tmp_path)
    assert "[spare" in now.read_text()
    source, submit, notes = opened(now, script(tmp_path, "-N 2 --gres=gpu:4 -t 10 --mem=10"), None, {})
    assert submit[0]["gpus.count"] == 4
    found = answer(source, Question(submit), notes=notes, tries=0)
    assert found.start_s == pytest.approx(0, abs=0.01)
    source, submit, notes = opened(now, script(tmp_path, "-N 2 --gres=gpu:5 -t 10 --mem=10"), None, {})
    assert answer(source, Question(submit), notes=notes, tries=0).start_s is None


def test_cores_and_memory_that_go_with_gpus_are_asked_of_each_node(tmp_path: Path) -> None:
    words = "--gpus=6 --cpus-per-gpu=2 --mem-per-gpu=20 -t 10"
    _, submit, notes = opened(now_of(tmp_path), script(tmp_path, words), None, {})
    assert not notes
    assert (submit[0]["tasks"], submit[0]["cores"], submit[0]["gpus.count"]) == (2, 6, 3)


def test_options_count_before_the_script(tmp_path: Path) -> None:
    _, submit, notes = opened(now_of(tmp_path), script(tmp_path, "-c 6 --mem=10"), None, {"request": 60.0, "cores": 2})
    assert (submit[0]["cores"], submit[0]["request"]) == (2, 60.0)
    assert any("says no time limit" in note for note in notes)


def test_a_script_that_no_node_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="largest node has 8"):
        opened(now_of(tmp_path), script(tmp_path, "-c 64 -t 10"), None, {})
