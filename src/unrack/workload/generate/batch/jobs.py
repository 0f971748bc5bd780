"""Jobs of a batch model with their applications and memory, and mixes of them; without arrivals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.errors import InputError
from unrack.workload.formats.quantities import MOST_MB
from unrack.workload.generate.batch.lublin import LublinModel
from unrack.workload.generate.batch.model import BatchModel, Draw
from unrack.workload.generate.batch.spec import BatchSpec, Profile
from unrack.workload.generate.distributions import Floats
from unrack.workload.generate.memory.demand import memory_by_size_mb
from unrack.workload.generate.memory.matching import match, scaled_memory_mb
from unrack.workload.generate.memory.mix import chosen_for_share
from unrack.workload.job import Ints

MOST_JOBS = 10_000_000
_POOLS = (1, 4, 16, 64, 256)
"""Jobs drawn for one that is chosen: tried until there are enough of either kind."""


class BatchJobs(NamedTuple):
    """Jobs without arrivals: what the model drew, MB per node, and rows of the profiles (or none)."""

    draw: Draw
    memory_mb: Ints
    profile: Ints | None

    def take(self, rows: Ints) -> BatchJobs:
        """Some of the jobs, in the order of the rows."""
        nodes, run_s, request_s, status = self.draw
        draw = Draw(nodes[rows], run_s[rows], request_s[rows], status[rows])
        return BatchJobs(draw, self.memory_mb[rows], None if self.profile is None else self.profile[rows])


def drawn_jobs(
    spec: BatchSpec,
    model: BatchModel | LublinModel,
    profiles: list[Profile] | None,
    rng: np.random.Generator,
    count: int,
) -> BatchJobs:
    """Draw jobs, match them with profiles, and give them memory.

    Parameters
    ----------
    spec
        What to draw.
    model
        The model.
    profiles
        Applications to match jobs with; ``None``: jobs have none.
    rng
        Where the numbers come from: first the model's, then the memory's.
    count
        How many.

    Raises
    ------
    InputError
        Memory is too large, or not known of a profile.
    """
    draw = model.draw(rng, count, spec.nodes, spec.cancelled == "zero-run")
    rows = None
    memory = np.zeros(count, np.int64)
    if profiles is not None:
        nodes = np.array([one.nodes for one in profiles], np.int64)
        rows = match(draw.nodes, draw.run_s, nodes, np.array([one.run_s for one in profiles]))
    if spec.memory == "table-5.5":
        memory = memory_by_size_mb(rng, draw.nodes)
    elif spec.memory == "profiles":
        assert profiles is not None
        assert rows is not None
        measured = np.array([one.memory_mb for one in profiles])
        if (measured == 0).any():
            bad = int((measured == 0).argmax())
            raise InputError(f"generate, profiles.{bad}.memory_mb", "0", "MB per node, for memory = 'profiles'")
        memory = scaled_memory_mb(measured, spec.cores_per_node, spec.measured_on)[rows]
    elif spec.memory is not None:
        amounts = spec.memory.draw(rng, count)
        if amounts.max() >= MOST_MB:
            raise InputError("generate, memory", f"{amounts.max():g} MB", f"less than {MOST_MB}")
        memory = np.ceil(np.round(amounts, 6)).astype(np.int64)
    return BatchJobs(draw, memory, rows)


def mixed_jobs(
    spec: BatchSpec, model: BatchModel | LublinModel, profiles: list[Profile] | None, rng: np.random.Generator
) -> BatchJobs:
    """Jobs chosen from as many as it takes to have enough of either kind; in an order of chance.

    Parameters
    ----------
    spec, model, profiles, rng
        As for :func:`drawn_jobs`; the specification has a ``large_share``.

    Raises
    ------
    InputError
        256 times the jobs wanted do not hold enough large, or normal, ones.
    """
    assert spec.large_share is not None
    assert spec.normal_node is not None
    assert spec.jobs is not None
    want = InputError("generate, large_share", f"{spec.large_share:g}", "a share that the memory of the jobs allows")
    for times in _POOLS:
        if times * spec.jobs > MOST_JOBS:
            break
        pool = drawn_jobs(spec, model, profiles, rng, times * spec.jobs)
        hours = pool.draw.nodes * pool.draw.run_s / 3600
        large = pool.memory_mb > spec.normal_node
        if not _enough(hours, large, spec.large_share, spec.jobs):
            continue
        chosen = chosen_for_share(rng, hours, large, spec.large_share, spec.jobs)
        return pool.take(rng.permutation(chosen))
    raise want


def _enough(node_hours: Floats, large: np.ndarray, share: float, jobs: int) -> bool:
    """Whether there are twice as many of either kind as jobs of mean node-hours would need (all, at 0 and 1)."""
    if share in (0, 1):
        return int((large == bool(share)).sum()) >= jobs
    if not large.any() or large.all():
        return False
    means = node_hours[large].mean(), node_hours[~large].mean()
    if min(means) <= 0:
        return False
    needed = share / means[0], (1 - share) / means[1]
    parts = [one / sum(needed) * jobs for one in needed]
    there = int(large.sum()), int((~large).sum())
    return all(have >= min(1.2 * part + 20, jobs) for have, part in zip(there, parts, strict=True))
