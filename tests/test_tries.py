"""What ``--tries`` leaves out is what it says."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import tries
from hypothesis import given
from hypothesis import strategies as st
from tries import chosen


def cases(test: str, marked: str = "", **parameters: list[Any]) -> Iterator[Any]:
    """Every combination of parameters of a test, as pytest collects them."""
    for values in product(*parameters.values()):
        params = dict(zip(parameters, values, strict=True))
        yield SimpleNamespace(
            nodeid=f"{test}[{'-'.join(map(str, values))}]", params=params, obj=None,
            get_closest_marker=lambda name: marked == name or None, callspec=SimpleNamespace(params=params),
        )  # fmt: skip


ITEMS = [
    *cases("twins.py::test_easy", seed=[*range(60)]),
    *cases("laws.py::test_law", policy=[f"policy{i}" for i in range(30)], law=["a", "b", "c"], seed=[0, 1]),
    *cases("queues.py::test_reclaim", several=[False, True], seed=[*range(10)]),
    *cases("refused.py::test_words", words=[f"word{i}" for i in range(50)]),
    *cases("slow.py::test_by_hand", "long", seed=[0, 1]),
]


def run_by(part: str) -> set[str]:
    return {item.nodeid for item, taken in zip(ITEMS, chosen(part, ITEMS), strict=True) if taken}


def test_what_is_in_neither_part_differs_by_its_seed_alone_from_what_is() -> None:
    some, rest = run_by("some"), run_by("rest")
    assert not some & rest
    tried = {str({**item.params, "seed": ""}) for item in ITEMS if item.nodeid in some | rest}
    assert all(str({**item.params, "seed": ""}) in tried for item in ITEMS if "seed" in item.params)
    left = [item for item in ITEMS if item.nodeid not in some | rest]
    assert {item.nodeid.partition("::")[0] for item in left} == {"twins.py", "queues.py"}
    assert 20 < len(left) <= 40


@pytest.mark.parametrize("examples", [12, 25, 500])
def test_seeds_of_both_parts_are_a_third_of_all_and_none_is_tried_twice(
    examples: int, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(tries._Tries, "tries", "some")
    first = [*tries.seeds(examples, 7)]
    monkeypatch.setattr(tries._Tries, "tries", "rest")
    assert [*tries.seeds(examples, 7)] == [*range(7, 7 + tries.some(examples))]  # of a case left out
    monkeypatch.setattr(tries._Tries, "again", {request.node.nodeid})
    assert [*first, *tries.seeds(examples, 7)] == [*range(7, 7 + max(len(first), examples // 3))]
    monkeypatch.setattr(tries._Tries, "again", set())
    monkeypatch.setattr(tries._Tries, "tries", "all")
    assert len(tries.seeds(examples)) == examples


def drawing(into: list[int]) -> Any:
    @tries.draws(60)
    @given(st.integers(0, 10**12))
    def test(number: int) -> None:
        into.append(number)

    return test


def test_examples_of_hypothesis_are_those_that_were_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {"some": list[int](), "rest": list[int]()}
    monkeypatch.setattr(tries._Tries, "again", {"once"})
    for part, drawn in seen.items():
        monkeypatch.setattr(tries._Tries, "tries", part)
        test = drawing(drawn)
        if part == "rest":
            tries.go_on([SimpleNamespace(nodeid="once", obj=test)])  # type: ignore[list-item]
        test()
    assert (len(seen["some"]), len(seen["rest"])) == (12, 20 - 12)
    assert len({*seen["some"]} & {*seen["rest"]}) < 4  # 0 comes always


def test_a_long_test_is_no_quick_one() -> None:
    assert not [name for name in run_by("some") if name.startswith("slow")]
    assert len([name for name in run_by("rest") if name.startswith("slow")]) == 2
