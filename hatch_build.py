"""Puts the script that draws the charts of reports into the wheel, so that reports need nothing else installed."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ScriptOfCharts(BuildHookInterface):
    """Writes ``unrack/report/assets/vega.js``; a checkout that is installed as editable makes it when it is needed."""

    PLUGIN_NAME = "script-of-charts"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Bundle it before files are collected."""
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root, "src")))
        from unrack.report.charts.vega import bundled

        self.folder = tempfile.TemporaryDirectory()
        script = Path(self.folder.name, "vega.js")
        script.write_text(bundled(), encoding="utf-8", newline="\n")
        build_data["force_include"][str(script)] = "unrack/report/assets/vega.js"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave nothing behind."""
        if version != "editable":
            self.folder.cleanup()
