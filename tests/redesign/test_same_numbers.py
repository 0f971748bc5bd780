"""While the house is rebuilt, studies compute what they computed before."""

from __future__ import annotations

import digests
import pytest


@pytest.mark.parametrize("name", digests.QUICK)
def test_a_study_runs_and_computes_what_it_did(name: str) -> None:
    assert digests.differences([f"{name}@0"]) == []


@pytest.mark.slow
def test_a_hundred_studies_compute_what_they_did() -> None:
    assert len(digests.studies()) >= 100
    assert digests.differences(digests.studies(), "--no-report") == []
