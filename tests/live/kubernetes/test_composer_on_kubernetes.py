"""A composer on a real API server, alone and under kube-scheduler, as a site has it that takes this part only."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from api_admin import AdminError, Content
from composed import (
    API,
    ATTACHED,
    CLAIMS,
    CLUSTER,
    DRIVER,
    FAILED,
    Composed,
    add_claim,
    add_class,
    allocate,
    audit,
    claim_said,
    claims_of,
    deallocate,
    published,
    slices,
)
from free_ports import PortBlock
from k8s_bed import COMPOSER, KubernetesBed

DRIVE = "nvme-rack0-1"
ADMIN = "resource.kubernetes.io/admin-access"


@pytest.fixture
def bed(kubernetes: KubernetesBed) -> KubernetesBed:
    """Without claims and slices, too."""
    clear(kubernetes)
    add_class(kubernetes)
    return kubernetes


def clear(bed: KubernetesBed) -> None:
    bed.clear()
    for one in bed.admin.get(f"{API}/resourceclaims")["items"]:
        one["metadata"].pop("finalizers", None)
        bed.admin.ask("PUT", f"{CLAIMS}/{one['metadata']['name']}", one)
    bed.admin.delete_all(f"{API}/resourceclaims")
    bed.admin.delete_all(f"{API}/resourceslices")


@pytest.fixture(scope="module")
def scheduled(programs: Path) -> Iterator[KubernetesBed]:
    """A control plane with kube-scheduler, and four nodes."""
    with KubernetesBed(programs, scheduler=True) as bed:
        add_class(bed)
        yield bed


def given(bed: KubernetesBed, name: str, node: str = "n1", device: str = DRIVE, **more: Any) -> None:
    """A claim that has a drive."""
    add_claim(bed, name)
    allocate(bed, name, node, [(device.rpartition("-")[0], device)], **more)


def is_told(bed: KubernetesBed, name: str, words: str, kind: str = ATTACHED) -> Callable[[], bool]:
    return lambda: claim_said(bed, name, kind) == [words]


def test_pools_are_published_and_follow_their_file(bed: KubernetesBed, tmp_path: Path) -> None:
    with Composed(bed, tmp_path) as composed:
        composed.until(lambda: len(published(bed)) == 7)
        by_pool = {one["spec"]["pool"]["name"]: one["spec"] for one in slices(bed)}
        (named,) = by_pool["nvme-rack1"]["nodeSelector"]["nodeSelectorTerms"][0]["matchExpressions"]
        assert named == {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2", "n3"]}
        assert by_pool["box"]["allNodes"] is True
        composed.set_cluster(CLUSTER.replace("count = 3", "count = 70"))
        composed.until(lambda: len(published(bed)) == 141)
        composed.set_cluster("nodes = [")
        composed.until(lambda: "what was published stays" in composed.logged())
        assert len(published(bed)) == 141
        composed.set_cluster(CLUSTER)
        composed.until(lambda: len(published(bed)) == 7 and len(slices(bed)) == 3)
        assert composed.stop() == 0
    assert len(published(bed)) == 7
    with Composed(bed, tmp_path) as composed:  # nothing has changed, so nothing is written
        composed.until(lambda: not composed.process.poll() and composed.logged().count("published") >= 3)  # type: ignore[union-attr]
        before = [one["metadata"]["resourceVersion"] for one in slices(bed)]
        time.sleep(2)
        assert [one["metadata"]["resourceVersion"] for one in slices(bed)] == before


def test_a_device_comes_and_goes_with_its_allocation(bed: KubernetesBed, tmp_path: Path) -> None:
    with Composed(bed, tmp_path) as composed:
        given(bed, "a")
        composed.until(is_told(bed, "a", "True"))
        (one,) = composed.attached().values()
        assert (one.node, one.devices, one.amounts) == ("n1", (DRIVE,), {})
        (entry,) = bed.admin.get(f"{CLAIMS}/a")["status"]["devices"]
        assert entry["data"] == {"operation": one.operation, "node": "n1", "devices": [DRIVE]}
        deallocate(bed, "a")
        composed.until(lambda: composed.attached() == {})
        allocate(bed, "a", "n0", [("nvme-rack0", DRIVE)])
        composed.until(is_told(bed, "a", "True"))
        assert [one.node for one in composed.attached().values()] == ["n0"]
        bed.admin.delete(f"{CLAIMS}/a")
        composed.until(lambda: composed.attached() == {})


def test_what_came_and_went_while_it_was_away_is_made_up_for(bed: KubernetesBed, tmp_path: Path) -> None:
    composed = Composed(bed, tmp_path).start()
    given(bed, "stays")
    given(bed, "goes", device="nvme-rack0-0")
    composed.until(lambda: len(composed.attached()) == 2)
    composed.kill()
    bed.admin.delete(f"{CLAIMS}/goes")
    given(bed, "comes", device="nvme-rack0-0", node="n0")
    with composed:
        composed.until(is_told(bed, "comes", "True"))
        assert claim_said(bed, "stays") == ["True"]
        assert {one.node for one in composed.attached().values()} == {"n0", "n1"}
        assert audit(composed, at_rest=True) == []


def test_a_device_that_a_node_still_uses_goes_to_no_other(bed: KubernetesBed, tmp_path: Path) -> None:
    with Composed(bed, tmp_path, give_up=30) as composed:
        given(bed, "first")
        composed.until(is_told(bed, "first", "True"))
        ((operation, one),) = composed.attached().items()
        note = tmp_path / "fabric" / "connected" / one.node / one.job / f"{operation}.json"
        note.parent.mkdir(parents=True)
        note.write_text("{}")
        bed.admin.delete(f"{CLAIMS}/first")
        given(bed, "second", node="n0")
        composed.until(lambda: "still uses" in composed.logged())
        time.sleep(1)
        assert claim_said(bed, "second") == [""]
        assert list(composed.attached()) == [operation]
        note.unlink()
        composed.until(is_told(bed, "second", "True"))
        assert audit(composed, at_rest=True) == []


def test_what_others_have_in_the_fabric_is_left_to_them(bed: KubernetesBed, tmp_path: Path) -> None:
    composed = Composed(bed, tmp_path, avoid=5)
    composed.foreign("17.n0", DRIVE)  # a job of a Slurm
    with composed:
        given(bed, "a")
        composed.until(is_told(bed, "a", "True", FAILED), what="it has given up")
        assert claim_said(bed, "a") == ["AttachFailed"]
        assert list(composed.attached()) == ["17.n0"]
        message = str(bed.admin.get(f"{CLAIMS}/a")["status"]["devices"][0]["conditions"])
        assert "is held by job 17" in message
        composed.until(lambda: "taints" in published(bed).get(DRIVE, ()), what="it is avoided")
        composed.until(lambda: "taints" not in published(bed).get(DRIVE, "taints"), what="it is avoided no more")


def test_two_drivers_have_one_fabric(bed: KubernetesBed, tmp_path: Path) -> None:
    rules = bed.admin.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/composer")["rules"]
    more = [
        {**rule, "resourceNames": ["other.example.com"]}
        for rule in rules
        if "resourceclaims/driver" in rule["resources"]
    ]
    bed.admin.patch("/apis/rbac.authorization.k8s.io/v1/clusterroles/composer", {"rules": rules + more})
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    other = Composed(bed, other_folder, driver="other.example.com", fabric_folder=tmp_path / "fabric")
    with Composed(bed, tmp_path) as composed, ExitStack() as stack:
        composed.until((tmp_path / "fabric" / "fabric.json").exists)  # one process makes the folder
        stack.enter_context(other)
        given(bed, "a")
        add_claim(bed, "b")
        allocate(bed, "b", "n0", [("nvme-rack0", "nvme-rack0-0")], driver="other.example.com")
        other.until(lambda: len(composed.attached()) == 2)
        time.sleep(1.5)  # both have looked at the fabric since
        assert len(composed.attached()) == 2
        bed.admin.delete(f"{CLAIMS}/b")
        composed.until(lambda: len(composed.attached()) == 1)


@pytest.mark.parametrize(
    ("device", "more", "reason"), [("nvme-rack0-9", {}, "NoDevice"), (DRIVE, {"adminAccess": True}, "AdminAccess")]
)
def test_what_cannot_be_attached_is_told_at_once(
    bed: KubernetesBed, tmp_path: Path, device: str, more: Content, reason: str
) -> None:
    with Composed(bed, tmp_path) as composed:
        bed.admin.patch("/api/v1/namespaces/default", {"metadata": {"labels": {ADMIN: "true"}}})
        composed.until(lambda: len(published(bed)) == 7)
        given(bed, "a", device=device, **more)
        composed.until(is_told(bed, "a", reason), 2)
        assert claim_said(bed, "a", FAILED) == ["True"]
        assert composed.attached() == {}


def test_an_allocation_that_is_for_any_node_is_told_as_failed(bed: KubernetesBed, tmp_path: Path) -> None:
    with Composed(bed, tmp_path) as composed:
        given(bed, "a", node="")
        composed.until(is_told(bed, "a", "NoNode"))


def test_a_device_that_is_lost_is_attached_again_and_never_told_as_failed(bed: KubernetesBed, tmp_path: Path) -> None:
    with Composed(bed, tmp_path, give_up=1) as composed:
        given(bed, "a")
        composed.until(is_told(bed, "a", "True"))
        for path in (tmp_path / "fabric").glob("attached/*/*/*.json"):
            path.unlink()
        composed.until(lambda: len(composed.attached()) == 1)
        node = tmp_path / "fabric" / "attached" / "n1"
        shutil.rmtree(node)
        node.write_text("no folder, so that nothing can be attached")
        composed.until(is_told(bed, "a", "AttachmentLost"), what="it is told as lost")
        time.sleep(2)
        assert claim_said(bed, "a", FAILED) == [""]
        node.unlink()
        composed.until(is_told(bed, "a", "True"), 40, "it is there again")


def test_a_device_that_is_published_no_more_stays_with_its_claim(bed: KubernetesBed, tmp_path: Path) -> None:
    with Composed(bed, tmp_path) as composed:
        given(bed, "a", device="nvme-rack0-2")
        composed.until(is_told(bed, "a", "True"))
        composed.set_cluster(CLUSTER.replace("count = 3", "count = 2"))
        composed.until(lambda: len(published(bed)) == 5)
        composed.kill()
        composed.start()
        time.sleep(2)
        assert claim_said(bed, "a") == ["True"]
        assert len(composed.attached()) == 1
        bed.admin.delete(f"{CLAIMS}/a")
        composed.until(lambda: composed.attached() == {})


def test_what_other_drivers_say_of_their_devices_stays(bed: KubernetesBed, tmp_path: Path) -> None:
    with Composed(bed, tmp_path) as composed:
        composed.until(lambda: len(published(bed)) == 7)
        claim = add_claim(bed, "a")
        results = [
            {"request": "main", "driver": driver, "pool": pool, "device": device}
            for driver, pool, device in [("gpu.example.com", "p", "gpu-0"), (DRIVER, "nvme-rack0", DRIVE)]
        ]
        field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
        selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "R",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        theirs = {"driver": "gpu.example.com", "pool": "p", "device": "gpu-0", "conditions": [ready]}
        claim["status"] = {
            "allocation": {"devices": {"results": results}, "nodeSelector": selector},
            "devices": [theirs],
        }
        bed.admin.ask("PUT", f"{CLAIMS}/a/status", claim)
        composed.until(is_told(bed, "a", "True"))
        assert theirs in bed.admin.get(f"{CLAIMS}/a")["status"]["devices"]


def test_shares_of_a_box_go_to_several_nodes(bed: KubernetesBed, tmp_path: Path) -> None:
    with Composed(bed, tmp_path) as composed:
        for number in range(3):
            share = {
                "shareID": f"00000000-0000-4000-8000-00000000000{number}",
                "consumedCapacity": {"capacity": "100Gi"},
            }
            add_claim(bed, f"c{number}", "memory")
            allocate(bed, f"c{number}", f"n{number}", [("box", "box-0")], **share)
        composed.until(lambda: all(claim_said(bed, f"c{number}") == ["True"] for number in range(3)))
        assert {(one.node, one.amounts["capacity_mb"]) for one in composed.attached().values()} == {
            ("n0", 102_400), ("n1", 102_400), ("n2", 102_400),
        }  # fmt: skip
        bed.admin.delete(f"{CLAIMS}/c1")
        composed.until(lambda: len(composed.attached()) == 2)
        assert audit(composed, at_rest=True) == []


def test_of_a_switch_no_more_are_attached_at_once_than_it_is_said(bed: KubernetesBed, tmp_path: Path) -> None:
    slow = {"seed": 1, "slow": 1.0, "slow_s": 1.0}
    pools = {f"nvme-rack{number}": {"switch": "sw"} for number in (0, 1)}
    with Composed(bed, tmp_path, at_once=2, fabric=slow, pools=pools) as composed:
        composed.until(lambda: len(published(bed)) == 7)
        begun = time.monotonic()
        for rack in (0, 1):
            for number in range(3):
                given(bed, f"c{rack}{number}", f"n{2 * rack}", f"nvme-rack{rack}-{number}")
        composed.until(lambda: len(composed.attached()) == 6)
        assert 2.8 < time.monotonic() - begun < 6


def test_a_claim_that_waits_for_its_turn_at_a_switch_never_fails(bed: KubernetesBed, tmp_path: Path) -> None:
    slow = {"seed": 1, "slow": 1.0, "slow_s": 1.0}
    pools = {f"nvme-rack{number}": {"switch": "sw"} for number in (0, 1)}
    with Composed(bed, tmp_path, at_once=1, fabric=slow, pools=pools, give_up=1.5) as composed:
        names = [f"c{number}" for number in range(4)]
        for number, name in enumerate(names):
            given(bed, name, f"n{number // 2 * 2}", f"nvme-rack{number // 2}-{number % 2}")
        composed.until(lambda: all(claim_said(bed, name) == ["True"] for name in names))
        assert "told as failed" not in composed.logged()


def test_a_large_pool_is_written_once(bed: KubernetesBed, tmp_path: Path) -> None:
    with Composed(bed, tmp_path, CLUSTER.replace("count = 3", "count = 1000")) as composed:
        composed.until(lambda: len(published(bed)) == 2001)
        time.sleep(1)
        assert {one["spec"]["pool"]["generation"] for one in slices(bed)} == {1}
        assert composed.logged().count('"published"') == 1


def test_a_second_one_with_the_same_state_is_refused_and_so_is_one_without_rights(
    bed: KubernetesBed, tmp_path: Path
) -> None:
    with Composed(bed, tmp_path) as composed:
        composed.until(lambda: len(published(bed)) == 7)
        code, said = run(composed.site)
        assert (code, "in use by process" in said) == (2, True)
        code, said = run(composed.site, "--dry-run")
        assert (code, json.loads(said)["write"]) == (0, [])
    text = composed.site.read_text()
    composed.site.write_text(text.replace(str(bed.kubeconfig(COMPOSER)), str(bed.kubeconfig("nobody"))))
    code, said = run(composed.site)
    assert (code, "docs/kubernetes-rights.yaml" in said) == (2, True), said


def test_a_server_that_does_not_let_pods_wait_for_devices_is_refused(
    new_kubernetes: Callable[..., KubernetesBed], tmp_path: Path
) -> None:
    gates = "DRADeviceBindingConditions=false"
    composed = Composed(new_kubernetes(kubelets=False, gates=gates), tmp_path)
    code, said = run(composed.site)
    assert (code, "bindingConditions" in said, "1.36" in said) == (2, True, True), said
    assert slices(composed.bed) == []


def run(site: Path, *more: str) -> tuple[int, str]:
    words = [sys.executable, "-m", "unrack", "kubernetes", "compose", "--config", str(site), *more]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_it_may_do_nothing_else(bed: KubernetesBed) -> None:
    asks = bed.ask_as(COMPOSER)
    add_claim(bed, "a")
    for what in (
        lambda: asks.get("/api/v1/pods"), lambda: asks.get("/api/v1/secrets"), lambda: asks.delete(f"{CLAIMS}/a"),
        lambda: asks.post(CLAIMS, {"kind": "ResourceClaim", "metadata": {"name": "b"}, "spec": {}}),
    ):  # fmt: skip
        with pytest.raises(AdminError, match="403"):
            what()


def test_health_and_metrics_are_served(bed: KubernetesBed, tmp_path: Path) -> None:
    block = PortBlock()
    port = block.ports[0]
    try:
        with Composed(bed, tmp_path, metrics={"address": f"127.0.0.1:{port}"}) as composed:
            given(bed, "a")
            composed.until(is_told(bed, "a", "True"))
            for path, words in [("healthz", '"well"'), ("readyz", '"well"'), ("metrics", 'operation="attach"} 1.0')]:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
                    assert words in answer.read().decode()
    finally:
        block.give_back()


# Under kube-scheduler


def pod_with(bed: KubernetesBed, name: str, claim: str, **keys: Any) -> None:
    claims = [{"name": "d", "resourceClaimName": claim}]
    bed.add_pod(name, {"cpu": "1"}, schedulerName="default-scheduler", resourceClaims=claims, **keys)


def test_kube_scheduler_binds_once_the_device_is_there(
    scheduled: KubernetesBed, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    bed = scheduled
    clear(bed)
    bed.add_nodes([f"n{number}" for number in range(4)], {"cpu": "8"})
    with Composed(bed, tmp_path) as composed:
        composed.until(lambda: len(published(bed)) == 7)
        add_claim(bed, "two", count=2)
        for name in ("part1", "part2"):
            add_claim(bed, name, "memory", capacity={"capacity": "300Gi"})
        add_claim(bed, "much", "memory", capacity={"capacity": "500Gi"})
        begun = time.monotonic()
        for name in ("two", "part1", "part2"):
            pod_with(bed, name, name, run_s=2 if name == "two" else None)
        bound = lambda name: bool(bed.pod(name)["spec"].get("nodeName"))  # type: ignore[index]  # noqa: E731
        bed.wait_until(lambda: all(bound(name) for name in ("two", "part1", "part2")), 15)
        record_property("bound_s", round(time.monotonic() - begun, 2))
        pod_with(bed, "much", "much")  # more than is left of the box
        assert audit(composed) == []
        drives = [one for one in composed.attached().values() if one.devices[0].startswith("nvme")]
        assert {one.node for one in drives} == {bed.pod("two")["spec"]["nodeName"]}  # type: ignore[index]
        assert len(drives) == 2
        composed.until(lambda: len(composed.attached()) == 2, 20, "the drives are back")
        assert not bound("much")
        bed.admin.delete("/api/v1/namespaces/default/pods/part1")
        bed.wait_until(lambda: bound("much"), 30)
        composed.until(lambda: audit(composed, at_rest=True) == [])


def test_all_pods_of_a_queue_get_their_drives_while_composer_and_fabric_break(
    scheduled: KubernetesBed, tmp_path: Path
) -> None:
    bed, random = scheduled, Random(5)
    clear(bed)
    bed.add_nodes([f"n{number}" for number in range(4)], {"cpu": "8"})
    exactly = {"deviceClassName": "nvme", "count": 2}
    spec = {"spec": {"devices": {"requests": [{"name": "main", "exactly": exactly}]}}}
    template = {"kind": "ResourceClaimTemplate", "metadata": {"name": "two"}, "spec": spec}
    path = f"{API}/namespaces/default/resourceclaimtemplates"
    bed.admin.post(path, {"apiVersion": "resource.k8s.io/v1", **template})
    broken = {"seed": 5, "refuse": 0.2, "half": 0.2, "lose": 0.2, "often": 2}
    with Composed(bed, tmp_path, fabric=broken) as composed:
        composed.until(lambda: len(published(bed)) == 7)
        for number in range(8):  # of drives there are six, in two racks
            claims = [{"name": "d", "resourceClaimTemplateName": "two"}]
            scheduler = {"schedulerName": "default-scheduler", "resourceClaims": claims}
            bed.add_pod(f"p{number}", {"cpu": "1"}, run_s=1, **scheduler)

        said = [0]

        def done() -> bool:
            if random.random() < 0.1 and len(composed.logged()) > said[-1]:  # it has done something since
                said.append(len(composed.logged()))
                composed.kill()
                composed.start()
            assert audit(composed) == []
            for pod in bed.admin.get("/api/v1/pods")["items"]:  # what runs has its drives, on its node
                if pod["status"]["phase"] == "Running":
                    own = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
                    uid = next((uid for uid, one in claims_of(bed).items() if one["metadata"]["name"] == own), "")
                    has = [one for one in composed.attached().values() if one.job == uid]
                    still = bed.pod(pod["metadata"]["name"])["status"]["phase"] == "Running"  # type: ignore[index]
                    assert not still or {one.node for one in has} == {pod["spec"]["nodeName"]}
                    assert not still or len(has) == 2
            return all(bed.pod(f"p{number}")["status"]["phase"] == "Succeeded" for number in range(8))  # type: ignore[index]

        bed.wait_until(done, 150, "all pods have ended")
        composed.until(lambda: composed.attached() == {}, 30, "all drives are back")
        assert len(said) > 3
    bed.admin.delete(f"{path}/two")


def test_a_drive_that_cannot_be_attached_is_given_to_no_pod_again_and_another_is(
    scheduled: KubernetesBed, tmp_path: Path
) -> None:
    bed = scheduled
    clear(bed)
    bed.add_nodes(["n0"], {"cpu": "8"})
    composed = Composed(bed, tmp_path, give_up=0.5, avoid=600)
    for number in range(2):  # kube-scheduler takes the first that fits
        composed.foreign(f"17.{number}", f"nvme-rack0-{number}")
    with composed:
        composed.until(lambda: len(published(bed)) == 7)
        add_claim(bed, "a")
        pod_with(bed, "p", "a")
        bed.wait_until(lambda: bool(bed.pod("p")["spec"].get("nodeName")), 60)  # type: ignore[index]
        assert [one.devices for one in composed.attached().values() if one.job != "17"] == [("nvme-rack0-2",)]
        avoided = [name for name, one in published(bed).items() if "taints" in one]
        assert avoided == ["nvme-rack0-0", "nvme-rack0-1"]
