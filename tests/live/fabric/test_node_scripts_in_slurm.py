"""The scripts of the nodes as the prolog and the epilog of a real Slurm."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from fabrics import attachment
from slurm_bed import Bed

from unrack.live.fabric.contract import FabricError
from unrack.live.fabric.files.fabric import FileFabric
from unrack.live.fabric.files.scripts import scripts_folder

HOOK = """#!/bin/sh
echo "$*" >> {log}
case "$*" in *bad*) exit 4;; esac
"""

pytestmark = pytest.mark.live


def test_slurm_connects_before_a_job_disconnects_after_it_and_holds_it_where_that_fails(
    new_bed: Callable[..., Bed], tmp_path: Path
) -> None:
    fabric, log, hook = FileFabric(tmp_path / "f"), tmp_path / "log", tmp_path / "hook"
    scripts = tmp_path / "scripts"
    shutil.copytree(scripts_folder(), scripts, ignore=shutil.ignore_patterns("__*"))
    hook.write_text(HOOK.format(log=log))
    hook.chmod(0o755)
    words = [str(hook), "VERB", "{device}", "{job}"]
    settings = {"folder": str(tmp_path / "f"), "announced": "nvme=", "wait_s": 0.5} | {
        verb: [word.replace("VERB", verb) for word in words] for verb in ("attach", "detach")
    }
    (scripts / "unrack-fabric.json").write_text(json.dumps(settings))
    (scripts / "unrack-fabric.json").chmod(0o644)
    hooks = {"Prolog": scripts / "unrack-prolog", "Epilog": scripts / "unrack-epilog"}
    bed = new_bed(nodes=1, hooks=hooks)

    good = bed.submit("sleep 2", hold=True, comment="nvme=1")
    fabric.attach(attachment("good", str(good)))
    bed.scontrol("release", str(good))
    bed.wait_until(lambda: log.exists() and log.read_text() == f"attach d1 {good}\n", 20, "the prolog has run")
    with pytest.raises(FabricError, match="still uses good"):
        fabric.detach("good")
    bed.wait_until(fabric.wake.changed, 20, "the epilog has run")
    assert log.read_text() == f"attach d1 {good}\ndetach d1 {good}\n"
    fabric.detach("good")
    assert fabric.state() == []

    unserved = bed.submit("sleep 1", comment="nvme=1")  # started by somebody else, with nothing attached
    bed.wait_until(lambda: "DRAIN" in bed.node("n1")["State"], 20, "the node is drained")
    bed.wait_until(lambda: bed.state(unserved) == "PENDING", 20, "the job is queued again")
    assert bed.job(unserved)["Priority"] == "0"
    assert bed.node("n1")["Reason"].startswith("Prolog")
    assert log.read_text().count("\n") == 2
