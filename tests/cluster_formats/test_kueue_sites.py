"""Random sites of Kueue, as it is told of them, against a twin in plain Python that reads the same objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import unrack
from unrack.cluster.formats.described import converted, together
from unrack.cluster.formats.reading import described
from unrack.cluster.spec import Cluster
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

CPU, MEMORY, GPU = "cpu", "memory", "nvidia.com/gpu"
GIB = 2**30
Amounts = dict[str, int]
"""Resource → cores, GiB or GPUs."""
Quotas = dict[str, dict[str, tuple[int, int | None, int | None]]]
"""Flavour → resource → nominal quota, borrowing limit, lending limit."""


class KueueSite:
    """Objects as kubectl prints them, and what they mean."""

    def __init__(self, seed: int, rule: str = "Never") -> None:
        self.draw = draw = np.random.default_rng(seed)
        self.grouped = bool(seed % 2)  # GPUs are a group of their own, beside cores of any nodes
        self.rule = rule
        self.nodes = [self._node(f"{pool}{number}", pool) for pool in "ab" for number in range(8)]
        labels = {"default": {}, "a": {"pool": "a"}, "b": {"pool": "b"}}
        self.flavours = [self._object("ResourceFlavor", name, {"nodeLabels": own}) for name, own in labels.items()]
        parents = {"top": "", "left": "top", "right": "top"}
        self.cohorts = [self._object("Cohort", name, {"parentName": of} if of else {}) for name, of in parents.items()]
        self.root = {"": "", "lone": "lone", "top": "top", "left": "top", "right": "top"}
        self.groups: dict[str, list[Quotas]] = {}
        self.cohort_of: dict[str, str] = {}
        self.open: dict[str, bool] = {}
        self.queues = [self._queue(name) for name in "pqrst"[: int(draw.integers(2, 6))]]
        self.pool("top-pool", "top")
        self.local = [
            {**self._object("LocalQueue", "main", {"clusterQueue": name}), "metadata": {
                "name": "main", "namespace": f"team-{name}"}} for name in self.groups
        ]  # fmt: skip
        self.local = self.local[: len(self.queues)]

    def _object(self, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        version = str(self.draw.choice(["v1beta1", "v1beta2"]))
        return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": name}, "spec": spec}

    def _node(self, name: str, pool: str) -> dict[str, Any]:
        held = {"cpu": "64", "memory": "256Gi", GPU: "16", "ephemeral-storage": "1Ti"}
        ready = [{"type": "Ready", "status": "True"}]
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": pool}},
                "status": {"allocatable": held, "conditions": ready}}  # fmt: skip

    def _written(self, amount: int, resource: str) -> Any:
        """An amount in one of the ways of Kubernetes."""
        ways: list[Any]
        if resource == MEMORY:
            ways = [f"{amount}Gi", f"{amount * 1024}Mi", str(amount * GIB), f"{amount * GIB}000m", f"{amount}.0Gi"]
        else:
            ways = [amount, str(amount), f"{amount}000m", f"+{amount}", f"{amount}.", f"{amount}e0", f".00{amount}k"]
            ways = ways if amount < 10 else ways[:-1]
        return ways[int(self.draw.integers(len(ways)))]

    def _quota(self, cohort: str, most: int) -> tuple[int, int | None, int | None]:
        draw = self.draw
        nominal = int(draw.integers(0, most + 1))
        borrow = int(draw.integers(0, most)) if cohort and draw.random() < 0.4 else None
        lend = int(draw.integers(0, nominal + 1)) if cohort and draw.random() < 0.5 else None
        return nominal, borrow, lend

    def _drawn(self, cohort: str, gpus: bool) -> list[Quotas]:
        some = {CPU: 16, MEMORY: 40}
        flavours = self.draw.permutation(["a", "b"])[: int(self.draw.integers(1, 3))].tolist()
        groups = [(["default"], some), (flavours, {GPU: 8})] if self.grouped else [(flavours, {**some, GPU: 8})]
        return [
            {name: {what: self._quota(cohort, most) for what, most in amounts.items() if what != GPU or gpus}
             for name in names}
            for names, amounts in (groups if gpus else groups[:1])
        ]  # fmt: skip

    def _resource_groups(self, groups: Any) -> list[dict[str, Any]]:
        keys = ("nominalQuota", "borrowingLimit", "lendingLimit")
        return [
            {"coveredResources": list(next(iter(group.values()))), "flavors": [
                {"name": flavour, "resources": [
                    {"name": what} | {key: self._written(amount, what) for key, amount in zip(keys, three, strict=True)
                                      if amount is not None}
                    for what, three in own.items()]}
                for flavour, own in group.items()]}
            for group in groups
        ]  # fmt: skip

    def _queue(self, name: str) -> dict[str, Any]:
        cohort = str(self.draw.choice(["", "lone", "left", "right", "top", "top"]))
        self.cohort_of[name] = cohort
        self.groups[name] = self._drawn(cohort, bool(self.draw.random() < 0.8) or name == "p")
        self.open[name] = bool(self.draw.random() < 0.9)
        made = self._object("ClusterQueue", name, {})
        cohort_key = "cohortName" if made["apiVersion"].endswith("v1beta2") else "cohort"
        made["spec"] = {
            "namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO",
            "stopPolicy": "None" if self.open[name] else "Hold",
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
            "preemption": {"reclaimWithinCohort": self.rule, "withinClusterQueue": "Never",
                           "borrowWithinCohort": {"policy": "Never"}},
            "resourceGroups": self._resource_groups(self.groups[name]),
        }  # fmt: skip
        return made | ({"spec": made["spec"] | {cohort_key: cohort}} if cohort else {})

    def pool(self, name: str, cohort: str) -> None:
        """The highest cohort has quotas of its own, which it lends."""
        if self.draw.random() < 0.5:
            groups: list[Quotas] = [
                {flavour: {what: (three[0], None, None) for what, three in own.items()} for flavour, own in one.items()}
                for one in self._drawn(cohort, True)
            ]
            self.cohorts[0]["spec"]["resourceGroups"] = self._resource_groups(groups)
            self.groups[name], self.cohort_of[name], self.open[name] = groups, cohort, False

    def documents(self) -> list[dict[str, Any]]:
        """All of it, in one list, in one for each kind, or each object by itself."""
        every = [self.nodes, self.flavours, self.cohorts, self.queues, self.local]
        for some in every:
            self.draw.shuffle(some)
        way = self.draw.integers(3)
        if way == 0:
            return [one for some in every for one in some]
        lists = [[one for some in every for one in some]] if way == 1 else every
        return [{"apiVersion": "v1", "kind": "List", "items": some} for some in lists]

    def cluster(self) -> Cluster:
        """As unrack converts it."""
        found = [described(Path("k.json"), json.dumps(one), f"k{number}") for number, one in
                 enumerate(self.documents())]  # fmt: skip
        return Cluster.from_dict(converted(together([one for one in found if one is not None])).content)

    def room(self, use: dict[tuple[str, str, str], int], queue: str, flavour: str, what: str, more: int) -> bool:
        """Whether a queue may use so much more; ``use``: by queue, flavour and resource."""
        group = next((one for one in self.groups[queue] if what in one.get(flavour, {})), None)
        if group is None:
            return not more
        nominal, borrow, _ = group[flavour][what]
        mine = use.get((queue, flavour, what), 0) + more
        root = self.root[self.cohort_of[queue]]
        if not root:
            return mine <= nominal
        if borrow is not None and mine > nominal + borrow:
            return False
        lent = beyond = 0
        for other, groups in self.groups.items():
            three = next((one[flavour][what] for one in groups if what in one.get(flavour, {})), None)
            if three is not None and self.root[self.cohort_of[other]] == root:
                lends = three[0] if three[2] is None else three[2]
                held = mine if other == queue else use.get((other, flavour, what), 0)
                lent, beyond = lent + lends, beyond + max(0, held - (three[0] - lends))
        return beyond <= lent

    def assigned(self, use: dict[tuple[str, str, str], int], queue: str, asks: Amounts) -> dict[str, str] | None:
        """Resource → flavour: the first that has room for all that a job asks of a group; ``None``: there is none."""
        found: dict[str, str] = {}
        for group in self.groups[queue]:
            wanted = {what: amount for what, amount in asks.items() if amount and what in next(iter(group.values()))}
            fit = (name for name in group if all(self.room(use, queue, name, *one) for one in wanted.items()))
            if (flavour := next(fit, None)) is None and wanted:
                return None
            found |= dict.fromkeys(wanted, str(flavour))
        return found if all(what in found or not amount for what, amount in asks.items()) else None


class Load:
    """Jobs of one task, submitted one by one."""

    def __init__(self, site: KueueSite, count: int = 60) -> None:
        draw, names = site.draw, [name for name in site.groups if name != "top-pool"]
        self.submit = np.cumsum(draw.integers(1, 40, count)).tolist()
        self.run = draw.integers(20, 300, count).tolist()
        self.queue = [str(name) for name in draw.choice(names, count)]
        self.asks = [
            {CPU: int(draw.integers(1, 7)), MEMORY: int(draw.integers(0, 9)), GPU: int(draw.integers(0, 5) // 2)}
            for _ in range(count)
        ]
        spelled = [(name, "") for name in self.queue]
        ways = draw.integers(0, 3, count).tolist()
        for job, (name, way) in enumerate(zip(self.queue, ways, strict=True)):
            spelled[job] = [(name, ""), (f"team-{name}/main", ""), ("main", f"team-{name}")][way]
        asked = {what: np.array([one[what] for one in self.asks], np.int64) for what in (CPU, MEMORY, GPU)}
        us = {name: np.array(times, np.int64) * 10**6 for name, times in (("submit", self.submit), ("run", self.run))}
        table = job_table(
            submit_us=us["submit"], work_us=us["run"], request_us=us["run"], tasks=np.ones(count, np.int64),
            cores=asked[CPU], memory_mb=asked[MEMORY] * 1024, devices={("gpus", "count"): asked[GPU]},
            extra=pl.DataFrame(spelled, {"queue": pl.String, "account": pl.String}, orient="row"),
        )  # fmt: skip
        self.workload = Workload("random", table, Intake("", "", 0, 0))


def greedy(site: KueueSite, load: Load) -> dict[int, int]:
    """Job → start: first come, first served, but for those that lack quota; there is always room on nodes."""
    start: dict[int, int] = {}
    running: dict[int, tuple[int, dict[str, str]]] = {}
    use: dict[tuple[str, str, str], int] = {}
    waiting, coming = list[int](), 0
    while coming < len(load.submit) or running:
        ends = [end for end, _ in running.values()]
        now = min(ends + ([load.submit[coming]] if coming < len(load.submit) else []))
        for job in [job for job, (end, _) in running.items() if end == now]:
            for what, flavour in running.pop(job)[1].items():
                use[load.queue[job], flavour, what] -= load.asks[job][what]
        while coming < len(load.submit) and load.submit[coming] == now:
            waiting.append(coming)
            coming += 1
        for job in list(waiting):
            queue = load.queue[job]
            found = site.assigned(use, queue, load.asks[job]) if site.open[queue] else None
            if found is not None:
                waiting.remove(job)
                start[job], running[job] = now, (now + load.run[job], found)
                for what, flavour in found.items():
                    use[queue, flavour, what] = use.get((queue, flavour, what), 0) + load.asks[job][what]
    return start


@pytest.mark.parametrize("seed", range(50))
def test_quotas_of_kueue_admit_what_its_objects_say(seed: int) -> None:
    site = KueueSite(seed)
    load = Load(site)
    found = unrack.simulate(site.cluster(), load.workload, "fcfs").jobs
    ran = found.filter(found["state"] == "finished")
    starts = {int(job) - 1: round(start) for job, start in zip(ran["job"], ran["start_s"], strict=True)}
    assert starts == greedy(site, load)


def within(site: KueueSite, use: dict[tuple[str, str, str], int], queue: str, asks: Amounts) -> bool:
    """Whether a job leaves its queue within what it has without borrowing, in some flavour of each group."""
    wanted = {what: amount for what, amount in asks.items() if amount}
    groups = [{what: amount for what, amount in wanted.items() if what in next(iter(one.values()))}
              for one in site.groups[queue]]  # fmt: skip
    return wanted.keys() == {what for own in groups for what in own} and all(
        any(all(use.get((queue, name, what), 0) + amount <= three[what][0] for what, amount in own.items())
            for name, three in group.items())
        for group, own in zip(site.groups[queue], groups, strict=True)
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(50))
def test_what_is_lent_comes_back_at_once_and_no_more_than_may_be_is_held(seed: int) -> None:
    site = KueueSite(seed, "Any")
    load, cluster = Load(site), site.cluster()
    rows = unrack.simulate(cluster, load.workload, "fcfs").placements.select("job", "start_s", "end_s", "first_node")
    pool = [name[0] for name in cluster.names]
    spans = [
        (int(job) - 1, start, end, {what: "default" if site.grouped and what != GPU else pool[node]
                                    for what, amount in load.asks[int(job) - 1].items() if amount})
        for job, start, end, node in rows.iter_rows()
    ]  # fmt: skip
    over = {job: max(end for other, _, end, _ in spans if other == job) for job, *_ in spans}
    for now in sorted({time for _, start, end, _ in spans for time in (start, end)}):
        use: dict[tuple[str, str, str], int] = {}
        running = {job: found for job, start, end, found in spans if start <= now < end}
        for job, found in running.items():
            for what, flavour in found.items():
                key = load.queue[job], flavour, what
                use[key] = use.get(key, 0) + load.asks[job][what]
        assert all(site.room(use, queue, flavour, what, 0) for queue, flavour, what in use)
        for job, queue in enumerate(load.queue):
            if load.submit[job] <= now < over.get(job, np.inf) and job not in running and site.open[queue]:
                assert not within(site, use, queue, load.asks[job])
