"""What is asked of every reader of lists of jobs on GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import job_lists as lists
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.errors import InputError, TraceError


@pytest.mark.parametrize(
    ("text", "lacking"),
    [(lists.MINSKY, "memory_gb"), (lists.PHILLY, "duration"), (lists.PODS, "gpu_milli"), (lists.PODS, "memory_mib")],
)
def test_a_list_that_lacks_a_column_is_refused_by_its_name(text: str, lacking: str, tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text(lists.TIMES)
    options = {"profiles": str(tmp_path / "times.csv")} if text is lists.MINSKY else {}
    with pytest.raises(TraceError, match=f"column {lacking}: got no such column"):
        lists.read(text.replace(lacking, "other", 1), **options)


@pytest.mark.parametrize(
    ("text", "options"),
    [(lists.PHILLY, {"gpus_per_node": 0}), (lists.PHILLY, {"cores_per_gpu": -1}), (lists.MINSKY, {"profiles": 3}),
     (lists.PODS, {"cpu": "half", "run": 1}), (lists.PODS, {"run": "soon"}), (lists.PODS, {"run": True})],
)  # fmt: skip
def test_options_are_checked(text: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="option " + next(iter(options))):
        lists.read(text, **options)


@draws(120)
@given(st.sampled_from([lists.MINSKY, lists.PHILLY, lists.PODS, lists.TIMED]), st.data())
def test_a_mutated_list_is_read_or_refused_in_words(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 5)))
        odd = st.sampled_from([",", "\n", "-", ".", "e", "nan", "9" * 25, '"', "", "é"])
        text = text[:start] + data.draw(odd) + text[end:]
    try:
        made = lists.read(text) if text.strip() else None
    except InputError:
        return
    assert made is None or len(made) == made.intake.kept
