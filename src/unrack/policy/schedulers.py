"""The keys that several policies take, and which scheduler decides for a combination of them.

A combination means a list, conservative, Slurm-like or flow scheduler with rules for places, memory and GPUs
(:func:`general`). One scheduler of its own stands in for a combination:
:class:`unrack.policy.lending.slurm.LentSlurm` for a Slurm-like one on whole nodes that lend memory: its plans count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from unrack.errors import PolicyError
from unrack.policy.contract import Estimates
from unrack.policy.discipline.list_scheduler import BACKFILL, UNLIMITED, ListScheduler
from unrack.policy.discipline.reservations import COMPRESS, MAINS, RESERVES, Conservative, SlurmLike
from unrack.policy.gpus.rule import SEEN, GpuRule
from unrack.policy.gpus.rules import NEAREST, RULES, WORDS
from unrack.policy.lending.lender_cost import RULES as LENT_RULES
from unrack.policy.lending.slurm import LentSlurm
from unrack.policy.orders import ORDERS
from unrack.policy.parameters import Parameter, count, duration, lending_group, node_share, one_of, yes
from unrack.policy.placement.contract import MemoryRule
from unrack.policy.placement.lent_memory import FITS, PLACES, LentMemory, LocalMemory
from unrack.policy.placement.tiered_memory import RULES as TIER_RULES
from unrack.policy.placement.tiered_memory import TieredMemory
from unrack.policy.pools.pool_placement import READINGS, TEXT
from unrack.policy.provisioning.dynamic import PROVISIONING

ORDER = Parameter("order", one_of(ORDERS), "fcfs", "in which order jobs are considered: " + ", ".join(ORDERS))
FOR_POOLS = tuple(name for name in PLACES if name not in FITS)
PLACE = Parameter(
    "place",
    one_of(PLACES),
    "first-fit",
    f"which nodes are filled first: {', '.join(FITS)}; where jobs ask for devices also {', '.join(FOR_POOLS)}",
)
SCHEDULERS = ("slurm", "fcfs", "easy", "conservative")
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
BACKFILLS = Parameter(
    "backfill", one_of(BACKFILL), "none", "which jobs may pass the head: none, any (that fits) or easy"
)
BACKFILL_ORDER = Parameter(
    "backfill_order", one_of(ORDERS), "as order", "in which order those behind the head are tried: a name as of order"
)
DEPTH = Parameter("depth", count, "unlimited", "how many jobs behind the head are considered")


LENDING = {
    "threshold": Parameter(
        "threshold", node_share, "0.5 of local and local-spread, else 1",
        "share of a node's memory that must be free for it to compute; 1: a node that lends does not compute",
    ),
    "lenders_compute": Parameter(
        "lenders_compute", yes, "no", "yes: nodes that lend may compute, whatever they have left (threshold 0)"
    ),
    "group": Parameter("group", lending_group, "all",
                       "which nodes lend to each other: all, rack, or so many nodes in order of id"),
    "near": Parameter("near", yes, "no", "yes: the nearest lenders first"),
}  # fmt: skip


GPUS = {
    "gpus": Parameter("gpus", one_of((NEAREST, *RULES)), NEAREST, f"which machines and GPUs: {WORDS}"),
    "postpone": Parameter("postpone", yes, "no", "yes: a job waits for GPUs of the utility that it asks for"),
    "patience": Parameter("patience_us", duration, "1 h", "for how long after its submission it may be postponed"),
    "demands": Parameter("demands", str, SEEN, "what fgd takes for usual: seen (so far), or a CSV file"),
}
COMMON = {"place": PLACE, "nodes": NODES, "memory": MEMORY, "estimates": ESTIMATES, **GPUS, **PROVISIONING}
TERMS = {
    key: parameter._replace(words=f"of lent memory: {parameter.words}")
    for key, parameter in LENDING.items()
    if key != "lenders_compute"
}


READING = Parameter("reading", one_of(READINGS), TEXT, "the algorithms as written (text) or as their authors' program")
FREE = {
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
    "scheduler": Parameter(
        "scheduler", one_of(SCHEDULERS), "slurm", "which jobs may pass which: " + ", ".join(SCHEDULERS)
    ),
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


WAIT, REJECT = FULL = ("wait", "reject")
"""What becomes of a server that has no place."""
Made = Callable[..., Any]
"""Makes a policy of a label and the values of keys, by field."""


def general(kind: Made, label: str, memory: str = OWN, **values: Any) -> Any:
    """A scheduler with rules for memory and GPUs, which are named."""
    where = f"policy {label}"
    rule = memory_rule(where, memory, {key: values.pop(key) for key in TERMS if key in values})
    given = {key: values.pop(key) for key in ("gpus", "postpone", "patience_us", "demands") if key in values}
    if (gpus := gpu_rule(where, **given)) is not None:
        values["gpus"] = gpus
    if isinstance(rule, LentMemory):
        rule = replace(rule, place=values.get("place", "first-fit"))
    return (slurm_like if kind is SlurmLike else kind)(memory=rule, label=label, **values)


def slurm_like(**values: Any) -> SlurmLike:
    """A Slurm-like scheduler; its plans count on whole nodes that lend memory, the first that will do first."""
    memory = values.get("memory")
    counts = isinstance(memory, LentMemory) and values.get("nodes") == "whole" and memory.place == "first-fit"
    counts = counts and values.get("reserve", RESERVES[0]) == RESERVES[0]
    return LentSlurm(**values) if counts else SlurmLike(**values)


def pooled(rule: Made, place: str, first: str, /, label: str, **values: Any) -> Any:
    """A list that starts every job that has a place, by a rule for pools with its parameters."""
    if place not in PLACES and values.get("memory", OWN) != OWN:
        raise PolicyError(f"policy {label}, memory", values["memory"], OWN)
    own = {key: values.pop(key) for key in ("low", "high", "reading", "weight") if key in values}
    return general(ListScheduler, label, pools=rule(**own), place=place, backfill="any", **{"order": first, **values})


def on_whole_nodes(label: str, scheduler: str = "slurm", depth: int | None = None, **values: Any) -> Any:
    """The scheduler of a name on whole nodes; keys of other schedulers do nothing."""
    own = {key: values.pop(key) for key in ("queue", "interval_us", "main", "compress") if key in values}
    compress = {"compress": own.pop("compress")} if "compress" in own else {}
    if scheduler == "slurm":
        return slurm_like(nodes="whole", label=label, depth=depth or 100, **own, **values)
    if scheduler == "conservative":
        return Conservative(nodes="whole", label=label, **compress, **values)
    backfill = "easy" if scheduler == "easy" else "none"
    return ListScheduler(nodes="whole", label=label, backfill=backfill, depth=depth or UNLIMITED, **values)


def lending(
    rule: str, label: str, lenders_compute: bool | None = None, threshold: float | None = None, **values: Any
) -> Any:
    """The scheduler of lent memory by a rule, which makes a threshold of whether lenders may compute.

    A PolicyError if lenders may not compute, and the threshold says that they may.
    """
    if lenders_compute is False and threshold is not None and threshold < 1:
        where = f"policy {rule}, threshold"
        raise PolicyError(where, f"{threshold:g} beside lenders_compute=no", "1, or lenders_compute=yes")
    if lenders_compute is not None and threshold is None:
        threshold = 0.0 if lenders_compute else 1.0
    own = {key: values.pop(key) for key in ("group", "near") if key in values}
    memory = LentMemory(rule, values.get("place", "first-fit"), threshold, **own)
    return on_whole_nodes(label, memory=memory, **values)


def servers(
    rule: str, label: str, full: str = WAIT, clusters: int | None = None, order: str = "fcfs", place: str = "first-fit"
) -> ListScheduler:
    """Every server that has a place starts, by a rule for tiers of memory."""
    memory = TieredMemory(rule, clusters)
    return ListScheduler(order, place, "any", label=label, memory=memory, wait=full == WAIT)


def any_of(kind: Made) -> Made:
    """Makes a scheduler of a kind with whatever rules are named."""
    return partial(general, kind)


def memory_rule(where: str, rule: str, terms: Mapping[str, Any]) -> MemoryRule:
    """A rule for memory by its name, with its terms. A PolicyError if terms of lending are given, and no node lends."""
    if rule in LENT_RULES:
        return LentMemory(rule, **terms)
    if terms:
        raise PolicyError(f"{where}, {next(iter(terms))}", f"memory={rule}", f"memory: one of {', '.join(LENT_RULES)}")
    return TieredMemory(rule) if rule in TIER_RULES else LocalMemory()


def gpu_rule(where: str, gpus: str = NEAREST, **values: Any) -> GpuRule | None:
    """A rule for GPUs by its name; ``None``: the nearest.

    A PolicyError if something is said of the rule, and there is none.
    """
    if gpus == NEAREST:
        if values:
            raise PolicyError(f"{where}, {next(iter(values))}", "no rule for GPUs", f"gpus: one of {', '.join(RULES)}")
        return None
    return GpuRule(gpus, **values)
