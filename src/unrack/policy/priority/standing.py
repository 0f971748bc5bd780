"""The order ``multifactor``: a site's jobs by tier of their partition, then by Slurm's multifactor priority.

The order holds from one whole multiple of ``calc_period`` to the next: usage and ages are those of that time, and jobs
that come in between get their place, with no age yet. What counts as used are the last attempts of jobs that have
ended, and what those that run have used so far; an attempt that was stopped counts up to the time at which usage was
looked at last. But for that, all of it follows from the ledger, so that a run may go on elsewhere.

O(waiting log waiting) a round; once a period O(waiting + running + ended since + users log users) more.

References
----------
Slurm, priority_multifactor.html; slurm.conf(5), PriorityTier, PriorityCalcPeriod and TRESBillingWeights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unrack.cluster.spec import UNCOUNTED_MB
from unrack.errors import PolicyError
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.columns import grown, room_for
from unrack.policy.priority.multifactor import Decay, Jobs, Whole, fair_share, fair_tree, priorities
from unrack.policy.priority.tree import ROOT, Associations, associations, from_columns
from unrack.resources.site.features import Whose
from unrack.resources.site.installed import Site
from unrack.resources.site.keys import AccountFile, PriorityFile, SiteFile
from unrack.view import View
from unrack.workload.job import ESTIMATE


class Members:
    """A tree that grows. What the site does not declare has one share: of its account, or under the root.

    Of a user without an account, it is the first that declares the user. Rows stay where they are.
    """

    def __init__(self, accounts: Sequence[AccountFile]) -> None:
        tables = [
            {
                "name": one.name, "parent": one.parent or ROOT, "shares": one.shares,
                "users": [{"name": user.name, "shares": user.shares} for user in one.users],
            }
            for one in accounts
        ]  # fmt: skip
        self.tree = associations(tables, "site.accounts")
        rows = self.tree.rows()
        self._accounts = {account: row for (account, user), row in rows.items() if not self.tree.is_user[row]}
        self._users = {key: row for key, row in rows.items() if self.tree.is_user[row]}
        self._home = {user.name: one.name for one in reversed(accounts) for user in one.users}
        own = {(one.name, ""): one.priority for one in accounts}
        own |= {(one.name, user.name): user.priority for one in accounts for user in one.users}
        self.priority = np.zeros(len(rows), np.int64)  # the factor of each row
        used = {(one.name, ""): one.usage for one in accounts}
        used |= {(one.name, user.name): user.usage for one in accounts for user in one.users}
        self.used = np.array([used[key] for key in rows])  # what each row used before the run, times seconds
        for key, row in rows.items():
            up, said = int(self.tree.parent[row]), own[key]
            self.priority[row] = said if said is not None else self.priority[up] if up >= 0 else 0

    def row(self, account: str, user: str) -> int:
        """The row of a user in an account, which are added if need be; ``""``: not known."""
        account = account or self._home.get(user, "")
        if (account, user) not in self._users:
            if account not in ("", ROOT) and account not in self._accounts:
                self._accounts[account] = self._add(account, -1, is_user=False)
            self._users[account, user] = self._add(user, self._accounts.get(account, -1), is_user=True)
        return self._users[account, user]

    def _add(self, name: str, parent: int, is_user: bool) -> int:
        tree: Associations = self.tree
        self.tree = from_columns(
            (*tree.name, name), np.append(tree.parent, parent), np.append(tree.shares, 1),
            np.append(tree.is_user, is_user),
        )  # fmt: skip
        self.priority = np.append(self.priority, self.priority[parent] if parent >= 0 else 0)
        return len(tree.name)


TIER_BITS = 32
"""Bits of a key that are below those of the tier."""


@dataclass(frozen=True)
class Rules:
    """What a site says of which job is first, made ready; it does not change."""

    accounts: tuple[AccountFile, ...]
    table: PriorityFile
    decay: Decay
    whole: Whole
    owners: tuple[Whose, ...]
    about: Ints  # int64[4, owners]: rank of the tier, priority of the partition, of the QOS, nice
    usage_factor: Floats  # float64[owners]
    quantity: int  # the row of ``site.whose`` in what jobs ask; -1: they do not say
    most_cores: int  # of a node

    @classmethod
    def of(cls, view: View) -> Rules:
        """The rules of the cluster's site; without any, all jobs are equal."""
        cluster, places = view.cluster, view.cluster.places
        site = places.installed.get("site")
        file = site.file if isinstance(site, Site) else SiteFile()
        owners = site.whose if isinstance(site, Site) else (Whose(),)
        table, key = file.priority or PriorityFile(), ("site", "whose")
        tiers = sorted({one.tier for one in owners})
        about = np.array([(tiers.index(one.tier), one.partition, one.qos, one.nice) for one in owners], np.int64)
        counted = cluster.memory_mb[cluster.memory_mb != UNCOUNTED_MB]
        all_of = {"cores": int(cluster.cores.sum()), "memory_gb": int(counted.sum())}
        all_of["nodes"] = int((cluster.cores > 0).sum())
        associations = [0, *(one.priority or 0 for one in file.accounts)]
        associations += [user.priority or 0 for one in file.accounts for user in one.users]
        whole = Whole(
            nodes=all_of["nodes"], cores=all_of["cores"], tres=all_of, association=max(associations),
            partition=max((one.priority for one in file.partitions), default=1),
            qos=max((one.priority for one in file.qos), default=0),
        )  # fmt: skip
        return cls(
            accounts=tuple(file.accounts), table=table, decay=Decay(table.half_life or 0, table.reset or 0),
            whole=whole, owners=owners, about=about.T.copy(),
            usage_factor=np.array([one.usage_factor for one in owners]),
            quantity=places.quantities.index(key) if key in places.quantities else -1,
            most_cores=int(cluster.cores.max()),
        )  # fmt: skip

    def asked(self, view: View, kind: str, jobs: Ints) -> Ints:
        """int64[k]: how much all tasks of jobs ask of a kind, as of WEIGHED, or KIND.QUANTITY; memory in MB.

        A PolicyError if the cluster does not have that kind.
        """
        of, found = view.components, np.zeros(len(jobs), np.int64)
        if not of.of:
            return self._asked(view, kind, jobs, view.asks[:, jobs])
        rows, at = of.spread(jobs)
        np.add.at(found, at, self._asked(view, kind, rows, of.asks[:, rows]))
        return found

    def _asked(self, view: View, kind: str, jobs: Ints, asks: Ints) -> Ints:
        """Of jobs or components that ask for so much."""
        tasks, cores, mb, _ = asks
        found: Ints
        if kind == "nodes":  # the fewest that they may have
            found = -(-tasks // np.maximum(1, self.most_cores // np.maximum(cores, 1)))
            return found
        if kind in ("cores", "memory_gb"):
            found = tasks * (cores if kind == "cores" else mb)
            return found
        name, _, quantity = kind.partition(".")
        keys, devices, seen = view.cluster.places.quantities, view.cluster.devices, view.columns
        pooled = dict(zip(devices.kinds, devices.quantities, strict=True)).get(name, ())
        if seen.claimed is not None and (name, quantity) in keys:
            found = tasks * seen.claimed.asked_by(jobs)[keys.index((name, quantity))]
        elif seen.devices is not None and quantity in pooled:
            found = tasks * seen.devices.columns.wants[devices.kinds.index(name), pooled.index(quantity), jobs]
        else:
            raise PolicyError("site.priority, billing", kind, "what the cluster has")
        return found

    def billed(self, view: View, jobs: Ints, owners: Ints) -> Floats:
        """float64[k]: what jobs use while they run, a second of it."""
        total = np.zeros(len(jobs))
        for kind, weight in self.table.billing.items():
            total += weight / (1024 if kind == "memory_gb" else 1) * self.asked(view, kind, jobs)
        return total * self.usage_factor[owners]


class Standing:
    """Which job is first, and what was used as far as it was looked at: what a policy remembers of this order."""

    def __init__(self, view: View) -> None:
        if view.runs is None:
            raise PolicyError("order multifactor", "a policy that does not look at runs", "learns = True beside it")
        self.rules = Rules.of(view)
        self.members = Members(self.rules.accounts)
        self.row = [-1] * len(self.rules.owners)  # of the users of each Whose; -1: none of them has come
        self.known = 0  # how many submitted jobs have been seen
        # by job: its Whose, the row of its user, and what it uses a second; its key, and as of when that is, µs
        self.owners, self.member, self.key, self.keyed_us = (np.zeros(0, np.int64) for _ in range(4))
        self.rate = np.zeros(0)
        # by row: what was used as of `at_us`, with the first `ended` jobs that have ended; and the factors
        self.used, self.factor = self.members.used * 1e6, np.zeros(0)
        self.at_us, self.ended, self.begin_us = -1, 0, self.rules.table.used_until or 0

    def order(self, view: View, queue: Ints, now: int) -> Ints:
        """The queue in order."""
        at_us = now // self.period_us * self.period_us
        grows = view.jobs > self.known and self._learn(view)
        if at_us != self.at_us:
            self._use(view, at_us)
        if grows or at_us != self.at_us:
            self.at_us = at_us
            self.keyed_us[: self.known] = -1
            self._share()
        stale = queue[self.keyed_us[queue] != at_us]
        if len(stale):
            self._key(view, stale)
        return queue[np.argsort(self.key[queue], kind="stable")]

    @property
    def period_us(self) -> int:
        """How often all is looked at anew."""
        return self.rules.table.calc_period or 1

    def changes_us(self, now: int) -> int:
        """When time alone may change the order next."""
        return (now // self.period_us + 1) * self.period_us

    def _learn(self, view: View) -> bool:
        """Take note of jobs that were submitted; whether there are new users among them."""
        rules, tree = self.rules, self.members.tree
        jobs = np.arange(self.known, view.jobs)
        if len(self.key) < view.jobs:
            room = room_for(view.jobs, len(self.key))
            self.owners, self.member, self.key = (grown(one, room) for one in (self.owners, self.member, self.key))
            self.rate, self.keyed_us = grown(self.rate, room), grown(self.keyed_us, room, -1)
        claimed, owners = view.columns.claimed, np.zeros(len(jobs), np.int64)
        if claimed is not None and rules.quantity >= 0:
            owners = claimed.asked_by(jobs)[rules.quantity]
        grows = int(owners.max(initial=0)) >= len(self.row)
        if grows:  # jobs that come one at a time
            rules = self.rules = Rules.of(view)
            self.row += [-1] * (len(rules.owners) - len(self.row))
        for number in owners.tolist():
            if self.row[number] < 0:
                self.row[number] = self.members.row(rules.owners[number].account, rules.owners[number].user)
        self.owners[jobs] = owners
        self.member[jobs] = [self.row[number] for number in owners.tolist()]
        self.rate[jobs] = rules.billed(view, jobs, owners)
        self.known = view.jobs
        return grows or self.members.tree is not tree

    def _use(self, view: View, at_us: int) -> None:
        """What was used until then, in place of what was used until it was looked at last."""
        runs, decay = view.runs, self.rules.decay
        assert runs is not None
        ended, running = runs.ended[self.ended :], view.running_jobs
        ends_us = runs.started_us[ended] + runs.ran_us[ended]
        jobs = np.concatenate([ended, running])
        last_us = max(self.at_us, self.begin_us)  # usage is known until then
        since_us = np.maximum(runs.started_us[jobs], last_us)
        until_us = np.minimum(np.concatenate([ends_us, np.full(len(running), at_us)]), at_us)
        some = np.flatnonzero(until_us > since_us)
        jobs, since_us, until_us = jobs[some], since_us[some], until_us[some]
        none, nothing = np.zeros(len(jobs)), np.zeros(len(jobs), np.int64)
        more = decay.later(decay.later(none, self.rate[jobs], since_us, until_us), nothing, until_us, at_us)
        before = grown(self.used, len(self.members.tree.name))
        since, idle = np.full(len(before), min(last_us, at_us)), np.zeros(len(before), np.int64)
        self.used = decay.later(before, idle, since, at_us) + np.bincount(self.member[jobs], more, len(before))
        self.ended += int(np.searchsorted(ends_us, at_us, side="right"))

    def _share(self) -> None:
        tree, table = self.members.tree, self.rules.table
        self.used = grown(self.used, len(tree.name))
        if not table.fair_share:
            self.factor = np.zeros(len(tree.name))
            return
        # sums in another order differ in their last bits, and must not untie what is tied
        fraction, exponent = np.frexp(self.used)
        used = np.ldexp(np.round(fraction * 2.0**40), exponent)
        by_tree = table.fair_share_by == "tree"
        self.factor = fair_tree(tree, used) if by_tree else fair_share(tree, used, table.dampening).factor

    def _key(self, view: View, jobs: Ints) -> None:
        """Price some jobs, as of the time at which usage was looked at."""
        rules, runs = self.rules, view.runs
        assert runs is not None
        tier, partition, qos, nice = rules.about[:, self.owners[jobs]]
        member, none = self.member[jobs], np.zeros(len(jobs), np.int64)
        by_size = rules.table.job_size > 0
        waits_since = np.where(runs.released_us[jobs] < 0, view.submit_us[jobs], runs.released_us[jobs])
        asked = Jobs(
            np.maximum(self.at_us - waits_since, 0), self.factor[member],
            rules.asked(view, "nodes", jobs) if by_size else none,
            rules.asked(view, "cores", jobs) if by_size else none, view.asks[ESTIMATE, jobs], partition, qos,
            self.members.priority[member], nice,
            {kind: rules.asked(view, kind, jobs) for kind in rules.table.tres},
        )  # fmt: skip
        self.key[jobs] = -((tier << TIER_BITS) + priorities(rules.table, asked, rules.whole))
        self.keyed_us[jobs] = self.at_us


def multifactor(view: View, queue: Ints, now: int) -> Ints:
    """Highest tier, then highest multifactor priority first: without memory, from all that has ever run."""
    return Standing(view).order(view, queue, now)
