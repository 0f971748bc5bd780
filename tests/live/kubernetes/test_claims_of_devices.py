"""Pods that claim devices, placed by the driver on a real API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dra_bed import add_claim, add_claiming, add_class, add_slice, add_template, audit, clear, given, wants
from driven_pods import DrivenPods, overbooked
from k8s_bed import KubernetesBed

pytestmark = pytest.mark.live


@pytest.fixture
def bed(kubernetes: KubernetesBed) -> Iterator[KubernetesBed]:
    """A control plane with nodes and nothing else."""
    clear(kubernetes)
    kubernetes.add_nodes(["n1", "n2"], {"cpu": "8", "memory": "8Gi"})
    yield kubernetes
    clear(kubernetes)


def gpus(count: int, model: str = "a", **keys: object) -> list[dict[str, object]]:
    return [{"name": f"gpu-{i}", "attributes": {"model": {"string": model}, "index": {"int": i}}, **keys} for i in range(count)]


def test_claims_of_templates_run_in_turn_and_give_back(bed: KubernetesBed) -> None:
    add_class(bed, "gpu")
    for node in ("n1", "n2"):
        add_slice(bed, f"{node}-gpus", gpus(2), nodeName=node)
    add_template(bed, "two", wants("gpu", count=2))
    with DrivenPods(bed) as driven:
        for i in range(6):
            add_claiming(bed, f"p{i}", template="two", run_s=0.5)
        driven.until(lambda: len(driven.placed()) >= 2)
        assert audit(bed) == []
        assert len(given(bed)) <= 2
        driven.until_all()
        assert audit(bed) == [] == overbooked(bed)
        driven.until(lambda: given(bed) == {})
