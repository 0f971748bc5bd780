"""Names that a shell completes: of policies, presets and the runs of a finished study."""

from __future__ import annotations

from pathlib import Path

import typer


def policies(incomplete: str) -> list[str]:
    """Policies whose names begin so."""
    from unrack.policy.table import POLICIES

    return [name for name in POLICIES if name.startswith(incomplete)]


def presets(incomplete: str) -> list[str]:
    """Named clusters whose names begin so."""
    from unrack.cluster.presets import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Runs of the study in the folder that stands before, by their ids."""
    folder = Path(str(context.params.get("directory") or "."), "runs")
    return sorted(one.parent.name for one in folder.glob(f"{incomplete}*/run.json"))
