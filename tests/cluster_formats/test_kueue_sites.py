"""Random sites of Kueue, as it is told of them, against a twin in plain Python that reads the same objects."""

from __future__ import annotations

import itertools
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
Use = dict[tuple[str, str, str], int]
"""By queue, flavour and resource."""
Quotas = dict[str, dict[str, tuple[int, int | None, int | None]]]
"""Flavour → resource → nominal quota, borrowing limit, lending limit."""


SHAPES: list[list[tuple[list[str], list[str]]]] = [
    [(["a", "b"], [CPU, MEMORY, GPU])],
    [(["default"], [CPU, MEMORY]), (["a", "b"], [GPU])],
    [(["a", "b"], [CPU, MEMORY]), (["x", "y"], [GPU])],
    [(["x", "y"], [GPU]), (["default"], [CPU]), (["a", "b"], [MEMORY])],
]
"""The resource groups of a queue: flavours, and what is covered."""


class KueueSite:
    """Objects as kubectl prints them, and what they mean."""

    def __init__(self, seed: int, rule: str = "Never", strict: str = "") -> None:
        self.draw = draw = np.random.default_rng(seed)
        self.strict = strict  # names of queues in which none passes another
        self.shape = seed % 5  # 4: each queue has its own
        self.rule = rule
        self.nodes = [self._node(f"{pool}{maker}{number}", pool, maker) for pool in "ab" for maker in "xy"
                      for number in range(6)]  # fmt: skip
        labels = {"default": {}, **{name: {"pool": name} for name in "ab"}, **{name: {"maker": name} for name in "xy"}}
        self.flavours = [self._object("ResourceFlavor", name, {"nodeLabels": own}) for name, own in labels.items()]
        self.parent = {"top": "", "left": "top", "right": "top", "deep": "left"}
        self.groups: dict[str, list[Quotas]] = {}
        self.open: dict[str, bool] = {}
        self.cohorts = [self._cohort(name) for name in list(self.parent)]
        self.queues = [self._queue(name) for name in "pqrst"[: int(draw.integers(2, 6))]]
        self.local = [
            {**self._object("LocalQueue", "main", {"clusterQueue": name}), "metadata": {
                "name": "main", "namespace": f"team-{name}"}} for name in self.open
        ]  # fmt: skip

    def _object(self, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        version = str(self.draw.choice(["v1beta1", "v1beta2"]))
        return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": name}, "spec": spec}

    def _node(self, name: str, pool: str, maker: str) -> dict[str, Any]:
        held = {"cpu": "64", "memory": "256Gi", GPU: "8", "ephemeral-storage": "1Ti"}
        ready = [{"type": "Ready", "status": "True"}]
        labels = {"pool": pool, "maker": maker}
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
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
        most, draw = {CPU: 16, MEMORY: 40, GPU: 8}, self.draw
        groups: list[Quotas] = []
        for every, covered in SHAPES[self.shape if self.shape < 4 else int(draw.integers(0, 4))]:
            flavours = draw.permutation(every)[: int(draw.integers(1, 3))].tolist()
            some = [what for what in covered if gpus or what != GPU]
            groups += [{name: {what: self._quota(cohort, most[what]) for what in some} for name in flavours}] * bool(
                some
            )
        return groups

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

    def _cohort(self, name: str) -> dict[str, Any]:
        """One that is in another, and has quotas of its own that it lends, or neither."""
        above = self.parent[name]
        self.groups[name] = self._drawn(above, True) if self.draw.random() < 0.4 else []
        spec = {"parentName": above} if above else {}
        groups = self._resource_groups(self.groups[name])
        return self._object("Cohort", name, spec | ({"resourceGroups": groups} if groups else {}))

    def _queue(self, name: str) -> dict[str, Any]:
        cohort = str(self.draw.choice(["", "lone", "left", "right", "top", "deep", "deep"]))
        self.parent[name] = cohort
        self.groups[name] = self._drawn(cohort, bool(self.draw.random() < 0.8) or name == "p")
        self.open[name] = bool(self.draw.random() < 0.9)
        made = self._object("ClusterQueue", name, {})
        cohort_key = "cohortName" if made["apiVersion"].endswith("v1beta2") else "cohort"
        made["spec"] = {
            "namespaceSelector": {},
            "queueingStrategy": "StrictFIFO" if name in self.strict else "BestEffortFIFO",
            "stopPolicy": "None" if self.open[name] else "Hold",
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "TryNextFlavor"},
            "preemption": {"reclaimWithinCohort": self.rule, "withinClusterQueue": "Never",
                           "borrowWithinCohort": {"policy": "Never"}},
            "resourceGroups": self._resource_groups(self.groups[name]),
        }  # fmt: skip
        return made | ({"spec": made["spec"] | {cohort_key: cohort}} if cohort else {})

    def documents(self) -> list[dict[str, Any]]:
        """All of it, in one list, in one for each kind, or each object by itself."""
        every = [self.nodes, self.flavours, self.cohorts, self.queues, self.local]
        for own in every:
            self.draw.shuffle(own)
        way = self.draw.integers(3)
        if way == 0:
            return [one for own in every for one in own]
        lists = [[one for own in every for one in own]] if way == 1 else every
        return [{"apiVersion": "v1", "kind": "List", "items": own} for own in lists]

    def cluster(self) -> Cluster:
        """As unrack converts it."""
        found = [described(Path("k.json"), json.dumps(one), f"k{number}") for number, one in
                 enumerate(self.documents())]  # fmt: skip
        return Cluster.from_dict(converted(together([one for one in found if one is not None])).content)

    def quota(self, name: str, flavour: str, what: str) -> tuple[int, int | None, int | None] | None:
        """What a queue or cohort itself has of a resource."""
        return next((one[flavour][what] for one in self.groups.get(name, []) if what in one.get(flavour, {})), None)

    def level(self, use: Use, name: str, flavour: str, what: str) -> tuple[int, int, int, int]:
        """Of a queue or cohort: what it has, what it keeps of that, what is used, the most that it may use."""
        has, borrow, lend = self.quota(name, flavour, what) or (0, None, None)
        used = use.get((name, flavour, what), 0)
        for child in [child for child, parent in self.parent.items() if parent == name]:
            its, kept, held, _ = self.level(use, child, flavour, what)
            has, used = has + its - kept, used + max(0, held - kept)
        inside = bool(self.parent.get(name))
        most = 10**9 if inside and borrow is None else has + (borrow or 0) if inside else has
        return has, 0 if lend is None or not inside else max(0, has - lend), used, most

    def free(self, use: Use, name: str, flavour: str, what: str) -> int:
        """How much more it may use."""
        has, kept, used, most = self.level(use, name, flavour, what)
        above = self.parent.get(name)
        if not above:
            return has - used
        return max(0, kept - used) + min(self.free(use, above, flavour, what), most - max(used, kept))

    def room(self, use: Use, queue: str, flavour: str, what: str, more: int) -> bool:
        """Whether a queue may use so much more; ``use``: by queue, flavour and resource."""
        if self.quota(queue, flavour, what) is None:
            return not more
        return more <= self.free(use, queue, flavour, what)

    def assigned(self, use: Use, queue: str, asks: Amounts) -> dict[str, str] | None:
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
        draw, names = site.draw, list(site.open)
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
    use: Use = {}
    waiting, coming = list[int](), 0
    while coming < len(load.submit) or running:
        ends = [end for end, _ in running.values()]
        now = min(ends + ([load.submit[coming]] if coming < len(load.submit) else []))
        for job in [job for job, (end, _) in running.items() if end == now]:
            for what, flavour in running.pop(job)[1].items():
                use[load.queue[job], flavour, what] -= load.asks[job][what]
        while coming < len(load.submit) and load.submit[coming] == now:
            queue = load.queue[coming]
            if site.open[queue] and site.assigned({}, queue, load.asks[coming]) is not None:
                waiting.append(coming)
            coming += 1
        seen = [-1]
        while seen:  # as often as something starts
            first = {load.queue[job]: job for job in reversed(waiting)}
            seen = [job for job in waiting if load.queue[job] not in site.strict or first[load.queue[job]] == job]
            for job in list(seen):
                queue = load.queue[job]
                found = site.assigned(use, queue, load.asks[job])
                if found is None:
                    seen.remove(job)
                    continue
                waiting.remove(job)
                start[job], running[job] = now, (now + load.run[job], found)
                for what, flavour in found.items():
                    use[queue, flavour, what] = use.get((queue, flavour, what), 0) + load.asks[job][what]
    return start


