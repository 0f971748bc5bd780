"""Which jobs to stop for another: the first of those that may be stopped, as far as they are needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from unrack.errors import RefusedError
from unrack.kernels.arrays import Ints
from unrack.ledger.lease import LENDER, Lease
from unrack.policy.around import steps_of
from unrack.policy.contract import Policy, Start
from unrack.resources.places import PLACE
from unrack.resources.site.installed import QUANTITIES, WHERE
from unrack.resources.site.ranks import Ranks, joined
from unrack.view import Draft, View
from unrack.view.windows import kept_from


class Victim(NamedTuple):
    """A job that runs, or is about to start, and may be stopped for another."""

    job: int
    fresh: bool  # whether it is only about to start: then nothing is lost
    started_us: int
    cores: int
    keeps: bool  # whether its work is kept
    priority: int


KEYS: dict[str, Callable[[Victim, int], tuple[int, ...]]] = {
    "youngest": lambda one, now: (),
    "lowest": lambda one, now: (one.priority,),
    "fewest": lambda one, now: (-one.cores,),
    "cheapest": lambda one, now: (0 if one.keeps else one.cores * (now - one.started_us),),
}
"""Rule → by what the jobs are sorted that may be stopped; of equal ones the youngest is first, then the highest
number."""


def in_turn(victims: Sequence[Victim], rule: str, now: int) -> list[int]:
    """The jobs in the order in which they are stopped; those that are only about to start go first."""
    key = KEYS[rule]
    turn = sorted(victims, key=lambda one: (not one.fresh, *key(one, now), -one.started_us, -one.job))
    return [one.job for one in turn]


def least(
    without: Callable[[Sequence[int]], Draft], held: Callable[[int], Lease], victims: Sequence[int],
    find: Callable[[Draft], Lease | None],
) -> tuple[Lease, list[int]] | None:  # fmt: skip
    """The lease of a job, and the victims without which there is none: as few of the first of them as possible.

    O(log victims) drafts on which the policy is asked, and two for each victim that is in the lease's way. ``without``:
    what the ledger would be like if some of them were stopped; ``held``: what one of them holds; ``find``: the lease of
    the job on a draft; ``None``: it has no place. Returns ``None``: not if all are stopped. No victims: it has one.
    """
    found = find(without(victims))
    if found is None:
        return None
    few, many = -1, len(victims)  # with so many it has no place, and has one
    while many - few > 1:
        middle = (few + many) // 2
        lease = find(without(victims[:middle]))
        if lease is None:
            few = middle
        else:
            found, many = lease, middle
    needed = [job for job in victims[:many] if touches(found, held(job))]
    for job in needed[::-1]:
        fewer = [other for other in needed if other != job]
        lease = found if fits(without(fewer), found) else find(without(fewer))  # or it has another place
        if lease is not None:
            found, needed = lease, fewer
    return found, needed


def fits(draft: Draft, lease: Lease) -> bool:
    """Whether a waiting job can start as its lease says; then it has."""
    if kept_from(draft.view, lease.job, claims=lease.claims) is not None:
        return False
    try:
        draft.start(lease)
    except RefusedError:
        return False
    return True


def touches(lease: Lease, other: Lease) -> bool:
    """Whether two leases have a node, a lender, a device or a place of a resource in common."""
    pairs = [
        (held_nodes(lease), held_nodes(other)),
        ({device for share in lease.shares for device in share.devices},
         {device for share in other.shares for device in share.devices}),
        (set(lease.claims[:, PLACE].tolist()), set(other.claims[:, PLACE].tolist())),
    ]  # fmt: skip
    return any(not one.isdisjoint(two) for one, two in pairs)


def held_nodes(lease: Lease) -> set[int]:
    """The nodes of a lease and of those that lend to it."""
    return {*lease.nodes.tolist(), *lease.borrowed[:, LENDER].tolist()}


def leases_by(policy: Policy[Any], draft: Draft, jobs: Sequence[int], wanted: int = -1) -> dict[int, Lease]:
    """Which jobs a policy starts, and where, if none waits but these; it is asked until it has started ``wanted``."""
    draft.only(jobs)
    found = dict[int, Lease]()
    for decisions, _ in steps_of(policy, draft.view, policy.begin(draft.view), draft.now, draft):
        found |= {decision.lease.job: decision.lease for decision in decisions if isinstance(decision, Start)}
        if wanted in found:
            break
    return found


def classes_of(view: View, ranks: Ranks, jobs: Ints) -> Ints:
    """int64[k]: the classes of jobs."""
    found = _own_classes(view, ranks, jobs)
    if ranks.joint:
        found = np.array(
            [ranks.joint.get(job, own) for job, own in zip(jobs.tolist(), found.tolist(), strict=True)], np.int64
        )
    return found


def _own_classes(view: View, ranks: Ranks, jobs: Ints) -> Ints:
    claimed = view.columns.claimed
    assert claimed is not None
    row = claimed.places.quantities.index(("site", QUANTITIES[WHERE]))
    found: Ints = ranks.of[claimed.asked_by(jobs)[row]]
    return found


def with_components(view: View, ranks: Ranks) -> Ranks:
    """With the classes of the heterogeneous jobs that are known."""
    components = view.components.of
    if not components:
        return ranks
    rows = np.array([row for own in components.values() for row in own], np.int64)
    own = dict(zip(rows.tolist(), _own_classes(view, ranks, rows).tolist(), strict=True))
    return joined(ranks, {job: [own[row] for row in some] for job, some in components.items()})
