from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from unrack.workload.filters import FILTERS
from unrack.workload.formats.readers import FORMATS
from unrack.workload.formats.rules import RULES
from unrack.workload.formats.source import Source
from unrack.workload.formats.table.aliases import ALIASES
from unrack.workload.formats.table.columns import COLUMNS
from unrack.workload.formats.table.read import read_table
from unrack.workload.generate.generator import generate

DOCS = Path(__file__).parents[2] / "docs"
PAGE, LOGS, DRAWN = (
    (DOCS / name).read_text(encoding="utf-8") for name in ("file-formats.md", "batch-logs.md", "generators.md")
)


def test_the_page_gives_every_rule_with_its_sentence() -> None:
    assert not [rule for rule in RULES if f"| {rule} | {RULES[rule]} |" not in PAGE]


def test_the_page_names_every_format_option_column_and_filter() -> None:
    names = {*FORMATS, *FILTERS, *COLUMNS, *(option for form in FORMATS.values() for option in form.options)}
    assert not [name for name in sorted(names) if f"`{name}`" not in PAGE + LOGS]


def test_the_example_specification_of_the_page_can_be_drawn() -> None:
    example = next(text for text in re.findall(r"```toml\n(.*?)```", DRAWN, re.DOTALL) if "[[classes]]" in text)
    made = generate({**tomllib.loads(example), "jobs": 500})
    assert set(made.jobs.app_names) == {"solver", "analysis"}


def table(heading: str) -> str:
    """The part of either page under a heading."""
    return re.split(f"#+ {heading}\n", PAGE + DRAWN)[1].split("\n#")[0]


@pytest.mark.parametrize("text", re.findall(r"^\| (?:`[^`]*`, )?`(\{.*?\})`", table("Distributions"), re.MULTILINE))
def test_every_distribution_of_the_page_can_be_drawn(text: str) -> None:
    value = tomllib.loads(f"value = {text}")["value"]
    assert len(generate({"jobs": 3, "arrivals": {"gap_s": 1}, "classes": [{"run_s": value}]})) == 3


@pytest.mark.parametrize("text", re.findall(r"^\| `(\{.*?\})`", table("Arrivals"), re.MULTILINE))
def test_every_kind_of_arrivals_of_the_page_can_be_drawn(text: str) -> None:
    value = tomllib.loads(f"value = {text}")["value"]
    assert len(generate({"jobs": 3, "arrivals": value, "classes": [{"run_s": 1}]})) == 3


def test_the_page_shows_as_many_kinds_of_arrivals_and_distributions_as_there_are() -> None:
    assert len(re.findall(r"^\| `\{", table("Arrivals"), re.MULTILINE)) == 7
    assert len(re.findall(r"^\| `[5{]", table("Distributions"), re.MULTILINE)) == 8


def test_the_page_gives_every_usual_name_and_no_other() -> None:
    rows = dict(re.findall(r"^\| (`.*?`.*?) \| (.*?) \|", table("Usual names").split("| units |\n")[1], re.MULTILINE))
    shown = {}
    for ours, names in rows.items():
        if ours != "`start`, `end`":
            shown[re.findall("`(.*?)`", ours)[0]] = tuple(re.findall("`(.*?)`", names))
    shown |= {"start": ("start_time",), "end": ("end_time",)}
    assert shown == {ours: alias.names for ours, alias in ALIASES.items()}


def test_the_example_table_of_the_page_is_a_workload_as_it_stands() -> None:
    example = re.findall(r"```\n(arrival_s.*?)```", PAGE, re.DOTALL)[0]
    jobs = read_table(Source("example.csv", example.encode())).jobs
    assert jobs.devices["nvme", "capacity_mb"].tolist() == [43 * 1024, 0]
    assert jobs.deadline_us.tolist() == [1_920_000_000, 3_697_500_000]
