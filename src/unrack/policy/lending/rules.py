"""The placement rules for borrowed memory, and on what terms they lend.

References
----------
Vieira Zacarias 2023, sections 6.1.2 and 6.1.3, Table 6.1. The rules are told there in words and drawings;
``docs/lending.md`` says what was read into them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Ints
from unrack.kernels.structs import InKernels


class LendingRule(IntEnum):
    """How compute nodes and their memory are chosen."""

    STRAWMAN = 0  # cores anywhere, then memory anywhere
    NAIVE = 1  # cores anywhere, then memory packed on them, then anywhere
    LOCAL = 2  # nodes with enough free memory; what lacks from lenders one after the other
    SPREAD = 3  # the same, a lender of its own for every compute node
    DISAGGREGATED = 4  # local only while that is possible; else nodes with most memory, and spread
    AWARE = 5  # the same, from the lenders that slow everyone down least


RULES = {
    "strawman": LendingRule.STRAWMAN,
    "naive": LendingRule.NAIVE,
    "local": LendingRule.LOCAL,
    "local-spread": LendingRule.SPREAD,
    "disaggregated": LendingRule.DISAGGREGATED,
    "contention-aware": LendingRule.AWARE,
}
THRESHOLDS = {LendingRule.STRAWMAN: 0.0, LendingRule.NAIVE: 0.0, LendingRule.LOCAL: 0.5, LendingRule.SPREAD: 0.5}
"""Share of a node's memory that must be free for it to compute, where nothing else is said; of the others 1."""


class _Terms(NamedTuple):
    """The fields of :class:`Terms`."""

    rule: int  # a `LendingRule`
    groups: int  # how many lending groups there are
    group: Ints  # int64[nodes]: from 0 to `groups` - 1; -1 reaches all
    threshold_mb: Ints  # int64[nodes]: what a node must have free to compute
    # int64[groups + 2], int64[nodes]: nodes of group g by id: `member[member_first[g]:member_first[g + 1]]`; at last
    # those that reach all
    member_first: Ints
    member: Ints
    near: bool  # whether the nearest lenders are asked first
    # int64[nodes]: where nodes are, for that
    rack: Ints
    rack_group: Ints


class Terms(InKernels, _Terms):
    """On what terms memory is lent in a run."""


def make_terms(cluster: Cluster, rule: LendingRule, threshold: float, group: str | int, near: bool) -> Terms:
    """The terms of a policy on a cluster.

    Parameters
    ----------
    threshold
        Share of a node's memory that must be free for it to compute, 0 to 1; 1: a node that lends does not compute.
    group
        ``"all"``, ``"rack"`` or a number of nodes: lending groups within those of the cluster.
    near
        Whether the nearest lenders are asked first.
    """
    computes = cluster.cores > 0
    own = np.zeros(len(cluster), np.int64)
    if group == "rack":
        own = cluster.rack
    elif group != "all":
        own = (np.cumsum(computes) - 1) // int(group)
    both = np.stack([cluster.lending_group, np.where(computes | (group == "rack"), own, 0)])
    reaches_all = cluster.lending_group == -1
    _, label = np.unique(both[:, ~reaches_all], axis=1, return_inverse=True)
    found = np.full(len(cluster), -1, np.int64)
    found[~reaches_all] = label.ravel()
    least_mb = np.ceil(threshold * cluster.memory_mb).astype(np.int64)
    return grouped(rule, found, least_mb, near, cluster.rack, cluster.rack_group)


def grouped(rule: int, group: Ints, threshold_mb: Ints, near: bool, rack: Ints, rack_group: Ints) -> Terms:
    """Terms from columns over nodes; with a single group, nodes that reach all are members of it."""
    groups = int(group.max(initial=0)) + 1
    if groups == 1:
        group = np.zeros(len(group), np.int64)
    section = np.where(group == -1, groups, group)
    return Terms(
        rule=int(rule),
        groups=groups,
        group=np.ascontiguousarray(group, np.int64),
        threshold_mb=threshold_mb,
        member_first=np.append(0, np.cumsum(np.bincount(section, minlength=groups + 1))).astype(np.int64),
        member=np.argsort(section, kind="stable").astype(np.int64),
        near=near,
        rack=np.ascontiguousarray(rack, np.int64),
        rack_group=np.ascontiguousarray(rack_group, np.int64),
    )
