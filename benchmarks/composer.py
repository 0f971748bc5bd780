"""How soon a claim is told that its device is there, at what cost: python benchmarks/composer.py, after make k8sbox."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / path) for path in ("tests/live/kubernetes", "tests/live/bed", "tools/k8sbox")]

from composed import API, CLUSTER, Composed, add_claim, add_class, allocate, published, said  # noqa: E402
from k8s_bed import KubernetesBed  # noqa: E402
from make_k8sbox import make  # noqa: E402

CLAIMS = 200


def cpu_s(composed: Composed) -> float:
    assert composed.process is not None
    fields = Path(f"/proc/{composed.process.pid}/stat").read_text().split()
    return (int(fields[13]) + int(fields[14])) / 100


def measure(bed: KubernetesBed, folder: Path) -> None:
    with Composed(bed, folder, CLUSTER.replace("count = 3", "count = 100"), at_once=8, look=10) as composed:
        composed.until(lambda: len(published(bed)) == 201)
        add_class(bed)
        for number in range(CLAIMS):
            add_claim(bed, f"c{number}")
        version, told, begun = bed.admin.get(f"{API}/resourceclaims")["metadata"]["resourceVersion"], {}, {}

        def see() -> None:
            for event in bed.ask_as("admin").watch(f"{API}/resourceclaims", version):
                claim: dict[str, Any] = event["object"]
                if said(claim) == ["True"]:
                    told.setdefault(claim["metadata"]["name"], time.monotonic())
                if len(told) == CLAIMS:
                    return

        watching = threading.Thread(target=see, daemon=True)
        watching.start()
        before_s, first_s = cpu_s(composed), time.monotonic()
        for number in range(CLAIMS):
            begun[f"c{number}"], rack = time.monotonic(), number // 100
            allocate(bed, f"c{number}", f"n{2 * rack}", [(f"nvme-rack{rack}", f"nvme-rack{rack}-{number % 100}")])
        rate = CLAIMS / (time.monotonic() - first_s)
        watching.join(60)
        waits = sorted(told[name] - begun[name] for name in told)
        load = Path("/proc/loadavg").read_text().split()[0]
        print(f"{len(waits)} of {CLAIMS} claims told, allocated {rate:.0f} a second; load {load}")
        print(f"median {waits[len(waits) // 2]:.2f} s, 95 % {waits[int(len(waits) * 0.95)]:.2f} s")
        print(f"{(cpu_s(composed) - before_s) / CLAIMS * 1e3:.1f} ms of processor each")
        before_s = cpu_s(composed)
        time.sleep(10)
        print(f"at rest {(cpu_s(composed) - before_s) * 10:.1f} % of a core")


if __name__ == "__main__":
    with KubernetesBed(make(), kubelets=False) as bed, tempfile.TemporaryDirectory() as folder:
        measure(bed, Path(folder))
