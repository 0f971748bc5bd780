"""Why jobs started in another order than in a simulation: found by telling the simulation more, one class at a time.

Each class of facts of the journal is added to the simulated world in turn. What changed the order of two jobs is the
class from which on they start in the real order, whatever is added behind it. That something happened at all is no
cause: a node that was out of service explains a pair only if the pair is right once the simulation has that node out of
service. Two jobs are not explained if no class gives their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.live.driver.history.past import Past
from unrack.live.driver.history.stay import Became, Stay
from unrack.live.driver.history.world import Fact, play
from unrack.live.driver.state.epoch import STARTED

UNEXPLAINED = "not explained"


def causes_of(past: Past, base: frozenset[Fact], jobs: Sequence[Stay], first: Ints, second: Ints) -> list[str]:
    """The cause of every pair, in words of :class:`Fact`, or ``"not explained"``.

    Parameters
    ----------
    past
        What happened.
    base
        The facts that the simulation had in which the pairs were in another order.
    jobs
        Those compared.
    first, second : int64[pairs]
        Places in ``jobs``: which really started first, and which after it.

    Raises
    ------
    UnrackError
        A simulation fails.
    """
    if not len(first):
        return []
    facts = [fact for fact in Fact if fact not in base and there_is(past, fact)]
    right_since = np.full(len(first), -1)
    added = set(base)
    for step, fact in enumerate(facts):
        added.add(fact)
        starts = play(past, added).starts_us(jobs)
        right = (starts[first] >= 0) & (starts[first] <= starts[second])
        right_since = np.where(right, np.where(right_since < 0, step, right_since), -1)
    return [UNEXPLAINED if step < 0 else str(facts[step]) for step in right_since.tolist()]


def there_is(past: Past, fact: Fact) -> bool:
    """Whether the journal tells anything of a class: if not, adding it changes nothing."""
    told = past.told
    if fact == Fact.FOREIGN:
        return any(stay.adopted and not stay.rest for stay in told.stays)
    if fact == Fact.LEFT:
        return any(not stay.adopted and not stay.ran for stay in told.stays)
    if fact == Fact.FAILED:
        undone = Became.FAILED, Became.AGAIN
        return any(one.became in undone for stay in told.stays for one in stay.attempts)
    if fact == Fact.AWAY:
        return any(one.gap_us and one.why == STARTED for one in told.begun)
    amounts = {Fact.NODES: len(told.nodes), Fact.ENDS: len(told.ends), Fact.ANEW: len(told.begun) - 1}
    return amounts.get(fact, 1) > 0
