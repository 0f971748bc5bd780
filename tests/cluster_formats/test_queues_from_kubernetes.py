"""Queues of Kueue and of Volcano, as kubectl prints them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import unrack
from unrack.cluster.formats.described import converted, together
from unrack.cluster.formats.reading import described
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

SAMPLE = Path(__file__).parent / "samples" / "kueue.json"


def read(*documents: Any) -> tuple[dict[str, Any], str]:
    """The table ``site`` of a cluster that is described so, and what is not taken over."""
    found = [described(Path("k.json"), json.dumps(one), "k.json") for one in documents]
    made = converted(together([one for one in found if one is not None]))
    Cluster.from_dict(made.content)
    return made.content["site"], "\n".join(made.notes)


def listed(*items: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "List", "items": list(items)}


NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8", "memory": "32Gi"}}}


def test_queues_flavours_and_cohorts_of_kueue() -> None:
    site, notes = read(json.loads(SAMPLE.read_text()))
    assert site["partitions"] == [
        {"name": "owned", "nodes": ["n2"]}, {"name": "a100&spot", "nodes": ["n1"]}, {"name": "spot", "nodes": ["n1"]},
    ]  # fmt: skip
    assert site["preempt"] == {"by": "quota"}
    assert site["queues"] == [
        {"name": "team-a", "also": ["a/main"], "cohort": "lab", "in_order": True, "reclaim": "any",
         "within": "lower-priority", "quotas": [
             {"flavour": "owned", "partitions": ["owned"], "nominal": {"cores": 2, "memory": 12288},
              "borrow": {"cores": 1}, "lend": {"cores": 1}},
             {"flavour": "spot", "partitions": ["a100&spot", "spot"], "nominal": {"cores": 4, "memory": 16384}},
             {"flavour": "a100", "partitions": ["a100&spot"], "nominal": {"gpus.count": 2}},
         ]},
        {"name": "team-b", "cohort": "wing", "open": False, "quotas": [
            {"flavour": "spot", "nominal": {"cores": 0}}, {"nominal": {"gpus.count": 0}, "borrow": {"gpus.count": 0}},
        ]},
        {"name": "alone", "quotas": [], "open": False},
    ]  # fmt: skip
    assert site["cohorts"] == [
        {"name": "lab", "quotas": [{"flavour": "spot", "nominal": {"cores": 3}}]}, {"name": "wing", "cohort": "lab"},
    ]  # fmt: skip
    for words in ("borrowWithinCohort", "whenCanBorrow", "whenCanPreempt", "example.com/licence",
                  "LocalQueues of a ClusterQueue that no file describes: gone (default/lost)",
                  "Queues without quotas admit nothing: alone", "does not bound it here: team-b (memory)",
                  "Queues that are for some namespaces, or for none, are open to all: team-a, team-b, alone",
                  ):  # fmt: skip
        assert words in notes


def test_queues_may_stand_beside_the_nodes_in_files_of_their_own() -> None:
    whole = json.loads(SAMPLE.read_text())
    nodes = [one for one in whole["items"] if one["kind"] == "Node"]
    rest = [one for one in whole["items"] if one["kind"] != "Node"]
    assert read(listed(*nodes), *rest) == read(listed(*rest, *nodes)) == read(whole)
    with pytest.raises(ClusterError, match="no nodes"):
        read(listed(*rest))


def kueue(kind: str, name: str, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    version = "kueue.x-k8s.io/v1beta2"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec or {}, **more}


def queue_of(name: str, flavour: str, cohort: str = "", **amounts: dict[str, Any]) -> dict[str, Any]:
    """A ClusterQueue with quotas of one flavour; ``amounts``: its keys by resource, ``gpu_`` for nvidia.com/gpu."""
    names = {"gpu_": "nvidia.com/gpu", "amd": "amd.com/gpu"}
    resources = [{"name": names.get(what, what), **keys} for what, keys in amounts.items()]
    groups = [{"flavors": [{"name": flavour, "resources": resources}]}]
    return kueue("ClusterQueue", name, {"namespaceSelector": {}, "cohortName": cohort, "resourceGroups": groups})


def test_what_nothing_is_made_of_is_told_once() -> None:
    site, notes = read(listed(
        NODE, kueue("ResourceFlavor", "far", {"nodeLabels": {"pool": "far"}, "nodeTaints": [{"key": "a"}]}),
        kueue("AdmissionCheck", "one"), kueue("AdmissionCheck", "two"), kueue("Topology", "racks"),
        {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "other"}},
        kueue("WorkloadPriorityClass", "high", value=100), kueue("WorkloadPriorityClass", "low", value=-5),
        queue_of("q", "far", cpu={"nominalQuota": 4}, memory={"nominalQuota": "1Gi"}),
    ))  # fmt: skip
    assert site["qos"] == [{"name": "high", "priority": 100}, {"name": "low", "priority": 0}]
    assert site["queues"] == [{"name": "q", "quotas": [], "open": False}]  # else its jobs would run anywhere
    for words in ("AdmissionCheck of kueue.x-k8s.io (2)", "Topology of kueue.x-k8s.io (1)", "Priorities below 0",
                  "Queue of scheduling.run.ai (1)", "nodeTaints of flavours is not taken over: far",
                  "Queues of which no flavour has nodes that are kept are closed: q"):  # fmt: skip
        assert notes.count(words) == 1


def test_gpus_of_two_makers_are_one_quota_that_lends_and_borrows_as_both() -> None:
    site, _ = read(listed(
        NODE, queue_of("q", "f", "k", gpu_={"nominalQuota": 4, "borrowingLimit": 1, "lendingLimit": 1},
                       amd={"nominalQuota": 2}, cpu={"nominalQuota": None}),
    ))  # fmt: skip
    assert site["queues"][0]["quotas"] == [
        {"flavour": "f", "nominal": {"gpus.count": 6, "cores": 0}, "lend": {"gpus.count": 3}}
    ]


def test_what_is_only_in_flavours_without_nodes_a_queue_has_none_of() -> None:
    groups = [{"flavors": [{"name": name, "resources": [{"name": what, "nominalQuota": 4}]}]}
              for name, what in (("all", "cpu"), ("far", "nvidia.com/gpu"))]  # fmt: skip
    site, notes = read(listed(
        NODE, kueue("ResourceFlavor", "all"), kueue("ResourceFlavor", "far", {"nodeLabels": {"x": "y"}}),
        kueue("ClusterQueue", "q", {"namespaceSelector": {}, "resourceGroups": groups}),
    ))  # fmt: skip
    all_nodes = {"flavour": "all", "partitions": ["all"], "nominal": {"cores": 4}}
    assert site["queues"] == [{"name": "q", "quotas": [all_nodes, {"nominal": {"gpus.count": 0}}]}]
    assert "Queues have none of what is only in flavours without nodes that are kept: q (gpus.count)." in notes


@pytest.mark.parametrize("shared", [0, 5])
def test_queues_that_keep_all_for_themselves_may_be_many_where_nothing_is_shared(shared: int) -> None:
    own = [queue_of(f"q{number}", "f", "k", cpu={"nominalQuota": number, "lendingLimit": 0}) for number in range(1, 12)]
    pool = [queue_of("pool", "f", "k", cpu={"nominalQuota": shared})] if shared else []
    site, notes = read(listed(NODE, *own, *pool))
    lend = [quota.get("lend", {}) for one in site["queues"][:11] for quota in one["quotas"]]
    assert lend == ([{}] * 3 if shared else [{"cores": 0}] * 3) + [{"cores": 0}] * 8
    assert ("Lending limits of over 8 queues" in notes) == bool(shared)


def queue(name: str, **spec: Any) -> dict[str, Any]:
    """A Queue of Volcano."""
    version = "scheduling.volcano.sh/v1beta1"
    return {"apiVersion": version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def test_queues_of_volcano() -> None:
    site, notes = read(listed(
        NODE, queue("root"), queue("default", weight=1),
        queue("hard", capability={"cpu": "500m", "memory": "1Gi"}, weight=3, parent="root"),
        queue("soft", deserved={"cpu": 4}, guarantee={"resource": {"cpu": "1"}}, capability={"cpu": 6},
              reclaimable=False),
        queue("above", deserved={"cpu": 2}), queue("below", parent="above", deserved={"cpu": "2"}),
        queue("both", deserved={"cpu": 1}, capability={"memory": "2Gi"}, affinity={"nodeGroupAffinity": {}}),
    ))  # fmt: skip
    assert site["queues"] == [
        {"name": "default", "cohort": "volcano", "default": True, "quotas": []},
        {"name": "hard", "quotas": [{"nominal": {"cores": 0, "memory": 1024}}]},
        {"name": "soft", "cohort": "volcano", "reclaim": "any",
         "quotas": [{"nominal": {"cores": 4}, "borrow": {"cores": 2}, "lend": {"cores": 3}}]},
        {"name": "below", "cohort": "volcano above", "reclaim": "any", "quotas": [{"nominal": {"cores": 2}}]},
        {"name": "both", "cohort": "volcano", "reclaim": "any", "quotas": [
            {"nominal": {"cores": 1, "memory": 2048}, "borrow": {"memory": 0}, "lend": {"memory": 0}}]},
    ]  # fmt: skip
    above = {"name": "volcano above", "cohort": "volcano", "quotas": [{"nominal": {"cores": 0}}]}
    assert site["cohorts"] == [above]
    for words in ("Weights of queues are not taken over: hard (3)", "not reclaimable",
                  "affinity of queues is not taken over: both"):  # fmt: skip
        assert words in notes


def test_queues_of_volcano_above_others_are_cohorts() -> None:
    site, notes = read(listed(
        NODE, queue("root", capability={"cpu": 32}),
        queue("p", deserved={"cpu": 8}, capability={"cpu": 10}, guarantee={"resource": {"cpu": 3}}),
        queue("a", parent="p", deserved={"cpu": 4}, guarantee={"resource": {"cpu": 2}}),
        queue("b", parent="p", capability={"cpu": 6, "memory": "1Gi"}), queue("f", parent="p"),
        queue("c", deserved={"cpu": 4}),
    ))  # fmt: skip
    assert site["queues"] == [
        {"name": "a", "cohort": "volcano p", "reclaim": "any",
         "quotas": [{"nominal": {"cores": 4}, "lend": {"cores": 2}}]},
        {"name": "b", "cohort": "volcano p", "quotas": [
            {"nominal": {"cores": 0, "memory": 1024}, "borrow": {"cores": 6, "memory": 0}, "lend": {"memory": 0}}]},
        {"name": "f", "cohort": "volcano p", "quotas": [{"nominal": {"cores": 0}}]},
        {"name": "c", "cohort": "volcano", "reclaim": "any", "quotas": [{"nominal": {"cores": 4}}]},
    ]  # fmt: skip
    assert site["cohorts"] == [
        {"name": "volcano p", "cohort": "volcano",
         "quotas": [{"nominal": {"cores": 4}, "borrow": {"cores": 2}, "lend": {"cores": 5}}]},
        {"name": "volcano", "quotas": [{"nominal": {"cores": 20}}]},
    ]  # fmt: skip
    assert "is lent to none" not in notes


def test_more_queues_of_volcano_with_a_guarantee_than_may_keep_something_lend_all() -> None:
    site, notes = read(listed(NODE, *(
        queue(f"q{number}", deserved={"cpu": 4}, guarantee={"resource": {"cpu": 1 + number}}) for number in range(10)
    )))  # fmt: skip
    assert [quota.get("lend") for one in site["queues"] for quota in one["quotas"]] == [
        None,
        None,
        *({"cores": max(0, 3 - number)} for number in range(2, 10)),
    ]
    assert "Lending limits of over 8 queues of a cohort are not taken over: q0, q1." in notes


class VolcanoTree:
    """Random queues of Volcano on up to three levels, and jobs, in cores."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        self.parent = {"p": "root", "q": "root", "r": "p"}
        self.parent |= {f"l{n}": str(draw.choice(["root", "p", "q", "r"])) for n in range(int(draw.integers(2, 7)))}
        self.leaves = [name for name in self.parent if name.startswith("l") or name not in self.parent.values()]
        self.deserved, self.guarantee, self.most = dict[str, int](), dict[str, int](), dict[str, int]()
        for name in [*reversed(self.parent), "root"]:
            below = [one for one, parent in self.parent.items() if parent == name]
            least = sum(self.deserved[one] for one in below)
            self.deserved[name] = least + (int(draw.integers(0, 9)) if draw.random() < 0.7 else 0)
            kept = sum(self.guarantee[one] for one in below) + int(draw.integers(0, 4)) * bool(draw.random() < 0.5)
            self.guarantee[name] = min(self.deserved[name], kept)
            if draw.random() < 0.5 or name == "root":
                self.most[name] = self.deserved[name] + int(draw.integers(0, 7))
        self.queue = [str(name) for name in draw.choice(self.leaves, 60)]
        self.cores, self.run = draw.integers(1, 6, 60), draw.integers(20, 300, 60)
        self.submit = np.cumsum(draw.integers(1, 25, 60))

    def objects(self) -> list[dict[str, Any]]:
        """As kubectl prints them; the root says its capability alone."""
        found = [queue("root", capability={"cpu": self.most["root"]})]
        for name, parent in self.parent.items():
            spec: dict[str, Any] = {"parent": parent, "deserved": {"cpu": self.deserved[name]}}
            spec |= {"guarantee": {"resource": {"cpu": self.guarantee[name]}}} if self.guarantee[name] else {}
            found.append(queue(name, **spec, **({"capability": {"cpu": self.most[name]}} if name in self.most else {})))
        return found

    def counts(self, use: Counter[str], name: str) -> tuple[int, bool]:
        """What of a queue nobody else may have, and whether it and all below it are within their capability."""
        below = [self.counts(use, one) for one, parent in self.parent.items() if parent == name]
        held = use[name] + sum(count for count, _ in below)
        held = held if name == "root" else max(held, self.guarantee[name])
        return held, all(fits for _, fits in below) and held <= self.most.get(name, held)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_no_queue_of_volcano_has_more_than_its_capability_and_no_job_waits_that_leaves_each_its_guarantee(
    seed: int,
) -> None:
    tree, us = VolcanoTree(seed), 10**6
    node = NODE | {"status": {"allocatable": {"cpu": "1000", "memory": "32Gi"}}}
    found = described(Path("k.json"), json.dumps(listed(node, *tree.objects())), "k.json")
    assert found is not None
    table = job_table(
        submit_us=tree.submit * us, work_us=tree.run * us, request_us=tree.run * us, cores=tree.cores,
        tasks=np.ones(60, np.int64), extra=pl.DataFrame({"queue": tree.queue}),
    )  # fmt: skip
    cluster = Cluster.from_dict(converted(together([found])).content)
    spans = list(
        unrack.simulate(cluster, Workload("w", table, Intake("", "", 0, 0)), "fcfs")
        .placements.select("job", "start_s", "end_s").iter_rows()
    )  # fmt: skip
    last = {job: max(end for one, _, end in spans if one == job) for job, *_ in spans}
    for now in sorted({time for _, *times in spans for time in times}):
        running = {job - 1 for job, start, end in spans if start <= now < end}
        use = Counter[str]()
        for job in running:
            use[tree.queue[job]] += int(tree.cores[job])
        assert tree.counts(use, "root")[1]
        for job, name in enumerate(tree.queue):
            if tree.submit[job] <= now < last.get(job + 1, np.inf) and job not in running:
                more = use + Counter({name: int(tree.cores[job])})
                assert not tree.counts(more, "root")[1], (job, now)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"kind": "ClusterQueue", "spec": {}}, "a name"),
        ({"kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": {"resourceGroups": [{"flavors": [
            {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "lots"}]}]}]}}, "'lots'"),
        ({"kind": "Queue", "metadata": {"name": "q"}, "spec": {"deserved": {"cpu": "-1"}}}, "'-1'"),
        ({"kind": "Cohort", "metadata": {"name": "c"}, "spec": {"parentName": "c"}}, "cohorts c → c, wanted"),
        ({"kind": "Queue", "metadata": {"name": "c"}, "spec": {"parent": "c"}}, "queues c → c, wanted"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(item: dict[str, Any], words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        read(listed(NODE, item))
