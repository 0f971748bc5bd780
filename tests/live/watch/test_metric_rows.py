"""Every metric has a row in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unrack.live.watch.meters import DECIDED, MeteredStep, Meters, Operation

prometheus = pytest.importorskip("prometheus_client", reason="needs the extra live")


def test_every_metric_and_label_is_described() -> None:
    text = (Path(__file__).parents[3] / "docs" / "slurm-site.md").read_text()
    described = set(re.findall(r"\n\| `(unrack_\w+)(?:\{\w+\})?` \|", text))
    served = Meters("easy", ["a"]).text().decode()
    names = set(re.findall(r"^# TYPE (unrack_\w+) ", served, re.MULTILINE))
    assert {name for name in names if not name.endswith("_created")} == described
    for word in (*DECIDED.values(), *MeteredStep, *Operation):
        assert f"`{word}`" in text
