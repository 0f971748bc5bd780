"""``unrack scenarios``: the papers' mixes of jobs, listed."""

from __future__ import annotations

from unrack.cli import Json, summaries


def scenarios(as_json: Json = False) -> None:
    """List the papers' mixes of jobs: generate = {scenario = "NAME", load = 0.7}."""
    from unrack_papers.workloads.scenarios import SCENARIOS

    summaries(SCENARIOS, as_json)
