"""Orders: in which order waiting jobs are considered. One plain function each; ties by (submission, id).

``order(view, queue, now) -> jobs``: int64[waiting] in, the same jobs out. O(waiting log waiting).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from unrack.kernels.arrays import Floats, Ints
from unrack.plugins.code import is_own
from unrack.policy.own.answers import checked_key, checked_order
from unrack.policy.own.fault import takes
from unrack.policy.priority.standing import Standing, multifactor
from unrack.units import NEVER_US
from unrack.view import View
from unrack.vocabulary import Need
from unrack.workload.job import CORES, ESTIMATE, TASKS
from unrack.workload.seen_job import SeenJob

Order = Callable[[View, Ints, int], Ints]
Key = float | tuple[float, ...]
"""What a formula returns for a job: the least goes first."""


class OrderNotes(Protocol):
    """What an order with memory remembers; it is made of a view, also of one of a run that goes on."""

    def order(self, view: View, queue: Ints, now: int) -> Ints:
        """As of an order."""

    def changes_us(self, now: int) -> int:
        """When time alone may change the order next, µs."""


Noted = dict[str, OrderNotes]
"""What a policy's memory keeps of its orders, by name; made when they are first asked."""


class NamedOrder(NamedTuple):
    """An order, its line in lists, and whether the passing of time alone can change it."""

    order: Order
    summary: str
    ages: bool = False
    begin: Callable[[View], OrderNotes] | None = None  # of an order with memory, which looks at runs


def by_key(queue: Ints, key: Ints | Floats) -> Ints:
    """The queue by ascending key; equal keys stay in the queue's order."""
    return queue[key.argsort(kind="stable")]


@dataclass(frozen=True)
class ByFormula:
    """The queue by a key for each job, the least first; jobs with equal keys stay in the queue's order.

    A PolicyError if the formula does not take one job.
    """

    # ``formula(job) -> key``: given a :class:`unrack.workload.seen_job.SeenJob`; a number, or a tuple of numbers in
    # which later ones break the ties of earlier ones. Called for every waiting job in every round, some 10 µs each:
    # for long queues an order over columns (:func:`by_key`) is much faster.
    formula: Callable[[SeenJob], Key]

    def __post_init__(self) -> None:
        takes(self.formula, ("job",), "by_formula")

    def __call__(self, view: View, queue: Ints, now: int) -> Ints:
        """The queue in order.

        A FaultyPolicyError if the formula returns something that is no key, or keys that cannot be compared.
        """
        keys: list[Any] = []
        for job in queue.tolist():
            like = keys[0] if keys else None
            keys.append(checked_key(self.formula, self.formula(view.job(job)), job, view, now, like))
        return queue[sorted(range(len(keys)), key=keys.__getitem__)]


def by_formula(formula: Callable[[SeenJob], Key]) -> ByFormula:
    """An order by a formula over one job, the least first: ``by_formula(lambda job: job.estimate_us / job.cores)``.

    A tuple sorts by its first number, then by its second: ``by_formula(lambda job: (-job.priority, job.cores))``.
    """
    return ByFormula(formula)


def fcfs(view: View, queue: Ints, now: int) -> Ints:
    """First come, first served."""
    return queue


def shortest(view: View, queue: Ints, now: int) -> Ints:
    """Shortest expected run time first."""
    return by_key(queue, view.asks[ESTIMATE][queue])


def longest(view: View, queue: Ints, now: int) -> Ints:
    """Longest expected run time first."""
    return by_key(queue, -view.asks[ESTIMATE][queue])


def _cores(view: View, queue: Ints) -> Ints:
    cores: Ints = view.asks[TASKS][queue] * view.asks[CORES][queue]
    for place in np.flatnonzero(np.isin(queue, list(view.components.of))).tolist():
        cores[place] = view.cores_asked(queue[place])
    return cores


def smallest(view: View, queue: Ints, now: int) -> Ints:
    """Fewest cores first."""
    return by_key(queue, _cores(view, queue))


def largest(view: View, queue: Ints, now: int) -> Ints:
    """Most cores first."""
    return by_key(queue, -_cores(view, queue))


def smallest_area(view: View, queue: Ints, now: int) -> Ints:
    """Least cores times expected run time first."""
    return by_key(queue, _cores(view, queue).astype(np.float64) * view.asks[ESTIMATE][queue])


def priority(view: View, queue: Ints, now: int) -> Ints:
    """Highest priority first, then first come."""
    return by_key(queue, -view.priority[queue])


def edf(view: View, queue: Ints, now: int) -> Ints:
    """Earliest deadline first; jobs without a deadline last. Deadlines are soft: a late job keeps its place."""
    deadline = view.deadline_us[queue]
    return by_key(queue, np.where(deadline < 0, NEVER_US, deadline))


def priority_edf(view: View, queue: Ints, now: int) -> Ints:
    """Highest priority first, and among equals the earliest deadline."""
    by_deadline = edf(view, queue, now)
    return by_key(by_deadline, -view.priority[by_deadline])


