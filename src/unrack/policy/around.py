"""What policies may be beside a plain decider: a policy around another, and one that tells of its rounds.

What a policy around another does not change itself, the policy inside does. A policy that decides in rounds may tell
numbers of every round, and the whole of the last one. A round places many jobs together by networks: classes of equal
sub-tasks on one side, groups of equal hosts on the other, and arcs with costs between them. Nothing here says how a
policy comes by its networks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self, TypeVar, cast, runtime_checkable

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.jobs import Promises
from unrack.plugins.code import is_own
from unrack.policy.contract import Ability, Decision, Estimates, Extend, InSteps, Policy, Start, Traits, Used
from unrack.policy.discipline.skyline.columns import met
from unrack.policy.orders import ORDERS, in_order, learns_of, reads_of
from unrack.reasons import Reason
from unrack.view import Draft, View
from unrack.vocabulary import Need
from unrack.workload.job import JobTable

Memory = TypeVar("Memory", contravariant=True)
UNIT = 10_000
"""Costs in networks, and in :class:`RoundCount`, are whole numbers of 1/UNIT."""


class RoundCount(NamedTuple):
    """One round in numbers."""

    at_us: int  # when it was
    # jobs, tried, placed: how many jobs waited when it began, took part in a network, and started
    jobs: int
    tried: int
    placed: int
    networks: int  # how many networks were solved
    cost_placed: int  # what the places of the jobs that started cost, in 1/UNIT
    # What it cost in the last network of each of the others that took part, in 1/UNIT: the sub-tasks left waiting,
    # and the places that came to nothing as the job did not get all. 0 where waiting had no price.
    cost_waiting: int


class SubtaskClass(NamedTuple):
    """Sub-tasks that are alike, one node of a network."""

    name: str  # of the node: ``c0``, ``c1``, …
    subtasks: int  # how many
    what: str  # the application, or else what each asks
    asks: str  # what each asks
    waited: int  # in how many rounds they were left waiting before
    home: str  # the host at which an earlier network put their task, which they prefer if it has room; empty: none
    jobs: tuple[str, ...]  # the jobs of these tasks


class HostGroup(NamedTuple):
    """Hosts that are alike, one node of a network."""

    name: str  # of the node: ``h0``, ``h1``, …
    what: str  # which hosts
    hosts: int  # how many
    room: int  # how many sub-tasks they could take in all


class Arc(NamedTuple):
    """An arc between nodes of a network, by name.

    The other nodes are the aggregators of the sorts of sub-tasks (``x0``, ``x1``, …), waiting (``u``) and the sink
    (``t``). A preferred arc goes from a class right to a host. Costs are of each sub-task.
    """

    tail: str
    head: str
    cost: float
    flow: int
    capacity: int
    preferred: bool = False


class NetworkStory(NamedTuple):
    """One network and its optimum."""

    resource: str  # what it places: ``nodes``, or a kind of devices
    attempt: int  # the attempt that it is of: networks of an attempt are about the same jobs
    forced: bool  # whether to wait cost more than any place
    classes: tuple[SubtaskClass, ...]
    sorts: tuple[str, ...]  # what each aggregator stands for
    groups: tuple[HostGroup, ...]
    arcs: tuple[Arc, ...]
    hosts: int  # how many hosts there are, before equal ones were put together
    cost: float  # of all that flows, as far as waiting has a price
    # placed, waiting: how many sub-tasks have a host, and how many are left waiting
    placed: int
    waiting: int


class JobStory(NamedTuple):
    """What became of a job."""

    job: str
    asks: str  # what it asks
    networks: tuple[int, ...]  # the networks in which it took part, by number, from 1
    # of its places, or of what it was given and left waiting for in the last of its attempts; ``None``: it took part
    # in no network, or waiting had no price there
    cost: float | None
    place: str  # where it started; empty: it did not
    reason: str  # why it waits; empty: it started


class PromiseStory(NamedTuple):
    """A job that is to start next: when at the latest (µs; ``None``: not known), and which jobs that keeps waiting."""

    job: str
    start_us: int | None
    held_back: tuple[str, ...]


class RoundStory(NamedTuple):
    """One round: its number (from 1), its numbers, its networks, and what became of every job that waited."""

    number: int
    numbers: RoundCount
    networks: tuple[NetworkStory, ...]
    jobs: tuple[JobStory, ...]
    promise: PromiseStory | None


@runtime_checkable
class Rounds(Protocol[Memory]):
    """What a policy has beside :class:`unrack.policy.contract.Policy` if it can tell its rounds."""

    def rounds(self, memory: Memory) -> Ints:
        """int64[rounds, 7]: all rounds so far; the columns are those of :class:`RoundCount`."""

    def round_story(self, view: View, memory: Memory) -> RoundStory | None:
        """The last round, told before anything else happens; ``None``: there was none."""


PLACED = {"lends": Need.LOANS, "tiers": Need.TIERS, "devices": Need.DEVICES, "claims": Need.COUNTED}
"""Members of a policy → what it places if they are true."""


def traits_of(found: object) -> Traits:
    """The traits of a policy, with the optional methods that a class of a user's adds; or what its members say."""
    own = getattr(found, "traits", None)
    if not isinstance(own, Traits):
        return said_by_members(found)
    added = {ability for kind in type(found).__mro__ if is_own(kind) for ability in Ability if ability in vars(kind)}
    return replace(own, does=own.does | added) if added else own


