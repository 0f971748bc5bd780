"""The free devices of one kind by host, from which a round takes some; lists are made for hosts that are asked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class FreeDevices:
    """Free devices by host.

    Parameters
    ----------
    device, host : int64[devices]
        The free devices by host, and the host of each.
    hosts
        How many hosts there are.

    Attributes
    ----------
    counts : int64[hosts]
        How many each host has left.
    """

    def __init__(self, device: Ints, host: Ints, hosts: int) -> None:
        self._device, self._hosts = device, hosts
        self._ends = np.searchsorted(host, np.arange(hosts + 1))
        self.counts: Ints = np.diff(self._ends)
        self._lists: dict[int, list[int]] = {}

    def pop(self, host: int) -> int | None:
        """Take the first free device of a host; ``None``: it has none."""
        free = self._of(host)
        if not free:
            return None
        self.counts[host] -= 1
        return free.pop()

    def put(self, host: int, device: int) -> None:
        """A device is free."""
        self._lists[host] = sorted([*self._of(host), device], reverse=True)
        self.counts[host] += 1

    def remove(self, host: int, device: int) -> None:
        """A device is not free any more, if it was."""
        free = self._of(host)
        if device in free:
            free.remove(device)
            self.counts[host] -= 1

    def every(self) -> tuple[Ints, Ints]:
        """int64[devices] twice: the free devices by host, and the host of each."""
        if not self._lists:
            return self._device, np.repeat(np.arange(self._hosts), self.counts)
        parts = [
            np.array(self._lists[host][::-1], np.int64)
            if host in self._lists
            else self._device[self._ends[host] : self._ends[host + 1]]
            for host in range(self._hosts)
        ]
        return np.concatenate(parts), np.repeat(np.arange(self._hosts), self.counts)

    def meet(self, other: FreeDevices) -> FreeDevices:
        """Those that are free in both."""
        device, host = self.every()
        both = np.isin(device, other.every()[0])
        return FreeDevices(device[both], host[both], self._hosts)

    def _of(self, host: int) -> list[int]:
        """The free devices of a host, the first last."""
        if host not in self._lists:
            self._lists[host] = self._device[self._ends[host] : self._ends[host + 1]][::-1].tolist()
        return self._lists[host]
