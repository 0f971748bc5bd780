"""Commands are bounded in time and output, get no words of users, and are never a shell's."""

from __future__ import annotations

import ast
import os
import time
from pathlib import Path

import pytest

import unrack.live.slurm as slurm
from unrack.errors import InputError
from unrack.live.driver.seen import UnreachableError
from unrack.live.slurm.commands import run
from unrack.live.slurm.commands.batch import attributed, commands_of, words_of
from unrack.live.slurm.commands.client import CommandClient
from unrack.live.slurm.commands.run import clean_environment, run_all
from unrack.live.slurm.orders import HoldBack, JobKey, Place, Release, RequeueHeld

ENVIRONMENT = dict(os.environ)


def test_commands_run_side_by_side_and_their_output_is_kept_apart() -> None:
    began = time.monotonic()
    done = run_all([["sh", "-c", f"sleep 0.5; echo {k}; echo e{k} >&2; exit {k}"] for k in range(4)], ENVIRONMENT, 10)
    assert [(each.code, each.out, each.err) for each in done] == [(k, b"%d\n" % k, b"e%d\n" % k) for k in range(4)]
    assert time.monotonic() - began < 1.9


def test_what_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "late"
    began = time.monotonic()
    with pytest.raises(UnreachableError, match=r"within 0\.3 s"):
        run_all([["sh", "-c", f"(sleep 1; touch {mark}) & trap '' TERM; sleep 30"], ["true"]], ENVIRONMENT, 0.3)
    assert time.monotonic() - began < 5
    time.sleep(1.2)
    assert not mark.exists()


def test_a_command_that_closes_its_output_and_stays_is_killed() -> None:
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="did not end"):
        run_all([["sh", "-c", "exec >&- 2>&-; sleep 30"]], ENVIRONMENT, 0.3)
    assert time.monotonic() - began < 5


def test_output_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MOST_BYTES", 1 << 20)
    with pytest.raises(UnreachableError, match="over 1 MB"):
        run_all([["yes"]], ENVIRONMENT, 20)


def test_megabytes_go_in_and_out_at_the_same_time() -> None:
    given = b"0123456789abcde\n" * 200_000
    assert run_all([["cat"], ["cat"]], ENVIRONMENT, 30, [given, given])[1].out == given
    assert run_all([["true"]], ENVIRONMENT, 30, [given])[0].code == 0  # it never reads


def test_a_command_that_is_not_there_is_unreachable_and_ends_the_others() -> None:
    with pytest.raises(UnreachableError, match="nowhere"):
        run_all([["sleep", "30"], ["/nowhere/squeue"]], ENVIRONMENT, 5)


def test_settings_of_a_user_do_not_change_what_is_printed() -> None:
    ours = {"PATH": "/bin", "SLURM_CONF": "/c"}
    kept = clean_environment({**ours, "SQUEUE_FORMAT": "%i", "SINFO_SORT": "x", "LC_ALL": "de"})
    assert kept == {**ours, "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "LC_ALL": "C"}


def test_without_slurm_the_client_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"squeue: got no such command, wanted Slurm's commands on the PATH"):
        CommandClient(environment={"PATH": str(tmp_path)})


def test_orders_become_these_words() -> None:
    job = JobKey(7)
    assert words_of(Place(job, ("n3", "n4", "n9"), at_once=True)) == [
        "update", "JobId=7", "ReqNodeList=n[3-4,9]", "NumNodes=3-3", "StartTime=now",
    ]  # fmt: skip
    assert words_of(Place(job, ("n3",), at_once=True, limit_s=120))[-2:] == ["StartTime=now", "TimeLimit=2"]
    parts = Place(job, at_once=True, nodes=(), parts=((("n1",), ""), (("n2",), "")), limit_s=60)
    assert commands_of(parts, ["n1", "n2"])[0] == ["update", "JobId=7", "StartTime=now", "TimeLimit=1"]
    assert words_of(Release(JobKey(7, 3))) == ["release", "7_3"]
    assert words_of(HoldBack(job)) == ["update", "JobId=7", "ReqNodeList=", "Priority=0"]
    assert words_of(HoldBack(job, 1, 3)) == ["update", "JobId=7", "ReqNodeList=", "Priority=0", "NumNodes=1-3"]
    assert words_of(RequeueHeld(job)) == ["requeuehold", "Incomplete", "7"]


def test_complaints_belong_to_the_order_before_the_next_mark() -> None:
    complaints = (
        "invalid keyword: ~a0\nscontrol: error: Could not load state\nmore\ninvalid keyword: ~a1\n"
        "Invalid job id\x1b[31m specified for job 9\nslurm_suspend error: Invalid job id\n"
        "invalid keyword: ~a2\n"
    )
    assert attributed(complaints, ["~a0", "~a1", "~a2", "~a3"]) == [
        "", "Could not load state", "Invalid job id?[31m specified for job 9", None,
    ]  # fmt: skip


def fake(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)


@pytest.mark.parametrize("squeue", ["exit 1", "echo oops", "printf 'a~b'", "sleep 30", "kill -9 $$", "printf '\\377'"])
def test_commands_that_fail_or_print_nonsense_are_unreachable(tmp_path: Path, squeue: str) -> None:
    for name, script in {"squeue": squeue, "sinfo": "exit 0", "scontrol": "echo slurm 23.11.1"}.items():
        fake(tmp_path, name, script)
    client = CommandClient(timeout_s=0.5, environment={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    with pytest.raises(UnreachableError):
        client.read()


NEWER = """
case "$*" in
    *--version*) echo slurm 24.05.2 ;;
    *"--json show nodes"*) echo '{"nodes": [{"name": "c1", "cpus": 8, "real_memory": 9, "state": ["IDLE"]}]}' ;;
esac
"""


def test_a_newer_version_is_asked_for_its_nodes_as_it_wants(tmp_path: Path) -> None:
    fake(
        tmp_path,
        "squeue",
        """case "$*" in *--json*) echo '{"jobs": [{"job_id": 5, "job_state": ["PENDING"]}]}' ;; esac""",
    )
    fake(tmp_path, "sinfo", "exit 0")
    fake(tmp_path, "scontrol", NEWER)
    client = CommandClient(environment={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    reading = client.read()
    assert [node.name for node in reading.nodes] == ["c1"]
    assert [(job.id, job.waits) for job in reading.jobs] == [(5, True)]


def test_nothing_that_reaches_slurm_uses_a_shell() -> None:
    for path in Path(slurm.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword):
                assert node.arg != "shell", path
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("system", "popen", "getoutput", "getstatusoutput"), path
