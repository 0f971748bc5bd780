"""How many examples tests draw, and which cases of many are tried: ``--tries`` of conftest.py."""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar
from zlib import crc32

import pytest
from hypothesis import is_hypothesis_test, seed, settings

FEW, MANY = 4, 20
"""So many parameters of one test are always tried; of more a fifth, of many more a tenth, chosen by their names.

All are where the test is marked ``whole``.

Of more than ``FEW`` that differ by ``seed`` alone ``--tries rest`` runs every other one of the others.
"""
FEW_EXAMPLES = 5
EXAMPLES = 100
"""How many a test draws that does not say so."""
PARTS = {"some": 5, "rest": 3, "all": 1}
"""Of so many examples of a test one is drawn."""

T = TypeVar("T")


class _Tries:
    tries = "some"
    again: ClassVar[set[str]] = set()  # tests of which ``--tries some`` draws the first examples


def begin(tries: str) -> None:
    """Take note of ``--tries`` before tests are imported."""
    _Tries.tries = tries
    settings.register_profile("unrack", deadline=None, derandomize=True, database=None, max_examples=some(EXAMPLES))
    settings.load_profile("unrack")


def some(examples: int) -> int:
    """How many of so many examples are drawn."""
    return _drawn(examples, _Tries.tries)


def _drawn(examples: int, tries: str) -> int:
    return max(min(examples, FEW_EXAMPLES), examples // PARTS[tries])


def seeds(examples: int, first: int = 0) -> range:
    """The numbers of those of so many examples that are drawn; ``--tries rest`` goes on where ``some`` ended."""
    now = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    done = _drawn(examples, "some") if now in _Tries.again else 0
    return range(first + done, first + some(examples))


def draws(examples: int, **more: Any) -> Callable[[T], T]:
    """Let a test, or a state machine, draw so many examples; ``more``: settings of hypothesis."""

    def with_settings(test: T) -> T:
        settings(max_examples=some(examples), **more)(test)  # type: ignore[type-var]
        pytest.mark.draws(examples)(getattr(test, "TestCase", test) if inspect.isclass(test) else test)
        return test

    return with_settings


def draws_many(item: pytest.Item) -> bool:
    """Whether a test draws so many examples that ``--tries some`` draws fewer."""
    said = item.get_closest_marker("draws")
    if said is not None:
        return _drawn(said.args[0], "rest") > _drawn(said.args[0], "some")
    return is_hypothesis_test(getattr(item, "obj", None))


def go_on(items: Sequence[pytest.Item]) -> None:
    """Let tests of hypothesis that ``--tries some`` runs too, in all their cases, draw other examples and fewer."""
    cases = Counter(getattr(item, "obj", None) for item in items)
    again = Counter(getattr(item, "obj", None) for item in items if item.nodeid in _Tries.again)
    for test, count in again.items():
        if inspect.isfunction(test) and is_hypothesis_test(test) and count == cases[test]:
            now = test._hypothesis_internal_use_settings  # type: ignore[attr-defined]  # settings decorate a test once
            left = max(1, now.max_examples - _drawn(now.max_examples * PARTS["rest"], "some"))
            test._hypothesis_internal_use_settings = settings(now, max_examples=left)  # type: ignore[attr-defined]
            seed(1)(test)


def chosen(tries: str, items: Sequence[pytest.Item]) -> list[bool]:
    """Which tests ``some`` or ``rest`` runs; what neither runs differs by its seed alone from what they run."""
    every = Counter(item.nodeid.partition("[")[0] for item in items)
    alike = Counter(map(_but_for_seed, items))
    met, taken = Counter[Any](), []
    for item in items:
        name, kind = item.nodeid.partition("[")[0], _but_for_seed(item)
        met.update({name: 1, kind: 1})
        first = (
            every[name] <= FEW
            or met[name] == 1
            or item.get_closest_marker("whole") is not None
            or crc32(item.nodeid.encode()) % (5 if every[name] <= MANY else 10) == 0
        )
        first = first and item.get_closest_marker("long") is None
        seldom = kind is not None and alike[kind] > FEW and met[kind] % 2 == 0
        again = first and draws_many(item)
        if again and tries == "rest":
            _Tries.again.add(item.nodeid)
        taken.append(first if tries == "some" else again or not (first or seldom))
    return taken


def _but_for_seed(item: pytest.Item) -> tuple[Any, ...] | None:
    """A test and its parameters without the seed, the same for cases that differ by it alone; None if there is none."""
    case = getattr(item, "callspec", None)
    if case is None or "seed" not in case.params:
        return None
    return item.nodeid.partition("[")[0], *(id(value) for name, value in case.params.items() if name != "seed")