@pytest.mark.parametrize(
    ("seed", "strict"), [*((seed, "") for seed in range(60)), *((seed, "pqs") for seed in range(40))]
)
def test_quotas_of_kueue_admit_what_its_objects_say(seed: int, strict: str) -> None:
    site = KueueSite(seed, strict=strict)
    load = Load(site)
    found = unrack.simulate(site.cluster(), load.workload, "fcfs").jobs
    ran = found.filter(found["state"] == "finished")
    starts = {int(job) - 1: round(start) for job, start in zip(ran["job"], ran["start_s"], strict=True)}
    assert starts == greedy(site, load)


def returned(site: KueueSite, use: Use, queue: str, asks: Amounts) -> bool:
    """Whether a job leaves its queue, or a cohort above it but the highest, within what that has, in some flavours."""
    ways = [
        [(name, {what: asks[what] for what in three if asks[what]}) for name, three in group.items()]
        for group in site.groups[queue] if any(asks[what] for what in next(iter(group.values())))
    ]  # fmt: skip
    covered = {what for group in site.groups[queue] for three in group.values() for what in three}
    if any(amount and what not in covered for what, amount in asks.items()):
        return False
    for way in itertools.product(*ways):
        more = [(name, what, amount) for name, own in way for what, amount in own.items()]
        then = {**use, **{(queue, name, what): use.get((queue, name, what), 0) + amount for name, what, amount in more}}
        at = queue
        while True:
            levels = [site.level(then, at, name, what) for name, what, _ in more]
            if all(used <= has for has, _, used, _ in levels) and (site.parent.get(at) or at == queue):
                return True
            if any(used > most for *_, used, most in levels) or not site.parent.get(at):
                break
            at = site.parent[at]
    return False


