"""What prolog and epilog do on a node, run as Slurm runs them: with its variables and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fabrics import attachment, is_clean

from unrack.live.fabric.contract import FabricError
from unrack.live.fabric.files.fabric import FileFabric
from unrack.live.fabric.files.scripts import scripts_folder

ASKS = "unrack: nvme.capacity=100GB"
HOOK = """#!/bin/sh
echo "$*|$UNRACK_DEVICE|$UNRACK_AMOUNTS|$PATH" >> {log}
case "$*" in *"{fails}"*) exit 3;; *"{hangs}"*) sleep 60;; esac
"""


class Bed:
    """A folder of a fabric, a node with the scripts, and a command of the site that writes down what it is told."""

    def __init__(self, folder: Path, user: int | None = None) -> None:
        self.folder = folder
        self.user, self.python = user, sys.executable if user is None else "/usr/bin/python3"
        self.fabric = FileFabric(folder / "f")
        self.bin = folder / "bin"
        shutil.copytree(scripts_folder(), self.bin, ignore=shutil.ignore_patterns("__*"))
        self.hook()
        self.settings()

    def hook(self, fails: str = "nothing", hangs: str = "nothing") -> None:
        path = self.folder / "hook"
        path.write_text(HOOK.format(log=self.folder / "log", fails=fails, hangs=hangs))
        path.chmod(0o755)

    def settings(self, **changes: Any) -> None:
        words = [str(self.folder / "hook"), "{device}", "of {job}"]
        known = {
            "folder": str(self.folder / "f"),
            "attach": [words[0], "attach", *words[1:]],
            "detach": [words[0], "detach", *words[1:]],
            "timeout_s": 5,
            "wait_s": 0.2,
        }
        path = self.bin / "unrack-fabric.json"
        path.write_text(json.dumps({key: value for key, value in {**known, **changes}.items() if value is not None}))
        path.chmod(0o644)

    def run(self, script: str, job: str = "7", node: str = "n1", **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"SLURM_JOB_ID": job, "SLURMD_NODENAME": node, **variables}
        command = [self.python, "-I", str(self.bin / f"unrack-{script}")]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=30, check=False, cwd="/", user=self.user
        )

    def says(self, script: str, text: str, **how: str) -> None:
        """The script fails, and says so in one line."""
        done = self.run(script, **how)
        assert done.returncode == 1, done
        assert text in done.stderr
        assert done.stderr.startswith("unrack: ")
        assert not done.stdout

    def lets_through(self, script: str, text: str, **how: str) -> None:
        """The script says what is wrong, and lets the job run."""
        done = self.run(script, **how)
        assert done.returncode == 0, done
        assert text in done.stderr
        assert done.stderr.startswith("unrack: ")

    def works(self, script: str, **how: str) -> None:
        done = self.run(script, **how)
        assert (done.returncode, done.stderr) == (0, "")

    def log(self) -> list[str]:
        path = self.folder / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [line.partition("|")[0] for line in lines]

    def notes(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "f" / "connected").rglob("*.json"))


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def test_a_job_with_nothing_attached_passes(bed: Bed) -> None:
    bed.works("prolog")
    bed.works("epilog")
    assert bed.log() == []


def test_devices_are_connected_before_the_job_and_disconnected_after_it(bed: Bed) -> None:
    bed.fabric.attach(attachment(devices="d1 rack/d2", mb=9))
    bed.fabric.attach(attachment("other", job="8", devices="d3"))
    bed.works("prolog")
    whole = (bed.folder / "log").read_text().splitlines()
    assert whole[0] == "attach d1 of 7|d1|capacity_mb=9|/usr/sbin:/usr/bin:/sbin:/bin"
    assert bed.log() == ["attach d1 of 7", "attach rack/d2 of 7"]
    assert bed.notes() == ["op-1.json"]
    with pytest.raises(FabricError, match="n1 still uses op-1"):
        bed.fabric.detach("op-1")
    assert [one.operation for one in bed.fabric.state()] == ["op-1", "other"]
    assert not bed.fabric.wake.changed()
    bed.works("epilog")
    assert bed.fabric.wake.changed()
    assert not bed.fabric.wake.changed()
    assert bed.log() == ["detach d1 of 7", "detach rack/d2 of 7"]
    bed.fabric.detach("op-1")
    bed.fabric.detach("other")
    assert bed.notes() == []


def test_what_was_announced_and_is_not_there_fails_the_prolog(bed: Bed) -> None:
    bed.settings(announced="nvme")
    bed.works("prolog", SLURM_JOB_COMMENT="nothing of that kind")
    bed.says("prolog", "has announced devices", SLURM_JOB_COMMENT='unrack: nvme=3 "$(id)"')
    bed.fabric.attach(attachment())
    bed.works("prolog", SLURM_JOB_COMMENT="unrack: nvme=3")
    bed.says("prolog", "has announced devices", SLURM_JOB_COMMENT="nvme", node="n2")


def test_what_is_announced_may_come_a_moment_later(bed: Bed) -> None:
    bed.settings(announced="nvme", wait_s=10)
    timer = threading.Timer(0.5, bed.fabric.attach, [attachment()])
    timer.start()
    bed.works("prolog", SLURM_JOB_COMMENT="nvme")
    assert bed.log() == ["attach d1 of 7"]


def test_what_is_being_detached_fails_the_prolog(bed: Bed) -> None:
    bed.fabric.attach(attachment())
    bed.works("prolog")
    with pytest.raises(FabricError):
        bed.fabric.detach("op-1")
    bed.works("epilog")
    bed.log()
    bed.says("prolog", "only in part, or being detached")
    assert bed.log() == []
    bed.fabric.attach(attachment())
    bed.works("prolog")


def test_a_command_that_fails_undoes_what_was_begun(bed: Bed) -> None:
    bed.hook(fails="attach d2")
    bed.fabric.attach(attachment(devices="d1 d2 d3"))
    bed.fabric.attach(attachment("op-2", devices="d4"))
    bed.says("prolog", "hook ended with 3 for d2")
    assert bed.log() == ["attach d1 of 7", "attach d2 of 7", "detach d1 of 7", "detach d2 of 7", "detach d3 of 7"]
    assert bed.notes() == []
    bed.fabric.detach("op-1")


def test_a_command_that_hangs_is_ended_with_all_that_it_started(bed: Bed) -> None:
    bed.hook(hangs="attach d1")
    bed.settings(timeout_s=0.5)
    bed.fabric.attach(attachment())
    began = time.monotonic()
    bed.says("prolog", "took over 0.5 s for d1")
    assert time.monotonic() - began < 10
    assert not [line for line in processes() if str(bed.folder) in line]


def processes() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_text())
        except OSError:  # it has ended
            continue
    return found


def test_what_cannot_be_disconnected_stays_with_the_node(bed: Bed) -> None:
    bed.hook(fails="detach d1")
    bed.fabric.attach(attachment())
    bed.fabric.attach(attachment("op-2", devices="d2"))
    bed.works("prolog")
    bed.says("epilog", "hook ended with 3 for d1")
    assert bed.notes() == ["op-1.json"]
    assert bed.fabric.wake.changed()
    with pytest.raises(FabricError, match="still uses"):
        bed.fabric.detach("op-1")
    bed.fabric.detach("op-2")
    bed.hook()
    bed.works("epilog")
    bed.fabric.detach("op-1")
    assert bed.fabric.state() == []


def test_a_device_that_does_not_show_up_fails_the_prolog(bed: Bed) -> None:
    bed.settings(device_path=str(bed.folder / "dev-{device}"), timeout_s=0.3)
    bed.fabric.attach(attachment())
    bed.says("prolog", "dev-d1 of op-1 is not there")
    assert bed.notes() == []
    (bed.folder / "dev-d1").write_text("")
    bed.works("prolog")


def test_what_a_node_used_before_it_started_again_is_disconnected(bed: Bed) -> None:
    bed.fabric.attach(attachment())
    bed.works("prolog")
    (note,) = (bed.folder / "f" / "connected").rglob("*.json")
    note.write_text(json.dumps({**json.loads(note.read_text()), "boot": "the one before"}))
    bed.log()
    bed.works("epilog", job="", node="n2")
    assert bed.notes() == ["op-1.json"]
    bed.works("epilog", job="")
    assert bed.log() == ["detach d1 of 7"]
    assert bed.notes() == []
    bed.fabric.detach("op-1")


@pytest.mark.parametrize(
    "changes",
    [
        {"devices": ["$(reboot)"]}, {"devices": ["../../sda"]}, {"devices": ["-x"]}, {"devices": ["d\n"]},
        {"devices": []},
        {"devices": "d1"}, {"devices": [1]}, {"job": "8"}, {"node": "n2"}, {"operation": "op-2"}, {"version": 2},
        {"amounts": {"a b": 1}}, {"amounts": {"a": -1}}, {"amounts": {"a": "1"}}, {"amounts": []},
    ],
    ids=str,
)  # fmt: skip
def test_files_that_say_something_odd_reach_no_command(bed: Bed, changes: dict[str, Any]) -> None:
    bed.fabric.attach(attachment())
    (file,) = (bed.folder / "f" / "attached").rglob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    bed.says("prolog", "is no attachment of job 7 on n1")
    assert bed.log() == []


@pytest.mark.parametrize("what", ["link", "pipe", "huge", "deep", "list", "folder"])
def test_files_that_are_none_reach_no_command_and_do_not_hang(bed: Bed, what: str) -> None:
    bed.fabric.attach(attachment())
    (file,) = (bed.folder / "f" / "attached").rglob("*.json")
    content = file.read_bytes()
    file.unlink()
    if what == "link":
        (bed.folder / "elsewhere").write_bytes(content)
        file.symlink_to(bed.folder / "elsewhere")
    elif what == "pipe":
        os.mkfifo(file)
    elif what == "folder":
        file.mkdir()
    else:
        file.write_bytes({"huge": content + b" " * 2**21 + b"x", "deep": b"[" * 10**5, "list": b"[1]"}[what])
    if what == "huge":
        file.write_bytes(b'{"a": "' + b"x" * 2**21 + b'"}')
    assert bed.run("prolog").returncode == 1
    assert bed.log() == []


@pytest.mark.parametrize("variables", [{"job": "7;id"}, {"job": "../7"}, {"node": "../n1"}, {"node": ""}])
def test_odd_variables_are_refused(bed: Bed, variables: dict[str, str]) -> None:
    bed.says("prolog", "SLURMD_NODENAME is", **variables)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"attach": "rm -rf /"}, "no list of words"), ({"attach": ["rm"]}, "absolute path"),
        ({"folder": "f"}, "absolute"),
        ({"attach": ["/bin/echo", "{user}"]}, "names something else"), ({"shell": True}, "unknown key shell"),
        ({"timeout_s": "1"}, "no number of seconds"), ({"folder": "/nowhere"}, "is it mounted?"),
        ({"folder": None}, "folder"), ({"folder": "/a\0b"}, "no absolute path"), ({"folder": ["/a"]}, "no absolute"),
        ({"announced": "("}, "no pattern"), ({"announced": 1}, "no pattern"), ({"attach": ["/a\0b"]}, "no list of"),
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_are_wrong_fail_a_job_with_devices_and_no_other(
    bed: Bed, changes: dict[str, Any], text: str
) -> None:
    bed.settings(**changes)
    for script in ("prolog", "epilog"):
        bed.says(script, text, SLURM_JOB_COMMENT=ASKS)
        bed.lets_through(script, text)


def test_settings_that_others_may_change_are_not_trusted(bed: Bed) -> None:
    (bed.bin / "unrack-fabric.json").chmod(0o666)
    bed.says("prolog", "may be changed by others", SLURM_JOB_COMMENT=ASKS)
    bed.lets_through("prolog", "may be changed by others")


def mark(bed: Bed) -> Path:
    return bed.folder / "f" / "fabric.json"


BROKEN: dict[str, Callable[[Bed], object]] = {
    "no folder": lambda bed: shutil.rmtree(bed.folder / "f"),
    "no mark": lambda bed: mark(bed).unlink(),
    "half a mark": lambda bed: mark(bed).write_text('{"format": "unr'),
    "a newer mark": lambda bed: mark(bed).write_text('{"format": "unrack-fabric", "version": 2}'),
    "a folder as mark": lambda bed: (mark(bed).unlink(), mark(bed).mkdir()),
    "a file as folder": lambda bed: (shutil.rmtree(bed.folder / "f"), (bed.folder / "f").write_text("")),
    "a loop of links": lambda bed: (shutil.rmtree(bed.folder / "f"), (bed.folder / "f").symlink_to("f")),
    "no settings": lambda bed: (bed.bin / "unrack-fabric.json").unlink(),
    "half settings": lambda bed: (bed.bin / "unrack-fabric.json").write_text('{"folder": "/'),
    "no module": lambda bed: (bed.bin / "unrack_node.py").unlink(),
    "half a module": lambda bed: (bed.bin / "unrack_node.py").write_text("def prolog("),
    "no command": lambda bed: bed.settings(attach=["/nowhere/attach"], detach=["/nowhere/detach"]),
}


@pytest.mark.parametrize("how", [how for how in BROKEN if how != "no command"])
def test_what_is_not_installed_wholly_harms_no_job_without_devices(bed: Bed, how: str) -> None:
    BROKEN[how](bed)
    for script in ("prolog", "epilog"):
        bed.lets_through(script, "")
        bed.says(script, "", SLURM_JOB_COMMENT=ASKS)


@pytest.mark.parametrize(
    ("comment", "asks"),
    [
        ("project nvme=3", False), ("unracked: nvme.capacity=1", False), ("nvme.capacity=1", False),
        ("see unrack: counted.matlab=2 app=amber", False), ("unrack: app=x; nvme.capacity=1", False),
        ("night run; UNRACK: app=x\tgpu.devices=2; ask Kim", True), ("unrack:nvme.capacity_mb=5", True),
        ("unrack:\nx\nunrack: memory=2GB links.mb_s=1 nvme.bandwidth=1", True),
    ],
)  # fmt: skip
def test_without_a_folder_the_comment_says_which_jobs_have_devices(bed: Bed, comment: str, asks: bool) -> None:
    BROKEN["no folder"](bed)
    (bed.says if asks else bed.lets_through)("prolog", "is it mounted?", SLURM_JOB_COMMENT=comment)


@pytest.mark.parametrize("how", ["no mark", "half a mark", "a newer mark", "no command"])
def test_what_is_broken_fails_a_job_with_devices_whatever_its_comment_says(bed: Bed, how: str) -> None:
    bed.fabric.attach(attachment())
    bed.works("prolog")
    BROKEN[how](bed)
    bed.says("epilog", "")
    assert bed.notes() == ["op-1.json"]
    bed.says("prolog", "")
    if how == "no command":
        bed.works("prolog", job="8")
    else:
        bed.lets_through("prolog", "fabric.json", job="8")


def test_a_pattern_of_the_site_says_which_jobs_have_devices(bed: Bed) -> None:
    bed.settings(announced="^mine$")
    BROKEN["no mark"](bed)
    bed.lets_through("prolog", "is it mounted?", SLURM_JOB_COMMENT=ASKS)
    bed.says("prolog", "is it mounted?", SLURM_JOB_COMMENT="mine")


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/usr/bin/python3").exists(), reason="becomes another user")
def test_a_folder_that_another_user_may_not_read_harms_no_job_without_devices() -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        bed = Bed(Path(folder), user=65534)
        bed.fabric.attach(attachment())
        bed.lets_through("epilog", "Permission denied", job="8")  # the wake file alone is out of reach
        bed.says("prolog", "Permission denied")  # it has devices, and this user cannot note that they are used
        (bed.folder / "f").chmod(0o700)
        bed.lets_through("prolog", "Permission denied")
        bed.says("epilog", "Permission denied", SLURM_JOB_COMMENT=ASKS)


def forgotten(bed: Bed, age_s: float = 60) -> None:
    """Slurm has forgotten job 7, so that no epilog comes: the scheduler takes back what it has."""
    bed.fabric.attach(attachment())
    bed.works("prolog")
    for note in (bed.folder / "f" / "connected").rglob("*.json"):
        os.utime(note, (time.time() - age_s,) * 2)
    with pytest.raises(FabricError, match="still uses"):
        bed.fabric.detach("op-1")
    bed.log()
    bed.fabric.wake.changed()


@pytest.mark.parametrize(("script", "job"), [("prolog", "8"), ("epilog", "")])
def test_devices_of_a_job_that_slurm_has_forgotten_come_free(bed: Bed, script: str, job: str) -> None:
    forgotten(bed)
    bed.works(script, job=job)
    assert bed.log() == ["detach d1 of 7"]
    assert bed.fabric.wake.changed()
    bed.fabric.detach("op-1")
    assert bed.fabric.state() == []


def test_what_a_job_may_use_yet_is_left_to_it(bed: Bed) -> None:
    forgotten(bed, age_s=1)  # its prolog may not have ended
    bed.works("epilog", job="")
    assert bed.notes() == ["op-1.json"]
    os.utime(bed.folder / "f/connected/n1/7/op-1.json", (0, 0))
    for title, is_left in (
        ("slurmstepd: [7.batch]", False),
        ("slurmstepd: oddly", False),
        ("slurmstepd: [71.0]", True),
    ):
        with subprocess.Popen(["bash", "-c", f"exec -a '{title}' sleep 30"]) as step:
            while "slurmstepd" not in Path(f"/proc/{step.pid}/cmdline").read_text():
                time.sleep(0.01)
            bed.works("epilog", job="")
            assert (bed.notes() == []) == is_left, title
            step.kill()


def test_what_is_attached_is_no_remains_however_long_ago_it_was(bed: Bed) -> None:
    bed.fabric.attach(attachment())
    bed.works("prolog")
    os.utime(bed.folder / "f/connected/n1/7/op-1.json", (0, 0))
    bed.fabric.wake.changed()
    bed.works("epilog", job="")
    assert bed.notes() == ["op-1.json"]
    assert not bed.fabric.wake.changed()


def test_remains_of_others_that_cannot_be_cleared_up_do_not_fail_a_job(bed: Bed) -> None:
    for name, job, device in (("op-1", "7", "d1"), ("op-2", "7", "d2"), ("op-3", "8", "d3"), ("op-4", "7", "d4")):
        bed.fabric.attach(attachment(name, job=job, devices=device))
    bed.works("prolog")
    for note in sorted((bed.folder / "f" / "connected").rglob("*.json")):
        note.write_text(json.dumps({**json.loads(note.read_text()), "boot": "the one before"}))
    (bed.folder / "f" / "connected" / "n1" / "7" / "op-2.json").write_text('{"version": 1, "oper')
    bed.hook(fails="detach d1")
    bed.log()
    bed.lets_through("prolog", "hook ended with 3 for d1", job="8")
    assert bed.log() == ["detach d1 of 7", "detach d4 of 7", "attach d3 of 8"]
    assert bed.notes() == ["op-1.json", "op-2.json", "op-3.json"]
    bed.says("epilog", "op-2.json is not JSON", job="")  # run by hand, it fails as long as something is left


def test_one_note_that_cannot_be_read_leaves_no_other_device_connected(bed: Bed) -> None:
    bed.fabric.attach(attachment(devices="d1"))
    bed.fabric.attach(attachment("op-2", devices="d2"))
    bed.works("prolog")
    (bed.folder / "f" / "connected" / "n1" / "7" / "op-1.json").write_text("{")
    bed.log()
    bed.says("epilog", "op-1.json is not JSON")
    assert bed.log() == ["detach d2 of 7"]


def test_prolog_and_detach_at_the_same_time_never_both_have_the_device(bed: Bed) -> None:
    for i in range(10):
        bed.fabric.attach(attachment())
        bed.log()
        passed: list[int] = []
        script = threading.Thread(target=lambda passed=passed: passed.append(bed.run("prolog").returncode))
        script.start()
        time.sleep(0.05 + 0.01 * i)
        try:
            bed.fabric.detach("op-1")
            was_detached = True
        except FabricError:
            was_detached = False
        script.join()
        assert not (was_detached and bed.notes())
        assert not (was_detached and bed.log())
        bed.works("epilog")
        bed.fabric.detach("op-1")
    shutil.rmtree(bed.folder / "f" / "connected", ignore_errors=True)
    assert is_clean(bed.folder / "f")


@pytest.mark.parametrize("when", ["before", "after"])
def test_detach_just_before_or_after_the_node_notes_its_use_lets_neither_go_on(
    bed: Bed, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_from_file_location("node_of_bed", bed.bin / "unrack_node.py")
    assert spec is not None
    assert spec.loader is not None
    scripts = module_from_spec(spec)
    spec.loader.exec_module(scripts)
    note = scripts.Node.note

    def meanwhile(node: object, one: object) -> None:
        if when == "before":
            bed.fabric.detach("op-1")
        note(node, one)
        if when == "after":
            with pytest.raises(FabricError, match="still uses"):
                bed.fabric.detach("op-1")

    monkeypatch.setattr(scripts.Node, "note", meanwhile)
    bed.fabric.attach(attachment())
    node = scripts.Node({"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1"})
    node.set_up()
    with pytest.raises(scripts.Problem, match="is being detached"):
        scripts.prolog(node)
    assert bed.notes() == []
    assert not [line for line in bed.log() if line.startswith("attach")]
    bed.fabric.detach("op-1")
    assert bed.fabric.state() == []
