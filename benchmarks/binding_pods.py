"""How many pods are bound a second, and how long each waits for that: ``unrack kubernetes run`` on a real API server.

``make k8sbox`` first. Server, etcd and driver share the machine with whatever else runs there: its load is printed, and
what the driver and the servers have used of the processors.

    python benchmarks/binding_pods.py --nodes 1000 --pods 10000 --rate 100
    python benchmarks/binding_pods.py --gpus --pods 240

``--gpus``: pods of 1, 2, 4 and 8 GPUs come and end on nodes of 8, the same ones by kube-scheduler, by kube-scheduler
with the extender, and by the driver, one after the other. GPUs are stranded while a pod waits that all free ones
together would hold, and no node does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [
    str(ROOT / "tests" / "live" / "kubernetes"),
    str(ROOT / "tests" / "live" / "bed"),
    str(ROOT / "tools" / "k8sbox"),
]

from k8s_bed import DRIVER, EXTENDER, KubernetesBed  # noqa: E402
from make_k8sbox import make  # noqa: E402


class Seen:
    """When pods came, were bound and ended, by the clock of this process; and where they were."""

    def __init__(self, bed: KubernetesBed) -> None:
        self.came, self.bound, self.ended = dict[str, float](), dict[str, float](), dict[str, float]()
        self.node = dict[str, str]()
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
                    self.node[name] = pod["spec"]["nodeName"]
                if pod["status"].get("phase") == "Succeeded":
                    self.ended.setdefault(name, now)


def cpu_s(pid: int) -> float:
    """Seconds of a processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def servers_s(bed: KubernetesBed) -> str:
    """The same of the servers, in words."""
    return ", ".join(f"{name} {cpu_s(process.pid):.1f}" for name, process in bed._running.items())


def begun(
    bed: KubernetesBed, folder: Path, policy: str | dict[str, Any], extender: bool = False
) -> subprocess.Popen[bytes]:
    """The driver, or an extender of kube-scheduler."""
    site, own = folder / "site.toml", 'state = "state"\n[metrics]\naddress = ""\n'
    if extender:
        own = f'address = "127.0.0.1:{bed.extender_port}"\n[metrics]\naddress = ""\n'
    said = policy if isinstance(policy, str) else [f"{key} = {json.dumps(value)}" for key, value in policy.items()]
    written = json.dumps(said) if isinstance(said, str) else "{" + ", ".join(said) + "}"
    site.write_text(f'policy = {written}\nkubeconfig = "{bed.kubeconfig(EXTENDER if extender else DRIVER)}"\n{own}')
    command = [sys.executable, "-m", "unrack", "kubernetes", "extend" if extender else "run", "--config", str(site)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


GPU, NODES, EACH = "nvidia.com/gpu", 8, 8
TIGHT = {"name": "list", "gpus": "best-fit"}
FIT = {
    "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeResourcesFitArgs",
    "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": GPU, "weight": 1}]},
}  # fmt: skip
PACKED = {"schedulerName": "default-scheduler", "pluginConfig": [{"name": "NodeResourcesFit", "args": FIT}]}
HOW: dict[str, tuple[bool | dict[str, Any], dict[str, Any] | None]] = {
    "kube-scheduler": (True, None),
    "kube-scheduler, MostAllocated": ({"profiles": [PACKED]}, None),
    "kube-scheduler, extender": (
        {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 100, "nodeCacheCapable": True},
        TIGHT,
    ),
    "unrack, list": (False, {**TIGHT, "backfill": "any"}),
    "unrack, easy": (False, {"name": "easy", "gpus": "best-fit"}),
}
"""How pods are scheduled: what is said of kube-scheduler, and the policy of the driver or extender."""


