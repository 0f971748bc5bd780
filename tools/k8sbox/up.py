"""A control plane to try things on, until Ctrl-C: ``python tools/k8sbox/up.py FOLDER`` makes ``FOLDER/kubeconfig``.

Three nodes, kube-scheduler, and a stand-in for kubelets: pods that are bound run for as many seconds as their
annotation ``k8sbox/seconds`` says.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "live" / one) for one in ("kubernetes", "bed")]

from k8s_bed import KubernetesBed  # noqa: E402
from make_k8sbox import make  # noqa: E402


def main() -> None:
    """Run it."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with KubernetesBed(make(), scheduler=True) as bed:
        bed.add_nodes(["n1", "n2", "n3"], {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "2"})
        shutil.copy(bed.folder / "ca.crt", folder)
        shutil.copy(bed.kubeconfig("admin"), folder / "kubeconfig")
        sys.stdout.write(f"export KUBECONFIG={folder.absolute() / 'kubeconfig'}\n")
        sys.stdout.flush()
        try:
            signal.pause()
        except KeyboardInterrupt:
            (folder / "kubeconfig").unlink()


if __name__ == "__main__":
    main()
