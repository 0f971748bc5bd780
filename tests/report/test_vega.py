from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest
import vl_convert

from unrack.report.charts.vega import vega


def test_the_script_is_bundled_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    script = vega()
    assert "vegaEmbed" in script
    assert "</script" not in script
    assert [file.name for file in (tmp_path / "unrack").iterdir()] == [f"vega-{version('vl-convert-python')}.js"]
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda: pytest.fail("bundled again"))
    assert vega() == script


def test_without_a_place_to_keep_it_the_script_is_bundled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda: "bundled </script>")
    assert vega() == "bundled <\\/script>"
