"""Builds the control plane that tests run, once for what is written here: ``python tools/k8sbox/make_k8sbox.py``."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "certificates")
_SOURCES = ("go.mod", "go.sum", "main.go", "certificates.go")
_VERSION = "k8s.io/component-base/version"


class CannotBuildError(Exception):
    """The control plane cannot be built here; says why."""


def folder() -> Path:
    """Where the programs of these sources are, or will be: outside of the checkout, so that they outlive it."""
    kept = os.environ.get("UNRACK_K8SBOX")
    if kept:
        return Path(kept)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = hashlib.sha256(b"\0".join((HERE / name).read_bytes() for name in _SOURCES)).hexdigest()
    return cache / "unrack" / "k8sbox" / found[:16]


def is_made() -> bool:
    """True if the programs are there."""
    return all(os.access(folder() / name, os.X_OK) for name in NAMES)


def make(timeout_s: float = 1800.0) -> Path:
    """The folder of the programs, which are built if they are not there; one build at a time on a machine.

    Raises
    ------
    CannotBuildError
        There is no Go, or not the one that is needed, or no module proxy is reached, or it takes too long.
    """
    if is_made():
        return folder()
    if os.environ.get("UNRACK_K8SBOX"):
        raise CannotBuildError(f"UNRACK_K8SBOX={folder()} has not all of {', '.join(NAMES)}")
    go = shutil.which("go", path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
    if go is None:
        raise CannotBuildError("no Go is on this machine")
    folder().parent.mkdir(parents=True, exist_ok=True)
    with open(folder().parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_made():
            _build(go, timeout_s)
    return folder()


def _build(go: str, timeout_s: float) -> None:
    made, module = folder(), (HERE / "go.mod").read_text()
    version = re.search(r"^\s*k8s\.io/kubernetes v(1\.(\d+)\.\d+)$", module, re.MULTILINE)
    assert version, "go.mod requires no k8s.io/kubernetes"
    flags = f"-s -w -X {_VERSION}.gitVersion=v{version[1]} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor={version[2]}"
    made.mkdir(exist_ok=True)
    words = [go, "build", "-trimpath", "-ldflags", flags, "-o", str(made / "being-built"), "."]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
    try:
        done = subprocess.run(
            ["nice", *words], cwd=HERE, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=timeout_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CannotBuildError(f"go build took longer than {timeout_s:.0f} s") from None
    if done.returncode != 0:
        raise CannotBuildError("go build: " + " | ".join(done.stderr.strip().splitlines()[-3:])[:600])
    os.replace(made / "being-built", made / "k8sbox")
    for name in NAMES:
        (made / name).unlink(missing_ok=True)
        (made / name).symlink_to("k8sbox")


def main() -> int:
    """Build, and say where."""
    begun = time.monotonic()
    if not is_made():
        print("building a Kubernetes control plane for tests, once: 7 to 15 minutes", flush=True)  # noqa: T201
    try:
        print(f"{make()} ({time.monotonic() - begun:.0f} s)")  # noqa: T201
    except CannotBuildError as error:
        print(f"no Kubernetes for tests: {error}")  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
