from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.job import Workload

TEXT = (Path(__file__).parents[2] / "cluster_formats" / "samples" / "kubectl.json").read_text()


def read(text: str = TEXT, **options: object) -> Workload:
    return read_trace(Source("pods.json", text.encode()), **({"run": "1 h"} | options))


def test_pods_that_run_come_first_and_pods_that_are_over_stay_out() -> None:
    made = read()
    assert made.intake.format == "kubernetes"
    assert made.jobs.ids.to_list() == ["ml/train-0", "ml/train-1"]
    assert made.jobs.submit_us[0] == 0 < made.jobs.submit_us[1] < 10
    assert made.jobs.work_us.tolist() == [7_200_000_000, 3_600_000_000]
    assert made.jobs.under_way is not None
    assert made.jobs.under_way.ran_us.tolist() == [1_790_000_000, 0]
    assert read(running="anew").jobs.work_us.tolist() == [5_410_000_000, 3_600_000_000]
    assert dict(made.intake.dropped) == {"already over": 1}
    assert made.intake.ignored["place ignored"] == 1


def pod(name: str, cpu: int, node: str = "", gate: str = "", **more: dict[str, str]) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    spec: dict[str, Any] = {"containers": [{"resources": resources}]} | ({"nodeName": node} if node else {})
    spec |= {"schedulingGates": [{"name": gate}]} if gate else {}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "team", **more}, "spec": spec}


@pytest.mark.parametrize("cpu", [4, 12])
def test_pods_count_for_the_queue_that_they_name(cpu: int) -> None:
    ours = {"labels": {"kueue.x-k8s.io/queue-name": "main", "kueue.x-k8s.io/priority-class": "high"}}
    volcano = {"annotations": {"scheduling.volcano.sh/queue-name": "batch"}}
    pods = [
        pod("runs", cpu, "n1", **ours), pod("first", 4, gate="kueue.x-k8s.io/admission", **ours),
        pod("second", 4, gate="kueue.x-k8s.io/admission", **ours), pod("other", 4, **volcano),
        pod("held", 4, gate="example.com/until"), pod("free", 4),
    ]  # fmt: skip
    made = read(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    assert made.jobs.extra["queue"].to_list() == ["team/main"] * 3 + ["batch", None]
    assert made.jobs.extra["qos"].to_list() == ["high"] * 3 + [None] * 2
    queues = [{"name": "lab", "also": ["team/main"], "quotas": [{"nominal": {"cores": 8}}]}, {"name": "batch"}]
    site = {"queues": queues, "qos": [{"name": "high"}]}
    cluster = Cluster.from_dict({"nodes": [{"count": 1, "cores": 64, "memory": "64 GB", "names": "n1"}], "site": site})
    if cpu > 8:
        with pytest.raises(InputError, match=r"cores of queue lab, any flavour: 8 .* and it asks for 12"):
            unrack.simulate(cluster, made, "fcfs")
        return
    starts = unrack.simulate(cluster, made, "fcfs").jobs["start_s"].round(1).to_list()
    assert starts == [0, 0, 3600, 0, 0]


def test_a_pod_asks_for_what_its_containers_do() -> None:
    made = read()
    assert made.jobs.cores.tolist() == [2, 3]
    assert made.jobs.memory_mb.tolist() == [4096 + 96, 8192]
    assert made.jobs.devices["gpus", "count"].tolist() == [1, 2]
    assert read(cpu="milli").jobs.cores.tolist() == [2000, 3000]
    assert ("gpu", "devices") in read(gpus="gpu.devices").jobs.devices
    assert made.jobs.app_names == ("train",)
    assert made.jobs.priority.tolist() == [0, 100]


def test_pods_without_a_deadline_need_a_run_time() -> None:
    with pytest.raises(InputError, match=r"run = '1 h'"):
        read_trace(Source("pods.json", TEXT.encode()))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXT.replace('"1500m"', '"lots"'), "spec.containers.0.resources.requests.cpu: got 'lots', wanted a quantity"),
        (TEXT.replace("2026-01-02T03:30:00Z", "today"), "items.5.metadata.creationTimestamp: got 'today'"),
        (TEXT[:3000], "damaged JSON"),
        (json.dumps({"apiVersion": "v1", "kind": "List", "items": []}), "no pod"),
    ],
)
def test_a_broken_list_of_pods_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_trace(Source("pods.json", text.encode()), "kubernetes", run="1 h")
    assert words in str(caught.value)


ODD = ["null", "", "0", "-1", "9" * 30, "[]", "{}", ",", '"', "true", "1e400", "[", "}", "é"]


@draws(150)
@given(st.data())
def test_a_mutated_list_of_pods_is_read_or_refused_in_words(data: st.DataObject) -> None:
    text = TEXT
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(2600, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        text = text[:start] + data.draw(st.sampled_from(ODD)) + text[end:]
    try:
        made = read_trace(Source("fuzz", text.encode()), "kubernetes", run="1 h")
    except InputError:
        return
    assert (made.jobs.work_us > 0).all()


@draws(150)
@given(st.data())
def test_a_list_of_pods_with_any_value_anywhere_is_read_or_refused_in_words(data: st.DataObject) -> None:
    content = json.loads(TEXT)
    thing = data.draw(st.sampled_from(content["items"][4:]))
    while True:
        keys = list(thing) if isinstance(thing, dict) else list(range(len(thing)))
        if not keys:
            return
        key = data.draw(st.sampled_from(keys))
        if isinstance(thing[key], (dict, list)) and data.draw(st.booleans()):
            thing = thing[key]
            continue
        thing[key] = data.draw(st.sampled_from([None, 0, -1, 2**70, 1e300, "", "x", [], {}, [None], [{}], True]))
        break
    try:
        read(json.dumps(content))
    except InputError:
        return
