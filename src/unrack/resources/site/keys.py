"""The keys of the table ``site`` of a cluster file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from unrack.resources.checked import Names, Recurring, Strict, Time, parted
from unrack.resources.site.features import features_in
from unrack.units import DAY_US, memory_mb, quantity

MEASURES = ("jobs", "cores", "nodes", "tasks", "memory")
"""What a limit may be of, beside ``KIND.QUANTITY`` of devices and resources."""
WEIGHED = ("cores", "memory_gb", "nodes")
"""Of what a job asks there may be weights, beside ``KIND.QUANTITY``."""
Mode = Literal["requeue", "cancel", "checkpoint", "suspend", "off"]
"""What becomes of a job that is preempted: it waits and begins again, is gone, waits and goes on, stands still with all
but its cores; or it never is."""


def _whole(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a whole number of 0 or more")
    return value


def _amounts(value: object) -> object:
    if not isinstance(value, dict) or not value:
        raise ValueError("a table of amounts, such as { cores = 64, jobs = 4 }")
    found = {}
    for name, amount in value.items():
        if name not in MEASURES and "." not in name:
            raise ValueError(f"amounts of {', '.join(MEASURES)} or KIND.QUANTITY")
        if name == "memory" and isinstance(amount, int | float | str) and not isinstance(amount, bool):
            amount = memory_mb(amount, rounding="down")
        if not isinstance(amount, int) or isinstance(amount, bool) or not 0 <= amount < 2**53:
            raise ValueError(f"a whole number of 0 or more of {name}")
        found[name] = amount
    return found


def _weights(value: object) -> object:
    for name in value if isinstance(value, dict) else ():
        if name not in WEIGHED and "." not in name:
            raise ValueError(f"weights of {', '.join(WEIGHED)} or KIND.QUANTITY")
    return value


def _kept(value: object) -> object:
    if not isinstance(value, dict):
        raise ValueError("a table of amounts, such as { matlab = 4 }")
    found = {n: quantity(n, most, "up") if type(most) in (int, float, str) else False for n, most in value.items()}
    if odd := [name for name, amount in found.items() if isinstance(amount, bool) or amount < 1]:
        raise ValueError(f"1 or more of {odd[0]}")
    return found


def _numbers(value: object) -> object:
    return [_whole(one) for one in (value if isinstance(value, list) else [value])]


def circle_of(following: Mapping[str, Sequence[str]]) -> str:
    """A circle of names, of which each follows the one before; ``""``: there is none."""
    try:
        TopologicalSorter(following).prepare()
    except CycleError as found:
        return " → ".join(reversed(found.args[1]))
    return ""


Whole = Annotated[int, BeforeValidator(_whole), Field(ge=0, lt=2**53)]
Weights = Annotated[dict[str, Annotated[float, Field(ge=0, lt=2**32)]], BeforeValidator(_weights)]
Weight = Annotated[int, BeforeValidator(_whole), Field(ge=0, lt=2**32)]
Amounts = Annotated[dict[str, int], BeforeValidator(_amounts)]
Usage = Annotated[float, Field(ge=0, lt=1e18)]
Shares = Annotated[int, BeforeValidator(_whole), Field(ge=0, lt=2**31)] | Literal["parent"]


class LimitFile(Strict):
    """One limit: no more than so much is held at once by those that it is of."""

    # ``"all"``: by all of them together; ``"user"``, ``"account"``: by each; ``"job"``: by one job
    per: Literal["all", "user", "account", "job"] = "all"
    # of ``jobs``, ``cores``, ``nodes``, ``tasks``, ``memory``, or ``KIND.QUANTITY`` such as ``gpus.count``
    amounts: Amounts


class Bounded(Strict):
    """What bounds jobs, whatever it is called."""

    name: str = Field(min_length=1)
    max_time: Time | None = None  # the longest that a job may ask to run: ``"24 h"``, or seconds; default: any time
    limits: list[LimitFile] = Field(default_factory=list)


class PartitionFile(Bounded):
    """A ``[[site.partitions]]`` table: nodes that jobs may ask for by one name. Partitions may overlap."""

    # node numbers, racks, domains or names such as ``["0-15", "rack3", "n[17-20]"]``; default: every node with cores
    nodes: Names | None = None
    default: bool = False  # whether jobs that name no partition run here
    tier: Whole = 1  # jobs of a higher tier go first, before anything else counts, under ``order=multifactor``
    priority: Whole = 1  # the partition's factor of the priority of jobs
    # who may run here: names of accounts and qualities of service; default: all; ``denied_accounts``: who may not
    accounts: Names | None = None
    denied_accounts: Names = Field(default_factory=list)
    users: Names | None = None
    qos: Names | None = None
    min_nodes: Whole = 0  # the fewest and the most tasks of a job, each on a node of its own
    max_nodes: Whole | None = None
    # whether a job has its nodes to itself: Slurm's ``OverSubscribe=EXCLUSIVE``
    whole_nodes: bool = False
    open: bool = True  # False: nothing is started here
    over_time: Time | None = None  # as of the site
    hours: list[Recurring] = Field(default_factory=list)  # when jobs run here, from start to end; default: ever
    preempt_mode: Mode | None = None  # what becomes of its jobs when they are preempted; default: as the site says

    @model_validator(mode="after")
    def _some_fit(self) -> PartitionFile:
        if self.max_nodes is not None and self.max_nodes < self.min_nodes:
            raise ValueError(f"max_nodes of partition {self.name} not below min_nodes")
        return self


class QosFile(Bounded):
    """A ``[[site.qos]]`` table: a quality of service, which jobs ask for by name."""

    priority: Whole = 0  # its factor of the priority of jobs
    usage_factor: float = Field(default=1.0, ge=0, lt=2**32)  # how often what its jobs use counts as used
    preempts: Names = Field(default_factory=list)  # qualities of service, the jobs of which its own may preempt
    preempt_mode: Mode | None = None  # what becomes of its jobs when they are preempted; default: as the site says


class PreemptFile(Strict):
    """The table ``site.preempt``: jobs that run are stopped for others."""

    # ``"qos"``: as ``preempts`` of the qualities of service says; ``"partition"``: for jobs of a higher tier;
    # ``"quota"``: as ``reclaim`` and ``within`` of the queues say
    by: Literal["qos", "partition", "quota"]
    mode: Mode = "requeue"
    # which job is stopped first: the one that started last, has the lowest priority, holds most cores, loses least work
    victims: Literal["youngest", "lowest", "fewest", "cheapest"] = "youngest"
    exempt_time: Time = 0  # a job that has run for less is not preempted: ``"10 min"``, or seconds

    @model_validator(mode="after")
    def _gives_back(self) -> PreemptFile:
        if self.by == "quota" and self.mode == "suspend":
            raise ValueError("mode requeue, cancel or checkpoint by quota: a suspended job gives no quota back")
        return self


class UserFile(Strict):
    """A user of an account."""

    name: str = Field(min_length=1)
    shares: Shares = 1  # of what its account has, beside the others; ``"parent"``: none of its own
    priority: Whole | None = None  # the factor of its association of the priority of jobs; default: its account's
    limits: list[LimitFile] = Field(default_factory=list)
    usage: Usage = 0.0  # what it used before the run, as ``billing`` counts it, times seconds


def _users(value: object) -> object:
    value = parted(value)
    return [{"name": one} if isinstance(one, str) else one for one in value] if isinstance(value, list) else value


class AccountFile(Bounded):
    """A ``[[site.accounts]]`` table: an account, under another or under the root."""

    parent: str = ""
    shares: Shares = 1  # of what its parent has, beside its siblings; ``"parent"``: none of its own
    priority: Whole | None = None  # as of users; default: its parent's, of the first accounts 0
    usage: Usage = 0.0  # as of users, beside what these used
    users: Annotated[list[UserFile], BeforeValidator(_users)] = Field(default_factory=list)


class QuotaFile(Strict):
    """What a queue has of some nodes."""

    flavour: str = ""  # a partition, in which its jobs run then; default: whichever nodes they run on
    partitions: Names | None = None  # in which it holds, where one flavour is in several; default: the flavour
    # of ``jobs``, ``cores``, ``tasks``, ``memory`` or ``KIND.QUANTITY``; without borrowing
    nominal: Amounts
    # how much more it may use of what others of its cohort do not; default: all that these lend
    borrow: Amounts = Field(default_factory=dict)
    lend: Amounts = Field(default_factory=dict)  # how much of it others may use; default: all


class CohortFile(Strict):
    """A ``[[site.cohorts]]`` table: a cohort in another one, or with quotas of its own, which it lends."""

    name: str = Field(min_length=1)
    cohort: str = ""  # those of it lend to each other, and so do the cohorts in it; default: none
    quotas: list[QuotaFile] = Field(default_factory=list)

    @model_validator(mode="after")
    def _amounts_fit(self) -> CohortFile:
        flavours, what = [quota.flavour for quota in self.quotas], type(self).__name__.removesuffix("File").lower()
        if len(set(flavours)) < len(flavours):
            raise ValueError(f"each flavour once in {what} {self.name}")
        for quota in self.quotas:
            if "nodes" in quota.nominal:
                few = "quotas of cores, memory, jobs, tasks or KIND.QUANTITY"
                raise ValueError(f"{few} in {what} {self.name}, not nodes")
            for key, amounts in (("borrow", quota.borrow), ("lend", quota.lend)):
                if amounts and not self.cohort:
                    raise ValueError(f"{key} only in a cohort, which {what} {self.name} has none of")
                if odd := [name for name in amounts if name not in quota.nominal]:
                    raise ValueError(f"{key} of what is nominal in {what} {self.name}, not {odd[0]}")
        return self


class QueueFile(CohortFile):
    """A ``[[site.queues]]`` table: jobs that ask for it by name share quotas, and may borrow within a cohort."""

    also: Names = Field(default_factory=list)  # other names of it, such as ``"team-a/batch"``
    default: bool = False  # whether jobs that name no queue are its own
    open: bool = True  # False: jobs wait until it is open
    # whether none of its jobs starts before one that came earlier; those that wait for jobs or times hold up none
    in_order: bool = False
    # under ``by = "quota"``: which jobs it may preempt to have its nominal quota, of queues that borrow, and whether
    # its own of lower priority (of their quality of service)
    reclaim: Literal["never", "lower-priority", "any"] = "never"
    within: Literal["never", "lower-priority"] = "never"

    @model_validator(mode="after")
    def _lends_its_own(self) -> QueueFile:
        for quota in self.quotas:
            for name, most in quota.lend.items():
                if most > (own := quota.nominal[name]):
                    raise ValueError(f"to lend at most the {own} {name} of nominal, not {most}")
        return self


class ReservationFile(Recurring):
    """A ``[[site.reservations]]`` table: nodes, licences, devices that are kept for some jobs, or for none, for a time.

    Jobs ask for it by name (column ``reservation``). They start when it has begun, and only if they end in it as they
    ask. Other jobs do not use what it keeps then, as far as their requests say when they end.
    """

    name: str = Field(min_length=1)
    nodes: Annotated[Names, Field(min_length=1)] | None = None  # as of partitions; default: none, beside licences
    # how many cores are kept of each of its nodes, or of each node of every entry of ``nodes``; default: whole nodes
    cores: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1), BeforeValidator(_numbers)] | None = None
    # counters of the whole cluster (``[[counted]]``) → how much is kept of each
    licences: Annotated[dict[str, int], BeforeValidator(_kept)] = Field(default_factory=dict)
    # kinds of whole devices, in a pool that all nodes reach → how many are kept
    devices: Annotated[dict[str, int], BeforeValidator(_kept)] = Field(default_factory=dict)
    # its jobs may start before it begins, run beyond its end, and use other nodes
    flex: bool = False
    # Who may use it, and who may not; default: all who ask for it. ``maintenance``: none.
    users: Names | None = None
    denied_users: Names = Field(default_factory=list)
    accounts: Names | None = None
    denied_accounts: Names = Field(default_factory=list)
    maintenance: bool = False

    @model_validator(mode="after")
    def _of_something(self) -> ReservationFile:
        if self.nodes is None and not self.licences and not self.devices:
            raise ValueError(f"nodes, licences or devices of reservation {self.name}")
        if self.cores is not None and (self.nodes is None or len(self.cores) not in (1, len(self.nodes))):
            got = f"{len(self.cores)} beside {len(self.nodes or ())} entries of nodes in reservation {self.name}"
            raise ValueError(f"one number of cores beside nodes, for each of them, or as many as entries, not {got}")
        if self.maintenance and self.flex:
            raise ValueError(f"maintenance or flex of reservation {self.name}, not both: no jobs run in it")
        if self.maintenance and (self.users or self.denied_users or self.accounts or self.denied_accounts):
            raise ValueError(f"maintenance or users and accounts of reservation {self.name}: no jobs run in it")
        return self


class PriorityFile(Strict):
    """The table ``site.priority``: which job is first under ``order=multifactor``.

    Those of Slurm; :mod:`unrack.policy.priority.multifactor` has the formula.
    """

    age: Weight = 0
    fair_share: Weight = 0
    job_size: Weight = 0
    partition: Weight = 0
    qos: Weight = 0
    association: Weight = 0
    tres: Weights = Field(default_factory=dict)  # of WEIGHED alone
    max_age: Annotated[Time, Field(gt=0)] = 7 * DAY_US  # at which age the factor is 1
    favor_small: bool = False
    small_relative_to_time: bool = False
    half_life: Time = 7 * DAY_US  # after which usage counts half; 0: nothing is forgotten
    reset: Time = 0  # at each multiple of it usage becomes 0; 0: never
    fair_share_by: Literal["tree", "classic"] = "tree"
    dampening: float = Field(default=1.0, gt=0, lt=2**32)  # of the classic factor
    calc_period: Annotated[Time, Field(gt=0)] = 300_000_000  # how often usage, ages and the order are looked at anew
    used_until: Time = 0  # as of when ``usage`` of accounts and users is
    billing: Weights = Field(default_factory=lambda: {"cores": 1.0})  # what a job uses, a second

    @model_validator(mode="after")
    def _known(self) -> PriorityFile:
        if odd := [name for name in self.tres if name not in WEIGHED]:
            raise ValueError(f"tres of {', '.join(WEIGHED)}, not {odd[0]!r}")
        return self


class SiteFile(Strict):
    """The table ``site``."""

    partitions: list[PartitionFile] = Field(default_factory=list)
    # feature → the nodes that have it, as of partitions
    features: dict[str, Names] = Field(default_factory=dict)
    qos: list[QosFile] = Field(default_factory=list)
    accounts: list[AccountFile] = Field(default_factory=list)
    limits: list[LimitFile] = Field(default_factory=list)  # of all jobs
    # Slurm's rule: what the quality of service of a job bounds is in place of what accounts do, and what the nearest
    # allows to each user, or to one job, of what those above do; default: all of them hold
    nearest_limits: bool = False
    queues: list[QueueFile] = Field(default_factory=list)
    cohorts: list[CohortFile] = Field(default_factory=list)  # of queues; others have no quotas, and are in none
    reservations: list[ReservationFile] = Field(default_factory=list)
    preempt: PreemptFile | None = None  # default: no job is preempted
    # when jobs are stopped that overrun their limits: so long after these; default: never
    over_time: Time | None = None
    priority: PriorityFile | None = None  # weights of the order ``multifactor``
    # What the jobs of a run ask, by number; made when a run begins, for its record.
    bound: dict[str, Any] | None = None

    def root(self, cohort: str) -> str:
        """The highest cohort that one is in."""
        above = {one.name: one.cohort for one in self.cohorts}
        while above.get(cohort):
            cohort = above[cohort]
        return cohort

    @model_validator(mode="after")
    def _names(self) -> SiteFile:
        for what in ("partitions", "qos", "accounts", "queues", "cohorts", "reservations"):
            names = [name for one in getattr(self, what) for name in (one.name, *getattr(one, "also", ()))]
            for place, name in enumerate(names):
                if name in names[:place]:
                    raise ValueError(f"a name of its own for each of the {what}, not two {name!r}")
                if name != name.strip() or ("," in name and what == "partitions"):
                    raise ValueError(f"names of {what} that a job can say, without commas and blanks, not {name!r}")
        if odd := [name for name in self.features if features_in(name) != [name]]:
            raise ValueError(f"features that a job can ask for, not {odd[0]!r}")
        for account in self.accounts:
            users = [user.name for user in account.users]
            if twice := [name for place, name in enumerate(users) if name in users[:place]]:
                raise ValueError(f"each user of account {account.name} once, not two {twice[0]!r}")
        if sum(one.default for one in self.partitions) > 1:
            raise ValueError("at most one partition that is the default")
        if sum(one.default for one in self.queues) > 1:
            raise ValueError("at most one queue that is the default")
        flavours = {"", *(one.name for one in self.partitions)}
        for queue in self.queues:
            where = [name for quota in queue.quotas for name in quota.partitions or (quota.flavour,)]
            if odd := [name for name in where if name not in flavours]:
                raise ValueError(f"flavours of queue {queue.name} that are partitions, not {odd[0]!r}")
        if circle := circle_of({one.name: [one.cohort] for one in self.cohorts}):
            raise ValueError(f"cohorts that are not in themselves, not {circle}")
        known = {one.name: [one.parent] if one.parent else [] for one in self.accounts}
        if odd := [parent for above in known.values() for parent in above if parent not in known]:
            raise ValueError(f"accounts with parents that there are, not {odd[0]!r}")
        if circle := circle_of(known):
            raise ValueError(f"accounts that are not their own parents, not {circle}")
        for partition in self.partitions:
            for key, there in (("accounts", set(known)), ("qos", {one.name for one in self.qos})):
                for name in getattr(partition, key) or ():
                    if name not in there:
                        raise ValueError(f"{key} of partition {partition.name} that there are, not {name!r}")
        return self

    @model_validator(mode="after")
    def _suspends_nobody(self) -> SiteFile:
        modes = [*(one.preempt_mode for one in self.partitions), *(one.preempt_mode for one in self.qos)]
        modes += [] if self.preempt is None else [self.preempt.mode]
        if "suspend" in modes and (kept := [one.name for one in self.reservations if one.cores is not None]):
            raise ValueError(f"whole nodes in reservations where jobs are suspended, not cores, as in {kept[0]}")
        return self

    @model_validator(mode="after")
    def _preempts(self) -> SiteFile:
        """Preemption has no circles: else two jobs could stop each other forever."""
        preempts = {one.name: one.preempts for one in self.qos}
        for name, others in preempts.items():
            if others and (self.preempt is None or self.preempt.by != "qos"):
                raise ValueError(f"preempts only beside a table preempt with by = 'qos', not of {name!r}")
            for other in others:
                if other not in preempts:
                    raise ValueError(f"preempts of {name} that there are, not {other!r}")
        if circle := circle_of(preempts):
            raise ValueError(f"qualities of service that do not preempt each other in a circle, not {circle}")
        return self
