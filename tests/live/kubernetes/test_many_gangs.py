"""Hundreds of gangs, with servers and drivers that are killed and nodes that go between the bindings of one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from dra_bed import add_class, add_slice, add_template, audit, given, wants
from driven_pods import DrivenPods, Killed, overbooked
from k8s_bed import KubernetesBed
from test_constraints_of_pods import HOST, REQUIRED
from test_gangs import add_group, add_member

from unrack.live.driver.state.replay import replay
from unrack.live.kubernetes.gangs import starting

GANGS, SIZE = int(os.environ.get("UNRACK_GANGS", "500")), 8
FAULTS = ("driver", "server", "node", "none")


def states(bed: KubernetesBed) -> dict[str, Counter[str]]:
    """How many pods of each gang wait, run and are over, as the server says."""
    found: dict[str, Counter[str]] = {}
    for pod in bed.admin.get("/api/v1/pods")["items"]:
        gang = pod["spec"].get("schedulingGroup", {}).get("podGroupName", "")
        phase = pod["status"]["phase"] if pod["spec"].get("nodeName") else "waits"
        found.setdefault(gang, Counter())["deleted" if "deletionTimestamp" in pod["metadata"] else phase] += 1
    return found


def halves(bed: KubernetesBed) -> dict[str, Counter[str]]:
    """Gangs of which some pods have nodes and others wait."""
    return {gang: own for gang, own in states(bed).items() if 0 < own["waits"] < own.total()}


def asks(kind: str, gang: str) -> dict[str, Any]:
    """What pods of a gang say beside cores."""
    if kind == "claims":
        return {"resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "one"}]}
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"gang": gang}}}
    apart = {"metadata": {"labels": {"gang": gang}}, "affinity": {"podAntiAffinity": {REQUIRED: [term]}}}
    return apart if kind == "apart" else {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "claims", "apart"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("UNRACK_CHAOS_SEEDS", "1"))))
def test_no_gang_stays_half_bound_whatever_breaks(
    new_kubernetes: Callable[..., KubernetesBed], monkeypatch: pytest.MonkeyPatch, seed: int, kind: str
) -> None:
    bed, random = new_kubernetes(), Random(seed)
    names, size = [f"n{i}" for i in range(40)], {"cpu": "8", "memory": "32Gi"}
    bed.add_nodes(names, size)
    add_class(bed, "gpu")
    add_template(bed, "one", wants("gpu"))
    for name in names:
        add_slice(bed, f"{name}-gpus", [{"name": f"gpu-{i}"} for i in range(4)], nodeName=name)
    bind, left, count, rounds = starting.bind, -1, 0, 20

    async def breaks(connection: Any, pod: Any, node: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed
        await bind(connection, pod, node)

    def again() -> None:
        """Pods that were deleted are made again, as a controller would."""
        there = states(bed)
        for number in range(count):
            for i in range(SIZE - there.get(f"g{number}", Counter()).total()):
                more = asks(kind, f"g{number}")
                add_member(bed, f"g{number}", 1000 + random.randrange(10**6), {"cpu": "1"}, run_s=0.3, **more)
                assert i < SIZE

    monkeypatch.setattr(starting, "bind", breaks)
    found = Counter[str]()
    with DrivenPods(bed, {"name": "list", "order": "fcfs", "backfill": "any"}) as driven:
        for turn in range(rounds):
            for number in range(count, (turn + 1) * GANGS // rounds):
                add_group(bed, f"g{number}", SIZE)
                for i in range(SIZE):
                    cpu = {"cpu": random.choice(["1", "500m"])}
                    add_member(bed, f"g{number}", i, cpu, run_s=0.3, **asks(kind, f"g{number}"))
            count = (turn + 1) * GANGS // rounds
            what, left = FAULTS[turn % len(FAULTS)], random.randrange(1, 60) if turn % 2 == 0 else -1
            gone, lost = random.choice(names), list[str]()
            with suppress(Killed):
                for step in range(30):
                    driven.go()
                    if step == 3 and what == "server":
                        bed.kill("kube-apiserver")
                        driven.go()
                        bed.start_server()
                    if step == 3 and what == "node":
                        bed.admin.delete(f"/api/v1/nodes/{gone}")
                        lost = [gone]
            if turn % 2 == 0 and left <= 0:  # a start with claims dies in the background, which is told later
                found["killed"] += 1
                driven.stop()
                found["half"] += len(halves(bed))
                driven.begin()
            left = -1
            driven.until(lambda: not halves(bed), 60)
            bed.add_nodes(lost, size)
            assert overbooked(bed) == []
            assert [one for one in audit(bed) if "times" in one or "runs without" in one] == []
            again()
        driven.until(lambda: not halves(bed) and all(own["waits"] == 0 for own in states(bed).values()), 120)
        ended = states(bed)
        assert len(ended) == GANGS
        driven.until(lambda: len(driven.driver.table) == 0)
        driven.until(lambda: given(bed) == {}, 60)
        assert replay(driven.journal.records()).differences == []
    assert found["killed"] > 0
    assert found["half"] > 0  # it was tried at all
