"""``unrack exec`` with real processes; the GPUs are those of a file."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from unrack.live.machine.child import Child

MACHINE = """
name = "box"
[[sockets]]
cores = "{cores}"
gpus = [0, 1]
[[sockets]]
gpus = [2]
[[links]]
between = [0, 1]
"""
SHOW = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], sorted(os.sched_getaffinity(0)), flush=True)"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    usable = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    (tmp_path / "box.toml").write_text(MACHINE.format(cores=usable))
    return tmp_path / "claims.json"


@pytest.fixture
def start(locks: Path) -> Iterator[Start]:
    begun: list[subprocess.Popen[str]] = []

    def run(*words: str, topology: str | None = None) -> subprocess.Popen[str]:
        topology = topology or str(locks.parent / "box.toml")
        command = [sys.executable, "-m", "unrack", "exec", "--topology", topology, "--locks", str(locks), *words]
        begun.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        )
        return begun[-1]

    yield run
    for one in begun:
        if one.poll() is None:
            one.kill()
        one.communicate()


def held(locks: Path) -> list[dict[str, object]]:
    return json.loads(locks.read_text())["claims"] if locks.exists() else []


def until(truth: Callable[[], object], what: str) -> None:
    for _ in range(400):
        if truth():
            return
        time.sleep(0.05)
    pytest.fail(f"never came to pass: {what}")


def test_a_command_sees_its_gpus_alone_and_is_bound_to_their_cores(start: Start, locks: Path) -> None:
    done = start("--gpus", "2", "--cores", "1", "--", sys.executable, "-c", SHOW)
    out, err = done.communicate(timeout=60)
    assert (done.returncode, out, err) == (0, f"0,1 [{min(os.sched_getaffinity(0))}]\n", "")
    assert held(locks) == []


@pytest.mark.long
def test_two_at_once_do_not_overlap_and_a_third_is_refused(start: Start, locks: Path) -> None:
    first = start("--gpus", "2", "--cores", "1", "--", sys.executable, "-c", SHOW + "; input()")
    assert first.stdout is not None
    assert first.stdout.readline().startswith("0,1 [")
    second = start("--gpus", "1", "--", sys.executable, "-c", SHOW + "; input()")
    assert second.stdout is not None
    assert second.stdout.readline().startswith("2 ")
    assert [(one["gpus"], len(one["processes"])) for one in held(locks)] == [([0, 1], 2), ([2], 2)]  # type: ignore[arg-type]
    third = start("--gpus", "1", "--", "echo", "ran")
    out, err = third.communicate(timeout=60)
    assert (third.returncode, out) == (1, "")
    assert "not started: no-room: GPUs (asked 1, free 0)" in err
    waits = start("--gpus", "1", "--wait", "30", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    time.sleep(0.5)
    assert waits.poll() is None
    second.communicate("\n", timeout=60)
    assert waits.communicate(timeout=60) == ("2\n", "note: bound to no CPUs, as none of the machine's are known here\n")
    first.communicate("\n", timeout=60)
    assert held(locks) == []


def test_waiting_ends_in_time(start: Start, locks: Path) -> None:
    first = start("--gpus", "3", "--", "sh", "-c", "echo up; read x")
    assert first.stdout is not None
    first.stdout.readline()
    second = start("--gpus", "1", "--wait", "0.5", "--", "echo", "ran")
    assert second.communicate(timeout=60)[0] == ""
    assert second.returncode == 1


@pytest.mark.long
def test_too_little_utility_starts_nothing(start: Start, locks: Path) -> None:
    first = start("--gpus", "1", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; read x")
    assert first.stdout is not None
    assert first.stdout.readline() == "2\n"  # the socket with fewest free GPUs
    second = start("--gpus", "1", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; read x")
    assert second.stdout is not None
    assert second.stdout.readline() == "0\n"
    first.communicate("\n", timeout=60)
    third = start("--gpus", "2", "--utility", "0.5", "--", "echo", "ran")
    out, err = third.communicate(timeout=60)
    assert (third.returncode, out) == (1, "")
    assert "the nearest free GPUs (1, 2) have utility" in err


@pytest.mark.parametrize(
    ("script", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("exit 0", 0)]
)
def test_the_exit_code_is_the_command_s(start: Start, locks: Path, script: str, code: int) -> None:
    done = start("--gpus", "1", "--", "sh", "-c", script)
    done.communicate(timeout=60)
    assert done.returncode == code
    assert held(locks) == []


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_signals_reach_the_command_which_may_go_on(start: Start, locks: Path, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    script = f'trap "echo got; exit 5" {name}; echo up; while :; do sleep 0.05; done'
    done = start("--gpus", "1", "--", "sh", "-c", script)
    assert done.stdout is not None
    assert done.stdout.readline() == "up\n"
    done.send_signal(number)
    assert done.communicate(timeout=60)[0] == "got\n"
    assert done.returncode == 5
    assert held(locks) == []


@pytest.mark.long
def test_after_kill_9_the_claim_lasts_as_long_as_the_command_and_no_longer(start: Start, locks: Path) -> None:
    done = start("--gpus", "3", "--", "sh", "-c", "echo $$; exec sleep 600")
    assert done.stdout is not None
    child = int(done.stdout.readline())
    done.kill()
    done.wait(timeout=60)
    refused = start("--gpus", "1", "--", "true")
    refused.communicate(timeout=60)
    assert refused.returncode == 1
    os.kill(child, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{child}").exists() or " Z " in Path(f"/proc/{child}/stat").read_text(), "it ends")
    assert len(held(locks)) == 1  # nobody has looked yet
    free = start("--gpus", "3", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert free.communicate(timeout=60)[0] == "0,1,2\n"
    assert held(locks) == []


def test_a_damaged_file_stops_it_and_recover_goes_on(start: Start, locks: Path) -> None:
    locks.write_text("{")
    stopped = start("--gpus", "1", "--", "echo", "ran")
    assert stopped.communicate(timeout=60)[0] == ""
    assert stopped.returncode == 2
    goes_on = start("--gpus", "1", "--recover", "--", "echo", "ran")
    assert goes_on.communicate(timeout=60)[0] == "ran\n"
    assert locks.with_name("claims.json.damaged-1").read_text() == "{"


def test_a_dry_run_says_what_it_would_do_and_claims_nothing(start: Start, locks: Path) -> None:
    done = start("--gpus", "2", "--dry-run", "--json", "--", "train", "--big", topology="dgx-1")
    found = json.loads(done.communicate(timeout=60)[0])
    assert found["gpus"] == [0, 3]
    assert found["environment"] == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,3"}
    assert found["command"] == ["train", "--big"]
    assert (found["distance"], found["utility"], found["held"]) == (1, 1, [])
    assert held(locks) == []
    words = start("--gpus", "2", "--dry-run", "--", "train", "a b", topology="dgx-1").communicate(timeout=60)[0]
    assert "would run  CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,3 train 'a b'" in words


@pytest.mark.parametrize(
    ("words", "topology", "said"),
    [
        (["--gpus", "4", "--", "true"], None, "got 4, wanted 1 to 3"),
        (["--gpus", "1", "--", "no-such-command"], None, "got 'no-such-command', wanted a command"),
        (["--gpus", "1"], None, "wanted one after --"),
        (["--gpus", "1", "--", "true"], "hgx-h100-mig", "wanted whole GPUs"),
        (["--gpus", "1", "--", "true"], "nowhere", "got 'nowhere', wanted a file"),
    ],
)
def test_wrong_input_starts_nothing(
    start: Start, locks: Path, words: list[str], topology: str | None, said: str
) -> None:
    done = start(*words, topology=topology)
    out, err = done.communicate(timeout=60)
    assert (done.returncode, out) == (2, "")
    assert said in err
    assert held(locks) == []


FAKE_SMI = """#!/bin/sh
if [ "$1" = -L ]; then
  echo "GPU 0: NVIDIA L4 (UUID: GPU-1)"; echo "GPU 1: NVIDIA L4 (UUID: GPU-2)"
