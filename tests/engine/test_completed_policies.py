"""A policy that only decides is completed, and nothing that it says of itself is lost."""

from __future__ import annotations

import pickle
import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from plain_first_fit import first_fit
from small_worlds import J, starts, work

from unrack.cluster.spec import Cluster
from unrack.errors import PolicyError
from unrack.ledger.jobs import NO_PROMISES
from unrack.policy.contract import Ability, Estimates, Policy, Start, Traits
from unrack.policy.file import complete
from unrack.sim.simulate import simulate
from unrack.vocabulary import Need

ROOT = Path(__file__).parents[2]
HAS_A_DEFAULT = {"name", "traits", "begin", "next_round", "why"}
"""Members that the adapter fills in; they are checked one by one."""


def declared() -> set[str]:
    """Every method that a policy may have beyond the contract."""
    return {str(ability) for ability in Ability}


def promised_in_the_docs() -> set[str]:
    """Every member in the table of docs/writing-a-policy.md."""
    text = (ROOT / "docs" / "writing-a-policy.md").read_text()
    table = text.partition("| member | default |")[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `(\w+)", table, re.MULTILINE))


def test_the_two_lists_of_optional_members_are_read_at_all() -> None:
    assert {"possible", "seeded", "expected_end_us"} <= declared()
    assert {"possible", "seeded", "expected_end_us", "begin", "traits"} <= promised_in_the_docs()


def test_every_ability_is_promised_in_the_docs() -> None:
    assert declared() <= promised_in_the_docs()


@pytest.mark.parametrize("member", sorted(declared() | promised_in_the_docs()))
def test_no_member_of_the_contract_is_lost_or_made_up(member: str) -> None:
    def decide(view: Any, memory: Any, now: int) -> Any:
        return [], memory

    bare = complete(SimpleNamespace(decide=decide), "test")
    assert isinstance(bare, Policy)
    assert hasattr(bare, member) == (member in HAS_A_DEFAULT)
    if member in HAS_A_DEFAULT:
        return
    copied = SimpleNamespace(decide=decide, name="a copy")

    def mark(*_: object) -> Any:
        return {"seeded": copied, "promised": NO_PROMISES}.get(member, ([], "told"))

    found = getattr(complete(SimpleNamespace(decide=decide, **{member: mark}), "test"), member)
    if member == "seeded":
        assert found(3).inner is copied
    elif member == "adjust":  # what it answers is looked at
        assert found(None, None, None, 0) == ([], "told")
    elif member == "promised":
        assert found(None, None) is NO_PROMISES
    else:
        assert found is mark


SAID = {
    "needs": (frozenset({Need.DEADLINES}), Traits(needs=frozenset({Need.DEADLINES}))),
    "estimates": (Estimates.EXACT, Traits(estimates=Estimates.EXACT)),
    "nodes": ("whole", Traits(whole_nodes=True)),
    "stepwise": (True, Traits(stepwise=True)),
    "learns": (True, Traits(learns=True)),
    "devices": (True, Traits(places=frozenset({Need.DEVICES}))),
    "claims": (True, Traits(places=frozenset({Need.COUNTED}))),
    "lends": (True, Traits(places=frozenset({Need.LOANS}))),
    "tiers": (True, Traits(places=frozenset({Need.TIERS}))),
    "near": (True, Traits(reads=frozenset({Need.RACKS}))),
    "order": ("priority-edf", Traits(reads=frozenset({Need.PRIORITIES}))),
    "backfill_order": ("priority", Traits(reads=frozenset({Need.PRIORITIES}))),
}
"""Member → a value of it, and what a policy that follows ``fcfs`` says with it."""


@pytest.mark.parametrize("member", SAID)
def test_members_of_a_policy_without_traits_say_what_traits_would(member: str) -> None:
    value, expected = SAID[member]
    inner = SimpleNamespace(decide=lambda *_: ([], None), **{"order": "fcfs", member: value})
    assert complete(inner, "test").traits == expected
    inner.traits = Traits(learns=True)
    assert complete(inner, "test").traits == Traits(learns=True)


def test_methods_of_an_object_are_declared_for_it_once_with_traits_of_its_own_or_without() -> None:
    inner = SimpleNamespace(decide=lambda *_: ([], None), order="fcfs", seeded=lambda seed: inner, promised=None)
    assert complete(inner, "test").traits.does == {Ability.SEEDED}
    inner.traits = Traits(learns=True)
    assert complete(inner, "test").traits == Traits(learns=True, does=frozenset({Ability.SEEDED}))


def test_the_docs_say_which_members_stand_for_which_traits() -> None:
    table = (ROOT / "docs" / "writing-a-policy.md").read_text().partition("| trait | also")[2].partition("\n\n")[0]
    second = "".join(row.split("|")[2] for row in table.splitlines()[2:])
    assert set(re.findall(r"`(\w+)", second)) == set(SAID)
    assert set(re.findall(r"^\| `(\w+)", table, re.MULTILINE)) == {field.name for field in fields(Traits)}


def test_a_policy_that_names_no_order_may_look_at_priorities() -> None:
    assert complete(SimpleNamespace(decide=lambda *_: ([], None)), "test").traits.reads == {Need.PRIORITIES}


class Drawn:
    """Starts whatever fits, in an order that its seed draws."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def seeded(self, seed: int) -> Drawn:
        return Drawn(seed)

    def possible(self, cluster: Cluster, jobs: Any) -> np.ndarray:
        return np.asarray(jobs.tasks < 2)

    def decide(self, view: Any, memory: None, now: int) -> tuple[list[Start], None]:
        for job in np.random.default_rng([self.seed, now]).permutation(view.queue.tolist()).tolist():
            lease = first_fit(view.free, view.total, view.job(job))
            if lease is not None:
                return [Start(lease)], None
        return [], None


def test_a_policy_that_draws_and_only_decides_gets_the_seed_and_says_what_is_possible() -> None:
    jobs = work(*[J(0, 1 + i) for i in range(6)], J(0, 1, 2))
    results = [simulate(Cluster.homogeneous(2, 1), jobs, Drawn(), seed=seed) for seed in range(4)]
    assert len({tuple(starts(result.log)[:6]) for result in results}) > 1
    assert {result.jobs["reason"][6] for result in results} == {"too-big: Drawn has no place for it"}


def test_a_completed_policy_can_be_pickled_and_compared() -> None:
    policy = complete(Drawn(), "test")
    again = pickle.loads(pickle.dumps(policy))
    assert (again.name, again.inner.seed) == ("Drawn", 0)
    assert policy == complete(policy.inner, "test")


def test_a_seeded_that_gives_no_policy_is_refused() -> None:
    class Broken(Drawn):
        def seeded(self, seed: int) -> Any:
            return seed

    with pytest.raises(PolicyError, match=r"Broken, seeded\(7\)"):
        simulate(Cluster.homogeneous(1, 1), work(J(0, 1)), Broken(), seed=7)
