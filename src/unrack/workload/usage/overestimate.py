"""Jobs that ask for more memory than they use: by a fixed share, at random, by user, or where users are careless.

What jobs use stays: a job without a curve that asks for more gets a constant one, at what it asked for before. The
share of each job is carried along in the column ``overestimate``, 0.6 for 60 % more than it used to ask.

References
----------
Vieira Zacarias 2023, section 7.1: by a fixed percentage from +0 to +60 %, or independently and uniformly between +0 and
+100 %; a diligent user is exact, a careless one asks for twice the use.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import polars as pl

from unrack.errors import InputError
from unrack.kernels.arrays import Floats
from unrack.workload.job import MEMORY, Workload
from unrack.workload.resample import recorded
from unrack.workload.usage.attach import with_constants

COLUMN = "overestimate"
"""The column of the share, in ``JobTable.extra``."""

_OVER = 0x6F76  # beside the seed, so that these draws are no generator's
_LARGEST = 1000.0


def by_share(workload: Workload, share: float, cap_mb: int | None = None) -> Workload:
    """All jobs ask for so much more: 0.6 = 60 %.

    Parameters
    ----------
    workload
        What is changed; ``MB`` are rounded up.
    share
        0 or more.
    cap_mb
        Nobody asks for more than this, or than before if that was more: the memory of the largest node.

    Raises
    ------
    InputError
        The share is below 0, or over 1000.
    """
    share = _share("share", share)
    return _raised(workload, np.full(len(workload), share), f"requests {share:.4g} above use", cap_mb)


def uniform(workload: Workload, least: float, most: float, seed: int = 0, cap_mb: int | None = None) -> Workload:
    """Each job asks for more by a share of its own, drawn evenly and independently between two.

    Raises
    ------
    InputError
        A share is below 0 or over 1000, or they are in the wrong order.
    """
    least, most = _share("uniform", least), _share("uniform", most)
    if least > most:
        raise InputError("overestimate, uniform", f"{least:g} to {most:g}", "a share and a larger one")
    drawn = np.random.default_rng([_OVER, seed]).uniform(least, most, len(workload))
    return _raised(workload, drawn, f"requests {least:g} to {most:g} above use, drawn evenly, seed {seed}", cap_mb)


def by_user(workload: Workload, users: Mapping[str, float], others: float = 0.0, cap_mb: int | None = None) -> Workload:
    """Each user's jobs ask for more by a share of that user.

    Parameters
    ----------
    workload
        What is changed.
    users
        User → share.
    others
        The share of everybody else, and of jobs whose user is not known.
    cap_mb
        As in :func:`by_share`.

    Raises
    ------
    InputError
        There is no such user, or a share is below 0 or over 1000.
    """
    jobs = workload.jobs
    share = np.full(len(jobs), _share("others", others))
    for name, value in users.items():
        if str(name) not in jobs.user_names:
            known = ", ".join(jobs.user_names[:20]) or "none are known"
            raise InputError("overestimate, users", repr(name), f"users of {workload.name}: {known}")
        share[jobs.user == jobs.user_names.index(str(name))] = _share(f"users.{name}", value)
    return _raised(workload, share, f"requests above use by user ({len(users)} named, others {others:g})", cap_mb)


def careless(
    workload: Workload,
    part: float,
    by: float,
    of: Literal["users", "jobs"] = "users",
    seed: int = 0,
    cap_mb: int | None = None,
) -> Workload:
    """Some users, or some jobs, ask for more by a share; the others ask for what they use.

    Parameters
    ----------
    workload
        What is changed.
    part
        How many are careless: a share of the users or jobs, 0 to 1, rounded to whole ones.
    by
        By how much they ask for more: 1 = twice what they use.
    of
        Whether users or single jobs are chosen. Jobs whose user is not known are exact.
    seed
        Of the choice.
    cap_mb
        As in :func:`by_share`.

    Raises
    ------
    InputError
        A share cannot be, or users are to be chosen and no user is known.
    """
    if isinstance(part, bool) or not 0 <= part <= 1:
        raise InputError("overestimate, careless", repr(part), f"a share of the {of} from 0 to 1")
    by = _share("by", by)
    jobs = workload.jobs
    rng = np.random.default_rng([_OVER, seed])
    if of == "users":
        there = np.unique(jobs.user[jobs.user >= 0])
        if not len(there):
            raise InputError("overestimate, careless", f"{workload.name}, which names no users", "of = 'jobs'")
        chosen = np.isin(jobs.user, rng.permutation(there)[: round(part * len(there))])
        words = f"{round(part * len(there))} of {len(there)} users"
    else:
        chosen = np.zeros(len(jobs), np.bool_)
        chosen[rng.permutation(len(jobs))[: round(part * len(jobs))]] = True
        words = f"{int(chosen.sum())} of {len(jobs)} jobs"
    return _raised(workload, np.where(chosen, by, 0.0), f"requests {by:g} above use of {words}, seed {seed}", cap_mb)


def _share(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LARGEST:
        raise InputError(f"overestimate, {name}", repr(value), "a share from 0 to 1000, such as 0.6 for 60 % more")
    assert math.isfinite(value)
    return float(value)


def _raised(workload: Workload, share: Floats, words: str, cap_mb: int | None) -> Workload:
    jobs = workload.jobs
    old = jobs.memory_mb
    new = np.ceil(np.round(old * (1.0 + share), 6)).astype(np.int64)
    if cap_mb is not None:
        new = np.maximum(np.minimum(new, cap_mb), old)
    raised = new > old
    usage = with_constants(jobs, old, raised) if raised.any() else jobs.usage
    asks = jobs.asks.copy()
    asks[MEMORY] = new
    extra = jobs.extra.drop(COLUMN, strict=False).with_columns(pl.Series(COLUMN, share)) if jobs.extra.width else None
    made = replace(jobs, asks=asks, usage=usage, extra=pl.DataFrame({COLUMN: share}) if extra is None else extra)
    return recorded(workload, made, f"{words}: {int(raised.sum())} of {len(jobs)} jobs ask for more")
