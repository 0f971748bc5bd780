"""The runs of the past as ``sacct`` tells of them, where Slurm keeps accounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from unrack.errors import InputError
from unrack.live.driver.seen import UnreachableError
from unrack.live.prediction.learnt import MOST, Past
from unrack.live.slurm.commands.run import clean_environment, find_command, run_all
from unrack.live.slurm.jobs import said

WORDS = (
    "--allusers", "--allocations", "--noheader", "--parsable2", "--starttime=now-14days",
    "--state=CD,F,TO,OOM,CA,NF,PR,DL", "--format=User,ElapsedRaw,TimelimitRaw",
)  # fmt: skip
"""Without the rights to see all users' jobs, Slurm shows one's own."""
_MOST_BYTES = 100_000_000


def past_of_accounts(timeout_s: float = 30.0, environment: Mapping[str, str] | None = None) -> list[Past]:
    """The runs of the last 14 days; none where Slurm keeps no accounts, or does not answer."""
    kept = clean_environment(environment)
    try:
        done = run_all([[find_command("sacct", kept), *WORDS]], kept, timeout_s)[0]
    except (UnreachableError, InputError):
        return []
    return list(_runs(done.out[-_MOST_BYTES:])) if not done.code else []


def _runs(listed: bytes) -> Iterator[Past]:
    for line in listed.split(b"\n")[-MOST:]:
        fields = line.split(b"|")
        if len(fields) == 3 and all(one.isdigit() and len(one) < 12 for one in fields[1:]):
            ran_s, limit_minutes = int(fields[1]), int(fields[2])
            if ran_s > 0 and limit_minutes > 0:
                yield Past(said(fields[0].decode("utf-8", "replace")), ran_s, limit_minutes * 60)
