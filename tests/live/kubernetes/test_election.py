"""Several replicas, of which one schedules: the one that holds a Lease of a real API server."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from api_admin import AdminError
from driven_pods import DrivenPods, overbooked
from free_ports import PortBlock
from k8s_bed import DRIVER, KubernetesBed

from unrack.errors import InputError
from unrack.live.driver.service.service import Stop
from unrack.live.kubernetes.client.access import access_here
from unrack.live.kubernetes.leading import Leadership, Lease
from unrack.live.kubernetes.service import serve
from unrack.live.kubernetes.site import KubernetesSite

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/unrack"
OF = Lease("kube-system", "unrack", 2)


@pytest.fixture
def bed(kubernetes: KubernetesBed) -> Iterator[KubernetesBed]:
    yield kubernetes
    with suppress(AdminError):  # it is not there
        kubernetes.admin.delete(LEASE)


def striving(bed: KubernetesBed, name: str) -> Leadership:
    return Leadership(access_here(bed.kubeconfig(DRIVER), None), OF, name)


def until(holds: Callable[[], bool], timeout_s: float = 15) -> float:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < timeout_s
        time.sleep(0.02)
    return time.monotonic() - began


def test_one_leads_at_a_time_and_another_takes_over(bed: KubernetesBed) -> None:
    with striving(bed, "a") as one:
        until(lambda: one.leads)
        with striving(bed, "b") as two:
            time.sleep(3)
            assert one.leads
            assert not two.leads
            spec = bed.admin.get(LEASE)["spec"]
            assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("a", 1)
            one._ended.set()  # it ends, and gives it back: another need not wait until it expires
            assert until(lambda: two.leads) < 2
            assert not one.leads
        assert bed.admin.get(LEASE)["spec"]["holderIdentity"] == ""


def test_a_server_that_hangs_leaves_none_leading_and_one_takes_over(
    new_kubernetes: Callable[..., KubernetesBed],
) -> None:
    bed = new_kubernetes(kubelets=False)
    with striving(bed, "a") as one, striving(bed, "b") as two:
        until(lambda: one.leads or two.leads)
        bed.pause("kube-apiserver")
        until(lambda: not one.leads and not two.leads)
        time.sleep(1)
        bed.resume("kube-apiserver")
        both = list[bool]()

        def some() -> bool:
            both.append(one.leads and two.leads)
            return one.leads or two.leads

        until(some)
        for _ in range(100):
            some()
            time.sleep(0.02)
        assert not any(both)


def test_without_the_right_to_it_that_is_said(bed: KubernetesBed) -> None:
    access = access_here(bed.kubeconfig("nobody"), None)
    with Leadership(access, OF) as one, pytest.raises(InputError, match=r"kubernetes-rights\.yaml"):
        until(lambda: one.leads)


def test_a_leader_that_lost_its_lease_binds_nothing_and_its_successor_all(bed: KubernetesBed) -> None:
    bed.add_nodes(["n1", "n2"], {"cpu": "4", "memory": "8Gi"})
    leads = [True]
    with DrivenPods(bed) as first:
        first.adapter._leads = lambda: leads[0]
        bed.add_pod("p0", {"cpu": "1"})
        first.until(lambda: len(first.placed()) == 1)
        leads[0] = False
        for i in range(1, 8):
            bed.add_pod(f"p{i}", {"cpu": "1"})
        for _ in range(10):
            first.go()
        assert len(first.placed()) == 1
        with DrivenPods(bed) as second:
            leads[0] = True  # both of them, and at once: each pod is bound once
            while len(first.placed()) < 8:
                first.go()
                second.go()
        assert overbooked(bed) == []


def test_replicas_of_the_command_take_over_from_one_that_is_killed(bed: KubernetesBed, tmp_path: Path) -> None:
    bed.add_nodes(["n1"], {"cpu": "2", "memory": "8Gi"})
    commands = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "site.toml"
        path.write_text(
            f'state = "state"\nkubeconfig = "{bed.kubeconfig(DRIVER)}"\n'
            '[metrics]\naddress = ""\n[election]\nduration = "2 s"\n'
        )
        commands.append([sys.executable, "-m", "unrack", "kubernetes", "run", "--config", str(path)])
    running = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in commands]
    try:
        bed.add_pod("p0", {"cpu": "1"}, run_s=0.1)
        until(lambda: bed.pod("p0")["status"]["phase"] == "Succeeded", 90)  # type: ignore[index]
        holder = bed.admin.get(LEASE)["spec"]["holderIdentity"]
        leader = next(one for one in running if f"_{one.pid}_" in holder)
        other = next(one for one in running if one is not leader)
        until(lambda: f"_{leader.pid}_" in holder)
        leader.kill()
        bed.add_pod("p1", {"cpu": "1"}, run_s=0.1)
        until(lambda: bed.pod("p1")["status"]["phase"] == "Succeeded", 60)  # type: ignore[index]
        assert f"_{other.pid}_" in bed.admin.get(LEASE)["spec"]["holderIdentity"]
        other.terminate()
        assert other.wait(20) == 0
        assert bed.admin.get(LEASE)["spec"]["holderIdentity"] == ""
    finally:
        for one in running:
            one.kill()
            one.wait()


def asked(port: int, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_a_replica_that_waits_is_well_and_not_ready_until_it_leads(bed: KubernetesBed, tmp_path: Path) -> None:
    bed.clear()
    bed.add_nodes(["n1"], {"cpu": "2", "memory": "8Gi"})
    block = PortBlock()
    table = {
        "state": str(tmp_path / "state"), "kubeconfig": str(bed.kubeconfig(DRIVER)),
        "metrics": {"address": f"127.0.0.1:{block.ports[0]}"}, "election": {"duration": "2 s"}, "timeout": "1 s",
    }  # fmt: skip
    stop, ready = Stop(), list[object]()
    with striving(bed, "another") as other:
        until(lambda: other.leads)
        thread = Thread(target=serve, args=(KubernetesSite.of(table), stop, ready.append))
        thread.start()
        try:
            until(lambda: bool(listening(block.ports[0])))
            assert asked(block.ports[0], "/healthz")[0] == 200
            code, said = asked(block.ports[0], "/readyz")
            assert code == 503
            assert "another replica leads" in said
            assert ready == []
            other._ended.set()
            until(lambda: len(ready) == 1, 60)
            until(lambda: asked(block.ports[0], "/readyz")[0] == 200, 30)
        finally:
            stop.ask()
            thread.join(30)
            block.give_back()
    assert not thread.is_alive()


def listening(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def test_a_service_steps_down_and_leads_again(new_kubernetes: Callable[..., KubernetesBed], tmp_path: Path) -> None:
    bed = new_kubernetes()
    bed.add_nodes(["n1"], {"cpu": "2", "memory": "8Gi"})
    table = {
        "state": str(tmp_path / "state"), "kubeconfig": str(bed.kubeconfig(DRIVER)), "metrics": {"address": ""},
        "election": {"duration": "2 s"}, "timeout": "1 s",
    }  # fmt: skip
    stop, ready = Stop(), list[object]()
    thread = Thread(target=serve, args=(KubernetesSite.of(table), stop, ready.append))
    thread.start()
    try:
        until(lambda: len(ready) == 1, 60)
        bed.pause("kube-apiserver")
        time.sleep(4)
        bed.resume("kube-apiserver")
        until(lambda: len(ready) == 2, 60)
        bed.add_pod("p", {"cpu": "1"}, run_s=0.1)
        until(lambda: bed.pod("p")["status"]["phase"] == "Succeeded", 30)  # type: ignore[index]
    finally:
        stop.ask()
        thread.join(30)
    assert not thread.is_alive()
