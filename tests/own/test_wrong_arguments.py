"""What is misspelt or swapped is told by the name that was meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import unrack
from unrack.errors import InputError
from unrack.policy.table import parse_policy

CLUSTER = unrack.Cluster.homogeneous(1, 1)
WORKLOAD = unrack.generate({"jobs": 1, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 10}]}, seed=0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: unrack.simulate(WORKLOAD, CLUSTER), "got a Workload, wanted a Cluster: the arguments are swapped"),
        (lambda: unrack.simulate(CLUSTER, CLUSTER), "simulate, workload: got a Cluster, wanted a Workload"),
        (lambda: unrack.simulate(CLUSTER, "log.swf"), "simulate, workload: got 'log.swf', wanted a Workload"),
        (lambda: unrack.simulate(None, WORKLOAD), "simulate, cluster: got None, wanted a Cluster"),
        (lambda: unrack.simulate(CLUSTER, WORKLOAD, world=None), "simulate, world: got None, wanted a World"),
        (lambda: unrack.fat_node(CLUSTER, WORKLOAD), "wanted a JobTable: jobs = workload.jobs"),
        (lambda: unrack.window_us(WORKLOAD.jobs, CLUSTER), r"swapped, fat_node\(cluster, jobs\)"),
        (lambda: unrack.write_trace(WORKLOAD, "log.swf"), r"swapped, write_trace\(path, workload\)"),
        (lambda: unrack.filtered({"first": 1}, WORKLOAD), r"swapped, filtered\(workload, filters\)"),
    ],
)
def test_swapped_or_wrong_arguments_are_named(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        call()


@pytest.mark.parametrize(
    ("policy", "meant"),
    [
        ("esy", "easy"),
        ("EASY", "easy"),
        ("easy(order=sfj)", "sjf"),
        ("easy(oder=sjf)", "order"),
        ("list(backfill=esay)", "easy"),
        ("easy(place=best-fti)", "best-fit"),
        ("conservative(nodes=hole)", "whole"),
    ],
)
def test_a_misspelt_policy_parameter_or_value_is_told_by_its_name(policy: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"wanted '{meant}' perhaps, or one of"):
        parse_policy(policy)


@pytest.mark.parametrize("wrong", ["zzz", "", "1"])
def test_nothing_is_suggested_for_what_is_like_none_of_the_choices(wrong: str) -> None:
    with pytest.raises(InputError, match="wanted one of fcfs"):
        parse_policy(f"easy(order={wrong!r})" if wrong else "easy(order='')")


def test_an_error_that_is_sent_between_processes_suggests_once() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(InputError("policy", "'esy'", "one of fcfs, easy")))
    assert str(error) == "policy: got 'esy', wanted 'easy' perhaps, or one of fcfs, easy"
