"""Which measured application a job is like: the nearest by size and run time.

References
----------
The thesis on disaggregated memory, section 5.2.1, step 3: Euclidean distance, the first of equals. It is silent on how
the two are scaled. Here each is scaled to 0 … 1 between its smallest and largest value, jobs and profiles by
themselves. The jobs published with the thesis's simulator follow this rule: with 1 … 128 nodes and 0 … 184 000 s it
gives 1 822 of 1 838 the application they have, and 10 of the others have one that is not in the table of profiles.
Their memory per core is a quarter of the profile's MB, rounded down: profiles were measured on 4 cores.
"""

from __future__ import annotations

import numpy as np

from unrack.errors import InputError
from unrack.kernels.arrays import Floats, Ints

_ROWS = 8192


def match(
    nodes: Ints,
    run_s: Floats,
    profile_nodes: Ints,
    profile_run_s: Floats,
    *,
    nodes_range: tuple[float, float] | None = None,
    run_s_range: tuple[float, float] | None = None,
    so_far: bool = False,
) -> Ints:
    """``int64[jobs]``: for each job the row of the profile nearest to it, the first of equals.

    Parameters
    ----------
    nodes, run_s : int64[jobs], float64[jobs]
        Of the jobs.
    profile_nodes, profile_run_s : int64[profiles], float64[profiles]
        Of the profiles: a row for each application and size it was measured at.
    nodes_range, run_s_range
        What counts as the smallest and the largest of the jobs; by default it is found. Give it where the jobs are a
        part of those that were matched together.
    so_far
        Whether each job is scaled by itself and those before it only: later ones then change nothing.

    Raises
    ------
    InputError
        There is no profile, or a range is empty.

    Examples
    --------
    >>> match(np.array([1, 8, 2]), np.array([50.0, 900.0, 800.0]), np.array([1, 1, 4]), np.array([10.0, 60.0, 70.0]))
    array([0, 2, 1])
    """
    if not len(profile_nodes):
        raise InputError("profiles", "none", "at least one profile to match jobs to")
    for name, between in (("nodes_range", nodes_range), ("run_s_range", run_s_range)):
        if between is not None and not between[0] < between[1]:
            raise InputError(name, f"{between[0]:g} to {between[1]:g}", "a smallest and a larger largest value")
    jobs = (_scaled(nodes, nodes_range, so_far), _scaled(run_s, run_s_range, so_far))
    profiles = (_scaled(profile_nodes, None), _scaled(profile_run_s, None))
    found = np.empty(len(nodes), np.int64)
    for first in range(0, len(nodes), _ROWS):
        part = slice(first, first + _ROWS)
        apart = [(mine[part, None] - theirs) ** 2 for mine, theirs in zip(jobs, profiles, strict=True)]
        found[part] = (apart[0] + apart[1]).argmin(axis=1)
    return found


def scaled_memory_mb(profile_mb: Floats, cores: int, profile_cores: int = 4) -> Ints:
    """``int64[profiles]``: MB per node of ``cores``, where every core needs what one did when it was measured.

    Parameters
    ----------
    profile_mb : float64[profiles]
        MB per node as measured, on ``profile_cores`` cores.
    cores
        Of a node. MB per core are rounded down, as in the published jobs, to 1 or more.
    profile_cores
        Of a node that was measured.

    Examples
    --------
    >>> scaled_memory_mb(np.array([6383.0]), 32).tolist()
    [51040]
    """
    return np.maximum(np.floor(np.asarray(profile_mb, np.float64) / profile_cores), 1).astype(np.int64) * cores


def _scaled(values: Ints | Floats, between: tuple[float, float] | None, so_far: bool = False) -> Floats:
    if not len(values):
        return np.empty(0)
    plain = np.asarray(values, np.float64)
    if so_far and between is None:
        low, span = np.minimum.accumulate(plain), np.maximum.accumulate(plain) - np.minimum.accumulate(plain)
        return (plain - low) / np.where(span > 0, span, 1.0)
    least, most = (float(plain.min()), float(plain.max())) if between is None else between
    return (plain - least) / ((most - least) or 1.0)
