"""Every rule of the audit, one after the other."""

from __future__ import annotations

from collections.abc import Callable

from unrack.metric.audit.asked import asked_violation
from unrack.metric.audit.claims import claim_violation
from unrack.metric.audit.devices import device_violation
from unrack.metric.audit.nodes import node_violation
from unrack.metric.audit.rounds import round_violation
from unrack.metric.audit.spans import span_violation
from unrack.metric.audit.steps import usage_violation
from unrack.metric.audit.tables import Tables, Violation

RULES: tuple[Callable[[Tables], Violation | None], ...] = (
    span_violation,
    node_violation,
    device_violation,
    claim_violation,
    asked_violation,
    usage_violation,
    round_violation,
)


def violations(tables: Tables) -> list[Violation]:
    """What is wrong with the tables of a run: of every rule that is broken the first violation; none: nothing.

    It reads the tables and the cluster alone, nothing of what made them. O(n log n) in the rows of the tables, and
    O(nodes) for each row.
    """
    return [found for rule in RULES if (found := rule(tables)) is not None]
