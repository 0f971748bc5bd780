"""A thousand claims of whole, shared and parted devices, through faults of the server; audited all the time."""

from __future__ import annotations

import http.client
import os
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from api_admin import AdminError
from dra_bed import DRIVER, add_claiming, add_class, add_slice, add_template, audit, clear, given, wants
from driven_pods import DrivenPods
from k8s_bed import KubernetesBed

pytestmark = pytest.mark.slow
NODES, PODS = 24, int(os.environ.get("UNRACK_CLAIMS", "1000"))
SIZES = {"small": 1, "middle": 2, "half": 3, "whole": 7}


def furnish(bed: KubernetesBed) -> None:
    """Nodes with GPUs that can be parted, drives that all share, and accelerators of which some nodes have two."""
    clear(bed)
    names = [f"n{i:02}" for i in range(NODES)]
    bed.add_nodes(names, {"cpu": "64", "memory": "64Gi"})
    profile = f'device.attributes["{DRIVER}"].profile'
    for size in SIZES:
        add_class(bed, size, f'has({profile}) && {profile} == "{size}"')
        add_template(bed, size, wants(size))
    add_class(bed, "drive", "device.allowMultipleAllocations")
    add_class(bed, "card", f'has(device.attributes["{DRIVER}"].card)')
    add_template(bed, "room", wants("drive", capacity={"requests": {"size": "70Gi"}}))
    add_template(bed, "cards", wants("card", count=2), constraints=[{"matchAttribute": f"{DRIVER}/card"}])
    add_template(bed, "both", wants("small"), wants("drive", "space", capacity={"requests": {"size": "30Gi"}}))
    policy = {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}}
    room = {"size": {"value": "500Gi", "requestPolicy": policy}}
    drives = [{"name": f"drive-{i}", "allowMultipleAllocations": True, "capacity": room} for i in range(6)]
    add_slice(bed, "drives", drives, allNodes=True)
    for name in names:
        parts: list[dict[str, Any]] = [
            {"name": f"{size}-{i}", "attributes": {"profile": {"string": size}},
             "consumesCounters": [{"counterSet": "gpu", "counters": {"slices": {"value": str(amount)}}}]}
            for size, amount in SIZES.items() for i in range(7 // amount)
        ]  # fmt: skip
        counters = [{"name": "gpu", "counters": {"slices": {"value": "7"}}}]
        add_slice(bed, f"{name}-parts", parts, pool=name, count=2, nodeName=name)
        add_slice(bed, f"{name}-counters", [], pool=name, count=2, nodeName=name, sharedCounters=counters)
    for name in names[::3]:
        cards = [{"name": f"card-{i}", "attributes": {"card": {"int": i // 2}}} for i in range(4)]
        add_slice(bed, f"{name}-cards", cards, nodeName=name)


def test_a_thousand_claims_are_never_given_too_much(new_kubernetes: Callable[..., KubernetesBed]) -> None:
    bed, random = new_kubernetes(), Random(1)
    furnish(bed)
    problems, audits, ended = list[str](), [0], threading.Event()

    def watchful() -> None:
        while not ended.wait(0.5):
            try:
                problems.extend(audit(bed))
                audits[0] += 1
            except (AdminError, OSError, http.client.HTTPException):  # the server is away
                time.sleep(0.2)

    auditor = threading.Thread(target=watchful)
    kinds = ["small", "small", "middle", "half", "whole", "room", "room", "cards", "both"]
    for i in range(PODS):
        add_claiming(bed, f"p{i}", template=random.choice(kinds), run_s=random.choice([0.5, 1.0, 3.0]))
    driven = DrivenPods(bed)
    auditor.start()
    began, moved = time.monotonic(), 0
    try:
        while driven.pods() and time.monotonic() < began + 900:
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                driven.go()
            left = [pod for pod in driven.pods().values() if pod["status"]["phase"] != "Succeeded"]
            if not left:
                break
            moved += 1
            if moved % 3 == 1:
                bed.kill("kube-apiserver")
                for _ in range(5):
                    driven.go()
                bed.start_server()
            elif moved % 3 == 2:
                driven.stop()
                driven.begin()
        took_s = time.monotonic() - began
        assert all(pod["status"]["phase"] == "Succeeded" for pod in driven.pods().values())
        driven.until(lambda: given(bed) == {}, 60)
    finally:
        ended.set()
        auditor.join()
        driven.stop()
    assert problems == []
    assert audit(bed) == []
    assert audits[0] > 10
    print(f"{PODS} pods in {took_s:.0f} s, {moved} faults, {audits[0]} audits")  # noqa: T201 - the figure of the docs
