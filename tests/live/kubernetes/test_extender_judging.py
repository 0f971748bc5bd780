"""What an extender of kube-scheduler says of pods and nodes, and over HTTP: without a server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from test_snapshot_of_kubernetes import node, pod

from unrack.errors import InputError
from unrack.live.additions import Additions
from unrack.live.driver.state.epoch import Spec
from unrack.live.kubernetes.adapter.picture import Picture, key_of
from unrack.live.kubernetes.adapter.terms import Added
from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.extender.judging import LONGEST_US, Judge
from unrack.live.kubernetes.extender.server import MOST_BYTES, Extender
from unrack.live.kubernetes.extender.site import ExtenderSite
from unrack.live.watch.meters import Meters

Content = dict[str, Any]
TIGHT = {"name": "list", "place": "best-fit"}
LOOSE = {"name": "list", "place": "worst-fit"}
GPUS = {"name": "list", "gpus": "best-fit"}
GPU = "nvidia.com/gpu"


def judging(policy: Spec, nodes: Sequence[Node], pods: Sequence[Pod] = (), cluster: Content | None = None) -> Judge:
    picture = Picture("")
    picture.take_nodes([(None, one) for one in nodes])
    picture.take_pods([(None, one) for one in pods])
    return Judge(picture, policy, Added(LONGEST_US, Additions(cluster or {})))


def asking(name: str, text: str, cpu: str = "1", on: str = "") -> Pod:
    """A pod that asks for more in its annotation."""
    return pod(name, {"cpu": cpu}, on=on, metadata={"annotations": {"unrack.io/asks": text}})


def some_nodes() -> list[Node]:
    """Three of which the second is half full, and the third nearly."""
    return [node(name, {"cpu": "8", "memory": "32Gi", "pods": "10"}) for name in ("n1", "n2", "n3")]


RUNNING = [pod("a", {"cpu": "4"}, on="n2"), pod("b", {"cpu": "6", "memory": "1Gi"}, on="n3")]


def test_nodes_without_room_are_told_apart_by_whether_they_ever_have_it() -> None:
    judge = judging(TIGHT, [*some_nodes(), node("small", {"cpu": "2", "memory": "4Gi", "pods": "10"})], RUNNING)
    found = judge.unfit(pod("p", {"cpu": "3500m"}), ["n1", "n2", "n3", "small", "unknown"])
    assert found.later == {
        "n3": "too little is free: it asks for 3500 thousandths of a core, of which there are 2000",
        "unknown": "the extender does not know this node yet",
    }
    assert found.never == {"small": "it asks for 3500 thousandths of a core, of which there are 2000"}


def test_what_is_being_bound_holds_its_room_until_it_is_seen_or_asked_for_again() -> None:
    one, other = pod("one", {"cpu": "5"}), pod("other", {"cpu": "5"})
    judge = judging(TIGHT, some_nodes(), [one, other])
    judge.picture.assume(key_of(one), "n1")
    assert list(judge.unfit(other, ["n1", "n2"]).later) == ["n1"]
    assert judge.ranked(other, ["n1", "n2"]) == ["n2"]
    judge.picture.assume_not(key_of(one))
    assert judge.unfit(other, ["n1", "n2"]) == ({}, {})


@pytest.mark.parametrize(
    ("policy", "order"), [(TIGHT, ["n3", "n2", "n1"]), (LOOSE, ["n1", "n2", "n3"]), ("fcfs", ["n1", "n2", "n3"])]
)
def test_nodes_are_ranked_as_the_policy_takes_them(policy: Spec, order: list[str]) -> None:
    judge = judging(policy, some_nodes(), RUNNING)
    asked = pod("p", {"cpu": "2"})
    assert judge.ranked(asked, ["n1", "n2", "n3"]) == order
    assert judge.ranked(asked, ["n1", "n2"]) == [name for name in order if name != "n3"]
    assert judge.ranked(asked, ["n1", "n2", "n3"]) == order  # and those that were left out are there again
    judge.picture.take_pods([(RUNNING[1], None)])
    judge.picture.take_pods([(None, pod("c", {"cpu": "7"}, on="n1"))])
    assert judge.ranked(asked, ["n1", "n2", "n3"]) == [name for name in ("n2", "n3") if name in order][:: (1, -1)[
        policy == LOOSE]]  # fmt: skip


def test_a_pod_is_ranked_whatever_else_it_says_and_though_its_nodes_are_cordoned() -> None:
    taints = [{"key": "only", "effect": "NoSchedule"}]
    nodes = [
        node("n1", {"cpu": "4", "memory": "4Gi"}, taints=taints, unschedulable=True),
        node("n2", {"cpu": "4", "memory": "4Gi"}),
    ]
    asked = pod(
        "p", {"cpu": "1"}, volumes=[{"persistentVolumeClaim": {"claimName": "c"}}],
        resourceClaims=[{"name": "r", "resourceClaimName": "r"}], nodeSelector={"no": "where"},
        schedulingGates=[{"name": "g"}],
    )  # fmt: skip
    judge = judging(TIGHT, nodes, [])
    assert judge.ranked(asked, ["n1", "n2"]) == ["n1", "n2"]
    assert judge.unfit(asked, ["n1", "n2"]) == ({}, {})


def test_resources_that_no_node_has_are_left_to_kube_scheduler_and_annotations_are_not_ignored() -> None:
    judge = judging(TIGHT, some_nodes())
    assert judge.unfit(pod("p", {"by.class/gpu": "1"}), ["n1"]) == ({}, {})
    for text in ("links.mb_s=5", "site.where=1", "memory=1GB", "no words"):
        assert "unrack.io/asks" in judge.unfit(asking("p", text), ["n1"]).never["n1"]
        assert judge.ranked(asking("p", text), ["n1"]) == []
    assert judge.unfit(asking("p", "deadline=2h"), ["n1"]) == ({}, {})


def tightest(free: dict[str, tuple[int, int]], cpu: int, mb: int) -> list[int]:
    """Best fit, plainly: what is free on those that fit, the fewest first."""
    return sorted(cores for cores, memory in free.values() if cores >= cpu and memory >= mb)[:10]


@pytest.mark.parametrize("seed", range(5))
def test_best_fit_ranks_as_a_plain_twin_does_while_pods_come_and_go(seed: int) -> None:
    random = Random(seed)
    sizes = {f"n{i:02}": (random.randrange(4, 33) * 1000, random.randrange(8, 65) * 1024) for i in range(25)}
    judge = judging(
        TIGHT, [node(name, {"cpu": f"{cpu}m", "memory": f"{mb}Mi", "pods": "99"}) for name, (cpu, mb) in sizes.items()]
    )
    free, there = dict(sizes), list[tuple[Pod, int, int]]()
    for number in range(120):
        cpu, mb = random.randrange(1, 60) * 100, random.randrange(1, 16) * 512
        asked = pod(f"p{number}", {"cpu": f"{cpu}m", "memory": f"{mb}Mi"})
        names = sorted(random.sample(list(sizes), random.randrange(3, 26)))
        unfit = judge.unfit(asked, names)
        ranked = judge.ranked(asked, names)
        assert [free[name][0] for name in ranked] == tightest({name: free[name] for name in names}, cpu, mb)
        assert len({*ranked} & {*names} - {*unfit.later, *unfit.never}) == len(ranked)
        assert {*unfit.later, *unfit.never} == {n for n in names if free[n][0] < cpu or free[n][1] < mb}
        if ranked:
            at = ranked[0]
            bound = pod(f"p{number}", {"cpu": f"{cpu}m", "memory": f"{mb}Mi"}, on=at)
            judge.picture.take_pods([(None, bound)])
            there.append((bound, cpu, mb))
            free[at] = free[at][0] - cpu, free[at][1] - mb
        if random.random() < 0.4 and there:
            gone, cpu, mb = there.pop(random.randrange(len(there)))
            judge.picture.take_pods([(gone, None)])
            at = gone.spec.node_name
            free[at] = free[at][0] + cpu, free[at][1] + mb


def test_gpus_are_packed_where_the_rule_for_gpus_says_so() -> None:
    nodes = [node(f"g{i}", {"cpu": "64", "memory": "512Gi", GPU: "8"}) for i in range(3)]
    pods = [pod("a", {GPU: "6"}, on="g1"), pod("b", {GPU: "4"}, on="g2")]
    judge = judging(GPUS, nodes, pods)
    assert judge.ranked(pod("p", {GPU: "2"}), ["g0", "g1", "g2"]) == ["g1", "g2", "g0"]
    assert judge.ranked(pod("p", {GPU: "4"}), ["g0", "g1", "g2"]) == ["g2", "g0"]


RACKS = {
    "racks": {"r1": "n[1-2]", "r2": "n[3-4]"},
    "counted": [{"name": "port", "amount": 4, "per": "rack"}],
    "links": {"mb_s": "10 Gb/s"},
}


def racked() -> list[Node]:
    return [node(f"n{i}", {"cpu": "8", "memory": "32Gi", "pods": "10"}) for i in range(1, 5)]


def test_what_a_rack_has_is_judged_by_what_the_pods_on_all_its_nodes_and_on_the_way_there_ask_for() -> None:
    names, one = ["n1", "n2", "n3", "n4"], asking("one", "counted.port=2")
    judge = judging(TIGHT, racked(), [one, asking("a", "counted.port=3", on="n1")], RACKS)
    found = judge.unfit(asking("p", "counted.port=2"), names)
    said = "too little is free: it asks for 2 of counted: port of r1, of which there are 1"
    assert found == (dict.fromkeys(["n1", "n2"], said), {})
    assert judge.ranked(asking("p", "counted.port=2"), names) == ["n3", "n4"]
    assert judge.ranked(asking("p", "counted.port=1 deadline=1h"), names) == ["n1", "n2", "n3", "n4"]
    judge.picture.assume(key_of(one), "n3")
    assert judge.ranked(asking("p", "counted.port=3"), names) == []
    assert judge.ranked(asking("p", "counted.port=2"), names) == ["n3", "n4"]
    judge.picture.take_pods([(asking("a", "counted.port=3", on="n1"), None)])
    assert judge.ranked(asking("p", "counted.port=3"), names) == ["n1", "n2"]
    assert "of which there are 4" in judge.unfit(asking("p", "counted.port=5"), names).later["n1"]
    assert judge.unfit(pod("p", {"cpu": "1"}), names) == ({}, {})  # it asks for none


@pytest.mark.parametrize(
    "text",
    [
        f"counted.port={2**42 - 1} links.mb_s=4000000G",
        "counted.port=5 links.mb_s=1000000",
        "counted.port=x",
        f"app={'x' * 2000} counted.port=4",
    ],
)
def test_pods_that_others_bound_hold_no_more_than_there_is_whatever_they_say(text: str) -> None:
    names = ["n1", "n2", "n3", "n4"]
    pods = [asking(f"{at}{i}", text, on=at) for at in ("n1", "n2") for i in range(3)]
    judge = judging(TIGHT, racked(), pods, RACKS)
    assert judge.ranked(asking("p", "counted.port=1"), names) == (names if "x" in text else ["n3", "n4"])
    assert judge.ranked(pod("q", {"cpu": "6"}), names) == ["n3", "n4"]  # 3 of 8 cores are held on the others


def test_what_did_not_fit_is_held_once_there_is_room_and_pods_that_go_are_gone_before_others_come() -> None:
    names = ["n1", "n2", "n3", "n4"]
    pods = [asking(f"at-{at}", "counted.port=3", on=at) for at in ("n1", "n2")]
    judge = judging(TIGHT, racked(), pods, RACKS)  # 6 of 4 on the first rack
    assert judge.ranked(asking("p", "counted.port=1"), names) == ["n3", "n4"]
    judge.picture.take_pods([(pods[0], None)])
    assert judge.ranked(asking("p", "counted.port=2"), names) == ["n3", "n4"]
    assert judge.ranked(asking("p", "counted.port=1"), names) == ["n2", "n1", "n3", "n4"]
    judge.picture.take_pods([(pods[1], None), (None, asking("again", "counted.port=4", on="n1"))])  # between two looks
    assert judge.ranked(asking("p", "counted.port=1"), names) == ["n3", "n4"]


@pytest.mark.parametrize("seed", range(4))
def test_counts_of_racks_are_those_of_a_plain_twin_while_pods_come_and_go(seed: int) -> None:
    random = Random(seed)
    names = [f"n{i:02}" for i in range(12)]
    rack_of = {name: f"r{i // 4}" for i, name in enumerate(names)}
    racks = {rack: f"n[{4 * i:02}-{4 * i + 3:02}]" for i, rack in enumerate(sorted(set(rack_of.values())))}
    cluster = {"racks": racks, "counted": [{"name": "port", "amount": 9, "per": "rack"}]}
    nodes = [node(name, {"cpu": "8", "memory": "32Gi", "pods": "99"}) for name in names]
    judge, there = judging(TIGHT, nodes, (), cluster), dict[str, tuple[Pod, str, int, int]]()
    for number in range(60):
        cpu, ports = random.randrange(1, 5), random.randrange(4)
        cores = {name: 8 - sum(one[2] for one in there.values() if one[1] == name) for name in names}
        left = {rack: 9 - sum(one[3] for one in there.values() if rack_of[one[1]] == rack) for rack in racks}
        said = {"annotations": {"unrack.io/asks": f"counted.port={ports}"}} if ports else {}
        asked = pod(f"p{number}", {"cpu": str(cpu)}, metadata=said)
        unfit = judge.unfit(asked, names)
        fits = [name for name in names if cores[name] >= cpu and left[rack_of[name]] >= ports]
        assert sorted({*names} - {*unfit.later, *unfit.never}) == fits
        ranked = judge.ranked(asked, names)
        assert ranked == sorted(fits, key=lambda name: (cores[name], name))[:10]
        if ranked:
            bound = pod(f"p{number}", {"cpu": str(cpu)}, on=ranked[0], metadata=said)
            judge.picture.take_pods([(None, bound)])
            there[f"p{number}"] = bound, ranked[0], cpu, ports
        if there and random.random() < 0.5:
            gone = there.pop(random.choice(sorted(there)))
            judge.picture.take_pods([(gone[0], None)])


def test_a_node_that_the_site_names_may_go_and_has_to_be_there_at_first() -> None:
    nodes = racked()
    judge = judging(TIGHT, nodes, [asking("a", "counted.port=3", on="n1")], RACKS)
    assert judge.ranked(asking("p", "counted.port=2"), ["n3", "n4"]) == ["n3", "n4"]
    judge.picture.take_nodes([(nodes[2], None)])
    judge.picture.take_nodes([(None, node("n9", {"cpu": "8", "memory": "32Gi", "pods": "10"}))])
    found = judge.unfit(asking("p", "counted.port=2"), ["n1", "n3", "n4", "n9"])
    assert sorted(found.later) == ["n1", "n3", "n9"]
    assert judge.ranked(asking("p", "counted.port=2"), ["n1", "n3", "n4", "n9"]) == ["n4"]
    with pytest.raises(InputError, match="a node that there is"):
        judging(TIGHT, nodes[:2], (), RACKS).ranked(pod("p", {"cpu": "99"}), [])


def test_nothing_is_kept_of_pods_and_nodes_that_are_gone() -> None:
    nodes = some_nodes()
    judge = judging(TIGHT, nodes, RUNNING)
    judge.picture.take_pods([(one, None) for one in RUNNING])
    judge.picture.take_nodes([(nodes[2], None)])
    assert judge.ranked(pod("p", {"cpu": "8"}), ["n1", "n2", "n3"]) == ["n1", "n2"]
    assert judge.picture.gone == {}
    assert sorted(judge._rooms) == ["n1", "n2"]


def test_a_ledger_that_has_seen_many_jobs_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unrack.live.kubernetes.extender.judging.MOST_JOBS", 5)
    judge = judging(TIGHT, some_nodes(), RUNNING)
    for _ in range(20):
        assert judge.ranked(pod("p", {"cpu": "2"}), ["n1", "n2", "n3"]) == ["n3", "n2", "n1"]


# Over HTTP


class Watched:
    """What is known, as current as a test says."""

    behind = ""


def served(judge: Judge, *questions: tuple[str, Any]) -> list[tuple[int, Any]]:
    """The answers of an extender; what is no bytes is sent as JSON."""

    async def ask() -> list[tuple[int, Any]]:
        watched: Any = Watched()
        runner = web.AppRunner(Extender(watched, judge, Meters(wanted=False)).application())
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port, found = runner.addresses[0][1], []
        async with aiohttp.ClientSession() as session:
            for verb, content in questions:
                body = content if isinstance(content, bytes) else json.dumps(content).encode()
                async with session.post(f"http://127.0.0.1:{port}/{verb}", data=body) as answer:
                    text = await answer.text()
                    found.append((answer.status, json.loads(text) if answer.status == 200 else text))
        await runner.cleanup()
        return found

    return asyncio.run(ask())


def as_json(one: Pod | Node) -> Content:
    return json.loads(msgspec.json.encode(one))


def test_nodes_come_back_as_they_were_asked_for() -> None:
    judge, asked = judging(TIGHT, some_nodes(), RUNNING), as_json(pod("p", {"cpu": "3"}))
    whole = [{**as_json(one), "odd": {"kept": [1.50, None]}} for one in some_nodes()]
    named, items, scores = served(
        judge,
        ("filter", {"Pod": asked, "Nodes": None, "NodeNames": ["n1", "n3"]}),
        ("filter", {"Pod": asked, "Nodes": {"metadata": {}, "items": whole}, "NodeNames": None}),
        ("prioritize", {"Pod": asked, "NodeNames": ["n1", "n2", "n3"]}),
    )
    assert named[0] == items[0] == scores[0] == 200
    assert (named[1]["NodeNames"], named[1]["Nodes"], list(named[1]["FailedNodes"])) == (["n1"], None, ["n3"])
    assert (items[1]["NodeNames"], items[1]["Nodes"]["items"]) == (None, whole[:2])
    assert items[1]["Error"] == ""
    assert scores[1] == [{"Host": "n1", "Score": 9}, {"Host": "n2", "Score": 10}, {"Host": "n3", "Score": 0}]


@pytest.mark.parametrize(
    ("verb", "content", "status"),
    [
        ("filter", b"", 400),
        ("filter", b"{", 400),
        ("filter", b"[" * 100_000, 400),
        ("filter", {"NodeNames": []}, 400),
        ("filter", {"Pod": {}}, 400),
        ("filter", {"Pod": {"spec": {"containers": 3}}, "NodeNames": []}, 400),
        ("filter", {"Pod": {}, "NodeNames": [1]}, 400),
        ("filter", {"Pod": {}, "Nodes": {"items": [{}]}}, 400),
        ("filter", {"Pod": {}, "Nodes": {"items": [3]}}, 400),
        ("prioritize", {"Pod": None, "NodeNames": []}, 400),
        ("bind", {"PodName": "p"}, 400),
        ("preempt", {}, 404),
        ("filter", b" " * (MOST_BYTES + 1), 413),
    ],
)
def test_what_is_no_question_is_refused(verb: str, content: Any, status: int) -> None:
    assert served(judging(TIGHT, some_nodes()), (verb, content))[0][0] == status


def test_an_amount_that_is_none_fits_nowhere_and_is_not_ranked() -> None:
    odd = as_json(pod("p", {"cpu": "1e"}))
    judged, scored = served(
        judging(TIGHT, some_nodes()),
        ("filter", {"Pod": odd, "NodeNames": ["n1"]}), ("prioritize", {"Pod": odd, "NodeNames": ["n1"]}),
    )  # fmt: skip
    assert judged[1]["NodeNames"] == []
    assert "1e" in judged[1]["FailedAndUnresolvableNodes"]["n1"]
    assert scored[1] == [{"Host": "n1", "Score": 0}]


def test_amounts_beyond_all_that_is_counted_fit_nowhere_and_hold_no_more_than_there_is() -> None:
    for amount in ("999999999999999999", "8E"):
        asked = pod("p", {"cpu": amount, GPU: "9223372036854775807"})
        there = pod("q", {"cpu": "999999999999999999", GPU: "999999999999999999"}, on="n1")
        judge = judging(TIGHT, some_nodes(), [there])
        assert sorted(judge.unfit(asked, ["n1", "n2"]).never) == ["n1", "n2"]
        assert judge.ranked(asked, ["n1", "n2"]) == []
        assert "n1" not in judge.ranked(pod("r", {"cpu": "1"}), ["n1", "n2", "n3"])


def test_nothing_is_answered_from_what_may_be_out_of_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "behind", "/api/v1/pods: no answer")
    asked = {"Pod": as_json(pod("p", {"cpu": "3"})), "NodeNames": ["n1"]}
    judged, scored = served(judging(TIGHT, some_nodes()), ("filter", asked), ("prioritize", asked))
    assert judged[1]["Error"] == "what the extender knows may be out of date: /api/v1/pods: no answer"
    assert scored[0] == 503


def test_a_thousand_nodes_and_a_large_pod_are_judged_in_little_time() -> None:
    nodes = [node(f"n{i:04}", {"cpu": "32", "memory": "128Gi", "pods": "110"}) for i in range(1000)]
    pods = [pod(f"r{i}", {"cpu": f"{i % 8}"}, on=f"n{i % 1000:04}") for i in range(3000)]
    judge, names = judging(TIGHT, nodes, pods), [one.metadata.name for one in nodes]
    asked = pod("p", {"cpu": "2"}, metadata={"annotations": {"large": "x" * 250_000}})
    judge.unfit(asked, names), judge.ranked(asked, names)  # kernels are compiled, and amounts read
    took = []
    for number in range(10):
        judge.picture.take_pods([(None, pod(f"new{number}", {"cpu": "1"}, on=f"n{number:04}"))])
        began = time.process_time()
        judge.unfit(asked, names)
        assert len(judge.ranked(asked, names)) == 10
        took.append(time.process_time() - began)
    assert min(took) < 0.1  # about 0.02 s; other programs make it slower


# Site files

LINE = 'policy = {name = "list", place = "best-fit"}\n'


def load(folder: Path, text: str) -> ExtenderSite:
    path = folder / "site.toml"
    path.write_text(text)
    return ExtenderSite.load(path)


def test_a_site_says_how_pods_are_placed_and_where_it_listens(tmp_path: Path) -> None:
    site = load(tmp_path, LINE + 'kubeconfig = "k"\naddress = "[::1]:0"\n')
    assert site.kubeconfig == tmp_path / "k"
    assert str(site.address) == "[::1]:0"
    assert site.tls() is None
    assert dict(site.spec)["place"] == "best-fit"  # type: ignore[call-overload]
    racks = 'racks = {r1 = "n1", r2 = "n2"}\ncounted = [{name = "x", amount = 1, per = "rack"}]\n'
    site = load(tmp_path, LINE + "[cluster]\n" + racks)
    assert site.added.additions.named == ["n1", "n2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "policy"),
        ('policy = "flow"', "one that places job by job"),
        ('policy = {name = "list", nodes = "whole"}', "one of shared nodes"),
        ('policy = {name = "list", order = "priority", backfill = "any", preempt = true}', "without preempt"),
        ('policy = {name = "easy", memory = "disaggregated"}', "memory"),
        (LINE + 'address = ""', "where kube-scheduler asks"),
        (LINE + 'address = "0.0.0.0:9644"', "clients that are answered can bind pods"),
        (LINE + 'certificate = "c.pem"', "certificate and key, or none"),
        (LINE + 'client_ca = "c.pem"', "certificate and key, or none"),
        (LINE + 'certificate = "c.pem"\nkey = "k.pem"', "PEM files"),
        (LINE + 'state = "x"', "state"),
        (LINE + 'kubeconfig = "~no-such-user/k"', "a home that there is"),
        (LINE + 'cluster = {lending = "rack"}', "memory of its own node alone"),
        (LINE + 'cluster = {pools = [{name = "p", kind = "nvme", count = 1}]}', "keeps no journal"),
        (LINE + "cluster = {rack = {}}", "racks"),
        (LINE + 'metrics = {address = "0.0.0.0:1"}', "allow_remote"),
    ],
)
def test_a_site_that_cannot_be_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, text)
    assert said in str(caught.value)
    assert "site.toml" in str(caught.value)
