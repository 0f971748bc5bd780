"""No fabric: devices are always where they are asked for, and only the ledger says which job may use them."""

from __future__ import annotations

from threading import Lock

from unrack.live.fabric.contract import Attachment, FabricError
from unrack.live.fabric.holders import Holders
from unrack.live.fabric.names import checked


class LedgerOnly:
    """Attaches nothing; knows what it was asked for as long as the process lives, and refuses what would clash."""

    def __init__(self) -> None:
        self._holders = Holders()
        self._guard = Lock()

    def attach(self, wanted: Attachment) -> None:
        """Note it."""
        with self._guard:
            known = self._holders.attachments.get(checked(wanted).operation)
            if known is not None and known != wanted:
                raise FabricError(f"operation {wanted.operation} attaches {known}, not {wanted}")
            for other in self._holders.in_the_way(wanted):
                raise FabricError(f"a device of {wanted.operation} is held by job {other.job} ({other.operation})")
            self._holders.put(wanted)

    def detach(self, operation: str) -> None:
        """Forget it."""
        with self._guard:
            self._holders.drop(operation)

    def state(self) -> list[Attachment]:
        """What was noted, in order of operation."""
        with self._guard:
            return [one for _, one in sorted(self._holders.attachments.items())]
