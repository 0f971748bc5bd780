"""Documentation keeps up: everything a user can name is described, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import unrack
from unrack.cluster.presets import PRESETS
from unrack.metric.table import METRICS, STATISTICS
from unrack.policy.orders import ORDERS
from unrack.policy.table import POLICIES
from unrack.reasons import Code
from unrack.sim.kernel import Ties

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_every_policy_and_parameter_is_described() -> None:
    text = page("policies.md")
    for name, entry in POLICIES.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        assert entry.summary in row
        for parameter, details in entry.parameters.items():
            assert f"`{parameter}`" in row
            assert details.words in text
    for order in ORDERS:
        assert order in text


def test_every_metric_is_described() -> None:
    text = page("metrics.md")
    for name in METRICS:
        stem = next((name.removesuffix(f"_{part}") for part in STATISTICS if name.endswith(f"_{part}")), name)
        known = f"`{name}`" in text or stem.removesuffix("_s").replace("_", " ") in text
        assert known, name
    for part in STATISTICS:
        assert f"_{part}`" in text


def test_every_preset_and_tie_rule_is_described() -> None:
    for name, preset in PRESETS.items():
        assert f"| `{name}` | {preset.summary} |" in page("study-files.md")
    for ties in Ties:
        assert f"`{ties}`" in page("concepts.md")


def test_every_column_of_the_result_tables_is_described() -> None:
    spec = {"jobs": 2, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 1}]}
    result = unrack.simulate(unrack.Cluster.homogeneous(1, 1), unrack.generate(spec))
    text = page("file-formats.md")
    for frame in (result.jobs, result.usage, result.placements):
        for column in frame.columns:
            assert f"`{column}`" in text, column


def test_every_public_name_has_a_docstring_and_every_reason_a_code() -> None:
    for name in unrack.__all__:
        assert getattr(unrack, name).__doc__, name
    assert len({code.value for code in Code}) == len(Code)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_in_the_documentation_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"
