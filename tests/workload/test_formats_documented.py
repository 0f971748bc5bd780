from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from unrack.workload.filters import FILTERS
from unrack.workload.generator import generate
from unrack.workload.readers import FORMATS
from unrack.workload.rules import RULES
from unrack.workload.table_columns import COLUMNS

PAGE = (Path(__file__).parents[2] / "docs" / "file-formats.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("rule", RULES)
def test_the_page_gives_every_rule_with_its_sentence(rule: str) -> None:
    assert f"| {rule} | {RULES[rule]} |" in PAGE


def test_the_page_names_every_format_option_column_and_filter() -> None:
    names = {*FORMATS, *FILTERS, *COLUMNS, *(option for form in FORMATS.values() for option in form.options)}
    assert not [name for name in sorted(names) if f"`{name}`" not in PAGE]


def test_the_example_specification_of_the_page_can_be_drawn() -> None:
    example = next(text for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "[[classes]]" in text)
    made = generate({**tomllib.loads(example), "jobs": 500})
    assert set(made.jobs.app_names) == {"solver", "analysis"}


@pytest.mark.parametrize("text", re.findall(r"`(\{ (?:kind|rate_per_h|mean_gap_s|load|gap_s) = .*?\})`", PAGE))
def test_every_arrival_and_distribution_of_the_page_can_be_drawn(text: str) -> None:
    if "…" in text or text == "{ load = 0.9, cores = c }":
        return
    value = tomllib.loads(f"value = {text}")["value"]
    spec = {"arrivals": {"gap_s": 1}, "classes": [{"run_s": value}]} if "kind" in value else {"arrivals": value}
    assert len(generate({"jobs": 3, "classes": [{"run_s": 1}], **spec})) == 3
