"""Where and when: orders, placements, backfill; and all that a policy of one's own needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unrack.extras import lazily

if TYPE_CHECKING:
    from unrack.ledger.candidate import Candidate as Candidate
    from unrack.ledger.devices.view import Composition as Composition
    from unrack.ledger.devices.view import DeviceView as DeviceView
    from unrack.ledger.lease import Lease as Lease
    from unrack.ledger.lease import Loan as Loan
    from unrack.ledger.lease import Share as Share
    from unrack.ledger.memory_use import smaller as smaller
    from unrack.policy.contract import Decision as Decision
    from unrack.policy.contract import Estimates as Estimates
    from unrack.policy.contract import Extend as Extend
    from unrack.policy.contract import Need as Need
    from unrack.policy.contract import Policy as Policy
    from unrack.policy.contract import Provisioning as Provisioning
    from unrack.policy.contract import Reject as Reject
    from unrack.policy.contract import Requeue as Requeue
    from unrack.policy.contract import Resize as Resize
    from unrack.policy.contract import Start as Start
    from unrack.policy.contract import Traits as Traits
    from unrack.policy.discipline.list_scheduler import ListScheduler as ListScheduler
    from unrack.policy.discipline.reservations import Conservative as Conservative
    from unrack.policy.discipline.reservations import SlurmLike as SlurmLike
    from unrack.policy.file import load_policy as load_policy
    from unrack.policy.flow.costs import Costs as Costs
    from unrack.policy.flow.costs import Phase as Phase
    from unrack.policy.flow.scheduler import Flow as Flow
    from unrack.policy.orders import by_formula as by_formula
    from unrack.policy.orders import by_key as by_key
    from unrack.policy.parameters import Parameter as Parameter
    from unrack.policy.parameters import one_of as one_of
    from unrack.policy.placement.any_resource import candidates as candidates
    from unrack.policy.pools.own import Placed as Placed
    from unrack.policy.pools.pool_policy import Pooled as Pooled
    from unrack.policy.table import PolicyEntry as PolicyEntry
    from unrack.policy.table import parse_policy as parse_policy
    from unrack.policy.table import split_policy as split_policy
    from unrack.policy.tiers.own_policy import Offer as Offer
    from unrack.policy.tiers.own_policy import OnTiers as OnTiers
    from unrack.policy.tiers.own_policy import check_products as check_products
    from unrack.policy.tiers.own_policy import lease_of as lease_of
    from unrack.policy.tiers.own_policy import offer as offer
    from unrack.policy.tiers.own_policy import supply_of as supply_of
    from unrack.reasons import Code as Code
    from unrack.reasons import Reason as Reason
    from unrack.view import View as View
    from unrack.workload.job import CORES as CORES
    from unrack.workload.job import ESTIMATE as ESTIMATE
    from unrack.workload.job import MEMORY as MEMORY
    from unrack.workload.job import TASKS as TASKS
    from unrack.workload.job import Demand as Demand
    from unrack.workload.job import Job as Job
    from unrack.workload.seen_job import SeenJob as SeenJob
else:
    __all__, __getattr__, __dir__ = lazily(__name__)
