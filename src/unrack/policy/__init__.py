"""Where and when: orders, placements, backfill; and all that a policy of one's own needs."""

from unrack.cluster.device_view import Composition, DeviceView
from unrack.cluster.lease import Lease, Loan, Share
from unrack.cluster.lending import smaller
from unrack.policy.contract import Decision, Estimates, Need, Policy, Reject, Requeue, Resize, Start
from unrack.policy.list_scheduler import ListScheduler
from unrack.policy.orders import by_key
from unrack.policy.placed import Placed
from unrack.policy.planned import Conservative, SlurmLike
from unrack.policy.pooled import Pooled
from unrack.policy.tiers.own import Offer, OnTiers, offer
from unrack.reasons import Code, Reason
from unrack.view import View
from unrack.workload.job import CORES, ESTIMATE, MEMORY, TASKS, Demand, Job

__all__ = [
    "CORES",
    "ESTIMATE",
    "MEMORY",
    "TASKS",
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
    "Share",
    "SlurmLike",
    "Start",
    "View",
    "by_key",
    "offer",
    "smaller",
]
