"""How many examples tests draw, and which cases of many are tried: ``--tries`` of conftest.py."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import is_hypothesis_test, settings

FEW, MANY = 4, 20
"""So many parameters of one test are always tried; of more a fifth, of many more a tenth, chosen by their names."""
FEW_EXAMPLES = 5
EXAMPLES = 100
"""How many a test draws that does not say so."""

T = TypeVar("T")


class _Tries:
    fewer = True  # whether tests draw a fifth of their examples


def begin(tries: str) -> None:
    """Take note of ``--tries`` before tests are imported."""
    _Tries.fewer = tries == "some"
    settings.register_profile("unrack", deadline=None, derandomize=True, database=None, max_examples=some(EXAMPLES))
    settings.load_profile("unrack")


def some(examples: int) -> int:
    """How many of so many examples are drawn."""
    return max(FEW_EXAMPLES, examples // 5) if _Tries.fewer and examples > FEW_EXAMPLES else examples


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
        return bool(said.args[0] > FEW_EXAMPLES)
    return is_hypothesis_test(getattr(item, "obj", None))
