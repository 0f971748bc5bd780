"""Pods of JobSets as gangs: how many start together, and on a real API server, with a definition of its own."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from api_admin import AdminError
from driven_pods import DrivenPods
from k8s_bed import KubernetesBed
from test_gangs import bed as bed
from test_gangs import steps
from test_picture_of_pods import ours

from unrack.live.kubernetes.client.objects import Metadata, Pod
from unrack.live.kubernetes.client.others import JOB_SETS, Other
from unrack.live.kubernetes.gangs.job_sets import ATTEMPT_LABEL, BY_SELECTOR, EXCLUSIVE, JOB_LABEL, JOB_SET_LABEL
from unrack.live.kubernetes.gangs.naming import Groups, gang_of

Content = dict[str, Any]


def job(name: str, replicas: int = 1, pods: int = 1, scheduler: str = "unrack", **keys: Any) -> Content:
    spec = {"parallelism": pods, "template": {"spec": {"schedulerName": scheduler}}, **keys.pop("spec", {})}
    template = {"spec": spec, "metadata": {"annotations": keys.pop("annotations", {})}}
    return {"name": name, "replicas": replicas, "template": template, **keys}


def labelled(of: str, attempt: int = 0, name: str = "set") -> Content:
    return {"labels": {JOB_SET_LABEL: name, JOB_LABEL: of, ATTEMPT_LABEL: str(attempt)}}


def pod_of(name: str, **keys: Any) -> Pod:
    return ours(f"pod-{name}", {}, metadata=labelled(name, **keys))


LEADER, WORKERS = job("leader"), job("workers", 2, 3)


@pytest.mark.parametrize(
    ("jobs", "keys", "sizes"),
    [
        ([LEADER, WORKERS], {}, {"leader": ("", 7), "workers": ("", 7)}),
        ([job("a", 2, 8, spec={"completions": 3})], {}, {"a": ("", 6)}),
        ([{"name": "a", "template": {"spec": {"template": {"spec": {"schedulerName": "unrack"}}}}}], {},
         {"a": ("", 1)}),
        ([LEADER, job("others", 4, 4, "default-scheduler"), WORKERS], {}, {"workers": ("", 7)}),
        ([LEADER, WORKERS], {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
         {"leader": ("leader", 1), "workers": ("workers", 6)}),
        ([LEADER, WORKERS], {"startupPolicy": {"startupPolicyOrder": "AnyOrder"}}, {"workers": ("", 7)}),
        ([LEADER, job("side", 2), job("workers", 2, 3, dependsOn=[{"name": "leader", "status": "Ready"}])], {},
         {"leader": ("", 3), "side": ("", 3), "workers": ("workers", 6)}),
        ([LEADER, job("workers", 2, 3, annotations={EXCLUSIVE: "rack"})], {},
         {"leader": ("", 1), "workers": ("workers", 1)}),
        ([LEADER, job("workers", 2, 3, annotations={EXCLUSIVE: "rack", BY_SELECTOR: ""})], {}, {"workers": ("", 7)}),
        ([job("a", "many")], {}, {"a": ("", "replicas of replicated job a is 'many', not a number of pods")}),
        ([job("a", 1, -1)], {}, {"a": ("", "parallelism of replicated job a is -1, not a number of pods")}),
        ([job("a", 1000, 1000)], {}, {"a": ("", "its JobSet has 1000000 pods, of 100000 at most")}),
        ([], {}, {"a": ("", 1)}),
    ],
)  # fmt: skip
def test_how_many_pods_start_together(jobs: list[Content], keys: Content, sizes: Content) -> None:
    groups = Groups()
    groups.take(JOB_SETS, [(None, Other(Metadata("set", "work"), {"replicatedJobs": jobs, **keys}))], "")
    for name, (part, size) in sizes.items():
        pod = pod_of(name)
        gang = gang_of(pod)
        assert gang is not None
        assert (groups.part(gang, pod), groups.least(gang, pod)) == (part, size)


def test_restarts_are_other_gangs_and_lack_of_job_sets_makes_none() -> None:
    groups, pod = Groups(), pod_of("a")
    first, second = gang_of(pod), gang_of(pod_of("a", attempt=1))
    assert first is not None
    assert first != second
    groups.take(JOB_SETS, [], "")
    assert groups.least(first, pod) == "its JobSet set is not there"
    groups.take(JOB_SETS, [], "the server has none of that kind")
    assert groups.least(first, pod) == 1
    assert "none of that kind" in groups.lacks_job_sets


SERVED = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"


def add_job_set(bed: KubernetesBed, *jobs: Content, **keys: Any) -> None:
    content = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "set"}}

    def made() -> bool:
        try:
            return bool(bed.admin.post(SERVED, {**content, "spec": {"replicatedJobs": list(jobs), **keys}}))
        except AdminError:
            return False

    bed.wait_until(made)


def test_a_job_set_starts_whole_each_time(bed: KubernetesBed) -> None:
    bed.add_nodes(["n1", "n2"], {"cpu": "4", "memory": "8Gi"})

    def add(of: str, count: int, attempt: int) -> None:
        for i in range(count):
            bed.add_pod(f"{of}-{attempt}-{i}", {"cpu": "1"}, metadata=labelled(of, attempt))

    def bound() -> Counter[str]:
        return Counter(name.rpartition("-")[0] for name in driven.placed())

    with bed.admin.defined("jobset.x-k8s.io", "JobSet", "v1alpha2"):
        add_job_set(bed, LEADER, WORKERS)
        with DrivenPods(bed) as driven:
            add("leader", 1, 0)
            add("workers", 5, 0)
            steps(driven, 20)
            assert bound() == {}
            whys = {entry.why for entry in driven.driver.table}
            assert whys == {"of the 7 pods that gang set starts with 6 wait"}
            bed.add_pod("workers-0-5", {"cpu": "1"}, metadata=labelled("workers"))
            driven.until(lambda: bound() == {"leader-0": 1, "workers-0": 6})
            add("leader", 1, 1)  # it is restarted before all of the first are gone
            add("workers", 6, 1)
            bed.admin.delete("/api/v1/namespaces/default/pods/leader-0-0", gracePeriodSeconds=0)
            steps(driven, 20)
            assert bound() == {"workers-0": 6}
            for i in range(6):
                bed.admin.delete(f"/api/v1/namespaces/default/pods/workers-0-{i}", gracePeriodSeconds=0)
            driven.until(lambda: bound() == {"leader-1": 1, "workers-1": 6})
            bed.admin.delete("/api/v1/namespaces/default/pods/workers-1-3", gracePeriodSeconds=0)
            bed.add_pod("workers-1-9", {"cpu": "1"}, metadata=labelled("workers", 1))
            driven.until(lambda: "workers-1-9" in driven.placed())


def test_jobs_in_order_are_gangs_one_after_the_other_and_without_the_definition_none_is(bed: KubernetesBed) -> None:
    bed.add_nodes(["n1", "n2"], {"cpu": "4", "memory": "8Gi"})
    with DrivenPods(bed) as driven:
        for i in range(2):
            bed.add_pod(f"alone-{i}", {"cpu": "1"}, metadata=labelled("a", name="alone"))
        driven.until(lambda: len(driven.placed()) == 2)
        assert driven.driver.unreadable == ("pods of JobSets start one by one: the server has none of that kind",)
    with bed.admin.defined("jobset.x-k8s.io", "JobSet", "v1alpha2"):
        add_job_set(bed, LEADER, WORKERS, startupPolicy={"startupPolicyOrder": "InOrder"})
        with DrivenPods(bed) as driven:
            bed.add_pod("leader-0", {"cpu": "1"}, metadata=labelled("leader"))
            driven.until(lambda: "leader-0" in driven.placed())
            for i in range(6):
                steps(driven, 5)
                assert not any(name.startswith("workers") for name in driven.placed())
                bed.add_pod(f"workers-{i}", {"cpu": "100m"}, metadata=labelled("workers"))
            driven.until(lambda: sum(name.startswith("workers") for name in driven.placed()) == 6)
