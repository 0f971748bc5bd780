"""What names of operations, jobs, nodes and devices may be, so that they are safe in paths and in command lines."""

from __future__ import annotations

import re

from unrack.errors import InputError
from unrack.live.fabric.contract import Attachment

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
"""Of operations, jobs, nodes and quantities."""
DEVICE = re.compile(r"(?=.{1,80}\Z)[A-Za-z0-9][A-Za-z0-9._:+-]*(/[A-Za-z0-9][A-Za-z0-9._:+-]*)*", re.ASCII)
"""Of devices: as above, with ``:`` and ``+``, in parts split by ``/``; at most 80."""
DEVICES_MAX = 1000
AMOUNT_MAX = 2**63 - 1


def checked(wanted: Attachment) -> Attachment:
    """The same attachment, if everything in it is as the contract says.

    Raises
    ------
    InputError
        Something is not.
    """
    where = f"the attachment {wanted.operation!r:.120}"
    for what in ("operation", "job", "node"):
        value = getattr(wanted, what)
        if not NAME.fullmatch(value):
            raise InputError(where, f"{what} {value!r:.120}", "letters, digits, -, _ and ., at most 100")
    for device in wanted.devices:
        if not DEVICE.fullmatch(device):
            raise InputError(where, f"the device {device!r:.120}", "a name of letters, digits, -, _, ., :, + and /")
    if not wanted.devices or len(set(wanted.devices)) < len(wanted.devices) or len(wanted.devices) > DEVICES_MAX:
        raise InputError(where, f"{len(wanted.devices)} devices", f"1 to {DEVICES_MAX} devices, none of them twice")
    for quantity, amount in wanted.amounts.items():
        if not NAME.fullmatch(quantity) or type(amount) is not int or not 0 <= amount <= AMOUNT_MAX:
            raise InputError(where, f"{quantity!r:.120} = {amount!r:.120}", "a quantity and a whole number, 0 or more")
    return wanted
