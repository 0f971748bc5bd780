"""Which runs lend memory or have tiers of it, and what they say of themselves."""

from __future__ import annotations

from unrack.report.directory import RunFiles


def lends(run: RunFiles) -> bool:
    """Whether the run's policy lends memory of nodes; memory on tiers has a section of its own."""
    return "remote_share" in run.metrics and not has_tiers(run)


def has_tiers(run: RunFiles) -> bool:
    """Whether the run's cluster has tiers of memory."""
    return isinstance(run.record["cluster"].get("tiers"), dict)


def contention_note(run: RunFiles) -> str:
    """What the run says of the jobs that ran as another application; ``""``: nothing."""
    said = run.record.get("contention")
    note = said.get("note") if isinstance(said, dict) else said
    return note if isinstance(note, str) else ""
