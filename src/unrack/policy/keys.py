"""The keys that several policies take, as users write them."""

from __future__ import annotations

from unrack.policy.contract import Estimates
from unrack.policy.discipline.conservative import COMPRESS
from unrack.policy.discipline.list_scheduler import BACKFILL
from unrack.policy.discipline.slurm_like import MAINS
from unrack.policy.gpus.rule import SEEN
from unrack.policy.gpus.rules import NEAREST, RULES, WORDS
from unrack.policy.lending.lender_cost import RULES as LENT_RULES
from unrack.policy.orders import ORDERS
from unrack.policy.parameters import Parameter, count, duration, lending_group, node_share, one_of, yes
from unrack.policy.placement.lent_memory import FITS
from unrack.policy.placement.mixed import PLACES
from unrack.policy.placement.tiered_memory import RULES as TIER_RULES
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