else
  printf '\\tGPU0\\tGPU1\\tCPU Affinity\\tNUMA Affinity\\nGPU0\\t X \\tPHB\\t0\\t0\\nGPU1\\tPHB\\t X \\t0\\t0\\n'
fi
"""


def with_path(tmp_path: Path, locks: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unrack", "exec", "--locks", str(locks), "--gpus", "2", "--json", *words]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PATH": f"{tmp_path}"}, check=False
    )


def test_without_the_tool_it_says_so_and_with_it_reads_the_machine(tmp_path: Path, locks: Path) -> None:
    absent = with_path(tmp_path, locks, "--", "/bin/true")
    assert absent.returncode == 2
    assert "no nvidia-smi" in absent.stderr
    (tmp_path / "nvidia-smi").write_text(FAKE_SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    done = with_path(tmp_path, locks, "--dry-run")
    assert json.loads(done.stdout)["gpus"] == [0, 1]
    assert json.loads(done.stdout)["cores"] == "0"
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 'no driver' >&2; exit 9\n")
    broken = with_path(tmp_path, locks, "--dry-run")
    assert broken.returncode == 2
    assert "exit code 9: no driver" in broken.stderr


def test_a_command_does_not_begin_if_its_starter_is_killed_before_it_is_written_down(tmp_path: Path) -> None:
    made = tmp_path / "began"
    script = (
        "import os, sys; from unrack.live.machine.child import Child\n"
        f"child = Child(['touch', {str(made)!r}], dict(os.environ), ())\n"
        "print(child.pid, flush=True)\n"
        "if sys.argv[1] == 'go': child.release(); child.wait()\n"
        "else: os.kill(os.getpid(), 9)\n"
    )
    for word, begins in (("stop", False), ("go", True)):
        done = subprocess.run([sys.executable, "-c", script, word], capture_output=True, text=True, check=False)
        stat = Path(f"/proc/{int(done.stdout)}/stat")
        until(lambda stat=stat: not stat.exists() or ") Z " in stat.read_text(), "the child ends")
        assert made.exists() == begins


COUNT = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print("up", flush=True)
while signal.sigtimedwait({signal.SIGINT}, 1):
    print("got", flush=True)
print("end", flush=True)
"""


def test_ctrl_c_reaches_the_command_once(locks: Path) -> None:
    command = ["-m", "unrack", "exec", "--topology", "minsky", "--locks", str(locks), "--gpus", "1", "--"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, *command, sys.executable, "-c", COUNT])
    text = b""
    sent = False
    while True:
        try:
            text += os.read(terminal, 1000)
        except OSError:  # the other end was closed
            break
        if b"up" in text and not sent:
            os.write(terminal, b"\x03")
            sent = True
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert text.count(b"got") == 1
    assert b"end" in text


def test_signals_of_the_terminal_which_the_command_has_got_already_are_not_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = object.__new__(Child)
    child.pid = 7
    ends = iter([(0, 0), (0, 0), (7, 3 << 8)])
    signals = iter(
        [SimpleNamespace(si_signo=signal.SIGINT, si_code=128), SimpleNamespace(si_signo=signal.SIGTERM, si_code=0)]
    )
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "waitpid", lambda pid, options: next(ends))
    monkeypatch.setattr(signal, "sigtimedwait", lambda numbers, seconds: next(signals))
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    assert child.wait() == 3
    assert sent == [(7, signal.SIGTERM)]
