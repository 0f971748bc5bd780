"""What the driver would decide now, and why the others wait: with a journal that forgets, and no order given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from unrack.live.driver.driver import Driver, Settings
from unrack.live.driver.state.stage import INTENDED, Phase
from unrack.live.fabric.contract import Fabric
from unrack.live.fabric.table import make_fabric
from unrack.live.slurm.adapter.adapter import SlurmAdapter
from unrack.live.slurm.agreed import Agreed
from unrack.live.slurm.client import Client
from unrack.live.slurm.orders import Answer, Order
from unrack.live.slurm.reading import Reading
from unrack.live.slurm.site.site import Site


class Decision(NamedTuple):
    """What is to become of one job.

    Attributes
    ----------
    job
        Its number in Slurm.
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
    # nodes, usable: how many nodes its partitions have, and on how many of them jobs may start
    nodes: int
    usable: int
    policy: str  # which decided
    fault: str  # what went wrong in the policy; ``""``: nothing
    unreadable: tuple[str, ...]  # what of Slurm's answers could not be understood


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


class _Reads:
    """A client that only reads, and only once."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def changed(self) -> bool:
        """Never."""
        return False

    def read(self) -> Reading:
        """What was read."""
        return self._reading

    def carry_out(self, orders: Sequence[Order]) -> list[Answer]:
        """Refuse all: nothing is ordered in a rehearsal."""
        raise AssertionError(f"an order in a rehearsal: {orders[0]}")


def rehearse(site: Site, client: Client) -> Rehearsal:
    """Read a Slurm, and say what the driver would decide; changes nothing, and needs no right to.

    Raises
    ------
    UnreachableError
        Slurm does not answer.
    InputError
        Site file and Slurm do not go together.
    """
    reading = client.read()
    terms = Agreed(site)
    journal = _Forgets()
    nothing: Fabric = make_fabric({"kind": "none"})
    driver = Driver(SlurmAdapter(_Reads(reading), terms), nothing, journal, Settings(stop_on_fault=False))
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
    return Rehearsal(decisions, len(driver.epoch.names.nodes), usable, policy, journal.fault, reading.unreadable)
