"""Gangs whose pods keep off each other, have to be together, are spread or share ports, on a real API server."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from driven_pods import DrivenPods, Killed, overbooked
from k8s_bed import KubernetesBed
from test_constraints_of_pods import HOST, REQUIRED, anti
from test_driver_of_pods import said_of
from test_gangs import GROUP, add_group, add_member, bound, steps
from test_gangs import bed as bed
from test_many_gangs import halves
from test_preemption_of_pods import POLICY
from test_preemption_of_pods import bed as with_classes  # noqa: F401

from unrack.live.driver.state.replay import replay
from unrack.live.kubernetes.gangs import starting

SIZE = {"cpu": "4", "memory": "8Gi"}


def together(key: str = "zone") -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "a"}}}
    return {"podAffinity": {REQUIRED: [term]}}


def add_members(bed: KubernetesBed, gang: str, count: int, cpu: str = "1", **keys: Any) -> None:
    for i in range(count):
        add_member(bed, gang, i, {"cpu": cpu}, metadata={"labels": {"app": "a"}}, **keys)


def on(driven: DrivenPods, gang: str) -> list[str]:
    return [node for name, node in driven.placed().items() if name.startswith(f"{gang}-")]


def test_eight_pods_that_keep_off_each_other(bed: KubernetesBed) -> None:
    bed.add_nodes([f"n{i}" for i in range(7)], SIZE)
    add_group(bed, "gang", 8)
    with DrivenPods(bed) as driven:
        add_members(bed, "gang", 8, affinity=anti("a"))
        driven.until(lambda: "gang-0" in said_of(bed))
        assert "of the 8 pods of its gang 7 would have nodes" in said_of(bed)["gang-0"][-1]
        assert on(driven, "gang") == []
        bed.add_nodes(["n7", "n8"], SIZE)
        driven.until(lambda: bound(driven)["gang"] == 8)
        assert len(set(on(driven, "gang"))) == 8
        add_group(bed, "next", 2)
        add_members(bed, "next", 2, affinity=anti("a"))  # they keep off those of the first, too
        steps(driven, 20)
        assert on(driven, "next") == []
        bed.admin.delete("/api/v1/namespaces/default/pods/gang-3", gracePeriodSeconds=0)
        driven.until(lambda: bound(driven)["next"] == 2)
        nodes = on(driven, "gang") + on(driven, "next")
        assert len(set(nodes)) == len(nodes) == 9
        assert replay(driven.journal.records()).differences == []


def test_a_large_gang_keeps_off_itself(bed: KubernetesBed) -> None:
    bed.add_nodes([f"n{i}" for i in range(66)], SIZE)
    add_group(bed, "gang", 64)
    with DrivenPods(bed, timeout_s=30) as driven:
        add_members(bed, "gang", 64, affinity=anti("a"))
        driven.until(lambda: bound(driven)["gang"] == 64, 60)
        assert len(set(on(driven, "gang"))) == 64


def test_a_gang_lies_in_one_zone_by_affinity_or_topology(bed: KubernetesBed) -> None:
    for zone, count in (("a", 2), ("b", 3), ("c", 2)):
        bed.add_nodes([f"{zone}{i}" for i in range(count)], SIZE, labels={"zone": zone})
    add_group(bed, "near", 6)
    with DrivenPods(bed) as driven:
        add_members(bed, "near", 6, "2", affinity=together())
        driven.until(lambda: bound(driven)["near"] == 6)
        assert {node[0] for node in on(driven, "near")} == {"b"}
        policy = {"schedulingPolicy": {"gang": {"minCount": 4}}}
        spec = {**policy, "schedulingConstraints": {"topology": [{"key": "zone"}]}}
        content = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "wide"}}
        bed.admin.post(GROUP, {**content, "spec": spec})
        add_members(bed, "wide", 4, "2")
        driven.until(lambda: bound(driven)["wide"] == 4)
        assert len({node[0] for node in on(driven, "wide")}) == 1
        assert overbooked(bed) == []
        driven.until(lambda: {str(entry.phase) for entry in driven.driver.table} == {"running"})
        assert replay(driven.journal.records()).differences == []


def test_gangs_are_spread_share_no_port_and_come_one_after_the_other(bed: KubernetesBed) -> None:
    for zone in "abc":
        bed.add_nodes([f"{zone}{i}" for i in range(2)], SIZE, labels={"zone": zone})
    chosen = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
    spread = [{**chosen, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    container = {"name": "main", "image": "none", "ports": [{"containerPort": 80, "hostPort": 80}]}
    with DrivenPods(bed) as driven:
        for name in ("g0", "g1"):
            add_group(bed, name, 4)
            add_members(bed, name, 4, topologySpreadConstraints=spread)
        add_group(bed, "ports", 3)
        for i in range(3):
            bed.add_pod(f"ports-{i}", containers=[container], schedulingGroup={"podGroupName": "ports"})
        bed.add_pod("port", containers=[container])
        driven.until(lambda: len(driven.placed()) == 12)
        zones = Counter(node[0] for name in ("g0", "g1") for node in on(driven, name))
        assert sorted(zones.values()) == [2, 3, 3]
        assert len({*on(driven, "ports"), driven.placed()["port"]}) == 4
        assert replay(driven.journal.records()).differences == []


@pytest.mark.parametrize("after", [1, 4])
def test_a_driver_that_dies_between_two_bindings_goes_on_with_them(
    bed: KubernetesBed, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    for zone in "ab":
        bed.add_nodes([f"{zone}{i}" for i in range(3)], SIZE, labels={"zone": zone})
    add_group(bed, "gang", 6)
    add_members(bed, "gang", 6, affinity={**anti("a"), **together("zone")} if after == 0 else anti("a"))
    bind, begun, done = starting.bind, 0, 0

    async def breaks(*args: Any) -> None:
        nonlocal begun, done
        begun += 1
        if begun > after:
            while done < after:  # those before it are under way
                await asyncio.sleep(0.01)
            raise Killed
        await bind(*args)
        done += 1

    monkeypatch.setattr(starting, "bind", breaks)
    with DrivenPods(bed) as driven:
        with pytest.raises(Killed):
            driven.until(lambda: False)
        driven.stop()
        assert len(halves(bed)) == 1
        monkeypatch.setattr(starting, "bind", bind)
        driven.begin()
        driven.until(lambda: bound(driven)["gang"] == 6)
        assert len(set(on(driven, "gang"))) == 6


def test_a_gang_that_keeps_off_itself_evicts_those_of_less_priority(
    bed: KubernetesBed,
    with_classes: KubernetesBed,  # noqa: F811
) -> None:
    bed.add_nodes([f"n{i}" for i in range(3)], {"cpu": "2", "memory": "8Gi"})
    add_group(bed, "gang", 3)
    with DrivenPods(bed, POLICY) as driven:
        for i in range(2):
            bed.add_pod(f"low{i}", {"cpu": "2"}, priorityClassName="low")
        driven.until(lambda: len(driven.placed()) == 2)
        driven.until(lambda: {str(entry.phase) for entry in driven.driver.table} == {"running"})
        add_members(bed, "gang", 3, priorityClassName="high", affinity=anti("a", HOST))
        driven.until(lambda: bound(driven)["gang"] == 3)
        assert len(set(on(driven, "gang"))) == 3
        assert overbooked(bed) == []
        assert replay(driven.journal.records()).differences == []
