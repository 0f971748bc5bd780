"""What waiting jobs were promised, from one epoch to the next: with each job in the journal, by names."""

from __future__ import annotations

from typing import Any

from unrack.events import Promised
from unrack.ledger.jobs import Promise
from unrack.ledger.lease import Lease
from unrack.ledger.state import QUEUED
from unrack.live.driver.portable import Names
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.epoch import Epoch
from unrack.live.driver.state.table import KnownJobs
from unrack.live.records import lease_of_record, lease_record


def note_promises(epoch: Epoch, table: KnownJobs) -> None:
    """Note with each job that waits what it is promised now."""
    made = epoch.core.state.promises.by_job()
    made_to = (entry.key for number in made if (entry := table.found(number)) is not None)
    for entry in table.in_order((*table.promised, *made_to)):
        number = entry.number if entry.lease is None else None
        promise = None if number is None else made.get(number)
        record = None if promise is None else _record(promise, epoch.names)
        if record != entry.known.promise:
            entry.known = entry.known._replace(promise=record)
            table.touch(entry)


def tell_promise(epoch: Epoch, entry: Entry, now: int) -> None:
    """Tell a core that begins what a job was promised before; nodes that are gone leave it the time."""
    number, promise = entry.number, entry.known.promise
    if promise is not None and number is not None and epoch.core.state.condition(number) == QUEUED:
        start_us, turn, grain, lease = promise
        epoch.tell(Promised(number, Promise(start_us, turn, grain, _lease(lease, grain, number, epoch))), now)


def _record(promise: Promise, names: Names) -> list[Any]:
    """A promise as plain values; leases of nodes by name, others as they are."""
    lease = promise.lease
    told = None if lease is None else lease_record(lease) if promise.grain else names.portable(lease)
    if told is not None:
        told.pop("job", None)
    return [promise.start_us, promise.turn, promise.grain, told]


def _lease(told: dict[str, Any] | None, grain: int, number: int, epoch: Epoch) -> Lease | None:
    if told is None or grain:
        return None if told is None else lease_of_record({**told, "job": number})
    lease = epoch.names.lease(told, number)
    parts = (("rows", lease.rows), ("borrowed", lease.borrowed), ("shares", lease.shares), ("claims", lease.claims))
    return lease if all(len(part) == len(told.get(name, ())) for name, part in parts) else None
