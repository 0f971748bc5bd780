"""Which jobs may preempt which on a site: classes of jobs, and a strict order of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from unrack.kernels.arrays import Bools, Ints
from unrack.resources.site.keys import SiteFile


class Ranks(NamedTuple):
    """Classes of jobs: 0 is of those that preempt no other and are never preempted.

    Attributes
    ----------
    of : int64[numbers of Where]
        The class of the jobs with a number.
    may : bool[classes, classes]
        Whether jobs of one class may preempt those of another; there are no circles, but by quota.
    height : int64[classes]
        Larger than that of every class of jobs that may be preempted; by quota, of every class of lower priority.
    mode
        By class, what becomes of its jobs when they are preempted: a ``Mode``.
    victims, exempt_us
        As of :class:`unrack.resources.site.keys.PreemptFile`.
    by_quota
        Whether it depends on what queues use, too.
    joint
        Heterogeneous job, the components of which are of several classes → its own, see :func:`joined`.
    """

    of: Ints
    may: Bools
    height: Ints
    mode: tuple[str, ...]
    victims: str
    exempt_us: int
    by_quota: bool = False
    joint: Mapping[int, int] = MappingProxyType({})


def ranks_of(file: SiteFile, jobs: Sequence[tuple[tuple[str, ...], str, str]]) -> Ranks | None:
    """The classes of jobs that may run in some partitions (none: anywhere), with a quality of service, of a queue.

    A job of several partitions may preempt as one of the lowest of their tiers may, and is preempted as one of the
    highest.
    """
    rules = file.preempt
    if rules is None:
        return None
    if rules.by == "quota":
        return _by_quota(file, [(queue, qos) for _, qos, queue in jobs])
    by_qos = rules.by == "qos"
    known = [one.name for one in file.qos] if by_qos else [(one.name,) for one in file.partitions]
    names: dict[object, int] = {"": 0, (): 0, **{name: i for i, name in enumerate(known, 1)}}
    keys = [qos if by_qos else partitions for partitions, qos, _ in jobs]
    of = np.array([names.setdefault(key, max(names.values()) + 1) for key in keys], np.int64)
    classes = [key for key in names if key not in ("", ())]
    mode, may = ["off"], np.zeros((len(classes) + 1, len(classes) + 1), np.bool_)
    if by_qos:
        mode += [one.preempt_mode or rules.mode for one in file.qos]
        may[1:, 1:] = [[other in one.preempts for other in classes] for one in file.qos]
    else:
        partitions = {one.name: one for one in file.partitions}
        own = [[partitions[name] for name in some] for some in classes]  # type: ignore[attr-defined]  # tuples of names
        highest = [max(some, key=lambda one: one.tier) for some in own]
        mode += [one.preempt_mode or rules.mode for one in highest]
        lowest = np.array([min(one.tier for one in some) for some in own], np.int64)
        may[1:, 1:] = lowest[:, None] > np.array([one.tier for one in highest], np.int64)
    may &= np.array([one != "off" for one in mode])
    return Ranks(of, may, _heights(may), tuple(mode), rules.victims, rules.exempt_time or 0)


def _heights(may: Bools) -> Ints:
    height = np.zeros(len(may), np.int64)
    for _ in range(len(may)):
        height = np.where(may, height + 1, 0).max(axis=1)
    return height


GENTLEST = ("off", "suspend", "checkpoint", "requeue", "cancel")
"""Modes, by how little a job loses."""


def joined(ranks: Ranks, components: Mapping[int, Sequence[int]]) -> Ranks:
    """With classes for heterogeneous jobs, by the classes of the components of each.

    As in Slurm such a job is preempted, wholly, by jobs that may preempt each of its components, in the gentlest of
    their modes. It preempts those that each of its components may preempt.
    """
    several = {job: tuple(sorted(set(own))) for job, own in components.items() if len(set(own)) > 1}
    if not several:
        return ranks
    count, sets = len(ranks.mode), list(dict.fromkeys(several.values()))
    of = np.zeros((count + len(sets), count), np.bool_)
    for i, own in enumerate([*((one,) for one in range(count)), *sets]):
        of[i, list(own)] = True
    may = ~(of @ ~ranks.may @ of.T)
    mode = ranks.mode + tuple(min((ranks.mode[one] for one in own), key=GENTLEST.index) for own in sets)
    least = np.where(of, ranks.height, ranks.height.max()).min(axis=1) * may.any(axis=1)
    height = least if ranks.by_quota else _heights(may)
    joint = {job: count + sets.index(own) for job, own in several.items()}
    return ranks._replace(may=may, height=height, mode=mode, joint=joint)


def _by_quota(file: SiteFile, jobs: Sequence[tuple[str, str]]) -> Ranks:
    """Classes by queue and priority; whether the queues use more or less than they have is looked at each time."""
    rules, queues = file.preempt, {one.name: one for one in file.queues}
    root = {name: file.root(one.cohort) for name, one in queues.items()}
    assert rules is not None
    priority = {"": 0} | {one.name: one.priority for one in file.qos}
    classes = [("", 0), *product(queues, sorted({*priority.values()}))]  # also those that no job is of
    number = {one: i for i, one in enumerate(classes)}
    of = np.array([number[queue, priority[qos]] if queue else 0 for queue, qos in jobs], np.int64)
    mode, may = ["off", *[rules.mode] * (len(classes) - 1)], np.zeros((len(classes), len(classes)), np.bool_)
    own = [(name, root[name], queues[name].within, queues[name].reclaim) for name, _ in classes[1:]]
    queue, tree, within, reclaim = np.array(own, np.str_).reshape(-1, 4).T[:, :, None]
    level = np.array([priority for _, priority in classes[1:]], np.int64)[:, None]
    mates, lower = (queue != queue.T) & (tree == tree.T) & (tree != ""), level > level.T
    of_mates = mates & ((reclaim == "any") | ((reclaim == "lower-priority") & lower))
    may[1:, 1:] = of_mates | ((queue == queue.T) & (within == "lower-priority") & lower)
    may &= np.array([one != "off" for one in mode])
    rank = np.unique([own for _, own in classes], return_inverse=True)[1].ravel().astype(np.int64) + 1
    return Ranks(of, may, rank * may.any(axis=1), tuple(mode), rules.victims, rules.exempt_time or 0, by_quota=True)
