"""The script that checks comments, in a real Slurm: what its users can and cannot do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unrack.cluster.spec import Cluster
from unrack.live.asks import Askable
from unrack.live.asks.words import is_marked
from unrack.live.slurm.asks.script import script_text

pytestmark = pytest.mark.live
USER = "nobody"


@pytest.fixture
def wake(tmp_path: Path) -> Path:
    path = tmp_path / "wake"
    path.write_text("")
    return path


@pytest.fixture
def scripted(new_bed: Callable[..., Any], wake: Path) -> Any:
    """A Slurm whose partitions ``main`` and ``also`` are unrack's, and ``other`` is not."""
    text = script_text(["main", "also"], Askable.of(Cluster.preset("nvme-pool")), wake_file=wake)
    return new_bed(nodes=2, partitions={"main": "", "also": "n2", "other": ""}, job_submit=text)


def refused(bed: Any, *words: str) -> str:
    """What a user is told who tries something that is refused."""
    done = bed.call(*words, check=False, user=USER)
    assert done.returncode, words
    return str(done.stderr.decode())


def test_users_write_comments_and_nothing_else_is_theirs(scripted: Any, wake: Path) -> None:
    bed = scripted
    job = bed.submit(user=USER, comment="unrack: nvme.capacity=1GB")
    assert wake.read_text() == "\n"
    told = bed.job(job)
    assert (told["Reason"], told["Priority"], is_marked(told["AdminComment"])) == ("JobHeldUser", "0", True)
    for words in (["release", str(job)], ["update", f"JobId={job}", "Priority=10"], ["top", str(job)]):
        assert "denied" in refused(bed, "scontrol", *words)
    refused(bed, "scontrol", "update", f"JobId={job}", "Comment=unrack: nonsense")
    refused(bed, "scontrol", "update", f"JobId={job}", "AdminComment=unrack: priority=9")
    bed.scontrol("update", f"JobId={job}", "Comment=unrack: nvme.capacity=2GB", user=USER)
    assert "Comment=unrack: nvme.capacity=2GB" in bed.scontrol("show", "job", str(job))
    assert bed.job(job)["Priority"] == "0"
    bed.scontrol("hold", str(job))
    assert bed.job(job)["Reason"] == "JobHeldAdmin"
    bed.scontrol("update", f"JobId={job}", "ReqNodeList=n2")
    bed.scontrol("release", str(job))
    bed.wait_for([job], "RUNNING", "COMPLETED")
    assert bed.job(job)["NodeList"] == "n2"


def test_what_cannot_be_understood_is_refused_with_a_reason(scripted: Any) -> None:
    bed = scripted
    sbatch = ["sbatch", "--output=/dev/null", "--chdir=/tmp", "--wrap=true"]
    said = refused(bed, *sbatch, "--comment=unrack: nvme.capacity=1parsec")
    assert "unrack: comment, nvme.capacity: got '1parsec', wanted a size such as 100GB" in said
    assert "wanted one of memory, deadline" in refused(bed, *sbatch, "--comment=unrack: colour=red")
    assert "only an administrator" in refused(bed, *sbatch, "--comment=unrack: priority=1")
    assert "unrack: hold" in refused(bed, *sbatch, "--hold")
    assert "unrack: partition" in refused(bed, *sbatch, "--partition=other,main")
    assert bed.jobs() == []


def test_a_job_of_several_of_its_partitions_is_held_and_another_is_told_where_it_may_go(scripted: Any) -> None:
    bed = scripted
    job = bed.submit(user=USER, partition="also,main")
    told = bed.job(job)
    assert (told["Partition"], told["Priority"], is_marked(told["AdminComment"])) == ("also,main", "0", True)
    bed.scontrol("update", f"JobId={job}", "Partition=main,also", user=USER)
    assert "denied" in refused(bed, "scontrol", "update", f"JobId={job}", "Partition=main,other")


def test_other_partitions_are_left_alone(scripted: Any) -> None:
    bed = scripted
    held = bed.submit(user=USER, partition="other", hold=True, comment="unrack: nonsense")
    free = bed.submit(user=USER, partition="other")
    assert "denied" in refused(bed, "scontrol", "update", f"JobId={held}", "Partition=main")
    bed.scontrol("release", str(held), user=USER)
    bed.wait_for([held, free], "COMPLETED")
    assert "AdminComment" not in bed.job(free)


def test_every_member_of_an_array_is_held_and_marked(scripted: Any) -> None:
    bed = scripted
    job = bed.submit(user=USER, array="0-3")
    refused(bed, "scontrol", "release", f"{job}_2")
    bed.scontrol("update", f"JobId={job}_1", "ReqNodeList=n1")
    bed.scontrol("release", f"{job}_1")
    bed.wait_for([f"{job}_1"], "RUNNING", "COMPLETED")
    told = bed.jobs()
    assert len(told) > 1
    assert all(is_marked(one["AdminComment"]) for one in told)
