"""Pods that mean harm: others are scheduled all the same, in bounded time and memory; and what each was found to break."""

from __future__ import annotations

import http.client
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from api_admin import AdminError
from dra_bed import add_claim, add_class, add_slice, wants
from hostile_pods import hostile
from k8s_bed import DRIVER, KubernetesBed

CPU, NODES = 40, [f"n{i}" for i in range(4)]


class Running:
    """``unrack kubernetes run`` in a process of its own."""

    def __init__(self, bed: KubernetesBed, folder: Path) -> None:
        site = folder / "site.toml"
        site.write_text(
            f'policy = "easy"\nstate = "state"\nkubeconfig = "{bed.kubeconfig(DRIVER)}"\n'
            f'[metrics]\naddress = "127.0.0.1:{bed.free_port}"\n'
        )
        self._port, self.log = bed.free_port, folder / "log"
        with open(self.log, "ab") as log:
            words = [sys.executable, "-m", "unrack", "kubernetes", "run", "--config", str(site)]
            self.process = subprocess.Popen(words, stdout=log, stderr=log)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def most_mb(self) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024

    def is_well(self) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            return False


def throw(bed: KubernetesBed) -> Counter[bool]:
    """All that is hostile; how much of it the server took."""
    found = Counter[bool]()
    for number, (what, keys) in enumerate(hostile()):
        expression = keys.pop("claim", None)
        try:
            if expression is not None:
                add_claim(bed, f"c{number}", wants("any", selectors=[{"cel": {"expression": expression}}]))
                keys["resourceClaims"] = [{"name": "devices", "resourceClaimName": f"c{number}"}]
            metadata = {"name": f"hostile{number}", **keys.pop("metadata", {})}
            bed.add_pod(metadata["name"], keys.pop("requests", {"cpu": "1m"}), metadata=metadata, **keys)
            found[True] += 1
        except AdminError as error:
            found[False] += 1
            print(what, str(error)[:200])
    return found


def bound(bed: KubernetesBed, start: str) -> set[str]:
    pods = bed.admin.get("/api/v1/namespaces/default/pods")["items"]
    return {
        pod["metadata"]["name"]
        for pod in pods
        if pod["spec"].get("nodeName") and pod["metadata"]["name"].startswith(start)
    }


@pytest.mark.live
def test_others_are_scheduled_in_bounded_time_and_memory(
    new_kubernetes: Callable[..., KubernetesBed], tmp_path: Path
) -> None:
    bed = new_kubernetes(kubelets=False)
    bed.add_nodes(NODES, {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8", "x.y/nic": "4", "pods": "110"})
    add_class(bed, "any")
    for name in NODES:
        add_slice(bed, name, [{"name": f"d{i}"} for i in range(16)], nodeName=name)
    running = Running(bed, tmp_path)
    try:
        for i in range(20):
            bed.add_pod(f"before{i}", {"cpu": "100m"})
        bed.wait_until(lambda: len(bound(bed, "before")) == 20, 90, "pods are bound")
        calm_mb, calm_s = running.most_mb(), running.cpu_s()
        found = throw(bed)
        assert found[True] > 3 * found[False], found
        began, waits = time.monotonic(), list[float]()
        for i in range(20):
            since = time.monotonic()
            bed.add_pod(f"after{i}", {"cpu": "100m"})
            bed.wait_until(lambda i=i: f"after{i}" in bound(bed, "after"), 60, "a pod among hostile ones is bound")
            waits.append(time.monotonic() - since)
        took_s, used_s = time.monotonic() - began, running.cpu_s() - calm_s
        print(
            f"{found}; waits {sorted(waits)[10]:.2f} {max(waits):.2f} s; {used_s:.1f} CPU s in all, {took_s:.0f} s after; "
            f"{calm_mb} and {running.most_mb()} MB"
        )
        idle_s = running.cpu_s()
        time.sleep(5)
        print(f"at rest {running.cpu_s() - idle_s:.2f} CPU s in 5 s")
        assert running.is_well()
        assert running.process.poll() is None
        assert sorted(waits)[10] < 5
        assert running.most_mb() < calm_mb + 400
    finally:
        running.process.terminate()
        running.process.wait()
        print(running.log.read_text()[-3000:])
