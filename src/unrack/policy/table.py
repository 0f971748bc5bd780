"""The built-in policies by name, and how a name with parameters is read."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from unrack.errors import PolicyError
from unrack.plugins.table import Table
from unrack.policy.complete import BY_THE_WORLD
from unrack.policy.contract import Estimates, Policy
from unrack.policy.discipline.conservative import COMPRESS, Conservative
from unrack.policy.discipline.list_scheduler import BACKFILL, UNLIMITED, ListScheduler
from unrack.policy.discipline.slurm_like import MAINS, SlurmLike
from unrack.policy.file import policy_of
from unrack.policy.flow.costs.table import COSTS
from unrack.policy.flow.scheduler import Flow
from unrack.policy.gpus.rule import SEEN, GpuRule
from unrack.policy.gpus.rules import NEAREST, RULES, WORDS
from unrack.policy.lending.rules import RULES as LENT_RULES
from unrack.policy.lending.scheduler import SCHEDULERS, Lending
from unrack.policy.orders import ORDERS
from unrack.policy.parameters import (
    Parameter,
    cost_weight,
    count,
    duration,
    flow_solver,
    interval,
    lending_group,
    load,
    node_share,
    one_of,
    yes,
)
from unrack.policy.placement.contract import MemoryRule
from unrack.policy.placement.lent_memory import LentMemory
from unrack.policy.placement.local_memory import FITS, LocalMemory
from unrack.policy.placement.mixed import PLACES
from unrack.policy.placement.tiered_memory import RULES as TIER_RULES
from unrack.policy.placement.tiered_memory import TieredMemory
from unrack.policy.pools.lookahead import Lookahead
from unrack.policy.pools.pool_policy import READINGS, TEXT, Pooled
from unrack.policy.prediction.easy_plus_plus import CORRECTIONS, ROUNDS, TIMES, EasyPlusPlus
from unrack.policy.provisioning.parameters import PREFIX, PROVISIONING, provisioned
from unrack.policy.tiers.order import ORDERS as TIER_ORDERS
from unrack.policy.tiers.scheduler import FULL, TierPolicy
from unrack.solver.flow.solve import ANY_NETWORK


class Entry(NamedTuple):
    """A built-in policy: one line of words, its parameters, and how to make it."""

    summary: str
    make: Callable[..., Any]
    parameters: Mapping[str, Parameter]
    fixed: Mapping[str, Any]


ORDER = Parameter("order", one_of(ORDERS), "fcfs", "in which order jobs are considered: " + ", ".join(ORDERS))
FOR_POOLS = tuple(name for name in PLACES if name not in FITS)
PLACE = Parameter(
    "place",
    one_of(PLACES),
    "first-fit",
    f"which nodes are filled first: {', '.join(FITS)}; where jobs ask for devices also {', '.join(FOR_POOLS)}",
)
OWN = "own"
MEMORY_RULES = (OWN, *LENT_RULES, *TIER_RULES)
MEMORY = Parameter(
    "memory",
    one_of(MEMORY_RULES),
    OWN,
    f"where a task's memory is: {OWN} (the node that it runs on); as the memory policies: {', '.join(LENT_RULES)}; "
    f"on clusters with tiers: {', '.join(TIER_RULES)}",
)
NODES = Parameter("nodes", one_of(("shared", "whole")), "shared", "shared: jobs may share a node; whole: they may not")
ESTIMATES = Parameter(
    "estimates",
    lambda value: Estimates(str(one_of(tuple(Estimates))(value))),
    "requested",
    "run times the policy is told: requested or exact",
)
BACKFILLS = Parameter("backfill", one_of(BACKFILL), "none", "who may pass the head: none, any (that fits) or easy")
BACKFILL_ORDER = Parameter(
    "backfill_order", one_of(ORDERS), "as order", "in which order those behind the head are tried: a name as of order"
)
DEPTH = Parameter("depth", count, "unlimited", "how many jobs behind the head are considered")


_LENDING = {
    "threshold": Parameter(
        "threshold", node_share, "0.5 of local and local-spread, else 1",
        "share of a node's memory that must be free for it to compute; 1: a node that lends does not compute",
    ),
    "lenders_compute": Parameter(
        "lenders_compute", yes, "no", "yes: nodes that lend may compute, whatever they have left (threshold 0)"
    ),
    "group": Parameter("group", lending_group, "all", "who lends whom: all, rack, or so many nodes in order of id"),
    "near": Parameter("near", yes, "no", "yes: the nearest lenders first"),
}  # fmt: skip


_GPUS = {
    "gpus": Parameter("gpus", one_of((NEAREST, *RULES)), NEAREST, f"which machines and GPUs: {WORDS}"),
    "postpone": Parameter("postpone", yes, "no", "yes: a job waits for GPUs of the utility that it asks for"),
    "patience": Parameter("patience_us", duration, "1 h", "for how long after its submission it may be postponed"),
    "demands": Parameter("demands", str, SEEN, "what fgd takes for usual: seen (so far), or a CSV file"),
}
COMMON = {"place": PLACE, "nodes": NODES, "memory": MEMORY, "estimates": ESTIMATES, **_GPUS, **PROVISIONING}
_TERMS = {
    key: parameter._replace(words=f"of lent memory: {parameter.words}")
    for key, parameter in _LENDING.items()
    if key != "lenders_compute"
}


def memory_rule(where: str, rule: str, terms: Mapping[str, Any]) -> MemoryRule:
    """A rule for memory by its name, with its terms.

    Raises
    ------
    PolicyError
        Terms of lending are given, and nobody lends.
    """
    if rule in LENT_RULES:
        return LentMemory(rule, **terms)
    if terms:
        raise PolicyError(f"{where}, {next(iter(terms))}", f"memory={rule}", f"memory: one of {', '.join(LENT_RULES)}")
    return TieredMemory(rule) if rule in TIER_RULES else LocalMemory()


def gpu_rule(where: str, gpus: str = NEAREST, **values: Any) -> GpuRule | None:
    """A rule for GPUs by its name; ``None``: the nearest.

    Raises
    ------
    PolicyError
        Something is said of the rule, and there is none.
    """
    if gpus == NEAREST:
        if values:
            raise PolicyError(f"{where}, {next(iter(values))}", "no rule for GPUs", f"gpus: one of {', '.join(RULES)}")
        return None
    return GpuRule(gpus, **values)


def _any(kind: Callable[..., Any]) -> Callable[..., Any]:
    """A scheduler that takes a rule for memory as an object, made from names."""

    def make(label: str, memory: str = OWN, **values: Any) -> Any:
        terms: dict[str, Any] = {key: values.pop(key) for key in _TERMS if key in values}
        rule = memory_rule(f"policy {label}", memory, terms)
        given = {key: values.pop(key) for key in ("gpus", "postpone", "patience_us", "demands") if key in values}
        if (gpus := gpu_rule(f"policy {label}", **given)) is not None:
            values["gpus"] = gpus
        if isinstance(rule, LentMemory):
            rule = replace(rule, place=values.get("place", "first-fit"))
            if kind is ListScheduler and (compiled := _on_whole_nodes(rule, label, values)) is not None:
                return compiled
        return kind(memory=rule, label=label, **values)

    return make


def _on_whole_nodes(rule: LentMemory, label: str, values: dict[str, Any]) -> Lending | None:
    """The compiled scheduler that decides as a list or EASY on whole nodes that lend does; ``None``: there is none."""
    own = {"backfill": "none", "backfill_order": None, "nodes": "shared", **values}
    scheduler = {"none": "fcfs", "easy": "easy"}.get(own.pop("backfill"))
    if own.pop("nodes") != "whole" or own.pop("backfill_order") is not None or rule.place != "first-fit":
        return None
    depth = own.pop("depth", UNLIMITED)
    if scheduler is None or (scheduler == "fcfs" and depth != UNLIMITED):
        return None
    terms: dict[str, Any] = {"rule": rule.rule, "threshold": rule.threshold, "group": rule.group, "near": rule.near}
    return Lending(**terms, scheduler=scheduler, depth=None if depth == UNLIMITED else depth, label=label, **own)


def _list(summary: str, first: str, rule: str, /, **parameters: Parameter) -> Entry:
    every = {**parameters, **COMMON, **_TERMS, **parameters}  # in the order of the first, with the words of the last
    return Entry(summary, _any(ListScheduler), every, {"order": first, "backfill": rule})


def _topo_aware(summary: str, rule: str, **fixed: Any) -> Entry:
    """A list whose rule for GPUs is by utility unless it says another."""
    own = {"order": ORDER, "wait": _FREE["wait"], "depth": DEPTH, "gpus": _GPUS["gpus"]._replace(default="drb")}
    entry = _list(summary, "fcfs", rule, **own)
    return entry._replace(fixed={**entry.fixed, "gpus": "drb", **fixed})


EDF = ORDER._replace(default="edf")


def _beside(
    memory: str, alone: Callable[..., Any], place: str, order: str, label: str, values: dict[str, Any]
) -> Any:  # fmt: skip
    """A pool policy where jobs have the memory of their own nodes, else a list that places devices as it does."""
    terms: dict[str, Any] = {key: values.pop(key) for key in _TERMS if key in values}
    if isinstance(memory_rule(f"policy {label}", memory, terms), LocalMemory):
        return alone(label=label, **values)
    other = sorted(set(values) - {"order", "estimates"})
    if other or place not in PLACES:
        where = f"policy {label}, memory"
        got = f"{memory} beside {other[0]}" if other else memory
        raise PolicyError(where, got, OWN if place not in PLACES else "one of the two")
    more = {"order": order, "place": place, "backfill": "any", **terms, **values}
    return _any(ListScheduler)(label, memory, **more)


def _pooled(rule: str, summary: str, /, **parameters: Parameter) -> Entry:
    def make(label: str, memory: str = OWN, **values: Any) -> Any:
        return _beside(memory, partial(Pooled, rule=rule), rule, "edf", label, values)

    return Entry(summary, make, {"order": EDF, "memory": MEMORY, **_TERMS, "estimates": ESTIMATES, **parameters}, {})


def _lookahead(label: str, memory: str = OWN, **values: Any) -> Any:
    return _beside(memory, Lookahead, "lookahead", "urgency", label, values)


_READING = Parameter("reading", one_of(READINGS), TEXT, "the algorithms as written (text) or as their authors' program")
_FREE = {
    "backfill": BACKFILLS,
    "backfill_order": BACKFILL_ORDER,
    "depth": DEPTH,
    "wait": Parameter("wait", yes, "yes", "no: a job that has no place when it comes is turned away"),
}


FORWARD = Parameter(
    "compress", one_of(COMPRESS), "early",
    "when reservations of conservative move forward: early (when a job ends early) or ends (at every end)",
)  # fmt: skip
SCHEDULING = {
    "scheduler": Parameter("scheduler", one_of(SCHEDULERS), "slurm", "who may pass whom: " + ", ".join(SCHEDULERS)),
    "depth": Parameter("depth", count, "100 of slurm, else unlimited", "how many jobs backfill looks at"),
    "queue": Parameter("queue", count, "100", "of slurm: how many jobs either loop looks at"),
    "interval": Parameter("interval_us", duration, "30 s", "of slurm: time between two backfills"),
    "main": Parameter("main", one_of(MAINS), "events", "of slurm: when its main loop runs: events or interval"),
    "compress": FORWARD,
    "order": ORDER,
    "place": PLACE,
    "estimates": ESTIMATES,
    **PROVISIONING,
}


def _baseline(label: str, scheduler: str = "slurm", **values: Any) -> Any:
    """The plain scheduler on whole nodes."""
    depth = values.pop("depth", None)
    own = {key: values.pop(key) for key in ("queue", "interval_us", "main") if key in values}
    forward = {key: values.pop(key) for key in ("compress",) if key in values}
    if scheduler == "slurm":
        return SlurmLike(nodes="whole", label=label, depth=depth or 100, **own, **values)
    if scheduler == "conservative":
        return Conservative(nodes="whole", label=label, **forward, **values)
    backfill = "easy" if scheduler == "easy" else "none"
    return ListScheduler(nodes="whole", label=label, backfill=backfill, depth=depth or UNLIMITED, **values)


def _lending(rule: str) -> Callable[..., Any]:
    def make(label: str, lenders_compute: bool | None = None, threshold: float | None = None, **values: Any) -> Lending:
        if lenders_compute and threshold is None:
            threshold = 0.0
        if lenders_compute is False and threshold is None:
            threshold = 1.0
        elif lenders_compute is False and threshold is not None and threshold < 1:
            where = f"policy {rule}, threshold"
            raise PolicyError(where, f"{threshold:g} beside lenders_compute=no", "1, or lenders_compute=yes")
        return Lending(rule, label=label, threshold=threshold, **values)

    return make


_OWN: dict[str, Entry] = {
    "fcfs": _list("first come, first served; nobody passes the head of the queue", "fcfs", "none", **_FREE),
    "sjf": _list("shortest expected run time first", "sjf", "none", **_FREE),
    "ljf": _list("longest expected run time first", "ljf", "none", **_FREE),
    "smallest": _list("fewest cores first", "smallest", "none", **_FREE),
    "largest": _list("most cores first", "largest", "none", **_FREE),
    "smallest-area": _list("least cores x expected run time first", "smallest-area", "none", **_FREE),
    "priority": _list("highest priority first, then first come", "priority", "none", **_FREE),
    "wfp3": _list("largest (wait / expected run time)^3 x cores first", "wfp3", "none", **_FREE),
    "list": _list("any order with any rule for passing the head", "fcfs", "none", order=ORDER, **_FREE),
    "easy": _list(
        "EASY backfill: a job may pass if it does not delay the head's reservation",
        "fcfs",
        "easy",
        order=ORDER,
        backfill_order=BACKFILL_ORDER,
        depth=DEPTH,
    ),
    "easy++": Entry(
        "EASY backfill on run times predicted from the user's last two jobs that ended, shortest first (Tsafrir 2007)",
        EasyPlusPlus,
        {
            "correction": Parameter(
                "correction",
                one_of(CORRECTIONS),
                "steps",
                "what becomes of a prediction that is outlived: steps (to the first prediction and 1 min, then 5 min … "
                "100 h), added-steps (each on top of the one before), request or double",
            ),
            "predict_at": Parameter(
                "predict_at",
                one_of(TIMES),
                "submission",
                "submission: a run time is predicted once; pass: a waiting job's prediction follows its user's history",
            ),
            "rounds": Parameter(
                "rounds",
                one_of(ROUNDS),
                "events",
                "events: the next event sees a corrected prediction; corrections: it gives the queue a pass of its own",
            ),
            "backfill_order": BACKFILL_ORDER._replace(default="sjf"),
            "place": Parameter("place", one_of(FITS), "first-fit", f"which nodes are filled first: {', '.join(FITS)}"),
            "nodes": NODES,
        },
        {},
    ),
    "topo-aware": _topo_aware("GPUs by utility, first come, first served (Amaral 2019, TOPO-AWARE)", "none"),
    "topo-aware-p": _topo_aware(
        "GPUs by utility; a job waits for the utility that it asks for, and others pass (Amaral 2019, TOPO-AWARE-P)",
        "any",
        postpone=True,
    ),
    "conservative": Entry(
        "conservative backfill: every job holds a reservation that is never delayed",
        _any(Conservative),
        {"order": ORDER, "compress": FORWARD, **COMMON, **_TERMS},
        {},
    ),
    "slurm": Entry(
        "Slurm-like: a main loop at every event, and backfill of part of the queue at intervals",
        _any(SlurmLike),
        {
            "interval": Parameter("interval_us", duration, "30 s", "time between two backfills"),
            "depth": Parameter("depth", count, "100", "how many jobs a backfill plans for"),
            "queue": Parameter("queue", count, "100", "how many jobs either loop looks at"),
            "main": Parameter("main", one_of(MAINS), "events", "when the main loop runs: events or interval"),
            "order": ORDER,
            **COMMON,
            **_TERMS,
        },
        {},
    ),
    "flow": Entry(
        "all that wait are placed together, at least cost, by min-cost flow (Amaral 2019, DRMaestro)",
        _any(Flow),
        {
            "cost": Parameter("cost", one_of(COSTS), "utility", f"what a placement costs: {', '.join(COSTS)}"),
            "interval": Parameter("interval_us", interval, "1 s", "time between rounds; 0: a round at every event"),
            "weight": Parameter("weight", cost_weight, "1", "what each round of waiting adds to the cost of waiting"),
            "passes": Parameter("passes", count, "20", "how many behind it may start before a job; then it goes first"),
            "remote": Parameter("remote", yes, "yes", "no: a device is used only from the node in which it sits"),
            "migrate": Parameter(
                "migrate_us", interval, "0", "time between rounds in which running tasks may move; 0: never"
            ),
            "move": Parameter("move", cost_weight, "1", "what it costs to move a task, or a device of one"),
            "solver": Parameter("solver", flow_solver, "auto", f"of the flow: {', '.join(ANY_NETWORK)}"),
            "order": ORDER,
            **COMMON,
            "place": Parameter(
                "place", one_of(PLACES), "first-fit", "which shares and parts of devices: " + ", ".join(PLACES)
            ),
            **_TERMS,
        },
        {},
    ),
    "first-fit": _pooled("first-fit", "pools: the first node and device that fit"),
    "best-fit": _pooled("best-fit", "pools: the fullest node that fits, a device in use before a free one"),
    "worst-fit": _pooled("worst-fit", "pools: the emptiest node that fits, a device in use before a free one"),
    "random-fit": _pooled("random-fit", "pools: any node and device that fit, at random"),
    "max-composition": _pooled(
        "max-composition",
        "pools: share compositions while deadlines hold; compose as many devices as help (Alg. 1)",
        reading=_READING,
    ),
    "min-fragmentation": _pooled(
        "min-fragmentation",
        "pools: share where least is left unused; else the emptiest node (Alg. 2)",
        reading=_READING,
    ),
    "disaggregation-aware": _pooled(
        "disaggregation-aware",
        "pools: max-composition or min-fragmentation, by the loads of bandwidth and capacity (eq. 4)",
        low=Parameter("low", load, "0.5", "max-composition where both loads are at most this"),
        high=Parameter("high", load, "0.7", "or bandwidth at least this and capacity at most this"),
        reading=_READING,
    ),
    "lookahead": Entry(
        "pools: who can still be on time first, late jobs last, each where it costs least (unrack's own)",
        _lookahead,
        {
            "memory": MEMORY,
            **_TERMS,
            "estimates": ESTIMATES,
            "weight": Parameter("weight", load, "0.5", "what all devices are worth beside all cores"),
        },
        {},
    ),
    "resource-aware": _pooled(
        "resource-aware", "pools: split GPUs; keep cores beside what cannot be split (Call 2022, Alg. 3 and 4)"
    ),
    "baseline": Entry(
        "memory: no lending; a job waits for nodes with all the memory that it asks (whole nodes)",
        _baseline,
        SCHEDULING,
        {},
    ),
    **{
        name: Entry(f"memory: {words}", _lending(name), {**SCHEDULING, **_LENDING}, {})
        for name, words in {
            "strawman": "cores on any idle nodes, then memory from any",
            "naive": "cores on any idle nodes, memory packed on them, the rest from any",
            "local": "nodes with a threshold of free memory; the rest from lenders one after the other",
            "local-spread": "the same, with a lender of its own for each node of the job",
            "disaggregated": "local while that is possible; else the nodes with most memory, and lenders for the rest",
            "contention-aware": "the same, from the lenders whose lending slows everyone down least (unrack's own)",
        }.items()
    },
}


TIERED = {
    "place": PLACE,
    "full": Parameter("full", one_of(FULL), "wait", "a server without a place: wait, or reject it for good"),
    "clusters": Parameter("clusters", count, "any", "at most so many clusters are in use at a time"),
    "order": Parameter(
        "order", one_of(TIER_ORDERS), "request", "who waits is tried in order of arrival (request) or by slo-ratio"
    ),
}
_OWN |= {
    name: Entry(f"tiers: {words}", TierPolicy, TIERED, {"rule": rule})
    for name, rule, words in (
        ("slo", "slo", "the fullest cluster that can meet a server's SLOs, at the lowest price (Farshin 2021)"),
        ("slo-first-fit", "first-fit", "the first cluster with enough cores and memory; SLOs do not count"),
        ("slo-best-fit", "best-fit", "the cluster with least free that can meet the SLOs, at the lowest price"),
    )
}


def _of_others(name: str, found: Any) -> Entry:
    """The policy of a plug-in: an object with decide, or a class or function that makes one when called bare."""
    where = f"policy {name}"
    summary = (inspect.getdoc(found) or "a plug-in's").split("\n")[0].rstrip(".")
    return Entry(summary, lambda label: policy_of(found, where), {}, {})


POLICIES: Table[Entry] = Table("policies", _OWN, _of_others)
"""Name → what makes the policy."""


def make_policy(name: str, parameters: Mapping[str, object], label: str | None = None) -> Policy[Any]:
    """A built-in policy.

    Parameters
    ----------
    name
        A name in ``POLICIES``.
    parameters
        As the user writes them.
    label
        What reports call it; default: its name with the parameters that were given.

    Raises
    ------
    PolicyError
        There is no such policy or parameter, or a value is wrong.
    """
    if name not in POLICIES:
        raise PolicyError("policy", repr(name), f"one of {', '.join(POLICIES)}")
    entry = POLICIES[name]
    values: dict[str, object] = dict(entry.fixed)
    for key, value in parameters.items():
        if key in ("models", "world"):
            raise PolicyError(f"policy {name}, {key}", repr(value), BY_THE_WORLD)
        if key not in entry.parameters:
            raise PolicyError(f"policy {name}", f"the parameter {key!r}", f"one of {', '.join(entry.parameters)}")
        try:
            values[entry.parameters[key].field] = entry.parameters[key].read(value)
        except ValueError as error:
            raise PolicyError(f"policy {name}, {key}", repr(value), str(error)) from None
    written = ", ".join(f"{key}={value}" for key, value in parameters.items())
    label = label or (f"{name}({written})" if written else name)
    of_memory = {field: values.pop(field) for field in list(values) if field.startswith(PREFIX)}
    return provisioned(entry.make(**values, label=label), of_memory, f"policy {name}", label)


def split_policy(text: str) -> tuple[str, dict[str, object]]:
    """Name and parameters of a policy written as ``name`` or ``name(key=value, …)``.

    Raises
    ------
    PolicyError
        It is written otherwise.
    """
    match = re.fullmatch(r"\s*([\w+-]+)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
    if match is None:
        raise PolicyError("policy", repr(text), "a name such as 'easy' or 'easy(order=sjf, nodes=whole)'")
    parameters: dict[str, object] = {}
    for part in match[2].split(",") if (match[2] or "").strip() else []:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value or key in parameters:
            raise PolicyError(f"policy {match[1]}", repr(part.strip()), "key=value, each key once")
        parameters[key] = value.strip("'\"")
    return match[1], parameters


def parse_policy(text: str, label: str | None = None) -> Policy[Any]:
    """A built-in policy from a name, or a name with parameters.

    Raises
    ------
    PolicyError
        As :func:`make_policy` and :func:`split_policy`.

    Examples
    --------
    >>> parse_policy("easy(order=sjf)").name
    'easy(order=sjf)'
    """
    name, parameters = split_policy(text)
    return make_policy(name, parameters, label)


def canonical(policy: Policy[Any]) -> str:
    """A text that two built-in policies share only if they decide alike: the class and every field but the label.

    Of a policy of one's own it names what can be named; what it does is in its file.
    """
    return _canonical(policy)


def _canonical(value: Any) -> str:
    if isinstance(value, str | int | float | None):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        parts = [
            f"{field.name}={_canonical(getattr(value, field.name))}"
            for field in fields(value)
            if field.name != "label" and getattr(value, field.name) != UNLIMITED
        ]
        return f"{type(value).__name__}({', '.join(parts)})"
    return str(getattr(value, "__qualname__", type(value).__qualname__))
