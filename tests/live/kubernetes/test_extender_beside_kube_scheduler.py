"""An extender that a real kube-scheduler asks: where pods land, and what becomes of them when one of both is away."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from driven_pods import overbooked
from k8s_bed import EXTENDER, KubernetesBed

Content = dict[str, Any]
ALL = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "bindVerb": "bind", "weight": 100, "httpTimeout": "5s"}
BY_TLS = {
    "enableHTTPS": True, "tlsConfig": {"caFile": "ca.crt", "certFile": "admin.crt", "keyFile": "admin.key"},
}  # fmt: skip
THEIRS = {"schedulerName": "default-scheduler"}


class Extending:
    """``unrack kubernetes extend`` in a process of its own."""

    def __init__(self, bed: KubernetesBed, folder: Path, place: str = "best-fit", tls: bool = False) -> None:
        self.bed, self.port, self.site, self.tls = bed, bed.extender_port, folder / "extender.toml", tls
        at, said = bed.folder, ""
        if tls:
            said = f'certificate = "{at}/server.crt"\nkey = "{at}/server.key"\nclient_ca = "{at}/ca.crt"\n'
        self.site.write_text(
            f'policy = {{name = "list", place = "{place}"}}\naddress = "127.0.0.1:{self.port}"\n{said}'
            f'kubeconfig = "{bed.kubeconfig(EXTENDER)}"\nmetrics = {{address = "127.0.0.1:{bed.free_port}"}}\n'
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = [sys.executable, "-m", "unrack", "kubernetes", "extend", "--config", str(self.site)]
        with open(self.bed.folder / "extender.log", "ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        self.bed.wait_until(lambda: self.ask("none", {})[0] == 404, 60, "the extender answers")

    def kill(self) -> None:
        """End it at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def ask(self, verb: str, content: Content, user: str = "admin") -> tuple[int, Any]:
        """What it answers, where it asks for that to a user with a certificate (``""``: to one without); 0: nothing."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        if self.tls:
            context, at = ssl.create_default_context(cafile=self.bed.folder / "ca.crt"), self.bed.folder
            if user:
                context.load_cert_chain(at / f"{user}.crt", at / f"{user}.key")
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=context)
        with contextlib.closing(connection), contextlib.suppress(OSError):
            connection.request("POST", f"/{verb}", json.dumps(content))
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if answer.status == 200 else text.decode()
        return 0, None


@pytest.fixture
def extending(tmp_path: Path) -> Iterator[Callable[..., Extending]]:
    """Makes extenders, which are ended after the test."""
    made = list[Extending]()

    def make(bed: KubernetesBed, place: str = "best-fit", tls: bool = False) -> Extending:
        made.append(Extending(bed, tmp_path, place, tls))
        return made[-1]

    yield make
    for one in made:
        one.kill()


def placed(bed: KubernetesBed, start: str = "") -> dict[str, str]:
    pods = bed.admin.get("/api/v1/namespaces/default/pods")["items"]
    named = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in pods}
    return {name: node for name, node in named.items() if node and name.startswith(start)}


def test_pods_land_where_the_policy_has_them_and_elsewhere_without_it(
    new_kubernetes: Callable[..., KubernetesBed], extending: Callable[..., Extending]
) -> None:
    bed = new_kubernetes(scheduler={**ALL, "nodeCacheCapable": True, "ignorable": True}, kubelets=False)
    bed.add_nodes(["n1", "n2", "n3", "n4"], {"cpu": "8", "memory": "32Gi"})
    bed.add_pod("there", {"cpu": "2"}, nodeName="n3", **THEIRS)
    for i in range(4):  # the extender does not answer: kube-scheduler goes on by itself, and spreads
        bed.add_pod(f"alone{i}", {"cpu": "1"}, **THEIRS)
    bed.wait_until(lambda: len(placed(bed, "alone")) == 4, 60, "it binds by itself")
    assert len(set(placed(bed, "alone").values())) >= 3
    for name in placed(bed, "alone"):
        bed.admin.delete(f"/api/v1/namespaces/default/pods/{name}", gracePeriodSeconds=0)
    one = extending(bed)
    one.start()
    for i in range(8):
        bed.add_pod(f"tight{i}", {"cpu": "1"}, **THEIRS)
        bed.wait_until(lambda i=i: f"tight{i}" in placed(bed), 30, "it is bound")
    assert Counter(placed(bed, "tight").values()).most_common() == [("n3", 6), (placed(bed)["tight7"], 2)]
    one.kill()
    extending(bed, "worst-fit").start()  # begun anew with another policy: nothing was kept
    for i in range(2):
        bed.add_pod(f"loose{i}", {"cpu": "1"}, **THEIRS)
        bed.wait_until(lambda i=i: f"loose{i}" in placed(bed), 30, "it is bound")
    assert not set(placed(bed, "loose").values()) & set(placed(bed, "tight").values())
    assert overbooked(bed) == []


@pytest.mark.parametrize(
    "options",
    [
        {**ALL, "nodeCacheCapable": True},
        {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 100, "nodeCacheCapable": False, **BY_TLS},
        {**ALL, "managedResources": [{"name": "x.y/nic", "ignoredByScheduler": True}]},
    ],
    ids=["by name", "whole nodes, bound by kube-scheduler, by TLS", "a resource that it manages"],
)
def test_pods_come_and_go_while_either_is_killed_and_no_node_is_overbooked(
    options: Content, new_kubernetes: Callable[..., KubernetesBed], extending: Callable[..., Extending]
) -> None:
    bed, random = new_kubernetes(scheduler=options), Random(5)
    bed.add_nodes([f"n{i}" for i in range(6)], {"cpu": "4", "memory": "8Gi", "x.y/nic": "2"})
    one = extending(bed, tls="enableHTTPS" in options)
    one.start()
    if one.tls:
        assert one.ask("none", {}, user="")[0] == 0  # clients without a certificate are not answered
    for i in range(60):
        asks = {"cpu": f"{random.choice([500, 1000, 2000])}m", "memory": "256Mi"}
        asks |= {"x.y/nic": "1"} if i % 3 == 0 else {}
        bed.add_pod(f"p{i}", asks, run_s=random.uniform(0.5, 2), **THEIRS)
        if i == 20:
            one.kill()
            time.sleep(1)
            one.start()
        if i == 40:
            bed.kill("kube-scheduler")
            bed.start_scheduler()
        assert overbooked(bed) == []

    def done() -> bool:
        assert overbooked(bed) == []
        return all(
            pod["status"]["phase"] == "Succeeded" for pod in bed.admin.get("/api/v1/namespaces/default/pods")["items"]
        )

    bed.wait_until(done, 120, "all have run")


RACKS = """
[cluster]
racks = { r1 = "n[1-2]", r2 = "n[3-4]" }
counted = [{ name = "port", amount = 2, per = "rack" }]
"""


def test_racks_never_have_more_pods_than_ports_though_the_extender_is_killed(
    new_kubernetes: Callable[..., KubernetesBed], extending: Callable[..., Extending]
) -> None:
    bed = new_kubernetes(scheduler={**ALL, "nodeCacheCapable": True})
    bed.add_nodes(["n1", "n2", "n3", "n4"], {"cpu": "8", "memory": "32Gi"})
    one = extending(bed)
    one.site.write_text(one.site.read_text() + RACKS)
    one.start()
    said = {"annotations": {"unrack.io/asks": "counted.port=1"}}
    for i in range(16):
        bed.add_pod(f"p{i}", {"cpu": "100m"}, run_s=1, metadata=said, **THEIRS)
    bed.add_pod("plain", {"cpu": "100m"}, run_s=1, **THEIRS)
    most = Counter[str]()

    def done() -> bool:
        pods = bed.admin.get("/api/v1/namespaces/default/pods")["items"]
        live = [one for one in pods if one["spec"].get("nodeName") and one["status"]["phase"] in ("Pending", "Running")]
        asking = [one for one in live if "unrack.io/asks" in one["metadata"].get("annotations", {})]
        now = Counter("r1" if one["spec"]["nodeName"] in ("n1", "n2") else "r2" for one in asking)
        assert max(now.values(), default=0) <= 2
        most.update({rack: max(0, count - most[rack]) for rack, count in now.items()})
        return all(one["status"]["phase"] == "Succeeded" for one in pods)

    bed.wait_until(lambda: done() or sum(most.values()) == 4, 60, "both racks are full")
    one.kill()
    one.start()
    bed.wait_until(done, 120, "all have run")
    assert most == {"r1": 2, "r2": 2}


def test_what_nodes_lack_is_told_in_numbers_and_a_binding_that_fails_leaves_its_room(
    new_kubernetes: Callable[..., KubernetesBed], extending: Callable[..., Extending]
) -> None:
    bed = new_kubernetes(kubelets=False)
    bed.add_nodes(["n1", "n2"], {"cpu": "4", "memory": "8Gi"})
    one = extending(bed)
    one.start()
    gated = bed.add_pod("gated", {"cpu": "3"}, schedulingGates=[{"name": "x.y/g"}], **THEIRS)
    free = bed.add_pod("free", {"cpu": "3"}, **THEIRS)
    other = bed.add_pod("other", {"cpu": "2"}, **THEIRS)
    at = {"PodNamespace": "default", "Node": "n1"}
    bindings = [{**at, "PodName": pod["metadata"]["name"], "PodUID": pod["metadata"]["uid"]} for pod in (gated, free)]
    status, said = one.ask("bind", bindings[0])
    assert status == 200
    assert said["Error"]  # the server refuses to bind it
    assert one.ask("bind", {**bindings[1], "PodUID": "another"})[1]["Error"].startswith("the extender knows no pod")
    assert one.ask("bind", {**bindings[1], "Node": "n9"})[1]["Error"].endswith("does not know this node yet")
    assert one.ask("bind", bindings[1]) == (200, {"Error": ""})
    assert placed(bed) == {"free": "n1"}
    # it may be told twice, once it is seen as bound; before that the server says so
    bed.wait_until(lambda: one.ask("bind", bindings[1]) == (200, {"Error": ""}), 10, "it is seen as bound")
    assert "bound to node n1" in one.ask("bind", {**bindings[1], "Node": "n2"})[1]["Error"]
    found = one.ask("filter", {"Pod": other, "NodeNames": ["n1", "n2"]})[1]
    assert found["NodeNames"] == ["n2"]
    text = "too little is free: it asks for 2000 thousandths of a core, of which there are 1000"
    assert found["FailedNodes"] == {"n1": text}
    connection = http.client.HTTPConnection("127.0.0.1", bed.free_port, timeout=10)
    for path in ("/healthz", "/readyz"):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (200, True)
    bed.kill("kube-apiserver")
    bed.wait_until(
        lambda: "out of date" in one.ask("filter", {"Pod": other, "NodeNames": ["n2"]})[1]["Error"], 60, "it says so"
    )
    bed.start_server()
    bed.wait_until(
        lambda: one.ask("filter", {"Pod": other, "NodeNames": ["n2"]})[1]["NodeNames"] == ["n2"], 60, "it goes on"
    )


def test_who_may_not_look_is_told_so(new_kubernetes: Callable[..., KubernetesBed], tmp_path: Path) -> None:
    bed = new_kubernetes(kubelets=False)
    one = Extending(bed, tmp_path)
    one.site.write_text(one.site.read_text().replace(str(bed.kubeconfig(EXTENDER)), str(bed.kubeconfig("nobody"))))
    words = [sys.executable, "-m", "unrack", "kubernetes", "extend", "--config", str(one.site)]
    found = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 2
    assert "docs/kubernetes-rights" in found.stderr
