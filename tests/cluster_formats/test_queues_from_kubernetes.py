"""Queues of Kueue and of Volcano, as kubectl prints them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unrack.cluster.formats.described import converted, together
from unrack.cluster.formats.reading import described
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError

SAMPLE = Path(__file__).parent / "samples" / "kueue.json"


def read(*documents: Any) -> tuple[dict[str, Any], str]:
    """The table ``site`` of a cluster that is described so, and what is not taken over."""
    found = [described(Path("k.json"), json.dumps(one), "k.json") for one in documents]
    made = converted(together([one for one in found if one is not None]))
    Cluster.from_dict(made.content)
    return made.content["site"], "\n".join(made.notes)


def listed(*items: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "List", "items": list(items)}


NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8", "memory": "32Gi"}}}


def test_queues_flavours_and_cohorts_of_kueue() -> None:
    site, notes = read(json.loads(SAMPLE.read_text()))
    assert site["partitions"] == [{"name": "owned", "nodes": ["n2"]}, {"name": "spot", "nodes": ["n1"]}]
    assert site["preempt"] == {"by": "quota"}
    assert site["queues"] == [
        {"name": "team-a", "also": ["a/main"], "cohort": "lab", "reclaim": "any", "within": "lower-priority",
         "quotas": [
             {"flavour": "owned", "nominal": {"cores": 2, "memory": 12288}, "borrow": {"cores": 1},
              "lend": {"cores": 1}},
             {"flavour": "spot", "nominal": {"cores": 4, "memory": 16384, "gpus.count": 2}},
         ]},
        {"name": "team-b", "cohort": "lab", "open": False, "quotas": [{"flavour": "spot", "nominal": {"cores": 0}}]},
        {"name": "alone", "quotas": []},
        {"name": "cohort lab", "cohort": "lab", "open": False,
         "quotas": [{"flavour": "spot", "nominal": {"cores": 3}}]},
    ]  # fmt: skip
    for words in ("StrictFIFO queue", "borrowWithinCohort", "whenCanBorrow", "whenCanPreempt", "example.com/licence",
                  "LocalQueues of a ClusterQueue that no file describes: gone (default/lost)"):  # fmt: skip
        assert words in notes


def test_queues_may_stand_beside_the_nodes_in_a_file_of_their_own() -> None:
    whole = json.loads(SAMPLE.read_text())
    nodes = [one for one in whole["items"] if one["kind"] == "Node"]
    rest = [one for one in whole["items"] if one["kind"] != "Node"]
    assert read(listed(*nodes), listed(*rest))[0] == read(whole)[0]
    with pytest.raises(ClusterError, match="no nodes"):
        read(listed(*rest))


def test_queues_of_volcano() -> None:
    def queue(name: str, **spec: Any) -> dict[str, Any]:
        version = "scheduling.volcano.sh/v1beta1"
        return {"apiVersion": version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}

    site, notes = read(listed(
        NODE, queue("root", capability={"cpu": 8}), queue("default", weight=1),
        queue("hard", capability={"cpu": "500m", "memory": "1Gi"}, weight=3, parent="root"),
        queue("soft", deserved={"cpu": 4}, guarantee={"resource": {"cpu": "1"}}, capability={"cpu": 6},
              reclaimable=False),
        queue("above", deserved={"cpu": 2}), queue("below", parent="above", deserved={"cpu": "2"}),
    ))  # fmt: skip
    assert site["queues"] == [
        {"name": "default", "cohort": "volcano", "default": True, "quotas": []},
        {"name": "hard", "quotas": [{"nominal": {"cores": 0, "memory": 1024}}]},
        {"name": "soft", "cohort": "volcano", "reclaim": "any",
         "quotas": [{"nominal": {"cores": 4}, "borrow": {"cores": 2}, "lend": {"cores": 3}}]},
        {"name": "below", "cohort": "volcano", "reclaim": "any", "quotas": [{"nominal": {"cores": 2}}]},
    ]  # fmt: skip
    for words in ("Weights of queues are not taken over: hard (3)", "not reclaimable", "queues below them"):
        assert words in notes


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"kind": "ClusterQueue", "spec": {}}, "a name"),
        ({"kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": {"resourceGroups": [{"flavors": [
            {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "lots"}]}]}]}}, "'lots'"),
        ({"kind": "Queue", "metadata": {"name": "q"}, "spec": {"deserved": {"cpu": "-1"}}}, "'-1'"),
        ({"kind": "Cohort", "metadata": {"name": "c"}, "spec": {"parentName": "c"}}, "above itself"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(item: dict[str, Any], words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        read(listed(NODE, item))
