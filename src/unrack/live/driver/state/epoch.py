"""A core and what it is told, from a record of how it began: the part of the driver that a journal can play again.

An epoch lasts as long as the nodes, the policy and the driver stay the same. Whatever it is told is recorded, its
decisions with it; the same records give the same decisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import FaultyPolicyError, InputError, RefusedError
from unrack.events import ROUND, Event, Opened, Submitted
from unrack.live.driver.portable import Names
from unrack.live.driver.used import counted
from unrack.live.records import decision_record, event_of_record, event_record
from unrack.policy.around import seeded
from unrack.policy.contract import Decision, Policy
from unrack.policy.file import complete
from unrack.resources.site.installed import Site
from unrack.sim.world import PolicyAtWork
from unrack.slowdown.model import Model, pace_of
from unrack.study.input.inputs import Document, make_policy_spec
from unrack.units import NEVER_US

Spec = str | Mapping[str, Any]
"""A policy, as an entry of ``policies`` of a study."""
APART = "spread"
"""The resource that keeps tasks of a group apart; a job's own group makes that one task a node."""
STARTED = "the driver started"
"""Why the first epoch of a process begins."""
FALLBACK = "fcfs"
"""The policy that goes on where another failed and the site wants the driver to go on."""


class Beginning(NamedTuple):
    """What an epoch begins with.

    Attributes
    ----------
    cluster
        The keys of a cluster file.
    nodes
        Name of each node that runs jobs, in the order of the cluster.
    policy, seed
        As in a study; files by absolute paths.
    models
        How fast jobs run on devices, ready for use: the journal needs no other file for them.
    used, until_us
        What accounts and users used before, as of :class:`unrack.live.driver.used.Used`, and until when.
    devices
        Names of the first pooled devices, which mean the same as long as there are such: see :class:`Names`.
    """

    cluster: dict[str, Any]
    nodes: tuple[str, ...]
    policy: Spec
    models: tuple[Model, ...] = ()
    seed: int = 0
    used: tuple[tuple[str, str, float], ...] = ()
    until_us: int = 0
    devices: tuple[str, ...] = ()

    @property
    def names(self) -> Names:
        """What nodes and devices are called."""
        return Names(Cluster.from_dict(self.cluster, "cluster"), self.nodes, self.devices)

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of a cluster file in which what was used before counts."""
        return counted(self.cluster, self.used, self.until_us)

    def record(self) -> dict[str, Any]:
        """As plain values."""
        found = {**self._asdict(), "nodes": list(self.nodes), "models": [model._asdict() for model in self.models]}
        return found if found.pop("devices") == () else {**found, "devices": list(self.devices)}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Beginning:
        """The beginning that :meth:`record` wrote."""
        models = tuple(model_of_record(model) for model in record["models"])
        used = tuple((account, user, amount) for account, user, amount in record.get("used", ()))
        nodes, until_us = tuple(record["nodes"]), record.get("until_us", 0)
        devices = tuple(record.get("devices", ()))
        return cls(record["cluster"], nodes, record["policy"], models, record["seed"], used, until_us, devices)


def model_of_record(record: Mapping[str, Any]) -> Model:
    """The model with the fields that a record holds, as JSON gives them back."""
    times = tuple(tuple(row) for row in record["times_s"])
    return Model(**{**record, "apps": tuple(record["apps"]), "governs": tuple(record["governs"]), "times_s": times})


class DriverRound(NamedTuple):
    """What a round brought: decisions made, when the policy wants to be asked again, what went wrong in it."""

    decisions: list[Decision]  # as they were made; none if that went wrong
    wanted_us: int | None = None  # when the policy wants to be asked again; ``None``: when something happens
    fault: str = ""  # ``""``: nothing went wrong


def policy_of(spec: Spec) -> Policy[Any]:
    """The policy that is meant.

    Raises
    ------
    PolicyError
        There is none, or a parameter is wrong.
    """
    return make_policy_spec(spec, Document("policy", None, {}), 0, ("policy",)).make()


class Epoch:
    """A core as it goes on from a beginning.

    Parameters
    ----------
    beginning
        What it begins with.

    Attributes
    ----------
    names
        What its nodes and devices are called.
    told
        Records of the events since :meth:`taken` was last called.
    ways_at_first
        In how many ways jobs asked for nodes when it began.
    renumbered_us
        When jobs were told anew last to keep the places of others, µs.
    fault
        What the policy did wrong where it was asked for something else than decisions, which the next round tells.
    """

    def __init__(self, beginning: Beginning) -> None:
        self.beginning, self.fault = beginning, ""
        cluster = Cluster.from_dict(beginning.keys, "cluster")
        policy, pace = (
            complete(policy_of(beginning.policy), "policy"),
            partial(pace_of, beginning.models, cluster.devices),
        )
        try:
            with PolicyAtWork(policy):
                self.core = Core(cluster, None, seeded(policy, beginning.seed), pace)
        except InputError:  # it does not go with the cluster
            raise
        except Exception as error:
            self.fault = _in_words(error)
            self.core = Core(cluster, None, policy_of(FALLBACK), pace)
        self.policy = self.core.policy
        self.names = Names(cluster, beginning.nodes, beginning.devices)
        self.told: list[list[Any]] = []
        self.ways_at_first = 0
        self.renumbered_us = -NEVER_US

    def tell(self, event: Event, now: int) -> list[Decision]:
        """Tell the core what has happened, and note it once the core has taken it.

        Raises
        ------
        RefusedError
            It contradicts what the core knows; nothing was noted.
        """
        decisions: list[Decision] = []
        try:
            with PolicyAtWork(self.policy):
                decisions = self.core.handle(event, now)
        except FaultyPolicyError as error:  # the core has taken the event before it asked
            self.fault = self.fault or _in_words(error)
        self.told.append(event_record(event))
        return decisions

    def attempt(self, event: Event, now: int) -> bool:
        """Tell it of something that it may refuse; what was refused is noted if it left a trace.

        A job that was refused keeps its number, which a replay must give out, too.
        """
        jobs = self.core.state.jobs
        try:
            self.tell(event, now)
        except RefusedError:
            if self.core.state.jobs > jobs:
                self.told.append(["refused", event_record(event)])
            return False
        return True

    def submit(self, event: Submitted, now: int) -> tuple[int, list[Decision]]:
        """Tell it of a job that has come; returns the job's number, and what became of it at once."""
        number = self.core.state.jobs
        return number, self.tell(event, now)

    def round(self, now: int) -> DriverRound:
        """Let the policy decide, and say when it wants to be asked again; what it does wrong is an answer, no error."""
        self.told.append(["round"])
        decisions: list[Decision] = []
        if self.fault:
            return DriverRound(decisions, fault=self.fault)
        try:
            with PolicyAtWork(self.policy):
                decisions = self.core.handle(ROUND, now)
                wanted = self.core.next_round(now)
            times = [at for at in (wanted, self._next_window(now)) if at is not None]
            return DriverRound(decisions, min(times, default=None))
        except Exception as error:
            return DriverRound(decisions, fault=_in_words(error))

    def windows_pass(self, since_us: int, now: int) -> None:
        """Tell it of reservations that have begun or are over since a time."""
        found = self._next_window(since_us)
        if found is not None and found <= now:
            self.tell(Opened(), now)

    def _next_window(self, since_us: int) -> int | None:
        """When, after a time, the next reservation begins or is over; ``None``: never."""
        windows = self.core.state.cluster.places.windows
        times = (at for window in windows for at in (window.start_us, window.end_us))
        return min((at for at in times if at > since_us), default=None)

    @property
    def ways(self) -> int:
        """In how many ways jobs have asked for nodes and were owned, most of which are gone after a while."""
        site = self.core.state.cluster.places.installed.get("site")
        return len(site.wheres) + len(site.whose) if isinstance(site, Site) else 0

    def begun(self) -> None:
        """All that there was when it began has been told: the policy makes its memory from that."""
        self.ways_at_first = self.ways
        try:
            with PolicyAtWork(self.policy):
                self.core.begin_anew()
        except Exception as error:
            self.fault = self.fault or _in_words(error)

    def why(self, job: int, now: int) -> str:
        """Why a job does not run, as the policy says it.

        Raises
        ------
        FaultyPolicyError
            The policy raised something, or says what is no reason.
        """
        with PolicyAtWork(self.policy):
            return str(self.core.why(job, now))

    def taken(self) -> list[list[Any]]:
        """The records of what it was told since this was last asked."""
        told, self.told = self.told, []
        return told


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:2000]


def replayed(epoch: Epoch, told: Sequence[Sequence[Any]], now: int) -> tuple[list[Any], str]:
    """Tell an epoch what another was told; returns records of what it decided, and what went wrong.

    That is in rounds, and of more time for running jobs.
    """
    decided: list[Any] = []
    fault = ""
    for record in told:
        if record[0] == "round":
            found = epoch.round(now)
            decided += [decision_record(decision) for decision in found.decisions]
            fault = found.fault
        elif record[0] == "refused":
            epoch.attempt(event_of_record(record[1]), now)
        else:
            made = epoch.tell(event_of_record(record), now)
            decided += map(decision_record, made if record[0] == "expired" else ())
    epoch.taken()
    return decided, fault
