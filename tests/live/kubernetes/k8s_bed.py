"""A real Kubernetes control plane on loopback, with nodes that are there by name only."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from api_admin import Admin, AdminError, Content
from free_ports import PortBlock
from stand_in_kubelets import Kubelets

USER = "unrack"
"""Who our own programs are in tests: they may what :data:`RIGHTS` says, and nothing else."""
RIGHTS = [
    {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["update", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
]
DRIVER, SERVING, COMPOSER, EXTENDER = "driver", "serving", "composer", "extender"
"""Who ``unrack kubernetes run`` is, without and with GPUs that are served, ``compose`` and
``extend``: docs/kubernetes-rights*."""
_SHIPPED = [Path(__file__).parents[3] / "docs" / f"kubernetes-rights{of}.yaml" for of in ("", "-gpus", "-extender")]
_USERS = USER, DRIVER, SERVING, COMPOSER, EXTENDER, "nobody"
_TOKENS = {"admin": "admin-of-tests"} | {user: f"token-of-{user}" for user in _USERS}
_CONTROLLERS = (
    "job-controller,resourceclaim-controller,serviceaccount-controller,namespace-controller,replicaset-controller,"
    "garbage-collector-controller,pod-garbage-collector-controller,disruption-controller,taint-eviction-controller"
)


def resources(requests: Content) -> Content:
    """What a container asks for; of devices it has to say that it may have no more."""
    return {"requests": requests, "limits": {key: amount for key, amount in requests.items() if "/" in key}}


class KubernetesBed:
    """A control plane of its own ports and folder. Many may be there at a time; stop it, or use it in a ``with``.

    Parameters
    ----------
    programs
        The folder of its programs.
    scheduler
        Whether kube-scheduler runs too; a table: with an extender at :attr:`extender_port`, which has these keys, or
        with these ``profiles``.
    kubelets
        Whether the stand-in for kubelets runs.
    compacted
        etcd forgets what is older than that.
    gates
        Feature gates, as ``GenericWorkload=true``.
    """

    def __init__(
        self,
        programs: Path,
        *,
        scheduler: bool | Content = False,
        kubelets: bool = True,
        compacted: str = "",
        gates: str = "GenericWorkload=true",
    ) -> None:
        self.programs, self.folder = programs, Path(tempfile.mkdtemp(prefix="unrack-k8s-"))
        self._gates, self._compacted = gates, compacted
        self._block = PortBlock()
        self._etcd, self._peer, self.port, self._manager, self._scheduler = self._block.ports[:5]
        self.extender_port, self.free_port = self._block.ports[5:7]
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._followers: dict[str, list[str]] = {}
        self.kubelets: Kubelets | None = None
        self._stopped = False
        begun = time.monotonic()
        try:
            self._write()
            self.admin = self.ask_as("admin")
            self.start_etcd()
            self.start_server()
            self.kubeconfig("admin")
            self._followers = {
                "kube-controller-manager": [
                    f"--controllers={_CONTROLLERS}",
                    f"--feature-gates={gates}",
                    *self._follower(self._manager),
                ]  # claims of pods of PodGroups are made with that gate
            } | ({} if scheduler is False else {"kube-scheduler": self._scheduling(scheduler)})
            for name, flags in self._followers.items():
                self._start(name, *flags)
            self._allow()
            if kubelets:
                self.kubelets = Kubelets(self.admin)
        except BaseException:
            self.stop()
            raise
        self.ready_s = time.monotonic() - begun

    def __enter__(self) -> KubernetesBed:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Who asks, and how

    def ask_as(self, user: str) -> Admin:
        """The server as somebody asks it."""
        return Admin(self.port, self.folder / "ca.crt", _TOKENS[user])

    def kubeconfig(self, user: str = USER, *, certificate: bool = False, token_file: bool = False) -> Path:
        """A kubeconfig of somebody: with a token, its file, or a certificate."""
        path = self.folder / f"{user}{'.certificate' * certificate}{'.file' * token_file}.yaml"
        login = f"token: {_TOKENS[user]}"
        if certificate:
            login = f"client-certificate: {user}.crt\n    client-key: {self.folder}/{user}.key"
        elif token_file:
            (self.folder / f"{user}.token").write_text(_TOKENS[user])
            login = f"tokenFile: {user}.token"
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: box\n"
            f"clusters:\n- name: box\n  cluster:\n    server: https://127.0.0.1:{self.port}\n"
            "    certificate-authority: ca.crt\n"
            f"users:\n- name: {user}\n  user:\n    {login}\n"
            f"contexts:\n- name: box\n  context:\n    cluster: box\n    user: {user}\n    namespace: default\n"
        )
        return path

    # The servers

    def start_etcd(self) -> None:
        """Start etcd."""
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd, self._peer))
        self._start(
            "etcd", "--name=box", f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync", "--log-level=warn",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=box={peer}",
        )  # fmt: skip

    def start_server(self) -> None:
        """Start the API server, and wait until it is ready."""
        of = self.folder
        self._start(
            "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self._etcd}", f"--secure-port={self.port}",
            "--bind-address=127.0.0.1", f"--tls-cert-file={of}/server.crt", f"--tls-private-key-file={of}/server.key",
            f"--client-ca-file={of}/ca.crt", f"--token-auth-file={of}/tokens.csv", "--authorization-mode=RBAC",
            f"--service-account-key-file={of}/accounts.pub", f"--service-account-signing-key-file={of}/accounts.key",
            "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount", f"--cert-dir={of}", f"--feature-gates={self._gates}",
            "--runtime-config=scheduling.k8s.io/v1beta1=true,resource.k8s.io/v1=true",
            *([f"--etcd-compaction-interval={self._compacted}"] if self._compacted else []),
        )  # fmt: skip
        self.wait_until(self._is_ready, 90, "the API server is ready")

    def kill(self, name: str) -> None:
        """Kill a server at once; ``start_server`` and ``start_etcd`` start it again."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def pause(self, name: str) -> None:
        """Let a server hang: it takes connections and does not answer."""
        self._running[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let it go on."""
        self._running[name].send_signal(signal.SIGCONT)

    def compact(self) -> None:
        """Let etcd forget all that is older than now, as it does every five minutes."""
        head = self._etcd_says("kv/range", {"key": "AA==", "limit": 1})["header"]["revision"]
        self._etcd_says("kv/compaction", {"revision": head, "physical": True})

    def stop(self) -> None:
        """End all, and leave nothing."""
        if self._stopped:
            return
        self._stopped = True
        if self.kubelets is not None:
            self.kubelets.stop()
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        self._running.clear()
        self._block.give_back()
        shutil.rmtree(self.folder, ignore_errors=True)

    # What is in it

    def add_nodes(self, names: Sequence[str], capacity: Content, **keys: Any) -> None:
        """Nodes that are ready, with as much of everything; ``labels``, ``taints``."""
        for name in names:
            labels = {"kubernetes.io/hostname": name, **keys.get("labels", {})}
            node = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": keys.get("taints", [])}}
            self.admin.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node})
            amounts = {"pods": "110", **capacity}
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "stand-in"}
            status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
            self.admin.patch(f"/api/v1/nodes/{name}/status", {"status": status})
            self._clear_taint(name, keys.get("taints", []))

    def add_pod(
        self,
        name: str,
        requests: Content | None = None,
        *,
        namespace: str = "default",
        run_s: float | None = None,
        **keys: Any,
    ) -> Content:
        """A pod of a scheduler called unrack; ``run_s``: how long it runs; other keys are of its specification."""
        metadata = {"name": name, **keys.pop("metadata", {})}
        if run_s is not None:
            metadata["annotations"] = {"k8sbox/seconds": str(run_s), **metadata.get("annotations", {})}
        container = {"name": "main", "image": "none", "resources": resources(requests or {})}
        spec = {"schedulerName": "unrack", "containers": [container], **keys}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return self.admin.post(f"/api/v1/namespaces/{namespace}/pods", pod)

    def clear(self) -> None:
        """Without pods and nodes."""
        self.admin.delete_all("/api/v1/pods")
        self.admin.delete_all("/api/v1/nodes")

    def pod(self, name: str, namespace: str = "default") -> Content | None:
        """A pod, as it is now; ``None``: it is gone."""
        try:
            return self.admin.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        except AdminError as error:
            if error.code == 404:
                return None
            raise

    def wait_until(self, holds: Callable[[], bool], timeout_s: float = 20, what: str = "it holds") -> None:
        """Wait until something holds; ``TimeoutError`` if it does not in time.

        Followers that gave up as the API server was away for long are started again, as a kubelet would.
        """
        deadline = time.monotonic() + timeout_s
        while not holds():
            ended = [name for name, process in self._running.items() if process.poll() is not None]
            for name in [name for name in ended if name in self._followers and time.monotonic() < deadline]:
                ended.remove(name)
                self._start(name, *self._followers[name])
            if ended or time.monotonic() > deadline:
                raise TimeoutError(f"waited in vain until {what}; ended: {ended}\n{self._logs(ended)}")
            time.sleep(0.05)

    # What is behind it

    def _write(self) -> None:
        users = ["admin:system:masters", *_USERS]
        subprocess.run([self.programs / "certificates", self.folder, *users], check=True, timeout=30)
        lines = [
            f'{_TOKENS[name]},{name},{name},"{groups}"' for name, _, groups in (one.partition(":") for one in users)
        ]
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")

    def _follower(self, port: int) -> list[str]:
        config = f"--kubeconfig={self.folder}/admin.yaml"
        return [config, "--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={port}"]

    def _scheduling(self, extender: bool | Content) -> list[str]:
        if not isinstance(extender, dict):
            return self._follower(self._scheduler)
        config = self.folder / "scheduler.json"
        scheme = "https" if extender.get("enableHTTPS") else "http"
        at = {"urlPrefix": f"{scheme}://127.0.0.1:{self.extender_port}", **extender}
        own = extender if "profiles" in extender else {"extenders": [at]}
        content = {
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **own,
            "clientConnection": {"kubeconfig": f"{self.folder}/admin.yaml"},
            "leaderElection": {"leaderElect": False},
        }  # fmt: skip
        config.write_text(json.dumps(content))
        return ["--bind-address=127.0.0.1", f"--secure-port={self._scheduler}", f"--config={config}"]

    def start_scheduler(self) -> None:
        """Start kube-scheduler again."""
        self._start("kube-scheduler", *self._followers["kube-scheduler"])

    def _start(self, name: str, *flags: str) -> None:
        words = [str(self.programs / name), *flags]
        if sys.platform == "linux" and shutil.which("setpriv"):
            words = ["setpriv", "--pdeathsig", "KILL", *words]
        with open(self.folder / f"{name}.log", "ab") as log:
            self._running[name] = subprocess.Popen(
                words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "HOME": str(self.folder)},
            )  # fmt: skip

    def _is_ready(self) -> bool:
        try:
            return self.admin.get("/readyz")["text"] == "ok"
        except (AdminError, OSError):
            return False

    def _allow(self) -> None:
        shipped = [one for path in _SHIPPED for one in yaml.safe_load_all(path.read_text())]
        rules = {one["metadata"]["name"]: one["rules"] for one in shipped if one["kind"] == "ClusterRole"}
        election = next(one for one in shipped if one["kind"] == "Role")
        path = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system"
        self.wait_until(lambda: self._made(f"{path}/roles", election))
        subjects = [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name} for name in (DRIVER, SERVING)
        ]
        binding = next(one for one in shipped if one["kind"] == "RoleBinding")
        self.admin.post(f"{path}/rolebindings", {**binding, "subjects": subjects})
        driver, composer = rules["unrack-driver"], rules["unrack-composer"]
        serving = driver + rules["unrack-server-pods"]
        of = {USER: RIGHTS, DRIVER: driver, SERVING: serving, COMPOSER: composer, EXTENDER: rules["unrack-extender"]}
        for user, its in of.items():
            self._allow_one(user, its)

    def _made(self, path: str, content: Content) -> bool:
        """Whether something could be made: its namespace is not there at first."""
        try:
            return bool(self.admin.post(path, content))
        except AdminError as error:
            if error.code != 404:
                raise
            return False

    def _allow_one(self, user: str, rules: list[Content]) -> None:
        group = "rbac.authorization.k8s.io"
        role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules}
        subject = {"apiGroup": group, "kind": "User", "name": user}
        reference = {"apiGroup": group, "kind": "ClusterRole", "name": user}
        binding = {"kind": "ClusterRoleBinding", "subjects": [subject], "roleRef": reference}
        self.admin.post(f"/apis/{group}/v1/clusterroles", role)
        self.admin.post(
            f"/apis/{group}/v1/clusterrolebindings",
            {"apiVersion": f"{group}/v1", "metadata": {"name": user}, **binding},
        )

    def _clear_taint(self, name: str, taints: Sequence[Content]) -> None:
        self.admin.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": list(taints)}})

    def _etcd_says(self, what: str, question: Content) -> Content:
        from urllib.request import Request, urlopen

        asked = Request(f"http://127.0.0.1:{self._etcd}/v3/{what}", json.dumps(question).encode(), method="POST")
        with urlopen(asked, timeout=10) as answer:
            return json.loads(answer.read())

    def _logs(self, names: Sequence[str]) -> str:
        found = [self.folder / f"{name}.log" for name in names or self._running]
        return "\n".join(path.read_text(errors="replace")[-1500:] for path in found if path.exists())
