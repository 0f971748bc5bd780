"""Where the small web server of a live scheduler listens."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

_FORM = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([0-9.]{7,15})):([0-9]{1,5})")


class Address(NamedTuple):
    """An address of this machine and a port; port 0: any that is free."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        """An address as it is written: numbers, not names, which could be resolved to anything.

        Raises
        ------
        ValueError
            It is none; the message is what was wanted.

        Examples
        --------
        >>> Address.of("127.0.0.1:9641"), Address.of("[::1]:0")
        (Address(host='127.0.0.1', port=9641), Address(host='::1', port=0))
        """
        want = "an address and a port in numbers, such as 127.0.0.1:9641 or [::1]:9641"
        match = _FORM.fullmatch(text)
        if match is None or int(match[3]) > 65_535:
            raise ValueError(want)
        try:
            host = ipaddress.ip_address(match[1] or match[2])
        except ValueError:
            raise ValueError(want) from None
        if (host.version == 6) != (match[1] is not None):
            raise ValueError(want)
        return cls(str(host), int(match[3]))

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach it."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def is_version_6(self) -> bool:
        """True of an address of IP version 6."""
        return ":" in self.host

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_version_6 else f"{self.host}:{self.port}"
