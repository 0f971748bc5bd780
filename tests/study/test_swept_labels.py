"""What swept keys are called."""

import pytest

from unrack.study.notes import swept_labels

STUDY = {
    "clusters": [
        {"name": "a", "nodes": [{"name": "thin", "count": 2}], "pools": [{"name": "fast", "kind": "nvme", "count": 2}]},
        {"name": "b", "nodes": [{"count": 2}], "counted": [{"name": "licences", "amount": 3}]},
    ],
    "workloads": [{"name": "batch"}],
}


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("workloads.scale_load", "load"),
        ("workloads.generate.arrivals.load", "load"),
        ("clusters.0.pools.0.count", "drives of the pool fast"),
        ("clusters.0.nodes.0.count", "nodes of thin"),
        ("clusters.1.nodes.0.memory", "memory of a node"),
        ("clusters.1.counted.0.amount", "licences"),
        ("clusters.1.memory_system.large_share", "share of large nodes of b"),
        ("policies.interval", "interval"),
        ("random_faults.0.mtbf", "mean time between failures"),
        ("contention.some_unknown_key", "some unknown key"),
    ],
)
def test_a_key_is_called_by_its_words(key, words):
    assert swept_labels([key], STUDY) == {key: words}


def test_a_key_needs_no_study_to_be_called_something():
    assert swept_labels(["clusters.3.pools.7.count"]) == {"clusters.3.pools.7.count": "devices"}


def test_two_keys_are_never_called_the_same():
    found = swept_labels(["workloads.scale_load", "workloads.generate.arrivals.load"])
    assert len(set(found.values())) == 2
    assert all(words.startswith("load (") for words in found.values())
