"""The jobs of a run, as a site numbers them: where each may run, and what it counts for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache

import numpy as np

from unrack.errors import ClusterError
from unrack.kernels.arrays import Bools
from unrack.resources.contract import Place
from unrack.resources.site.features import Counts, Said, Where, Whose, features_in, listed, ways_of
from unrack.resources.site.installed import Site
from unrack.resources.site.keys import Bounded, PartitionFile, QueueFile, ReservationFile
from unrack.resources.site.quotas import OpenLimit, Quota, nearest
from unrack.units import SECOND_US, seconds_text

ARRAY = "array"
"""In place of the user or account that a limit is of: members of an array of jobs."""

MAX_TIME = "max_time"
"""In place of an amount: the longest that jobs may ask to run."""


class Binding:
    """What the jobs of a run say, numbered; without ``limits`` they count for none."""

    def __init__(self, site: Site, said: Said, limits: bool = True) -> None:
        self.site, self.said, self.limits = site, said, limits
        self.wheres: dict[Where, int] = {}
        self.rows: dict[Counts, int] = {}
        self.places = {keep.place.name: (i, keep.place) for i, keep in enumerate(site.keeps)}
        self.accounts = {one.name: one for one in site.file.accounts}
        self.reservations = {one.name: one for one in site.file.reservations}
        self.qos = {one.name: one for one in site.file.qos}
        self.default = next((one.name for one in site.file.partitions if one.default), None)
        self.queues = {name: one for one in site.file.queues for name in (one.name, *one.also)}
        for default in [one for one in site.file.queues if one.default]:
            self.queues[""] = default
        self.quotas: dict[str, list[Quota]] = {one.name: [] for one in site.file.queues}
        for quota in site.quotas:
            self.quotas[quota.part.name].append(quota)
        self._rules_of, self._bounds_of = cache(self._rules_on), cache(self._bounds_on)
        self._fault, self._open_to = cache(self._fault_of), cache(self._nodes_of)
        self._nodes = cache(lambda text: listed(text, site.cluster_nodes))
        self._anywhere = cache(lambda where: site.is_anywhere(site.ways_there(where)))  # whether that says nothing
        by = "" if site.file.preempt is None else site.file.preempt.by
        count = len(said.tasks)
        self.where, self.counts, self.whose = np.zeros((3, count), np.int64)
        self.owners: dict[Whose, int] = {}
        self.all_cores = int(site.cluster_nodes.cores.sum())
        self.begin_us = np.zeros(count, np.int64)  # when the reservation of each begins; 0: it has none
        # what they ask, and how many of a job's own tasks one is: more than one where a job has nodes to itself
        self.tasks, self.cores, self.mb = said.tasks.copy(), said.cores.copy(), said.mb.copy()
        self.each = np.ones(count, np.int64)
        for job in range(count):
            where = self._where(job)
            if where.partitions and len(sizes := {self._whole(name) for name in where.partitions}) == 1:
                self._on_whole_nodes(job, *sizes.pop())
            if by in ("qos", "quota") and said.qos[job] in self.qos and not where.why:
                where = where._replace(qos=said.qos[job])
            queue = self.queue_of(job)
            if by == "quota" and queue is not None and not where.why:
                where = where._replace(queue=queue.name)
            row = self._counts(job, where, queue)
            if (where != Where() or site.windows) and (row or not self._anywhere(where)):
                self.where[job] = self.wheres.setdefault(where, len(self.wheres) + 1)
            if row:
                self.counts[job] = self.rows.setdefault(row, len(self.rows) + 1)
            if site.file.priority is not None:
                self.whose[job] = self.owners.setdefault(self._whose(job, where), len(self.owners) + 1)

    def bound(self) -> Site:
        """The site that knows these numbers."""
        places = [place for _, place in self.places.values()]
        return self.site.bound(tuple(self.wheres), tuple(self.rows), places, tuple(self.owners))

    def _nodes_of(self, where: Where) -> Bools:
        """bool[nodes]: where a job may run."""
        try:
            ways = self.site.ways_there(where)
        except ClusterError:
            ways = ()
        return np.asarray(np.logical_or.reduce([way.nodes for way in ways] or [~self.site.computing]))

    def _whose(self, job: int, where: Where) -> Whose:
        """What decides when it is its turn."""
        said, qos = self.said, self.qos.get(self.said.qos[job])
        parts = [self.site.partitions[name] for name in where.partitions or ()]
        tier, priority = max(((part.tier, part.priority) for part in parts), default=(1, 1))
        own = (0, 1.0) if qos is None else (qos.priority, qos.usage_factor)
        return Whose(said.account[job], said.user[job], tier, priority, *own, int(said.nice[job]))

    def _whole(self, name: str) -> tuple[int, int]:
        """Cores and MB of a node of a partition that gives jobs nodes to themselves; 0: they share them."""
        nodes, mask = self.site.cluster_nodes, self.site.nodes_of[name]
        whole = self.site.partitions[name].whole_nodes
        return (int(nodes.cores[mask][0]), int(nodes.memory_mb[mask].min())) if whole else (0, 0)

    def _on_whole_nodes(self, job: int, node_cores: int, node_mb: int) -> None:
        """A task is as many of the job's own as a node has room for, with all cores of the node."""
        tasks, cores, mb = int(self.tasks[job]), int(self.cores[job]), int(self.mb[job])
        if node_cores < max(cores, 1) or node_mb < mb:
            return  # it shares none, and fits nowhere
        each = min(tasks, node_cores // max(cores, 1), node_mb // mb if mb else tasks)
        self.each[job], self.tasks[job] = each, -(-tasks // each)
        self.cores[job], self.mb[job] = node_cores, mb * each

    def _where(self, job: int) -> Where:
        said, site = self.said, self.site
        features, (nodes, missing, odd) = said.features[job], self._nodes(said.nodes[job])
        without, _, wrong = self._nodes(said.without[job])  # to leave out nodes that there are not is no fault
        if fault := self._fault(features) or odd or wrong or missing or self._too_much(job) or self._reserved(job):
            return Where(why=fault)
        reservation = said.reservation[job]
        text = said.partition[job]
        names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        queue = self.queue_of(job)
        if queue is not None or said.queue[job]:
            if why := self._shut(job, queue):
                return Where(why=why)
            flavours = self._flavours(job, queue)
            if flavours and names and not set(names) & set(flavours):
                name = said.queue[job] if queue is None else queue.name
                return Where(why=f"queue {name} has no quota in partition {' or '.join(names)}")
            names = tuple(name for name in flavours if not names or name in names) or names
        if not site.partitions or (not names and (self.default is None or said.runs[job])):
            return Where(None, features, nodes, without, reservation)
        names = names or ((self.default,) if self.default else ())
        open_to, why = [], ""
        for name in names:
            fault = self._closed(job, name)
            why = why or fault
            if not fault:
                open_to.append(name)
        if len(open_to) > 1 and not all(name in site.hours for name in open_to):
            open_to = [name for name in open_to if name not in site.hours]
        open_to = open_to[:1] if open_to and open_to[0] in site.hours else open_to
        if open_to and open_to[0] in site.hours and (fault := self._reserved(job, stays=True)):
            return Where(why=fault)
        return Where(tuple(open_to), features, nodes, without, reservation) if open_to else Where(why=why)

    def queue_of(self, job: int) -> QueueFile | None:
        """The queue of a job; a name without the account that it is of will do."""
        name, account = self.said.queue[job], self.said.account[job]
        found = self.queues.get(f"{account}/{name or 'default'}")
        return self.queues.get(name) if found is None else found

    def _shut(self, job: int, queue: QueueFile | None) -> str:
        """Why a job may not run in a queue, wherever it is; ``""``: it may."""
        if queue is None:
            return f"queue {self.said.queue[job]!r}, which the cluster does not have"
        return self._over_quota(job, queue, "") if queue.open else f"queue {queue.name} is not open"

    def _flavours(self, job: int, queue: QueueFile | None) -> list[str]:
        """The partitions in which a queue has a quota of something that a job asks for.

        One without a quota of devices that it asks for is left out if another has one; and so is one with part of the
        quotas of another, or the same and part of its nodes.
        """
        own = [one for one in (self.quotas[queue.name] if queue else ()) if self._amount(job, one.part.measure)]
        quotas = {name: {one.part for one in own if name in one.partitions}
                  for quota in own for name in quota.partitions if name}  # fmt: skip
        nodes, found = self.site.nodes_of, list[str]()
        for name, some in quotas.items():
            devices = {one.measure for one in some if "." in one.measure}
            for other, more in quotas.items():
                same = other in found and more == some and not (nodes[name] & ~nodes[other]).any()
                if same or some < more or devices < {one.measure for one in more if "." in one.measure}:
                    break
            else:
                found.append(name)
        return found

    def _over_quota(self, job: int, queue: QueueFile, flavour: str) -> str:
        """What a job asks more of than its queue could ever have in a flavour; ``""``: nothing."""
        for one in self.quotas[queue.name]:
            if flavour in one.partitions and (amount := self._amount(job, one.part.measure)) > one.part.most:
                return f"{one.places[0][0]}: {one.part.most} with all that it may borrow, and it asks for {amount}"
        return ""

    def _fault_of(self, features: str) -> str:
        """What is wrong with features, in words; ``""``: nothing."""
        site = self.site
        unknown = [name for name in features_in(features) if name not in site.features] if features else []
        try:
            ways_of(features, site.features, len(site.computing)) if features else ()
        except ValueError as wrong:
            return f"{features!r} is not {wrong}"
        return f"feature {unknown[0]!r}, which no node has" if unknown else ""

    def _closed(self, job: int, name: str) -> str:
        """Why a job may not run in a partition; ``""``: it may."""
        said, part = self.said, self.site.partitions.get(name)
        if part is None:
            return f"partition {name!r}, which the cluster does not have"
        what = f"partition {name}"
        if not part.open:
            return f"{what} is not open"
        if part.hours and not said.reservation[job] and not self._ends_in(job, self.site.open_us[name]):
            return f"{what} is not open for as long as it asks for, from its submission on"
        if why := self._barred(job, part, what):
            return why
        if part.qos is not None and said.qos[job] not in part.qos:
            return f"{what} is not for quality of service {said.qos[job]!r}"
        if (queue := self.queue_of(job)) is not None and (why := self._over_quota(job, queue, name)):
            return why
        return self._bounds(job, part, what)

    def _barred(self, job: int, of: PartitionFile | ReservationFile, what: str) -> str:
        """Why a job may not use what is for some users and accounts; ``""``: it may."""
        user, account = self.said.user[job], self.said.account[job]
        lineage, denied = set(self._lineage(account)), of.denied_users if isinstance(of, ReservationFile) else ()
        if (of.accounts is not None and not lineage & set(of.accounts)) or lineage & set(of.denied_accounts):
            return f"{what} is not for account {account!r}"
        other = user in denied or (of.users is not None and user not in of.users)
        return f"{what} is not for user {user!r}" if other else ""

    def _bounds(self, job: int, part: PartitionFile, what: str) -> str:
        tasks, cores = int(self.said.tasks[job]), int(self.said.cores[job])
        if tasks < part.min_nodes:
            return f"{what} is for jobs on {part.min_nodes} nodes or more, and it has {tasks} tasks"
        if part.max_nodes is not None and tasks > part.max_nodes:
            fewest = self._fewest(tasks, cores, self.site.nodes_of[part.name])
            if fewest > part.max_nodes:
                return f"{what} is for jobs on {part.max_nodes} nodes at most, and it needs {fewest}"
        return self._over(job, part, what)

    def _fewest(self, tasks: int, cores: int, nodes: Bools) -> int:
        """On how many of some nodes tasks are at least, as far as cores say."""
        most = int(self.site.cluster_nodes.cores[nodes].max(initial=0))
        return -(-tasks // max(1, most // cores)) if cores else 1

    def _over(self, job: int, bound: Bounded, what: str, without: Collection[str] = ()) -> str:
        """What a job is over by itself, of what bounds it; ``without``: amounts that do not count."""
        asked_us = int(self.said.request_us[job])
        if bound.max_time is not None and asked_us > bound.max_time and MAX_TIME not in without:
            most = seconds_text(bound.max_time / 1e6)
            return f"{what} is for jobs of {most} at most, and it asks for {seconds_text(asked_us / 1e6)}"
        for limit in bound.limits:
            if limit.per == "job":
                for measure, allowed in limit.amounts.items():
                    if (amount := abs(self._amount(job, measure))) > allowed and measure not in without:
                        return f"{what} is for jobs of {allowed} {measure} at most, and it asks for {amount}"
        return ""

    def _reserved(self, job: int, stays: bool = False) -> str:
        """Why a job may not run in the reservation that it names; ``""``: it may, or names none; ``stays``: inside."""
        said, name = self.said, self.said.reservation[job]
        if not name:
            return ""
        one = self.reservations.get(name)
        if one is None:
            return f"reservation {name!r}, which the cluster does not have"
        what = f"reservation {name}"
        if one.maintenance:
            return f"{what} is for maintenance"
        if why := self._barred(job, one, what):
            return why
        if one.flex and not stays:
            return f"{what} is over before it came" if one.windows_us[-1][1] <= said.submit_us[job] else ""
        if said.request_us[job] > one.duration:
            return f"{what} is for jobs of {seconds_text(one.duration / SECOND_US)} at most"
        first = self._ends_in(job, one.windows_us)
        if first is None:
            return f"{what} is over before it could end"
        self.begin_us[job] = first[0]
        return ""

    def _ends_in(self, job: int, windows: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
        """The first of some windows in which a job could run from start to end, µs; ``None``: there is none."""
        submit_us, request_us = int(self.said.submit_us[job]), int(self.said.request_us[job])
        return min((w for w in windows if max(w[0], submit_us) + request_us <= w[1]), default=None)

    def _too_much(self, job: int) -> str:
        """What it is over, wherever it runs; the nearest of each amount, where that counts."""
        said, nearer, file = self.said, set[str](), self.site.file
        key = said.user[job], said.account[job], said.qos[job]
        if key[2] and self.qos and key[2] not in self.qos and not self.site.open:  # of one that is open Slurm says so
            return f"quality of service {key[2]!r}, which the cluster does not have"
        for what, bound in self._bounds_of(*key):
            if why := self._over(job, bound, what, nearer):
                return why
            if file.nearest_limits:
                nearer |= {measure for one in bound.limits if one.per == "job" for measure in one.amounts}
                nearer |= set() if bound.max_time is None else {MAX_TIME}
        return ""

    def _bounds_on(self, user: str, account: str, qos: str) -> list[tuple[str, Bounded]]:
        """What bounds jobs wherever they run, the nearest first."""
        found: list[tuple[str, Bounded]] = []
        if qos in self.qos:
            found.append((f"quality of service {qos}", self.qos[qos]))
        for name in self._lineage(account):
            if name in self.accounts:
                found += [
                    (f"user {user} in account {name}", Bounded(name=user, limits=one.limits))
                    for one in self.accounts[name].users
                    if name == account and one.name == user
                ]
                found.append((f"account {name}", self.accounts[name]))
        return [*found, ("the site", Bounded(name="site", limits=self.site.file.limits))]

    def _lineage(self, account: str) -> list[str]:
        found = [account] if account else []
        while found and found[-1] in self.accounts and (parent := self.accounts[found[-1]].parent):
            found.append(parent)
        return found

    # --- what it counts for -----------------------------------------------------------------------------------------

    def _counts(self, job: int, where: Where, queue: QueueFile | None) -> Counts:
        said, found = self.said, dict[tuple[int, str], int]()
        if where.why:
            return ()
        for keep in self.site.keeps:
            if where.reservation not in keep.owners and not isinstance(keep.of, int):
                self._count(found, job, where, keep.place.name, keep.measure, keep.installed, "")
        for place, at in self.site.by_node.items() if self.cores[job] else ():
            keep = self.site.keeps[place]
            if (where.reservation in keep.owners) == keep.inside and (at[self._open_to(where)] >= 0).any():
                found[place, ""] = int(self.cores[job])
        if not self.limits:
            return _row(found)
        user, account = said.user[job], said.account[job]
        for rule in self._rules_of(user, account, said.qos[job], where.partitions or ()):
            per = rule.file.per
            subject = {"all": "", "user": user, "account": account}[per]
            if per != "all" and not subject:
                continue  # its owner is not known
            subject_of = "all" if per == "all" else f"{per} {subject}"
            for measure, most in rule.file.amounts.items():
                if measure == "nodes" and self.cores[job] and most >= self.all_cores:
                    continue  # no job can reach it, whatever the nodes, on which plans need not look then
                name = f"{measure} of {subject_of}, {rule.owner}"
                self._count(found, job, where, name, measure, most, rule.partition)
        partitions = where.partitions or ()
        for quota in () if queue is None else self.quotas[queue.name]:
            own = [name for name in partitions if name in quota.partitions]
            for inside in [""] if "" in quota.partitions or (own and len(own) == len(partitions)) else own:
                for name, most in quota.places:
                    self._count(found, job, where, name, quota.part.measure, most, inside)
        if said.array[job] and said.array_limit[job] > 0:
            limit = int(said.array_limit[job])
            self._count(found, job, where, f"jobs of {ARRAY} {said.array[job]}", "jobs", limit, "")
        return _row(found)

    def _count(
        self, found: dict[tuple[int, str], int], job: int, where: Where, name: str, measure: str, most: int,
        partition: str,
    ) -> None:  # fmt: skip
        amount = self._amount(job, measure, where)
        if amount:
            number, place = self.places.setdefault(name, (len(self.places), Place(name, measure, most)))
            self.places[name] = number, place._replace(amount=min(most, place.amount))
            found[number, partition] = amount

    def _amount(self, job: int, measure: str, where: Where | None = None) -> int:
        said = self.said
        if measure == "jobs":
            return 1
        if measure == "nodes":
            nodes = self.site.computing if where is None else self._open_to(where)
            return -self._fewest(int(self.tasks[job]), int(self.cores[job]), nodes)
        if measure == "tasks":
            return int(self.tasks[job])
        if measure in ("cores", "memory"):
            return int(self.tasks[job] * (self.cores if measure == "cores" else self.mb)[job])
        return int(said.totals[measure][job]) if measure in said.totals else 0

    def _rules_on(self, user: str, account: str, qos: str, partitions: tuple[str, ...]) -> list[OpenLimit]:
        *own, (_, everywhere) = self._bounds_of(user, account, qos)
        rules = [OpenLimit(limit, "site") for limit in everywhere.limits]
        for name in partitions:
            found = self.site.partitions[name].limits
            rules += [OpenLimit(limit, f"partition {name}", "" if len(partitions) == 1 else name) for limit in found]
        rules += [OpenLimit(limit, what) for what, bound in own for limit in bound.limits]
        several = [rule for rule in rules if rule.file.per != "job"]
        return nearest(several) if self.site.file.nearest_limits else several


def _row(found: Mapping[tuple[int, str], int]) -> Counts:
    return tuple(sorted((place, amount, partition) for (place, partition), amount in found.items()))
