"""The built-in policies by name, and how a name with parameters is read."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, NamedTuple, cast

from unrack.errors import PolicyError, check_choice
from unrack.plugins.table import Table
from unrack.policy.contract import Policy
from unrack.policy.discipline.list_scheduler import UNLIMITED, ListScheduler
from unrack.policy.discipline.reservations import MAINS, RESERVES, Conservative, SlurmLike
from unrack.policy.file import BY_THE_WORLD, policy_of
from unrack.policy.flow.costs import COSTS
from unrack.policy.flow.scheduler import Flow
from unrack.policy.limits import extended
from unrack.policy.parameters import Parameter, cost_weight, count, duration, flow_solver, interval, load, one_of, yes
from unrack.policy.placement.lent_memory import FITS, OF_DEVICES
from unrack.policy.pools.pool_policy import Lookahead, Pooled
from unrack.policy.prediction.easy_plus_plus import CORRECTIONS, ROUNDS, TIMES, EasyPlusPlus
from unrack.policy.preemption.preempting import Preempting
from unrack.policy.provisioning.dynamic import PREFIX, provisioned
from unrack.policy.schedulers import (
    BACKFILL_ORDER,
    COMMON,
    DEPTH,
    ESTIMATES,
    FORWARD,
    FREE,
    FULL,
    GPUS,
    LENDING,
    MEMORY,
    NODES,
    ORDER,
    PLACE,
    READING,
    SCHEDULING,
    TERMS,
    any_of,
    lending,
    on_whole_nodes,
    pooled,
    servers,
)
from unrack.policy.sizing.resizing import RULES as RESIZINGS
from unrack.policy.sizing.sizing import RULES as MOLDINGS
from unrack.policy.sizing.sizing import sized
from unrack.solver.min_cost_flow import SOLVERS


class PolicyEntry(NamedTuple):
    """What a policy's name stands for: a line of words, and what makes it of the parameters that a user gives.

    ``make`` is called with ``label``, the values of ``fixed``, and for each parameter given its field.
    """

    summary: str
    make: Callable[..., Any]
    parameters: Mapping[str, Parameter]
    fixed: Mapping[str, Any]


def _list(summary: str, first: str, rule: str, /, **parameters: Parameter) -> PolicyEntry:
    every = {**parameters, **COMMON, **TERMS, **parameters}  # in the order of the first, with the words of the last
    return PolicyEntry(summary, any_of(ListScheduler), every, {"order": first, "backfill": rule})


def _topo_aware(summary: str, rule: str, **fixed: Any) -> PolicyEntry:
    """A list with a rule for GPUs by utility unless it names another."""
    own = {"order": ORDER, "wait": FREE["wait"], "depth": DEPTH, "gpus": GPUS["gpus"]._replace(default="drb")}
    entry = _list(summary, "fcfs", rule, **own)
    return entry._replace(fixed={**entry.fixed, "gpus": "drb", **fixed})


def _pooled(rule: str, summary: str, /, **parameters: Parameter) -> PolicyEntry:
    keys = {"order": ORDER._replace(default="edf"), "memory": MEMORY, **TERMS, "estimates": ESTIMATES, **parameters}
    return PolicyEntry(summary, partial(pooled, partial(Pooled, rule=rule), rule, "edf"), keys, {})


_OWN: dict[str, PolicyEntry] = {
    "fcfs": _list("first come, first served; no job passes the head of the queue", "fcfs", "none", **FREE),
    "sjf": _list("shortest expected run time first", "sjf", "none", **FREE),
    "ljf": _list("longest expected run time first", "ljf", "none", **FREE),
    "smallest": _list("fewest cores first", "smallest", "none", **FREE),
    "largest": _list("most cores first", "largest", "none", **FREE),
    "smallest-area": _list("least cores x expected run time first", "smallest-area", "none", **FREE),
    "priority": _list("highest priority first, then first come", "priority", "none", **FREE),
    "wfp3": _list("largest (wait / expected run time)^3 x cores first", "wfp3", "none", **FREE),
    "list": _list("any order with any rule for passing the head", "fcfs", "none", order=ORDER, **FREE),
    "easy": _list(
        "EASY backfill: a job may pass if it does not delay the head's reservation",
        "fcfs",
        "easy",
        order=ORDER,
        backfill_order=BACKFILL_ORDER,
        depth=DEPTH,
    ),
    "easy++": PolicyEntry(
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
    "conservative": PolicyEntry(
        "conservative backfill: every job holds a reservation that is never delayed",
        any_of(Conservative),
        {"order": ORDER, "compress": FORWARD, **COMMON, **TERMS},
        {},
    ),
    "slurm": PolicyEntry(
        "Slurm-like: a main loop at every event, and backfill of part of the queue at intervals",
        any_of(SlurmLike),
        {
            "interval": Parameter("interval_us", duration, "30 s", "time between two backfills"),
            "depth": Parameter("depth", count, "100", "how many jobs a backfill plans for"),
            "queue": Parameter("queue", count, "100", "how many jobs either loop looks at"),
            "main": Parameter("main", one_of(MAINS), "events", "when the main loop runs: events or interval"),
            "reserve": Parameter(
                "reserve",
                one_of(RESERVES),
                "cores",
                "what a plan keeps for jobs that start later: cores; nodes whole, and nothing where a limit is full; "
                "slurm: so, by its search",
            ),
            "order": ORDER,
            **COMMON,
            **TERMS,
        },
        {},
    ),
    "flow": PolicyEntry(
        "all that wait are placed together, at least cost, by min-cost flow (Amaral 2019, DRMaestro)",
        any_of(Flow),
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
            "solver": Parameter("solver", flow_solver, "auto", f"of the flow: {', '.join(SOLVERS)}"),
            "order": ORDER,
            **COMMON,
            "place": Parameter(
                "place", one_of(OF_DEVICES), "first-fit", "which shares and parts of devices: " + ", ".join(OF_DEVICES)
            ),
            **TERMS,
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
        reading=READING,
    ),
    "min-fragmentation": _pooled(
        "min-fragmentation", "pools: share where least is left unused; else the emptiest node (Alg. 2)", reading=READING
    ),
    "disaggregation-aware": _pooled(
        "disaggregation-aware",
        "pools: max-composition or min-fragmentation, by the loads of bandwidth and capacity (eq. 4)",
        low=Parameter("low", load, "0.5", "max-composition where both loads are at most this"),
        high=Parameter("high", load, "0.7", "or bandwidth at least this and capacity at most this"),
        reading=READING,
    ),
    "lookahead": PolicyEntry(
        "pools: jobs that can still be on time first, late jobs last, each where it costs least (unrack's own)",
        partial(pooled, Lookahead, "lookahead", "urgency"),
        {
            "memory": MEMORY,
            **TERMS,
            "estimates": ESTIMATES,
            "weight": Parameter("weight", load, "0.5", "what all devices are worth beside all cores"),
        },
        {},
    ),
    "resource-aware": _pooled(
        "resource-aware", "pools: split GPUs; keep cores beside what cannot be split (Call 2022, Alg. 3 and 4)"
    ),
    "baseline": PolicyEntry(
        "memory: no lending; a job waits for nodes with all the memory that it asks (whole nodes)",
        on_whole_nodes,
        SCHEDULING,
        {},
    ),
    **{
        name: PolicyEntry(f"memory: {words}", partial(lending, name), {**SCHEDULING, **LENDING}, {})
        for name, words in {
            "strawman": "cores on any idle nodes, then memory from any",
            "naive": "cores on any idle nodes, memory packed on them, the rest from any",
            "local": "nodes with a threshold of free memory; the rest from lenders one after the other",
            "local-spread": "the same, with a lender of its own for each node of the job",
            "disaggregated": "local while that is possible; else the nodes with most memory, and lenders for the rest",
            "contention-aware": "the same, from the lenders that slow all jobs down least (unrack's own)",
        }.items()
    },
}


TIERED = {
    "place": PLACE,
    "full": Parameter("full", one_of(FULL), "wait", "a server without a place: wait, or reject it for good"),
    "clusters": Parameter("clusters", count, "any", "at most so many clusters are in use at a time"),
    "order": ORDER,
}
_OWN |= {
    name: PolicyEntry(f"tiers: {words}", partial(servers, name), TIERED, {})
    for name, words in (
        ("slo", "the fullest cluster that can meet a server's SLOs, at the lowest price (Farshin 2021)"),
        ("slo-first-fit", "the first cluster with enough cores and memory; SLOs do not count"),
        ("slo-best-fit", "the cluster with least free that can meet the SLOs, at the lowest price"),
    )
}


def _of_others(name: str, found: Any) -> PolicyEntry:
    """The policy of a plug-in: an entry, an object with decide, or what makes one when called bare."""
    if isinstance(found, PolicyEntry):
        return found
    where = f"policy {name}"
    summary = (inspect.getdoc(found) or "a plug-in's").split("\n")[0].rstrip(".")
    return PolicyEntry(summary, lambda label: policy_of(found, where), {}, {})


PREEMPT = Parameter(
    "preempts", yes, "yes", "no: jobs are not stopped for others, whatever the table site.preempt of the cluster says"
)
MOLDING = Parameter(
    "molding",
    one_of(MOLDINGS),
    "",
    "the rule that chooses the sizes of moldable jobs: earliest-end or working-set; default: none",
)
RESIZING = Parameter(
    "resizing", one_of(RESIZINGS), "", "how malleable jobs grow and shrink: fpsma or egs; default: they do not"
)
EXTENSION = Parameter(
    "step_us", duration, "", "how much more time a job at its limit is given at once, where that delays no job"
)
MOST = Parameter("most_us", duration, "4 times extension", "how much more time it is given in all")
OF_ALL = {
    "preempt": PREEMPT, "molding": MOLDING, "resizing": RESIZING, "extension": EXTENSION, "extension_most": MOST
}  # fmt: skip
"""What every policy takes."""

POLICIES: Table[PolicyEntry] = Table("policies", _OWN, _of_others)
"""Name → what makes the policy."""


def make_policy(name: str, parameters: Mapping[str, object], label: str | None = None) -> Policy[Any]:
    """A built-in policy.

    ``name``: a name in ``POLICIES``; ``parameters``: as the user writes them; ``label``: what reports call it; default:
    its name with the parameters that were given. A PolicyError if there is no such policy or parameter, or a value is
    wrong.
    """
    check_choice("policy", name, POLICIES, PolicyError)
    entry = POLICIES[name]
    values: dict[str, object] = dict(entry.fixed)
    keys = {**entry.parameters, **OF_ALL}
    for key, value in parameters.items():
        if key in ("models", "world"):
            raise PolicyError(f"policy {name}, {key}", repr(value), BY_THE_WORLD)
        if key not in keys:
            raise PolicyError(f"policy {name}", f"the parameter {key!r}", f"one of {', '.join(keys)}")
        try:
            values[keys[key].field] = keys[key].read(value)
        except ValueError as error:
            raise PolicyError(f"policy {name}, {key}", repr(value), str(error)) from None
    written = ", ".join(f"{key}={value}" for key, value in parameters.items())
    label = label or (f"{name}({written})" if written else name)
    of_memory = {field: values.pop(field) for field in list(values) if field.startswith(PREFIX)}
    preempts = values.pop(PREEMPT.field, None)
    step_us, most_us = (cast("int | None", values.pop(one.field, None)) for one in (EXTENSION, MOST))
    sizing = {field: values.pop(field) for field in (MOLDING.field, RESIZING.field) if field in values}
    made = provisioned(entry.make(**values, label=label), of_memory, f"policy {name}", label)
    made = made if preempts is None else Preempting(made, bool(preempts))
    made = sized(made, sizing, f"policy {name}") if sizing else made
    if most_us is not None and step_us is None:
        raise PolicyError(f"policy {name}", "extension_most", "extension beside it: how much more is given at once")
    return made if step_us is None else extended(made, step_us, most_us, f"policy {name}")


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
