"""What the driver would decide now, and why the others wait: with a journal that forgets, and no order given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from unrack.live.driver.contract import Orchestrator
from unrack.live.driver.driver import Driver, DriverSettings
from unrack.live.driver.state.stage import INTENDED, Phase
from unrack.live.fabric.table import make_fabric


class Decision(NamedTuple):
    """What is to become of one job.

    Attributes
    ----------
    job
        Its key.
    what
        ``"start"``, ``"wait"``, ``"aside"`` or ``"foreign"``.
    nodes
        Where it would run, or runs.
    devices
        Names of the pooled devices it would have.
    why
        Why it waits, or is aside.
    """

    job: str
    what: str
    nodes: list[str]
    devices: list[str]
    why: str


class Rehearsal(NamedTuple):
    """What the driver would do now."""

    decisions: list[Decision]  # of all jobs that it looks at, in the order in which they came
    # nodes, usable: how many nodes there are, and on how many of them jobs may start
    nodes: int
    usable: int
    policy: str  # which decided
    fault: str  # what went wrong in the policy; ``""``: nothing
    unreadable: tuple[str, ...]  # what of its answers could not be understood


class _Forgets:
    segment_bytes = size_bytes = 0

    def __init__(self) -> None:
        self.fault = ""

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Keep nothing but what went wrong."""
        for record in records:
            self.fault = record.get("fault", "") or self.fault

    def rotate(self, snapshot: Mapping[str, Any]) -> None:
        """Keep nothing."""


def rehearse(orchestrator: Orchestrator) -> Rehearsal:
    """Read all that there is, and say what the driver would decide; changes nothing, and needs no right to.

    Raises
    ------
    UnreachableError
        The orchestrator does not answer.
    InputError
        What it shows and what the site says do not go together.
    """
    journal = _Forgets()
    driver = Driver(orchestrator, make_fabric({"kind": "none"}), journal, DriverSettings(stop_on_fault=False))
    driver.look()
    assert driver.epoch is not None
    core = driver.epoch.core
    decisions = []
    for entry in driver.table.in_phase(tuple(Phase)):
        what, why = "aside", entry.why
        if entry.phase in INTENDED:
            what, why = "start", ""
        elif entry.phase == Phase.FOREIGN:
            what = "foreign"
        elif entry.phase == Phase.WAITING and entry.number is not None:
            what, why = "wait", driver.epoch.why(entry.number, driver.clock.now())
        decisions.append(Decision(entry.key, what, entry.nodes, entry.devices, why))
    driver.acting.close()
    usable = int(core.state.online[: len(driver.epoch.names.nodes)].sum()) - len(core.state.withheld)
    policy = driver.epoch.policy.name
    return Rehearsal(decisions, len(driver.epoch.names.nodes), usable, policy, journal.fault, driver.unreadable)
