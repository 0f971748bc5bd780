"""Where and when: orders, placements, backfill; and all that a policy of one's own needs."""

from unrack.ledger.candidate import Candidate
from unrack.ledger.devices.view import Composition, DeviceView
from unrack.ledger.lease import Lease, Loan, Share
from unrack.ledger.memory.shrinking import smaller
from unrack.policy.contract import Decision, Estimates, Need, Policy, Reject, Requeue, Resize, Start, Traits
from unrack.policy.discipline.conservative import Conservative
from unrack.policy.discipline.list_scheduler import ListScheduler
from unrack.policy.discipline.python_pass import candidates
from unrack.policy.discipline.slurm_like import SlurmLike
from unrack.policy.orders import by_formula, by_key
from unrack.policy.pools.own import Placed
from unrack.policy.pools.pool_policy import Pooled
from unrack.policy.tiers.own_policy import Offer, OnTiers, offer
from unrack.reasons import Code, Reason
from unrack.view import View
from unrack.workload.job import CORES, ESTIMATE, MEMORY, TASKS, Demand, Job
from unrack.workload.seen_job import SeenJob

__all__ = [
    "CORES",
    "ESTIMATE",
    "MEMORY",
    "TASKS",
    "Candidate",
    "Code",
    "Composition",
    "Conservative",
    "Decision",
    "Demand",
    "DeviceView",
    "Estimates",
    "Job",
    "Lease",
    "ListScheduler",
    "Loan",
    "Need",
    "Offer",
    "OnTiers",
    "Placed",
    "Policy",
    "Pooled",
    "Reason",
    "Reject",
    "Requeue",
    "Resize",
    "SeenJob",
    "Share",
    "SlurmLike",
    "Start",
    "Traits",
    "View",
    "by_formula",
    "by_key",
    "candidates",
    "offer",
    "smaller",
]