@pytest.mark.parametrize("seed", range(60))
def test_what_is_lent_comes_back_at_once_and_no_more_than_may_be_is_held(seed: int) -> None:
    site = KueueSite(seed, "Any")
    load, cluster = Load(site), site.cluster()
    result = unrack.simulate(cluster, load.workload, "fcfs")
    claims = result.tables["claims"].filter(pl.col("place").str.contains(" of queue "))
    kinds = {"cores": CPU, "memory": MEMORY, "gpus.count": GPU}
    spans = dict[tuple[int, float, float], Use]()
    for job, start, end, place, quantity in claims.select("job", "start_s", "end_s", "place", "quantity").iter_rows():
        queue, flavour = place.partition(" of queue ")[2].split(", flavour ")
        what = kinds[quantity]
        spans.setdefault((int(job) - 1, start, end), {})[queue, flavour, what] = load.asks[int(job) - 1][what]
        assert queue == load.queue[int(job) - 1]
    rows = result.placements.select("job", "start_s", "end_s").iter_rows()
    assert {(int(job) - 1, start, end) for job, start, end in rows} == spans.keys()
    over = {job: max(end for other, _, end in spans if other == job) for job, *_ in spans}
    for now in sorted({time for _, *span in spans for time in span}):
        use: Use = {}
        running = {job: held for (job, start, end), held in spans.items() if start <= now < end}
        for held in running.values():
            for key, amount in held.items():
                use[key] = use.get(key, 0) + amount
        assert all(site.room(use, *key, 0) for key in use)
        for job, queue in enumerate(load.queue):
            if load.submit[job] <= now < over.get(job, np.inf) and job not in running and site.open[queue]:
                assert not returned(site, use, queue, load.asks[job])
