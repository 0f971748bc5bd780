"""What a reading of Slurm shows of starts and of runs that are over."""

from __future__ import annotations

from unrack.live.prediction.learnt import Past
from unrack.live.slurm.adapter.seen import members
from unrack.live.slurm.jobs import said
from unrack.live.slurm.reading import Reading
from unrack.slurm_text.job_ids import HOLDING, WAITING


def seen_starts(reading: Reading) -> dict[str, float]:
    """Job → when it started, s since 1970, of all that run or have ended."""
    return {
        str(member.key): float(member.job.start_s)
        for member in members(reading)
        if not member.job.waits and 0 < member.job.start_s <= reading.at_s
    }


def past_of_reading(reading: Reading) -> list[Past]:
    """The runs that have ended and that Slurm still remembers."""
    return [
        Past(said(job.user), job.end_s - job.start_s, job.limit_s)
        for job in reading.jobs
        if job.state not in HOLDING | WAITING and job.limit_s and 0 < job.start_s <= job.end_s
    ]
