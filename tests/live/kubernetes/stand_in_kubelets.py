"""A stand-in for the kubelets of all nodes: pods that are bound run for as long as they say, and end.

A pod says so in annotations: ``k8sbox/seconds`` (forever, if it does not), ``k8sbox/fails`` with a reason, such as
``Error`` or ``Evicted``: it fails after these seconds in place of succeeding. Pods that are being deleted are let go.
``k8sbox/serves`` with a port: it has an address at which a real TCP server on this machine sends back what it is sent,
as long as the pod is there. ``k8sbox/talks-to`` with the name of a variable: once it runs it talks to all servers in
that variable of its container, which is taken from its annotations as kubelets do, and fails if one does not answer.
"""

from __future__ import annotations

import contextlib
import heapq
import http.client
import queue
import threading
import time
from datetime import UTC, datetime

from api_admin import Admin, AdminError, Content
from echoes import Echoes

_WORKERS = 4


class Kubelets:
    """All of them, in threads of their own; end with :meth:`stop`."""

    def __init__(self, admin: Admin) -> None:
        self._admin, self.echoes = admin, Echoes()
        self.slow_s = 0.0  # how long a pod that is deleted takes to end
        self._stopped = threading.Event()
        self._todo: queue.SimpleQueue[tuple[str, Content] | None] = queue.SimpleQueue()
        self._ends: list[tuple[float, int, Content]] = []
        self._lock, self._seen = threading.Lock(), dict[str, str]()
        self._count = 0
        works = [self._watch, self._clock, *[self._work] * _WORKERS]
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let no more pods run or end."""
        self._stopped.set()
        self.echoes.close_all()
        for _ in range(_WORKERS):
            self._todo.put(None)

    def _watch(self) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(AdminError, OSError, http.client.HTTPException, ValueError):
                listed = self._admin.get("/api/v1/pods", resourceVersion="0")
                for pod in listed["items"]:
                    self._see(pod)
                for event in self._admin.watch("/api/v1/pods", listed["metadata"]["resourceVersion"]):
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._see(event["object"])
                    elif event["type"] == "DELETED":
                        self._seen.pop(event["object"]["metadata"]["uid"], None)
                    elif event["type"] == "ERROR":
                        break
                    if self._stopped.is_set():
                        return
            time.sleep(0.2)

    def _see(self, pod: Content) -> None:
        uid, phase = pod["metadata"]["uid"], pod.get("status", {}).get("phase")
        if not pod["spec"].get("nodeName"):
            return
        if "deletionTimestamp" in pod["metadata"]:
            self._once(uid, "go", pod)
        elif phase == "Pending":
            self._once(uid, "run", pod)

    def _once(self, uid: str, what: str, pod: Content) -> None:
        if self._seen.get(uid) not in (what, "go"):
            self._seen[uid] = what
            self._todo.put((what, pod))

    def _work(self) -> None:
        while (work := self._todo.get()) is not None:
            what, pod = work
            for _ in range(20):  # the server may be away for a while
                if self._stopped.is_set():
                    return
                try:
                    self._do(what, pod)
                except AdminError as error:
                    if error.code in (404, 409, 422):
                        break
                    time.sleep(0.5)
                except (OSError, http.client.HTTPException):
                    time.sleep(0.5)
                else:
                    break

    def _do(self, what: str, pod: Content) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if what == "go":
            self.echoes.close(metadata["uid"])
            self._stopped.wait(self.slow_s)
            self._admin.delete(path, gracePeriodSeconds=0, preconditions={"uid": metadata["uid"]})
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        said = metadata.get("annotations", {})
        if what == "run":
            if "k8sbox/talks-to" in said and not self.echoes.answer(environment(pod)[said["k8sbox/talks-to"]]):
                status: Content = {"phase": "Failed", "reason": "NoServer", "message": "a server does not answer"}
                self._admin.patch(f"{path}/status", {"status": status}, "application/strategic-merge-patch+json")
                return
            ready = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")]
            status = {"phase": "Running", "startTime": now, "conditions": ready}
            if "k8sbox/serves" in said:
                ip = self.echoes.open(metadata["uid"], int(said["k8sbox/serves"]))
                status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
        elif reason := said.get("k8sbox/fails"):
            status = {"phase": "Failed", "reason": reason, "message": "it was to fail"}
        else:
            status = {"phase": "Succeeded"}
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        self._admin.patch(f"{path}/status", body, "application/strategic-merge-patch+json")
        if what == "run" and "k8sbox/seconds" in said:
            with self._lock:
                self._count += 1
                heapq.heappush(self._ends, (time.monotonic() + float(said["k8sbox/seconds"]), self._count, pod))

    def _clock(self) -> None:
        while not self._stopped.wait(0.02):
            with self._lock:
                while self._ends and self._ends[0][0] <= time.monotonic():
                    self._todo.put(("end", heapq.heappop(self._ends)[2]))


def environment(pod: Content) -> dict[str, str]:
    """The variables of its container, those among them that are annotations of the pod."""
    said, found = pod["metadata"].get("annotations", {}), dict[str, str]()
    for variable in pod["spec"]["containers"][0].get("env", ()):
        path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        found[variable["name"]] = (
            said.get(path[22:-2], "") if path.startswith("metadata.annotations['") else variable["value"]
        )
    return found