def mix(count: int, load: float) -> list[tuple[float, int, float]]:
    """When each pod comes, how many GPUs it asks for, and how long it runs, s."""
    random, found, now = Random(1), list[tuple[float, int, float]](), 0.0
    for _ in range(count):
        gpus, run_s = random.choices([1, 2, 4, 8], [50, 20, 20, 10])[0], random.uniform(4, 16)
        found.append((now, gpus, run_s))
        now += random.expovariate(load * NODES * EACH / (2.5 * 10))
    return found


def stranded(seen: Seen, gpus: dict[str, int], until: float) -> tuple[float, float]:
    """How many GPUs are stranded, and how many free, in the mean until a time."""
    changes = sorted({*seen.came.values(), *seen.bound.values(), *seen.ended.values(), until})
    lost = idle = 0.0
    for since, to in pairwise(one for one in changes if one <= until):
        free = dict.fromkeys((f"g{i}" for i in range(NODES)), EACH)
        for name, at in seen.bound.items():
            if at <= since < seen.ended.get(name, until + 1):
                free[seen.node[name]] -= gpus[name]
        waits = [gpus[name] for name, at in seen.came.items() if at <= since < seen.bound.get(name, until + 1)]
        total = sum(free.values())
        idle += total * (to - since)
        lost += total * (to - since) if any(max(free.values()) < one <= total for one in waits) else 0.0
    took = until - changes[0]
    return lost / took, idle / took


def compared(count: int, load: float) -> None:
    """The same pods under each."""
    pods = mix(count, load)
    gpus = {f"p{i:04}": one[1] for i, one in enumerate(pods)}
    print(f"{count} pods, load {load}, {NODES} nodes of {EACH} GPUs; in the mean until the last pod came:")
    for words, (scheduler, policy) in HOW.items():
        with KubernetesBed(make(), scheduler=scheduler) as bed, tempfile.TemporaryDirectory() as folder:
            bed.add_nodes([f"g{i}" for i in range(NODES)], {"cpu": "128", "memory": "1Ti", GPU: str(EACH)})
            other = None if policy is None else begun(bed, Path(folder), policy, extender=bool(scheduler))
            named = "unrack" if scheduler is False else "default-scheduler"
            bed.add_pod("first", {"cpu": "1"}, run_s=0.1, schedulerName=named)  # all is ready once it runs
            seen = Seen(bed)
            bed.wait_until(lambda seen=seen: "first" in seen.ended, 120, "the first pod has run")  # type: ignore[misc]
            seen.came.clear(), seen.bound.clear(), seen.ended.clear()
            began = time.monotonic()
            for name, (at, asks, run_s) in zip(gpus, pods, strict=True):
                time.sleep(max(0.0, began + at - time.monotonic()))
                times = {"unrack.io/run-time": f"{run_s:.0f} s"}
                bed.add_pod(
                    name,
                    {GPU: str(asks), "cpu": "1"},
                    run_s=run_s,
                    schedulerName=named,
                    metadata={"annotations": times},
                )
            until = time.monotonic()
            while len(seen.ended) < count:
                time.sleep(0.2)
            took = max(seen.ended.values()) - began
            waits = sorted(seen.bound[name] - seen.came[name] for name in gpus)
            large = [seen.bound[name] - seen.came[name] for name, asks in gpus.items() if asks == EACH]
            lost, idle = stranded(seen, gpus, until)
            print(
                f"{words}: {lost:.1f} GPUs stranded, {idle:.1f} free; bound after {median(waits):.2f} s (median), "
                f"{waits[int(0.95 * count)]:.1f} s (95 %), those of {EACH} GPUs {mean(large):.1f} s (mean); "
                f"all done after {took:.0f} s; load of the machine {os.getloadavg()[0]:.1f}",
                flush=True,
            )
            if other is not None:
                other.terminate()
                other.wait()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in {"nodes": 1000, "pods": 10_000, "rate": 100, "seconds": 30}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--policy", default="easy")
    parser.add_argument("--gpus", action="store_true")
    parser.add_argument("--load", type=float, default=0.9)
    given = parser.parse_args()
    if given.gpus:
        compared(given.pods, given.load)
        return
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
