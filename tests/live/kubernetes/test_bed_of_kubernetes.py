"""The control plane of tests itself: other tests believe what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import make_k8sbox
import pytest
from api_admin import AdminError
from k8s_bed import KubernetesBed


def test_it_is_ready_soon_and_a_pod_of_kube_scheduler_runs_and_ends(
    new_kubernetes: Callable[..., KubernetesBed],
) -> None:
    bed = new_kubernetes(scheduler=True)
    assert bed.ready_s < 30
    bed.add_nodes(["n1"], {"cpu": "4", "memory": "8Gi"})
    bed.add_pod("p", {"cpu": "1"}, run_s=0.2, schedulerName="default-scheduler")
    bed.wait_until(lambda: (bed.pod("p") or {})["status"]["phase"] == "Succeeded")
    assert bed.pod("p")["spec"]["nodeName"] == "n1"  # type: ignore[index]


def test_pods_fail_are_evicted_and_are_let_go(kubernetes: KubernetesBed) -> None:
    kubernetes.add_nodes(["n1"], {"cpu": "4"})
    kubernetes.add_pod("fails", run_s=0.1, nodeName="n1", metadata={"annotations": {"k8sbox/fails": "Error"}})
    for name in ("stays", "evicted"):
        kubernetes.add_pod(name, nodeName="n1")
    kubernetes.wait_until(lambda: kubernetes.pod("fails")["status"]["phase"] == "Failed")  # type: ignore[index]
    kubernetes.wait_until(lambda: kubernetes.pod("evicted")["status"]["phase"] == "Running")  # type: ignore[index]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted"}}
    kubernetes.admin.post("/api/v1/namespaces/default/pods/evicted/eviction", eviction)
    kubernetes.wait_until(lambda: kubernetes.pod("evicted") is None)
    kubernetes.admin.delete("/api/v1/nodes/n1")
    assert kubernetes.pod("stays")["status"]["phase"] == "Running"  # type: ignore[index]


def test_controllers_make_pods_of_jobs(kubernetes: KubernetesBed) -> None:
    template = {
        "spec": {"schedulerName": "unrack", "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    }
    job = {"kind": "Job", "metadata": {"name": "j"}, "spec": {"completions": 3, "parallelism": 3, "template": template}}
    kubernetes.admin.post("/apis/batch/v1/namespaces/default/jobs", {"apiVersion": "batch/v1", **job})
    kubernetes.wait_until(lambda: len(kubernetes.admin.get("/api/v1/pods")["items"]) == 3)
    kubernetes.admin.delete("/apis/batch/v1/namespaces/default/jobs/j", propagationPolicy="Background")


def test_who_is_allowed_nothing_may_nothing(kubernetes: KubernetesBed) -> None:
    with pytest.raises(AdminError, match="403"):
        kubernetes.ask_as("nobody").get("/api/v1/pods")
    assert kubernetes.ask_as("unrack").get("/api/v1/pods")["items"] == []
    with pytest.raises(AdminError, match="403"):
        kubernetes.ask_as("unrack").post("/api/v1/nodes", {"kind": "Node", "metadata": {"name": "mine"}})


def test_nothing_is_left_when_it_has_stopped(new_kubernetes: Callable[..., KubernetesBed]) -> None:
    bed = new_kubernetes()
    processes = list(bed._running.values())
    bed.stop()
    assert all(process.poll() is not None for process in processes)
    assert not bed.folder.exists()


def test_without_go_it_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("UNRACK_K8SBOX", raising=False)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert not make_k8sbox.is_made()
    with pytest.raises(make_k8sbox.CannotBuildError, match="no Go"):
        make_k8sbox.make()
    monkeypatch.setenv("UNRACK_K8SBOX", str(tmp_path))
    with pytest.raises(make_k8sbox.CannotBuildError, match="has not all of etcd"):
        make_k8sbox.make()


def test_what_go_says_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'dial tcp: no module proxy' >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("UNRACK_K8SBOX", raising=False)
    monkeypatch.setattr("shutil.which", lambda *_, **__: str(go))
    with pytest.raises(make_k8sbox.CannotBuildError, match="no module proxy"):
        make_k8sbox.make()
