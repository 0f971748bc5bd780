"""What pods are to the driver, what they hold and ask, and site files: without a server."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from test_snapshot_of_kubernetes import node, pod

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.live.driver.contract import Problem
from unrack.live.driver.seen import Shown
from unrack.live.driver.service.service import Stop, Wakes, waited
from unrack.live.kubernetes.adapter.asks import asked_of, required
from unrack.live.kubernetes.adapter.picture import Picture, key_of
from unrack.live.kubernetes.adapter.terms import Added, Terms
from unrack.live.kubernetes.client.objects import Metadata, Pod
from unrack.live.kubernetes.client.others import POD_GROUPS, Other
from unrack.live.kubernetes.gangs.naming import KUEUE_COUNT, KUEUE_LABEL, GangName, Groups, gang_of
from unrack.live.kubernetes.run_time import limit_s
from unrack.live.kubernetes.site import KubernetesSite
from unrack.workload.job import Job

SIZE = {"cpu": "4", "memory": "8Gi", "pods": "3"}


def ours(name: str, requests: dict[str, str], **keys: Any) -> Pod:
    return pod(name, requests, schedulerName="unrack", **keys)


def seen(*pods: Pod) -> Picture:
    picture = Picture("unrack")
    picture.take_nodes([(None, node("n1", SIZE)), (None, node("n2", SIZE))])
    picture.take_pods([(None, one) for one in pods])
    return picture


def test_pods_are_held_run_or_are_over_by_what_the_server_says() -> None:
    going = ours("going", {"cpu": "1"}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    leaving = ours("leaving", {"cpu": "1"}, on="n1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    evicted = ours("evicted", {"cpu": "1"})
    pods = [
        ours("waits", {"cpu": "1"}), ours("runs", {"cpu": "1"}, on="n1"), ours("done", {"cpu": "1"}, phase="Succeeded"),
        going, leaving, pod("theirs", {"cpu": "1"}, on="n2"), pod("elsewhere", {"cpu": "1"}), evicted,
    ]  # fmt: skip
    picture = seen(*pods)
    shown = {key.split("/")[1]: job for key, job in picture.shown.items()}
    assert {name: job.shown for name, job in shown.items()} == {
        "waits": Shown.HELD, "runs": Shown.RUNS, "done": Shown.OVER, "going": Shown.OVER, "leaving": Shown.RUNS,
        "theirs": Shown.RUNS, "evicted": Shown.HELD,
    }  # fmt: skip
    assert [name for name, job in shown.items() if not job.ours] == ["theirs"]
    assert shown["runs"].nodes == {"n1"}
    picture.take_pods([(pods[1], None)])
    assert picture.gone[key_of(pods[1])].state == "Deleted"
    assert picture.gone[key_of(pods[1])].ran


def test_a_pod_that_is_being_bound_may_start_there_and_holds_its_room() -> None:
    picture, waits = seen(one := ours("a", {"cpu": "3"}), two := ours("b", {"cpu": "2"})), key_of(two)
    picture.assume(key_of(one), "n1")
    assert picture.shown[key_of(one)].shown == Shown.FREE
    assert picture.shown[key_of(one)].told == ("n1",)
    assert not picture.has_room(waits, "n1")
    assert picture.has_room(waits, "n2")
    picture.assume_not(key_of(one))
    assert picture.has_room(waits, "n1")
    assert picture.shown[key_of(one)].shown == Shown.HELD
    picture.assume(key_of(one), "n1")
    picture.take_pods([(one, ours("a", {"cpu": "3"}, on="n2"))])
    assert picture.has_room(waits, "n1")
    assert not picture.has_room(waits, "n2")
    assert picture.cannot_start(key_of(one), "n1") == "it is bound to node n2"
    assert picture.cannot_start(waits, "n3") == "node n3 is not there, not ready or cordoned"


@pytest.mark.parametrize("seed", range(20))
def test_room_after_any_changes_is_that_of_the_pods_that_are_left(seed: int) -> None:
    random, picture = Random(seed), seen()
    there: dict[str, Pod] = {}
    for step in range(150):
        name = f"p{random.randrange(12)}"
        before = there.get(name)
        if before is not None and random.random() < 0.3:
            picture.take_pods([(there.pop(name), None)])
            continue
        on = random.choice(["", "n1", "n2"]) if before is None else before.spec.node_name or random.choice(["", "n1"])
        after = ours(name, {"cpu": random.choice(["1", "250m"])}, on=on, metadata={"resourceVersion": str(step)})
        picture.take_pods([(before, after)])
        there[name] = after
        if random.random() < 0.3 and not on:
            picture.assume(key_of(after), "n2")
            if random.random() < 0.5:
                picture.assume_not(key_of(after))
    anew = seen(*there.values())
    for name, one in there.items():
        if picture.shown[key_of(one)].shown == Shown.FREE:
            anew.assume(key_of(one), "n2")
        assert picture.shown[key_of(one)]._replace(rank=()) == anew.shown[key_of(one)]._replace(rank=()), name
    for asks in ("100m", "1", "2", "4"):
        trial = ours("trial", {"cpu": asks})
        for one in (picture, anew):
            one.take_pods([(None, trial)])
        assert [picture.has_room(key_of(trial), on) for on in ("n1", "n2")] == [
            anew.has_room(key_of(trial), on) for on in ("n1", "n2")
        ]
    assert picture.shown.keys() == anew.shown.keys()


def test_nodes_that_only_send_heartbeats_change_nothing() -> None:
    picture = seen()
    before = picture.nodes_version
    again = node("n1", SIZE)
    picture.take_nodes([(picture.nodes["n1"], again)])
    assert picture.nodes_version == before
    picture.take_nodes([(again, node("n1", SIZE, unschedulable=True))])
    assert picture.nodes_version == before + 1


def test_terms_say_what_a_pod_asks_and_where_it_may_run() -> None:
    nodes = {
        "a": node("a", {**SIZE, "nvidia.com/gpu": "2"}, labels={"zone": "x"}),
        "b": node("b", SIZE, taints=[{"key": "team", "effect": "NoSchedule"}]),
        "new": node("new", {}),
    }
    terms = Terms(nodes, Added(5_000_000))
    assert sorted(terms.names) == ["a", "b"]
    asked = terms.asked(ours("p", {"cpu": "1500m", "memory": "1G", "nvidia.com/gpu": "1"}, priority=3), "k")
    assert isinstance(asked, Job)
    assert (asked.demand.cores, asked.demand.memory_mb, asked.priority, asked.request_us) == (1500, 954, 3, 5_000_000)
    assert asked.demand.devices == {"gpus": {"count": 1}, "counted": {"pods": 1}}
    assert asked.said == {"exc_nodes": "b"}
    cordoned = Terms({**nodes, "a": node("a", {**SIZE, "nvidia.com/gpu": "2"}, unschedulable=True)}, Added(5_000_000))
    assert cordoned.content == terms.content  # whether nodes are in use is no matter of the cluster
    cluster = Cluster.from_dict(terms.content, "cluster")
    job, lease = terms.stands(ours("big", {"cpu": "64", "memory": "1Ti"}, on="a"), "k", 0, cluster)
    assert lease.rows.tolist() == [[0, 1, 1, 4000, 8192]]
    assert job.demand.cores == 4000


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"schedulingGates": [{"name": "g\x1b[31m"}]}, "it is gated"),
        ({"resourceClaims": [{"name": "c"}]}, "claims of devices"),
        ({"nodeSelector": {"zone": "nowhere"}}, "none of 2 nodes"),
        ({"nodeSelector": {f"k{i}": "v" * 60 for i in range(1000)}}, "characters where it may run"),
        ({"metadata": {"annotations": {"unrack.io/run-time": "0"}}}, "not a time above 0"),
        ({"metadata": {"annotations": {"unrack.io/run-time": "9" * 10_000}}}, "time"),
        ({"metadata": {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}}, "a gang"),
    ],
)
def test_what_is_not_kept_is_refused_with_the_reason(keys: dict[str, Any], why: str) -> None:
    terms = Terms({"n1": node("n1", SIZE), "n2": node("n2", SIZE)}, Added(1))
    found = terms.asked(ours("p", {"cpu": "1"}, **keys), "k")
    assert isinstance(found, Problem)
    assert why in found.why
    assert len(found.why) < 400


def test_gangs_are_named_by_what_their_pods_say() -> None:
    groups = Groups()
    pod = ours("p", {}, schedulingGroup={"podGroupName": "g"})
    name = gang_of(pod)
    assert name == GangName("scheduling.k8s.io", "work", "g")
    assert gang_of(ours("p", {})) is None
    assert groups.least(name, pod) == "its PodGroup g (scheduling.k8s.io) is not there"
    wide = {"schedulingPolicy": {"gang": {"minCount": 2}}, "schedulingConstraints": {"topology": [{"key": "rack"}]}}
    for spec, least in (
        ({"schedulingPolicy": {"basic": {}}}, 1), ({"schedulingPolicy": {"gang": {"minCount": 3}}}, 3), ({}, 1),
        (wide, 2), ({"schedulingConstraints": {"other": [1]}},
         "its PodGroup g (scheduling.k8s.io) asks for schedulingConstraints.other: not kept by this scheduler"),
    ):  # fmt: skip
        groups.take(POD_GROUPS, [(None, Other(Metadata("g", "work"), spec))], "")
        assert groups.least(name, pod) == least
        assert groups.alike(name) == (("rack",) if spec is wide else ())
    for count, least in (("4", 4), ("0", 0), ("-1", 0), ("1e3", 0), ("9" * 30, 0), ("\x1b[31m", 0)):
        at = {"labels": {KUEUE_LABEL: "q"}, "annotations": {KUEUE_COUNT: count}}
        pod = ours("p", {}, metadata=at)
        found = groups.least(GangName("kueue.x-k8s.io", "work", "q"), pod)
        assert found == least if least else "not a number of pods" in str(found)
        assert str(found).isprintable()


def test_wishes_are_no_reason_to_wait() -> None:
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    spread = [{"whenUnsatisfiable": "ScheduleAnyway"}]
    affinity = {"podAffinity": wish, "podAntiAffinity": wish, "nodeAffinity": wish}
    assert required(ours("p", {}, affinity=affinity, topologySpreadConstraints=spread)) == ""


def test_run_times() -> None:
    said = {"annotations": {"unrack.io/run-time": "1h 30min"}}
    assert limit_s(ours("p", {})) is None
    assert limit_s(ours("p", {}, metadata=said)) == 5400
    assert limit_s(ours("p", {}, metadata=said, activeDeadlineSeconds=60)) == 60
    assert asked_of(ours("p", {})) == {"pods": 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("scheduler = 'No Names'", "scheduler"),
        ("schedular = 'x'", "schedular"),
        ("policy = 'nonsense'", "nonsense"),
        ("policy = 'easy(extension=15 min)'", "extension"),
        ("cluster = { nodes = [] }", "they come from the orchestrator"),
        ("fabric = { kind = 'files' }", "'none' or 'server-pods'"),
        ("timeout = '50 s'", "stalled_after"),
        ("policy = 'easy(memory=disaggregated)'", "memory of its own node"),
        ("policy = 'contention-aware'", "memory of its own node"),
        ("cluster = { lending = 'none' }", "memory of its own node"),
        ("cluster = { memory_pools = [{ count = 1, memory = '1 TB' }] }", "memory of its own node"),
        ("longest = 'soon'", "longest"),
        ("state = '~no-such-user/s'", "site.toml, line 1, state: got '~no-such-user/s'"),
        ("kubeconfig = '~no-such-user/k'", "a home that there is"),
        ("election = { lease = 'no namespace' }", "lease"),
        ("election = { duration = '1 s' }", "duration"),
        ("at_once = 0", "at_once"),
    ],
)
def test_site_files_are_checked_wholly(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(InputError) as error:
        KubernetesSite.load(tmp_path / "site.toml")
    assert why in str(error.value)


def test_a_service_waits_no_longer_once_it_is_told_of_a_change() -> None:
    class Told:
        def __init__(self) -> None:
            self.left = 3

        def changed(self) -> bool:
            self.left -= 1
            return self.left == 0

    one = Told()
    assert isinstance(one, Wakes)
    assert waited(60, [one], Stop())
    assert one.left == 0
    assert not waited(0, [one], Stop())


def test_paths_of_a_site_are_beside_its_file(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("kubeconfig = 'k.yaml'\nstate = 's'\nlongest = '2 h'")
    site = KubernetesSite.load(tmp_path / "site.toml")
    assert (site.kubeconfig, site.state, site.longest_us) == (tmp_path / "k.yaml", tmp_path / "s", 7_200_000_000)
    assert site.scheduler == "unrack"
    assert site.wake == tmp_path / "s" / "wake"


def test_paths_of_a_site_may_be_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    (tmp_path / "site.toml").write_text("kubeconfig = '~/k.yaml'\nstate = '~/s'\nwake = '/run/bell'")
    site = KubernetesSite.load(tmp_path / "site.toml")
    assert (site.kubeconfig, site.state, site.wake) == (
        Path("/home/ada/k.yaml"), Path("/home/ada/s"), Path("/run/bell")
    )  # fmt: skip