def said_by_members(found: object) -> Traits:
    """What the members of a policy say; one that names no order is taken to look at priorities."""
    order = getattr(found, "order", None)
    reads = frozenset({Need.PRIORITIES}) if order is None else reads_of(order, getattr(found, "backfill_order", None))
    return Traits(
        needs=frozenset(getattr(found, "needs", ())),
        places=frozenset(need for member, need in PLACED.items() if getattr(found, member, False)),
        reads=reads | ({Need.RACKS} if getattr(found, "near", False) is True else frozenset()),
        estimates=Estimates(getattr(found, "estimates", Estimates.REQUESTED)),
        whole_nodes=getattr(found, "nodes", "shared") == "whole",
        stepwise=bool(getattr(found, "stepwise", False)),
        learns=bool(getattr(found, "learns", False)) or learns_of(order, getattr(found, "backfill_order", None)),
        does=frozenset(ability for ability in Ability if callable(getattr(found, ability, None))),
    )


def seeded(policy: Policy[Any], seed: int) -> Policy[Any]:
    """A copy of a policy that draws from a seed; the policy itself if it draws nothing."""
    if Ability.SEEDED not in traits_of(policy).does:
        return policy
    copy: Policy[Any] = policy.seeded(seed)  # type: ignore[attr-defined]  # it declares that it has the method
    return copy


@runtime_checkable
class Around(Protocol):
    """A policy around another, such as one that changes memory as jobs use more and less of it."""

    def inside(self, memory: Any) -> tuple[object, Any] | None:
        """The other policy and its memory; ``None``: what it decides is not what is done."""


def told_rounds(policy: object, memory: Any) -> tuple[Rounds[Any], Any] | None:
    """The policy, or the one inside it, that can tell its rounds, and its memory; ``None``: there is none."""
    if isinstance(policy, Rounds):
        return policy, memory
    found = policy.inside(memory) if isinstance(policy, Around) else None
    return None if found is None else told_rounds(*found)


def asked_again(policy: object, memory: Any) -> bool:
    """Whether a policy with this memory wants to be asked again in a round once what it decided is done."""
    return traits_of(policy).stepwise and (not isinstance(memory, InSteps) or memory.in_steps)


def steps_of(
    policy: Policy[Any], view: View, memory: Any, now: int, draft: Draft | None = None
) -> Iterator[tuple[list[Decision], Any]]:
    """What a policy decides in a round, and its memory: of one that goes in steps each, as if all starts were done.

    ``draft``: of the view, on which they are done; default: one of its own.
    """
    while True:
        decisions, memory = policy.decide(view, memory, now)
        yield decisions, memory
        starts = [decision for decision in decisions if isinstance(decision, Start)]
        if not starts or not asked_again(policy, memory):
            return
        draft = draft or Draft(view, now)
        for start in starts:
            draft.start(start.lease)
        view = draft.view


def decided(policy: Policy[Any], view: View, memory: Any, now: int) -> tuple[list[Decision], Any]:
    """All that a policy decides in a round, up to a step that does more than to start jobs, and its memory then."""
    found = list[Decision]()
    for decisions, last in steps_of(policy, view, memory, now):
        memory = last
        found += decisions
        if not all(isinstance(decision, Start) for decision in decisions):
            break
    return found, memory