def wfp3(view: View, queue: Ints, now: int) -> Ints:
    """Largest (wait / expected run time)^3 x cores first (Tang et al. 2009): favours old, short, large jobs."""
    wait = (now - view.submit_us[queue]).astype(np.float64)
    return by_key(queue, -((wait / np.maximum(view.asks[ESTIMATE][queue], 1)) ** 3) * _cores(view, queue))


def urgency(view: View, queue: Ints, now: int) -> Ints:
    """By the latest moment to start at the best speed that there is and be on time; late jobs last."""
    deadline, estimate = view.deadline_us[queue], view.asks[ESTIMATE][queue]
    best, devices = np.ones(len(queue)), view.columns.devices
    if devices is not None and devices.columns.speeds.size:
        model = devices.columns.model[:, queue]
        top = devices.columns.speeds.max(axis=(1, 2))
        best = np.where(model >= 0, top[model], np.inf).min(axis=0, initial=np.inf)
        best = np.where(np.isfinite(best) & (best > 0), best, 1.0)
    latest = np.where(deadline < 0, NEVER_US, deadline - np.ceil(estimate / best).astype(np.int64))
    return by_key(queue, np.where(latest < now, NEVER_US + 1, latest))


def slo_key(view: View, jobs: Ints | int) -> Ints:
    """-(floor // ceiling) of the SLOs of servers; no ceiling counts as 0, one of 0 is first."""
    if view.slo is None:
        return np.zeros_like(jobs)
    floor, ceiling = view.slo.floor_mb[jobs], view.slo.ceiling_mb[jobs]
    return np.where(ceiling == 0, -NEVER_US, -(floor // np.maximum(ceiling, 1)))


def slo_ratio(view: View, queue: Ints, now: int) -> Ints:
    """Servers by floor // ceiling of their SLOs, the largest first."""
    return by_key(queue, slo_key(view, queue))


def in_order(order: str | Order, view: View, now: int, noted: Noted) -> Ints:
    """The queue in the order in which it is considered now: int64[waiting].

    ``order``: a name in ``ORDERS``, or a function; ``noted``: of the policy's memory; written. A FaultyPolicyError if a
    function of a user's returns something else than the jobs of the queue.
    """
    if isinstance(order, str):
        named = ORDERS[order]
        if named.begin is None:
            return named.order(view, view.queue, now)
        if order not in noted:
            noted[order] = named.begin(view)
        return noted[order].order(view, view.queue, now)
    queue = view.queue
    jobs = order(view, queue, now)
    return checked_order(order, jobs, queue, view, now) if is_own(order) else jobs


def is_fixed(order: str | Order) -> bool:
    """Whether time alone cannot change the order; of a function that is not known, so False."""
    return isinstance(order, str) and not ORDERS[order].ages


def changes_us(noted: Noted, now: int) -> int | None:
    """When time alone may next change an order with memory, µs; ``None``: there is none."""
    return min((notes.changes_us(now) for notes in noted.values()), default=None)


def learns_of(*orders: str | Order | None) -> bool:
    """Whether one of these orders looks at runs, as far as is known."""
    return any(isinstance(order, str) and ORDERS[order].begin is not None for order in orders)


def reads_of(*orders: str | Order | None) -> frozenset[Need]:
    """What these orders look at, of ``Need.PRIORITIES`` and ``ACCOUNTS``; a function may look at anything."""
    looks = any(order is not None and (callable(order) or order.startswith("priority")) for order in orders)
    accounts = any(callable(order) or order == MULTIFACTOR for order in orders)
    return frozenset({Need.PRIORITIES} if looks else ()) | frozenset({Need.ACCOUNTS} if accounts else ())


MULTIFACTOR = "multifactor"
ORDERS: dict[str, NamedOrder] = {
    "fcfs": NamedOrder(fcfs, "first come, first served"),
    "sjf": NamedOrder(shortest, "shortest expected run time first"),
    "ljf": NamedOrder(longest, "longest expected run time first"),
    "smallest": NamedOrder(smallest, "fewest cores first"),
    "largest": NamedOrder(largest, "most cores first"),
    "smallest-area": NamedOrder(smallest_area, "least cores x expected run time first"),
    "priority": NamedOrder(priority, "highest priority first"),
    "edf": NamedOrder(edf, "earliest deadline first"),
    "priority-edf": NamedOrder(priority_edf, "highest priority first, then earliest deadline"),
    "urgency": NamedOrder(
        urgency, "jobs that can be on time first, the most urgent leading; late jobs last", ages=True
    ),
    "slo-ratio": NamedOrder(slo_ratio, "servers on tiers by floor // ceiling of their SLOs, the largest first"),
    "wfp3": NamedOrder(wfp3, "largest (wait / expected run time)^3 x cores first", ages=True),
    MULTIFACTOR: NamedOrder(
        multifactor,
        "highest tier of its partition first, then Slurm's priority (site.priority)",
        ages=True,
        begin=Standing,
    ),
}

BY_CORES = frozenset({"smallest", "largest", "smallest-area", "wfp3"})
"""Orders by the size of a job, which is how many cores it asks for, whatever else it does."""
