"""What a release needs: one version in all that says it, and a changelog that has it or says what is to come."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def project(folder: str) -> dict[str, Any]:
    """The table ``project`` of a distribution."""
    found: dict[str, Any] = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    return found


def test_both_distributions_and_the_citation_have_one_version() -> None:
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert {project(".")["version"], project("papers")["version"]} == {cited[1].strip('"')}


def test_both_distributions_say_the_same_of_licence_and_pythons() -> None:
    for key in ("license", "requires-python"):
        assert project(".")[key] == project("papers")[key], key
    pythons = [[one for one in project(folder)["classifiers"] if "3." in one] for folder in (".", "papers")]
    assert pythons[0] == pythons[1]


def test_the_changelog_begins_with_what_is_not_released() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d\d-\d\d\)", heading) for heading in headings[1:]), headings
