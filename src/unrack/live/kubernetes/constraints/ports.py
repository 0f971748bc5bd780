"""Ports of nodes: of those that pods want the same of, only one runs on a node."""

from __future__ import annotations

from typing import NamedTuple

from unrack.live.kubernetes.client.objects import Pod

ANY = "0.0.0.0"  # it is what Kubernetes calls all addresses of a node


class Port(NamedTuple):
    """A port of a node that a pod wants."""

    number: int
    protocol: str
    address: str

    def conflicts(self, other: Port) -> bool:
        """True if two pods cannot have both on one node."""
        return self[:2] == other[:2] and (self.address == other.address or ANY in (self.address, other.address))


def ports_of(pod: Pod) -> tuple[Port, ...]:
    """The ports of its node that a pod wants, for as long as it runs."""
    long = [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
    return tuple(
        Port(int(port["hostPort"]), str(port.get("protocol") or "TCP"), str(port.get("hostIP") or ANY))
        for container in (*pod.spec.containers, *long)
        for port in container.ports
        if port.get("hostPort")
    )
