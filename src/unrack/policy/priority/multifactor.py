"""Slurm's multifactor priority: a weighted sum of factors, each 0 to 1, less what the user is nice.

::

    priority = age + fair share + size + partition + QOS + association + sum over kinds of resources - nice
    age = waited / longest age, at most 1
    size = mean of nodes / all nodes and cores / all cores; favor_small: 1 - that
    small_relative_to_time: size = cores / minutes of the time limit / all cores; favor_small: 1 - that
    partition, QOS, association = its priority / the highest
    resources = what the job asks / what there is

Each times its weight; the sum is rounded towards 0, and is at least 1, as 0 means held. That the size is the mean of
both, and the least, are of Slurm's program: its documents speak of nodes or CPUs, and say that a job of one node has
1.0 with favor_small, where this is a little less. O(jobs).

*Classic fair share*: 2 to the power of minus what was used over what was promised.

    S   = product over the row and those above it of shares / shares of siblings
    U   = used by the row and all below it / used by all
    U_E = U + (U_E of the account above - U) * shares / shares of siblings;  just below the root U_E = U
    F   = 2 ** (-U_E / S / dampening)

A user without shares of its own has S and U_E of the account above. An account without has them, too; what is below it
counts as if it was not there. The documents do not say what F is of S = 0: here it is 0. If nothing was used, U is 0.
O(k) for k rows.

*Fair Tree*: users ranked from the top of the tree down, the account that is furthest behind its share first.

    LF = (shares / shares of siblings) / (used / used by the account above)

All users of an account with a higher LF are before all users of a sibling with a lower one. Users are ranked depth
first, the highest LF leading, and factor = rank / users, where the rank of the first is the number of users. Ties:
siblings with equal LF have equal ranks, and the next rank counts them all; accounts with equal LF are merged; a user
with the LF of an account has the rank of the account's first user.

LF is infinite for what has used nothing, and 0 for what has no shares. As in Slurm, it is infinite for a user with
shares ``parent``. LF are equal if they are the same number: amounts that differ by rounding are no ties.
O(k log k) for k rows.

*Usage* is what accounts and users have used, the past counting less, by a half-life. A job that uses ``rate`` from
``start`` to ``end`` has used, at time ``now``, the integral over that time of ``rate * 2 ** (-(now - t) / half_life)
dt``. Slurm adds what was used and multiplies by a factor once every PriorityCalcPeriod; this is the limit of short
periods, and is exact at any time.

References
----------
Slurm, priority_multifactor.html.
Slurm, classic_fair_share.html, "The Slurm Fair-Share Formula" and "FairShare=parent"; sacctmgr(1), "Fairshare".
Slurm, fair_tree.html, "Algorithm", "Level Fairshare Calculation" and "Ties" (Cox and Morrison 2014).
Slurm, classic_fair_share.html, "Normalized Usage"; priority_multifactor.html, PriorityDecayHalfLife and
PriorityUsageResetPeriod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np

from unrack.errors import InputError
from unrack.kernels.arrays import Floats, Ints
from unrack.policy.priority.tree import FROM_PARENT, Associations, of_siblings, with_descendants
from unrack.resources.site.keys import PriorityFile


class FairShare(NamedTuple):
    """What the factor is made of."""

    shares: Floats  # float64[k]: S, normalised, 0 to 1
    usage: Floats  # float64[k]: U_E, effective, 0 to 1
    factor: Floats  # float64[k]: F, 0 to 1; above 1/2: less was used than promised


def share_of_siblings(tree: Associations) -> Floats:
    """float64[k]: shares over those of all siblings; 0: it has none, or none of its own."""
    own = np.maximum(tree.shares, 0).astype(np.float64)
    all_of = of_siblings(tree, own)
    return np.divide(own, all_of, out=np.zeros_like(own), where=all_of > 0)


def fair_share(tree: Associations, used: Floats, dampening: float = 1.0) -> FairShare:
    """The factors of all rows.

    An InputError if the dampening is not above 0.

    Parameters
    ----------
    used : float64[k]
        What each row has used itself, without those below it: ``Usage.at``; not negative.
    dampening
        Slurm's FairShareDampeningFactor; above 1 brings the factors of heavy and light users nearer to each other.
    """
    if not dampening > 0:
        raise InputError("fair share, dampening", str(dampening), "a number above 0")
    total = with_descendants(tree, used)
    everything = float(total[tree.parent < 0].sum())
    actual = total / everything if everything > 0 else np.zeros_like(total)
    part, own = share_of_siblings(tree), tree.shares >= 0
    shares, effective = np.ones(len(own) + 1), np.full(len(own) + 1, float(everything > 0))  # the last: of the root
    for depth, rows in enumerate(tree.levels):
        above = tree.above[rows]
        towards = actual[rows] + (effective[above] - actual[rows]) * part[rows] if depth else actual[rows]
        shares[rows] = shares[above] * np.where(own[rows], part[rows], 1.0)
        effective[rows] = np.where(own[rows], towards, effective[above])
    shares, effective = shares[:-1], effective[:-1]
    ratio = np.divide(effective, shares, out=np.full_like(shares, np.inf), where=shares > 0)
    return FairShare(shares, effective, np.exp2(-ratio / dampening))


def level_fair_share(tree: Associations, used: Floats) -> Floats:
    """float64[k]: LF of all rows, 0 to infinity; of accounts with shares ``parent`` NaN, as it is not used.

    ``used``: float64[k], what each row has used itself, without those below it.
    """
    total = with_descendants(tree, used)
    shares = np.maximum(tree.shares, 0).astype(np.float64)
    everything = total[tree.parent < 0].sum()
    in_account = np.where(tree.above < 0, everything, total[tree.above])
    # one quotient of products, so that of whole numbers equal ratios are equal numbers
    lost = total * of_siblings(tree, shares)
    level: Floats = np.divide(shares * in_account, lost, out=np.full_like(shares, np.inf), where=lost > 0)
    level[tree.shares == 0] = 0.0
    level[tree.shares == FROM_PARENT] = np.where(tree.is_user, np.inf, np.nan)[tree.shares == FROM_PARENT]
    return level


def fair_tree(tree: Associations, used: Floats) -> Floats:
    """Factors of users: float64[k], above 0 to 1; of accounts 0.

    ``used``: float64[k], what each row has used itself, without those below it: ``Usage.at``; not negative.
    """
    factor = np.zeros(len(tree.name))
    users = np.flatnonzero(tree.is_user)
    if not users.size:
        return factor
    place = np.unique(-level_fair_share(tree, used), return_inverse=True)[1]  # equal numbers for equal LF, from 0
    # int64[depth, k]: the places of a row and of all above it, from the top; -1 below it, so that a user is before what
    # is in the accounts of its place. Accounts of equal places have equal columns, which merges them
    path: Ints = np.full((len(tree.levels), len(tree.name)), -1)
    for depth, rows in enumerate(tree.levels):
        path[:depth, rows] = path[:depth, tree.above[rows]]
        path[depth, rows] = place[rows]
    path = path[:, users]
    order = np.lexsort(path[::-1])
    before, after = path[:, order[:-1]], path[:, order[1:]]
    # one that follows has the rank of the one before it if they have one place, or are in an account of its place
    tied = ((before == after) | (before < 0)).all(axis=0)
    first = np.maximum.accumulate(np.where(np.r_[False, tied], 0, np.arange(len(users))))
    factor[users[order]] = (len(users) - first) / len(users)
    return factor


DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Decay:
    """How usage is forgotten. An InputError if a time is negative."""

    half_life_us: int = 7 * DAY_US  # after so long usage counts half, µs; 0: it does not decay
    reset_us: int = 0  # at each multiple of this time usage becomes 0, µs; 0: never

    def __post_init__(self) -> None:
        for name in ("half_life_us", "reset_us"):
            if getattr(self, name) < 0:
                raise InputError(f"decay, {name}", str(getattr(self, name)), "at least 0")

    def later(self, amount: Floats, rate: Ints, since: Ints, now: int) -> Floats:
        """Amounts of the times ``since``, at ``now``, if as much was in use all the while."""
        if self.reset_us:
            reset = now // self.reset_us * self.reset_us
            amount, since = np.where(since < reset, 0.0, amount), np.maximum(since, reset)
        if not self.half_life_us:
            return amount + rate * (now - since).astype(np.float64)
        halvings = (now - since) / self.half_life_us
        grown: Floats = -np.expm1(-log(2) * halvings) * (self.half_life_us / log(2))
        return amount * np.exp2(-halvings) + rate * grown


@dataclass(slots=True)
class Usage:
    """Usage of each row of a tree by its own jobs, without those below it.

    Rates are whole numbers, so that they are exactly 0 again when all jobs have ended. An amount is a sum in the order
    in which jobs start and end: the same events in the same order give the same bits, others may differ by rounding.
    """

    decay: Decay
    amount: Floats  # float64[k]: rate x µs, as of `since_us`
    rate: Ints  # int64[k]: what running jobs use, such as cores
    since_us: Ints  # int64[k]

    @classmethod
    def none(cls, rows: int, decay: Decay, now: int = 0) -> Usage:
        """Nothing was used before ``now``."""
        return cls(decay, np.zeros(rows), np.zeros(rows, np.int64), np.full(rows, now))

    def change(self, row: int, rate: int, now: int) -> None:
        """A job starts, or ends: from ``now`` on, µs, a row uses so much more, or less if negative. O(1)."""
        at = slice(row, row + 1)
        assert now >= self.since_us[row]
        assert self.rate[row] + rate >= 0
        self.amount[at] = self.decay.later(self.amount[at], self.rate[at], self.since_us[at], now)
        self.since_us[row] = now
        self.rate[row] += rate

    def at(self, now: int) -> Floats:
        """float64[k]: the usage of each row at ``now``, µs, not before the last change; rate x µs. O(k)."""
        assert now >= self.since_us.max(initial=now)
        return self.decay.later(self.amount, self.rate, self.since_us, now)


MINUTE_US = 60_000_000
HIGHEST = 2**32 - 1
"""The highest priority that Slurm has."""


class Jobs(NamedTuple):
    """What is asked of jobs, a column each; ``tres``: kind of resource to amounts, int64[jobs]."""

    waited_us: Ints  # int64[jobs]: since it could have started, µs
    fair_share: Floats  # float64[jobs]: the factor of its user
    nodes: Ints  # int64[jobs]
    cores: Ints  # int64[jobs]
    limit_us: Ints  # int64[jobs]: the time that it asks for, µs
    partition: Ints  # int64[jobs]: the priority of its partition
    qos: Ints  # int64[jobs]: of its QOS
    association: Ints  # int64[jobs]: of its user's row
    nice: Ints  # int64[jobs]: taken off
    tres: Mapping[str, Ints]


class Whole(NamedTuple):
    """What makes a factor 1: what the cluster has, and the highest priorities that there are; 0: the factor is 0."""

    nodes: int
    cores: int
    partition: int
    qos: int
    association: int
    tres: Mapping[str, int]


def _part(amount: Ints | Floats, whole: float) -> Floats:
    """The share of a whole, 0 to 1; 0 of nothing."""
    if not whole > 0:
        return np.zeros(len(amount))
    part: Floats = amount / whole
    return np.minimum(np.maximum(part, 0.0, out=part), 1.0, out=part)


def size_factors(weights: PriorityFile, jobs: Jobs, whole: Whole) -> Floats:
    """float64[jobs]: the size of jobs, 0 to 1."""
    if weights.small_relative_to_time:
        size = _part(jobs.cores / np.maximum(jobs.limit_us / MINUTE_US, 1.0), whole.cores)
    else:
        size = (_part(jobs.nodes, whole.nodes) + _part(jobs.cores, whole.cores)) / 2
    return 1.0 - size if weights.favor_small else size


FACTORS: dict[str, Callable[[PriorityFile, Jobs, Whole], Floats]] = {
    "age": lambda weights, jobs, whole: _part(jobs.waited_us, weights.max_age),
    "fair_share": lambda weights, jobs, whole: jobs.fair_share,
    "job_size": size_factors,
    "partition": lambda weights, jobs, whole: _part(jobs.partition, whole.partition),
    "qos": lambda weights, jobs, whole: _part(jobs.qos, whole.qos),
    "association": lambda weights, jobs, whole: _part(jobs.association, whole.association),
}
"""Weight that is one number → the factors of jobs, float64[jobs], 0 to 1."""


def priorities(weights: PriorityFile, jobs: Jobs, whole: Whole) -> Ints:
    """int64[jobs]: the priorities of jobs, 1 to 2^32 - 1, the highest first.

    An InputError if a kind of resource has a weight, and jobs or the cluster have no amounts of it.
    """
    for kind in weights.tres:
        if kind not in jobs.tres or kind not in whole.tres:
            have = ", ".join(k for k in jobs.tres if k in whole.tres)
            raise InputError("multifactor, tres", repr(kind), f"one of {have}" if have else "no kind of resource")
    total = np.zeros(len(jobs.nice))
    for name, factors in FACTORS.items():
        if weight := getattr(weights, name):
            total += weight * factors(weights, jobs, whole)
    for kind, weight in weights.tres.items():
        total += weight * _part(jobs.tres[kind], whole.tres[kind])
    return np.minimum(np.maximum(total - jobs.nice, 1.0), HIGHEST).astype(np.int64)
