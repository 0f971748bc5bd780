"""The notebooks of docs/notebooks run from beginning to end, and are kept without what their cells gave."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from notebook import KEPT, NOTEBOOKS, ROOT, is_newer, run


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_kept_without_outputs_and_opens_in_jupyter(name: str) -> None:
    kept = json.loads(NOTEBOOKS[name].read_text())
    assert (kept["nbformat"], kept["nbformat_minor"]) == (4, 5)
    assert kept["metadata"]["kernelspec"]["name"] == "python3"
    code = [cell for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert code
    for cell in code:
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


@pytest.mark.long
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_shows_what_it_promises(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    kept = KEPT / NOTEBOOKS[name].name
    fresh = is_newer(kept, "src", "papers/src", "examples", "docs/notebooks")  # `make docs` has just run it
    cells = (nbformat.read(kept, as_version=4) if fresh else run(NOTEBOOKS[name], tmp_path))["cells"]
    outputs = [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert sum("image/svg+xml" in output.get("data", {}) for output in outputs) >= 1
    last = outputs[-1]["data"]["text/plain"]
    promised = {"figures": "True", "planning": "clusters.0.pools.0.count", "policy": "mine"}
    assert promised[name] in last
