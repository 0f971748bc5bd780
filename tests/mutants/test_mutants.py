"""Wrong lines of the engine are caught by the quick tests; see mutants.py."""

from __future__ import annotations

import pytest
from mutants import Mutant, caught_by, mutants

MUTANTS = mutants()
NAMES = [mutant.name for mutant in MUTANTS]


def test_each_is_a_line_of_the_engine() -> None:
    """The list is true of the engine as it is: who changes such a line changes it here."""
    assert len(NAMES) == len(set(NAMES)) >= 40
    for mutant in MUTANTS:
        assert mutant.text()


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_it_is_caught(mutant: Mutant) -> None:
    assert caught_by(mutant)