@dataclass(frozen=True)
class AroundAnother:
    """Its memory has that of the policy inside as ``inner``."""

    inner: Policy[Any]  # the policy that starts jobs

    @property
    def name(self) -> str:
        """That of the policy inside."""
        return self.inner.name

    @cached_property
    def traits(self) -> Traits:
        """Those of the policy inside; it is asked again once something was changed."""
        return replace(traits_of(self.inner), stepwise=True)

    def stepwise_inside(self, memory: Any) -> bool:
        """Whether the policy inside wants to be asked again in a round."""
        return asked_again(self.inner, memory.inner)

    def seeded(self, seed: int) -> Self:
        """A copy in which the policy inside draws from a seed."""
        return replace(self, inner=seeded(self.inner, seed))

    def promised(self, view: View, memory: Any) -> Promises:
        """As the policy inside says."""
        return cast("Promises", cast(Any, self.inner).promised(view, memory.inner))

    def expected_end_us(self, view: View, memory: Any, job: int, now: int) -> int:
        """As the policy inside says."""
        return int(cast(Any, self.inner).expected_end_us(view, memory.inner, job, now))

    def reserves_mb(self, view: View, memory: Any, job: int, asked_mb: int) -> int:
        """As the policy inside says."""
        return int(cast(Any, self.inner).reserves_mb(view, memory.inner, job, asked_mb))

    def adjust(self, view: View, memory: Any, used: Used, now: int) -> tuple[list[Decision], Any]:
        """As the policy inside says."""
        decisions, memory.inner = cast(Any, self.inner).adjust(view, memory.inner, used, now)
        return decisions, memory

    def extends(self, view: View, memory: Any, job: int, now: int) -> Extend | None:
        """As the policy inside says."""
        return cast("Extend | None", cast(Any, self.inner).extends(view, memory.inner, job, now))

    def possible(self, cluster: Cluster, jobs: JobTable) -> Bools:
        """As the policy inside says."""
        return cast("Bools", cast(Any, self.inner).possible(cluster, jobs))

    def holds(self, view: View, job: int) -> bool:
        """As the policy inside says."""
        return bool(cast(Any, self.inner).holds(view, job))

    def terms(self, cluster: Cluster) -> Any:
        """As the policy inside says."""
        return cast(Any, self.inner).terms(cluster)

    def why(self, view: View, memory: Any, job: int, now: int) -> Reason:
        """As the policy inside says."""
        return self.inner.why(view, memory.inner, job, now)

    def next_round(self, view: View, memory: Any, now: int) -> int | None:
        """When the policy inside wants it."""
        return self.inner.next_round(view, memory.inner, now)

    def anew(self, memory: Any, view: View) -> Any:
        """What it remembers once jobs were stopped, started or changed without it."""
        memory.inner, memory.version = anew(self.inner, memory.inner, view), -1
        return memory


def without(promises: Promises, jobs: tuple[int, ...]) -> Promises:
    """The promises, but for those to some jobs."""
    return promises._replace(made={job: one for job, one in promises.by_job().items() if job not in jobs})


def innermost(policy: Any) -> Any:
    """The policy inside all that are around it."""
    while isinstance(policy, AroundAnother):
        policy = policy.inner
    return policy


def queue_of(policy: Any, memory: Any, view: View, now: int) -> Ints:
    """int64[waiting]: the waiting jobs in the order of the policy, or as they came."""
    while isinstance(policy, AroundAnother):
        policy, memory = policy.inner, memory.inner
    order, noted = getattr(policy, "order", None), getattr(memory, "noted", None)
    known = callable(order) or order in ORDERS
    return in_order(order, view, now, {} if noted is None else noted) if order is not None and known else view.queue


def heads_of(view: View, queue: Ints, passed: Callable[[int], bool] = lambda _: False) -> list[int]:
    """Jobs of a queue that hold up others: each the first on its nodes; ``passed``: those that hold up no job."""
    of, found = view.columns.set_of, list[int]()
    meets = met(view.columns.open_to)
    for job in queue.tolist():
        if not any(meets[of[job], of[head]] for head in found) and not passed(job):
            found.append(job)
            if len(meets) == 1:
                break
    return found


def anew(policy: Any, memory: Any, view: View) -> Any:
    """What a policy remembers once jobs were stopped, started or changed without it.

    Policies in rounds read the queue in each.
    """
    if isinstance(policy, AroundAnother):
        return policy.anew(memory, view)
    return memory if isinstance(policy, Rounds) else policy.begin(view)
