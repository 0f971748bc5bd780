"""The page on links keeps up: its example runs, its keys, columns, applications and numbers are those of the code."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from unrack.resources.links.resource import QUANTITIES, RODINIA, LinksFile, Profiles

PAGE = Path(__file__).parents[2] / "docs" / "links.md"
TEXT = PAGE.read_text()


def test_the_worked_example_gives_what_the_page_says() -> None:
    blocks = TEXT.split("```python\n")[1:]
    assert len(blocks) == 1
    example = doctest.DocTestParser().get_doctest(blocks[0].partition("```")[0], {}, "links.md", str(PAGE), 0)
    assert doctest.DocTestRunner().run(example).failed == 0
    half = 1 + 0.5 * (0.83 / 0.51 - 1)
    assert f"{half:.3f} times" in TEXT
    assert f"{50 / half:.2f} s of its work" in TEXT


@pytest.mark.parametrize("name", [*LinksFile.model_fields, *(f"links.{quantity}" for quantity in QUANTITIES)])
def test_every_key_and_column_has_a_row(name: str) -> None:
    assert f"\n| `{name}` |" in TEXT


@pytest.mark.parametrize("application", list(RODINIA))
def test_every_application_of_rodinia_has_its_numbers(application: str) -> None:
    alone, beside = RODINIA[application]
    assert f"| `{application}` | {alone} % | {beside} % | {Profiles(RODINIA).full_factor(application):.3f} |" in TEXT
