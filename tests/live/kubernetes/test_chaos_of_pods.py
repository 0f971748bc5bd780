"""Pods, nodes and servers that come, change, hang and go in any order, under several policies."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from random import Random
from threading import Timer
from typing import Any

import pytest
from api_admin import AdminError
from driven_pods import DrivenPods, overbooked
from k8s_bed import KubernetesBed

from unrack.live.driver.state.replay import replay

SEEDS = int(os.environ.get("UNRACK_CHAOS_SEEDS", "1"))
PODS = "/api/v1/namespaces/default/pods"


def test_a_server_that_hangs_while_it_is_asked_binds_nothing_twice(
    new_kubernetes: Callable[..., KubernetesBed],
) -> None:
    bed = new_kubernetes()
    bed.add_nodes(["n1", "n2"], {"cpu": "4", "memory": "8Gi"})
    with DrivenPods(bed, timeout_s=0.5) as driven:
        driven.until(lambda: driven.driver.epoch is not None)
        for round_ in range(3):
            for i in range(6):
                bed.add_pod(f"p{round_}-{i}", {"cpu": "1"}, run_s=0.5)
            deadline = time.monotonic() + 20
            while not driven.driver.acting._due(driven.driver.clock.now()):
                assert time.monotonic() < deadline
                driven.driver.look()
            driven.driver.acting._given.clear()
            bed.pause("kube-apiserver")
            Timer(1.5, bed.resume, ["kube-apiserver"]).start()
            for _ in range(4):
                driven.go()
            time.sleep(1)
            driven.until_all()
        assert overbooked(bed) == []
        driven.until(lambda: len(driven.driver.table) == 0)
        assert replay(driven.journal.records()).differences == []


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("policy", ["easy", "conservative", "list(order=sjf, place=worst-fit)"])
def test_whatever_happens_no_node_is_overbooked_and_all_end(kubernetes: KubernetesBed, policy: str, seed: int) -> None:
    random = Random(f"{policy} {seed}")
    names = [f"n{i}" for i in range(6)]
    for name in names:
        size = {"cpu": random.choice(["2", "4"]), "memory": random.choice(["2Gi", "4Gi"]), "pods": "6"}
        kubernetes.add_nodes([name], size, labels={"zone": random.choice("ab")})
    there: list[str] = []

    def add(name: str) -> None:
        asks = {"cpu": random.choice(["100m", "1", "1500m"]), "memory": random.choice(["64Mi", "1Gi"])}
        more: dict[str, Any] = {}
        if random.random() < 0.3:
            more["nodeSelector"] = {"zone": random.choice("ab")}
        if random.random() < 0.2:
            more["schedulingGates"] = [{"name": "example.com/gate"}]
        times = {"k8sbox/seconds": str(random.choice([0.1, 0.5, 1.5])), "unrack.io/run-time": random.choice(["1", "3"])}
        kubernetes.add_pod(name, asks, metadata={"annotations": times}, **more)

    def change(what: str) -> None:
        node, pod = random.choice(names), random.choice(there or ["none"])
        if what == "add" or not there:
            there.append(f"p{len(there)}")
            add(there[-1])
        elif what in ("delete", "again"):
            kubernetes.admin.delete(f"{PODS}/{pod}", gracePeriodSeconds=0)
            if what == "again":
                add(pod)
        elif what == "ungate":
            kubernetes.admin.patch(f"{PODS}/{pod}", {"spec": {"schedulingGates": []}})
        elif what == "cordon":
            kubernetes.admin.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": random.random() < 0.4}})
        elif what == "taint":
            taint = [{"key": "x", "effect": "NoSchedule"}] if random.random() < 0.4 else []
            kubernetes.admin.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": taint}})
        elif what == "label":
            kubernetes.admin.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"zone": random.choice("ab")}}})
        elif what == "restart":
            driven.stop()
            driven.begin()

    with DrivenPods(kubernetes, policy) as driven:
        for _ in range(150):
            few = ["delete", "again", "ungate", "cordon", "taint", "label", "restart"]
            try:
                change(random.choice(["add"] * 8 + few))
            except AdminError as error:
                if error.code not in (404, 409):
                    raise
            if random.random() < 0.6:
                driven.go()
                assert overbooked(kubernetes) == []
        for name, zone in zip(names, "ababab", strict=True):
            free = {"metadata": {"labels": {"zone": zone}}, "spec": {"unschedulable": None, "taints": []}}
            kubernetes.admin.patch(f"/api/v1/nodes/{name}", free)
        for name, pod in driven.pods().items():
            if pod["spec"].get("schedulingGates"):
                kubernetes.admin.patch(f"{PODS}/{name}", {"spec": {"schedulingGates": []}})
        driven.until_all(timeout_s=120)
        assert overbooked(kubernetes) == []
        driven.until(lambda: len(driven.driver.table) == 0)
        assert replay(driven.journal.records()).differences == []
