"""How many pods are bound a second, and how long each waits for that: ``unrack kubernetes run`` on a real API server.

``make k8sbox`` first. Server, etcd and driver share the machine with whatever else runs there: its load is printed, and
what the driver and the servers have used of the processors.

    python benchmarks/binding_pods.py --nodes 1000 --pods 10000 --rate 100
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path[:0] = [
    str(ROOT / "tests" / "live" / "kubernetes"),
    str(ROOT / "tests" / "live" / "bed"),
    str(ROOT / "tools" / "k8sbox"),
]

from k8s_bed import DRIVER, KubernetesBed  # noqa: E402
from make_k8sbox import make  # noqa: E402


class Seen:
    """When pods came and were bound, by the clock of this process."""

    def __init__(self, bed: KubernetesBed) -> None:
        self.came, self.bound = dict[str, float](), dict[str, float]()
        self._bed = bed
        version = bed.admin.get("/api/v1/pods")["metadata"]["resourceVersion"]
        threading.Thread(target=self._watch, args=(version,), daemon=True).start()

    def _watch(self, version: str) -> None:
        for event in self._bed.ask_as("admin").watch("/api/v1/pods", version):
            now, pod = time.monotonic(), event["object"]
            if event["type"] in ("ADDED", "MODIFIED"):
                name = pod["metadata"]["name"]
                self.came.setdefault(name, now)
                if pod["spec"].get("nodeName"):
                    self.bound.setdefault(name, now)


def cpu_s(pid: int) -> float:
    """Seconds of a processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def servers_s(bed: KubernetesBed) -> str:
    """The same of the servers, in words."""
    return ", ".join(f"{name} {cpu_s(process.pid):.1f}" for name, process in bed._running.items())


def begun(bed: KubernetesBed, folder: Path, policy: str) -> subprocess.Popen[bytes]:
    """The driver."""
    site = folder / "site.toml"
    site.write_text(
        f'policy = "{policy}"\nstate = "state"\nkubeconfig = "{bed.kubeconfig(DRIVER)}"\n[metrics]\naddress = ""\n'
    )
    command = [sys.executable, "-m", "unrack", "kubernetes", "run", "--config", str(site)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in {"nodes": 1000, "pods": 10_000, "rate": 100, "seconds": 30}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--policy", default="easy")
    given = parser.parse_args()
    asks = {"cpu": "100m", "memory": "100Mi"}
    with KubernetesBed(make(), kubelets=False) as bed, tempfile.TemporaryDirectory() as folder:
        bed.add_nodes([f"n{i:04}" for i in range(given.nodes)], {"cpu": "32", "memory": "128Gi"})
        for i in range(given.pods):
            bed.add_pod(f"p{i:05}", asks)
        seen = Seen(bed)
        print(f"CPU s of servers before: {servers_s(bed)}")
        driver = begun(bed, Path(folder), given.policy)
        try:
            while len(seen.bound) < given.pods:
                time.sleep(0.1)
            times = sorted(seen.bound.values())
            print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {given.nodes} nodes")
            used = cpu_s(driver.pid)
            print(
                f"{given.pods} pods: {given.pods / (times[-1] - times[0]):.0f} bound a second, {used:.1f} CPU s of the "
                f"driver from its start on: {given.pods / used:.0f} a CPU second"
            )
            print(f"CPU s of servers by then: {servers_s(bed)}")
            used, began = cpu_s(driver.pid), time.monotonic()
            count = given.rate * given.seconds
            for i in range(count):
                time.sleep(max(0.0, began + i / given.rate - time.monotonic()))
                bed.add_pod(f"q{i:05}", asks)
            took = time.monotonic() - began
            while len(seen.bound) < given.pods + count:
                time.sleep(0.1)
            waits = sorted(seen.bound[name] - seen.came[name] for name in seen.bound if name.startswith("q"))
            most, used = waits[int(0.95 * len(waits))], cpu_s(driver.pid) - used
            print(f"{count / took:.0f} pods a second: bound after {median(waits):.3f} s (median), {most:.3f} s (95 %)")
            print(f"{used:.1f} CPU s for these; load {os.getloadavg()[0]:.1f}")
        finally:
            driver.terminate()
            driver.wait()


if __name__ == "__main__":
    main()
