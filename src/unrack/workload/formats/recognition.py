"""Which format a file has that comes from a batch system or from Kubernetes, from its first lines."""

from __future__ import annotations

import re

from unrack.workload.formats.slurm.listing import heads_a_list
from unrack.workload.formats.slurm.names import plain
from unrack.workload.formats.source import Source, text_bytes

_PBS = re.compile(r"[0-9]{2}/[0-9]{2}/[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2};[A-Za-z];[^;]*;.*")
_PAST = {"end", "elapsedraw", "exitcode", "alloctres", "reqtres", "maxrss", "cputime", "cputimeraw", "jobidraw"}
_NOW = {"st", "time", "timeleft", "nodelistreason", "timeused", "mincpus", "minmemory"}


def recognised(source: Source) -> str | None:
    """``"sacct"``, ``"slurm-queue"``, ``"pbs"`` or ``"kubernetes"``; ``None``: none of them."""
    if source.data.startswith((b"PAR1", b"\xff\xfe", b"\xfe\xff")):
        return None
    head = text_bytes(source)[:100_000].decode("utf-8", "replace")
    first = next((line for line in head.split("\n") if line.strip()), "")
    if _PBS.fullmatch(first.strip()):
        return "pbs"
    if first.lstrip().startswith("JobId="):
        return "slurm-queue"
    if first.lstrip().startswith(("{", "[")):
        return _json(head)
    if not heads_a_list(first):
        return None
    names = {plain(name) for name in re.split(r"[^\w()]+", first)}
    return "slurm-queue" if names & _NOW and not names & _PAST else "sacct"


def _json(head: str) -> str | None:
    if re.search(r'"apiVersion"\s*:', head) and re.search(r'"kind"\s*:', head):
        return "kubernetes"
    if (
        re.search(r'"jobs"\s*:', head)
        and not re.search(r'"job_state"\s*:', head)
        and re.search(r'"submission"\s*:', head)
    ):
        return "sacct"
    if re.search(r'"(job_state|job_resources|job_id)"\s*:', head) and re.search(r'"(jobs|job_state)"\s*:', head):
        return "slurm-queue"
    return None
