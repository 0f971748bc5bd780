"""A driver on a real API server, step by step; and an auditor that believes nothing but what that server says."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from k8s_bed import DRIVER, SERVING, KubernetesBed
from memory_journal import MemoryJournal

from unrack.live.driver.driver import Driver
from unrack.live.driver.seen import UnreachableError
from unrack.live.driver.state.kept import kept_of
from unrack.live.fabric.table import make_fabric
from unrack.live.kubernetes.adapter.adapter import KubernetesAdapter
from unrack.live.kubernetes.adapter.terms import Added
from unrack.live.kubernetes.client.access import access_here

_UNITS = {"m": Fraction(1, 1000), "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


ADDED = Added(3_600_000_000)


class Killed(BaseException):
    """The driver dies here."""


class Deadly:
    """Kills the driver at the so-manieth of its steps."""

    def __init__(self, at: int) -> None:
        self.left = at

    def step(self, _: str = "") -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed

    def around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """The same, with a step before it and one after it."""

        async def done(*args: Any, **keys: Any) -> Any:
            self.step()
            found = await real(*args, **keys)
            self.step()
            return found

        return done


class DrivenPods:
    """A driver of the pods of a scheduler called unrack; stop it, or use it in a ``with``."""

    def __init__(self, bed: KubernetesBed, policy: Any = "easy", timeout_s: float = 5.0, added: Added = ADDED) -> None:
        self.bed, self.policy, self.timeout_s, self.journal = bed, policy, timeout_s, MemoryJournal()
        self.added = added
        self.begin()

    def begin(self) -> None:
        """Start, or start again from what was written."""
        access = access_here(self.bed.kubeconfig(DRIVER if self.added.servers is None else SERVING), None)
        self.adapter = KubernetesAdapter(access, "unrack", self.policy, added=self.added, timeout_s=self.timeout_s)
        kept = kept_of(self.journal.records())
        fabric = self.adapter.servers or make_fabric({"kind": "none"})
        self.driver = Driver(self.adapter, fabric, self.journal, kept=kept)
        self.driver.acting.settle()

    def stop(self) -> None:
        self.driver.acting.close()
        self.adapter.close()

    def __enter__(self) -> DrivenPods:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def go(self) -> None:
        """A step, whether the server answers or not."""
        try:
            self.driver.step()
        except UnreachableError:
            time.sleep(0.1)
        assert self.driver.policy is None  # no other took its place
        time.sleep(0.02)

    def until(self, holds: Callable[[], bool], timeout_s: float = 30) -> None:
        deadline = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError({entry.key: (str(entry.phase), entry.why) for entry in self.driver.table})
            self.go()

    def until_all(self, phase: str = "Succeeded", timeout_s: float = 60) -> None:
        """Until all pods of ours are in a phase."""
        checked = [0.0]

        def holds() -> bool:
            if time.monotonic() - checked[0] < 0.3:
                return False
            checked[0] = time.monotonic()
            return all(pod["status"]["phase"] == phase for pod in self.pods().values())

        self.until(holds, timeout_s)

    def pods(self) -> dict[str, dict[str, Any]]:
        listed = self.bed.admin.get("/api/v1/pods")["items"]
        return {pod["metadata"]["name"]: pod for pod in listed if pod["spec"]["schedulerName"] == "unrack"}

    def placed(self) -> dict[str, str]:
        """Name of each pod of ours that has a node → that."""
        return {name: pod["spec"]["nodeName"] for name, pod in self.pods().items() if pod["spec"].get("nodeName")}


def amount(text: str) -> Fraction:
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    return Fraction(text.removesuffix(unit)) * _UNITS.get(unit, 1)


def overbooked(bed: KubernetesBed) -> list[str]:
    """What is asked of nodes, by pods that hold them now, beyond what they have."""
    held: dict[str, Counter[str]] = {}
    for pod in bed.admin.get("/api/v1/pods")["items"]:
        node = pod["spec"].get("nodeName")
        if not node or pod["status"]["phase"] in ("Succeeded", "Failed"):
            continue
        own = held.setdefault(node, Counter())
        own["pods"] += 1
        for container in pod["spec"]["containers"]:
            for key, value in container.get("resources", {}).get("requests", {}).items():
                own[key] += amount(value)  # type: ignore[assignment]
    nodes = {
        node["metadata"]["name"]: node["status"]["allocatable"] for node in bed.admin.get("/api/v1/nodes")["items"]
    }
    return [
        f"{name}: {float(asked)} {key} of {nodes.get(name, {}).get(key, '0')}"
        for name, own in held.items()
        for key, asked in own.items()
        if asked > amount(nodes.get(name, {}).get(key, "0"))
    ]
