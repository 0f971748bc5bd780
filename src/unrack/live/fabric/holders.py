"""Which job holds which device: what may be attached beside what is."""

from __future__ import annotations

from unrack.live.fabric.contract import Attachment


class Holders:
    """Attachments by operation and by device; a device that is held whole has one, others may have several."""

    def __init__(self) -> None:
        self.attachments: dict[str, Attachment] = {}
        self._operations: dict[str, set[str]] = {}

    def put(self, attachment: Attachment) -> None:
        """Note an attachment, in place of the one with that id."""
        self.drop(attachment.operation)
        self.attachments[attachment.operation] = attachment
        for device in attachment.devices:
            self._operations.setdefault(device, set()).add(attachment.operation)

    def drop(self, operation: str) -> None:
        """Forget an attachment, if there is one."""
        known = self.attachments.pop(operation, None)
        for device in known.devices if known else ():
            self._operations[device].discard(operation)
            if not self._operations[device]:
                del self._operations[device]

    def of(self, device: str) -> list[Attachment]:
        """Those that hold a device, in order of operation."""
        return [self.attachments[operation] for operation in sorted(self._operations.get(device, ()))]

    def in_the_way(self, wanted: Attachment) -> list[Attachment]:
        """Those beside which it must not be attached: one of the two holds a device whole that both name."""
        others = {other.operation: other for device in wanted.devices for other in self.of(device)}
        others.pop(wanted.operation, None)
        return [others[name] for name in sorted(others) if not wanted.amounts or not others[name].amounts]
