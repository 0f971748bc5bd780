"""Where pods may run beside others: as kube-scheduler itself has it, asked by an extender; and what the driver does."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from driven_pods import DrivenPods, overbooked
from k8s_bed import KubernetesBed

from unrack.live.driver.state.replay import replay
from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.constraints.beside import Beside, required_beside
from unrack.live.kubernetes.places import may_run

Content = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
CASES = int(os.environ.get("UNRACK_GOLDEN", "60"))


class Extender:
    """What kube-scheduler asks last: it is told that no node will do, and so tells which would for each pod."""

    def __init__(self) -> None:
        self.found = found = dict[str, set[str]]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                names = asked.get("NodeNames") or asked.get("nodenames") or []
                pod = asked.get("Pod") or asked.get("pod")
                found[pod["metadata"]["name"]] = set(names)
                answer = json.dumps({"NodeNames": [], "FailedNodes": dict.fromkeys(names, "no")}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def asked(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KubernetesBed, Extender]]:
    """A cluster with kube-scheduler and an extender."""
    extender = Extender()
    with KubernetesBed(programs, kubelets=False) as bed:
        config = tmp_path_factory.mktemp("scheduler") / "config.yaml"
        one = {
            "urlPrefix": f"http://127.0.0.1:{extender.server.server_port}", "filterVerb": "filter",
            "nodeCacheCapable": True,
        }  # fmt: skip
        content = {
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": f"{bed.folder}/admin.yaml"}, "extenders": [one],
            "leaderElection": {"leaderElect": False}, "podMaxBackoffSeconds": 1,
        }  # fmt: skip
        config.write_text(json.dumps(content))
        flags = ["--bind-address=127.0.0.1", f"--secure-port={bed._scheduler}", f"--config={config}"]
        bed._start("kube-scheduler", *flags)
        yield bed, extender
    extender.server.shutdown()


def selector(random: Random) -> Content | None:
    app, tier = random.choice("abc"), random.choice("xy")
    return random.choice([
        {"matchLabels": {"app": app}}, {"matchLabels": {"app": app}}, {"matchLabels": {"app": app, "tier": tier}},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "b"]}]},
        {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]}, {}, None,
    ])  # fmt: skip


def terms(random: Random) -> list[Content]:
    found = []
    for _ in range(random.choice([1, 1, 2])):
        term: Content = {"topologyKey": random.choice([HOST, "zone", "rack"])}
        if (one := selector(random)) is not None:
            term["labelSelector"] = one
        term |= random.choice([
            {}, {}, {"namespaces": ["other"]}, {"namespaces": ["default", "other"]}, {"namespaceSelector": {}},
            {"namespaceSelector": {"matchLabels": {"team": "red"}}},
            {"namespaceSelector": {"matchLabels": {"team": "red"}}, "namespaces": ["default"]},
        ])  # fmt: skip
        if "labelSelector" in term and random.random() < 0.1:
            term["matchLabelKeys"] = ["version"]
        found.append(term)
    return found


def some_spec(random: Random, kinds: tuple[str, ...]) -> Content:
    spec: Content = {}
    for kind in kinds:
        if kind == "spread":
            spreads = []
            for key in random.sample([HOST, "zone", "rack"], random.choice([1, 1, 2])):
                one: Content = {
                    "topologyKey": key,
                    "maxSkew": random.choice([1, 1, 2]),
                    "whenUnsatisfiable": "DoNotSchedule",
                }
                if (chosen := selector(random)) is not None:
                    one["labelSelector"] = chosen
                    if random.random() < 0.2:
                        one["matchLabelKeys"] = ["version"]
                if random.random() < 0.3:
                    one["minDomains"] = random.choice([2, 4])
                one |= random.choice([{}, {"nodeTaintsPolicy": "Honor"}, {"nodeAffinityPolicy": "Ignore"}])
                spreads.append(one)
            spec["topologySpreadConstraints"] = spreads
        elif kind == "ports":
            wanted = {"hostPort": random.choice([8080, 8081]), "containerPort": 80}
            wanted |= random.choice([{}, {"protocol": "UDP"}, {"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}])
            spec["ports"] = [wanted]
        else:
            spec.setdefault("affinity", {})[kind] = {REQUIRED: terms(random)}
    if random.random() < 0.2:
        spec["nodeSelector"] = {"zone": random.choice("ab")}
    return spec


def pod_of(random: Random, name: str, *kinds: str) -> Content:
    labels = {"app": random.choice("abc"), "version": random.choice("12")}
    labels |= {"tier": random.choice("xy")} if random.random() < 0.6 else {}
    spec = some_spec(random, kinds)
    container = {"name": "main", "image": "none", "ports": spec.pop("ports", [])}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


KINDS = (
    ("podAffinity",), ("podAntiAffinity",), ("spread",), ("ports",), ("podAffinity", "podAntiAffinity"),
    ("podAntiAffinity", "spread"), ("podAffinity", "spread", "ports"), (),
)  # fmt: skip


@pytest.mark.parametrize("seed", range(int(os.environ.get("UNRACK_GOLDEN_SEEDS", "4"))))
def test_nodes_are_those_of_kube_scheduler(asked: tuple[KubernetesBed, Extender], seed: int) -> None:
    (bed, extender), random = asked, Random(seed)
    bed.clear()
    there = {one["metadata"]["name"] for one in bed.admin.get("/api/v1/namespaces")["items"]}
    for name, labels in {"other": {"team": "red"}, "third": {"team": "blue"}}.items():
        if name not in there:
            bed.admin.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    for i in range(8):
        labels = {key: random.choice("abc") for key in ("zone", "rack") if random.random() < 0.85}
        taints = [{"key": "kept", "effect": "NoSchedule"}] if random.random() < 0.15 else []
        bed.add_nodes([f"n{i}"], {"cpu": "100", "memory": "100Gi"}, labels=labels, taints=taints)
    for i in range(random.choice([0, 4, 14])):
        pod = pod_of(random, f"there{i}", *random.choice([(), ("podAntiAffinity",), ("ports",), ("podAffinity",)]))
        pod["spec"]["nodeName"] = f"n{random.randrange(8)}"
        path = f"/api/v1/namespaces/{random.choice(['default', 'other', 'third'])}/pods"
        bed.admin.post(path, pod)
        if random.random() < 0.2:  # it is being deleted, and no kubelet lets it go
            bed.admin.delete(f"{path}/there{i}")
    names, sizes = [f"s{seed}-{i}" for i in range(CASES)], Counter[str]()
    for number, name in enumerate(names):
        bed.admin.post("/api/v1/namespaces/default/pods", pod_of(random, name, *KINDS[number % len(KINDS)]))
    decided = wait_for(bed, extender, names)
    nodes, pods = bed.admin.get("/api/v1/nodes")["items"], bed.admin.get("/api/v1/pods")["items"]
    read = {one["metadata"]["name"]: msgspec.convert(one, Node) for one in nodes}
    beside = Beside(read)
    for one in bed.admin.get("/api/v1/namespaces")["items"]:
        beside.namespaces[one["metadata"]["name"]] = one["metadata"]["labels"]
    for pod in pods:
        if node := pod["spec"].get("nodeName"):
            beside.put(pod["metadata"]["uid"], msgspec.convert(pod, Pod), node)
    for pod in pods:
        if (name := pod["metadata"]["name"]) not in names:
            continue
        mine = msgspec.convert(pod, Pod)
        off = beside.forbidden(mine, required_beside(mine))
        ours = {node for node, of in read.items() if may_run(mine, of) and node not in off}
        assert ours == decided[name], (pod["metadata"]["labels"], pod["spec"])
        sizes["none" if not ours else "all" if len(ours) == 8 else "some"] += 1
    assert sizes["some"] >= 3


def wait_for(bed: KubernetesBed, extender: Extender, names: list[str]) -> dict[str, set[str]]:
    """The nodes on which kube-scheduler would have each pod run, none of which it may have."""
    none = set[str]()

    def all_known() -> bool:
        none.clear()
        for pod in bed.admin.get("/api/v1/namespaces/default/pods")["items"]:
            conditions = {one["type"]: one for one in pod["status"].get("conditions", ())}
            if "PodScheduled" in conditions and pod["metadata"]["name"] not in extender.found:
                none.add(pod["metadata"]["name"])
        return set(names) <= none | extender.found.keys()

    bed.wait_until(all_known, 60, "all pods were looked at")
    return {name: extender.found.get(name, set()) for name in names}


def anti(app: str, key: str = HOST) -> Content:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def test_replicas_that_keep_off_each_other(kubernetes: KubernetesBed) -> None:
    kubernetes.add_nodes([f"n{i}" for i in range(4)], {"cpu": "4", "memory": "8Gi"})
    with DrivenPods(kubernetes) as driven:
        for i in range(6):
            kubernetes.add_pod(f"p{i}", {"cpu": "1"}, metadata={"labels": {"app": "db"}}, affinity=anti("db"))
            kubernetes.add_pod(f"web{i}", {"cpu": "100m"}, metadata={"labels": {"app": "web"}}, affinity=anti("db"))
        driven.until(lambda: len(driven.placed()) >= 4)
        for _ in range(30):
            driven.go()
        placed = driven.placed()
        on = [node for name, node in placed.items() if name.startswith("p")]
        assert len(on) == len(set(on))
        assert not {node for name, node in placed.items() if name.startswith("web")} & set(on)
        for name, node in placed.items():
            if node == on[0]:
                kubernetes.admin.delete(f"/api/v1/namespaces/default/pods/{name}", gracePeriodSeconds=0)
        driven.until(lambda: on[0] in driven.placed().values())
        assert replay(driven.journal.records()).differences == []


def test_pods_spread_and_share_no_port(kubernetes: KubernetesBed) -> None:
    for zone in "abc":
        kubernetes.add_nodes([f"{zone}{i}" for i in range(3)], {"cpu": "8", "memory": "8Gi"}, labels={"zone": zone})
    chosen = {"labelSelector": {"matchLabels": {"app": "s"}}, "topologyKey": "zone"}
    spread = [{**chosen, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    container = {"name": "main", "image": "none", "ports": [{"containerPort": 80, "hostPort": 80}]}
    with DrivenPods(kubernetes, "list(place=first-fit, backfill=any)") as driven:
        for i in range(9):
            kubernetes.add_pod(
                f"s{i}", {"cpu": "1"}, metadata={"labels": {"app": "s"}}, topologySpreadConstraints=spread
            )
        for i in range(10):
            kubernetes.add_pod(f"port{i}", containers=[container])
        skews = list[int]()

        def done() -> bool:
            placed = driven.placed()
            zones = Counter(node[0] for name, node in placed.items() if name.startswith("s"))
            skews.append(max(zones[zone] for zone in "abc") - min(zones[zone] for zone in "abc"))
            return len(placed) == 18

        driven.until(done)
        assert max(skews) <= 1
        ports = [node for name, node in driven.placed().items() if name.startswith("port")]
        assert len(set(ports)) == len(ports) == 9
        assert overbooked(kubernetes) == []
        assert replay(driven.journal.records()).differences == []


def test_others_bind_between_the_decision_and_ours(kubernetes: KubernetesBed, monkeypatch: pytest.MonkeyPatch) -> None:
    kubernetes.add_nodes(["n1", "n2"], {"cpu": "4", "memory": "8Gi"})
    with DrivenPods(kubernetes) as driven:
        driven.until(lambda: driven.driver.epoch is not None)
        start, raced = driven.adapter._start, list[str]()

        async def after_them(key: str, pod: Any, node: str) -> Any:
            if not raced:
                raced.append(node)
                kubernetes.add_pod(
                    "theirs", schedulerName="other", nodeName=raced[0], metadata={"labels": {"app": "db"}}
                )
                deadline = time.monotonic() + 10
                while (
                    not any("/theirs/" in key for key in driven.adapter.picture.shown) and time.monotonic() < deadline
                ):
                    await asyncio.sleep(0.01)
            return await start(key, pod, node)

        driven.adapter._start = after_them  # type: ignore[method-assign]
        kubernetes.add_pod("p", {"cpu": "1"}, affinity=anti("db"))
        driven.until(lambda: "p" in driven.placed())
        assert driven.placed()["p"] != raced[0]
