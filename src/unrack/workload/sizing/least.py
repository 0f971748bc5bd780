"""The shortest limits that jobs accept: the column ``time_min_s``."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from unrack.errors import InputError
from unrack.units import SECOND_US
from unrack.workload.job import JobTable

COLUMN = "time_min_s"


def least_times(jobs: JobTable) -> Mapping[int, int]:
    """Job → the shortest limit that it accepts, µs, of those that say one.

    An InputError if it is no time above 0, or longer than what the job asks for.
    """
    if COLUMN not in jobs.extra.columns:
        return {}
    found = {}
    for job, said in enumerate(jobs.extra[COLUMN].to_list()):
        if said is None or said == "":
            continue
        where, whole_s = f"job {jobs.ids[job]}, {COLUMN}", int(jobs.request_us[job]) / SECOND_US
        try:
            seconds = float(said)
        except ValueError:
            seconds = -1.0
        if not isfinite(seconds) or not 0 < seconds <= whole_s:
            raise InputError(where, repr(said), f"seconds above 0, up to the {whole_s:g} that it asks for")
        found[job] = max(1, round(seconds * SECOND_US))
    return found
