"""Whatever breaks, no device is given twice, none is told as there which is not, and nothing stays behind."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from api_admin import AdminError
from composed import (
    API,
    CLAIMS,
    CLUSTER,
    FAILED,
    Composed,
    add_claim,
    add_class,
    allocate,
    audit,
    away,
    claims_of,
    deallocate,
    published,
    said,
    slices,
)
from k8s_bed import KubernetesBed

FEWER = CLUSTER.replace("count = 3", "count = 2")
FAULTS = ["kill", "kill", "stop", "server", "pause", "compact", "slice", "edit", "file", "uses", "uses"]
DRILL = {"refuse": 0.15, "half": 0.15, "lose": 0.15, "slow": 0.2, "slow_s": 0.3, "often": 2}


class Chaos:
    """A composer, what uses it, and what breaks; by seed."""

    def __init__(self, bed: KubernetesBed, folder: Path, seed: int) -> None:
        self.bed, self.random = bed, Random(seed)
        self.composed = Composed(bed, folder, fabric={"seed": seed, **DRILL}).start()
        self.number, self.faults, self.in_use = 0, 0, set[Path]()

    def insist(self, what: Callable[[], object]) -> None:
        """Do something as soon as the server does it; what it refuses is left."""
        for _ in range(100):
            try:
                what()
                return
            except Exception as error:
                if not away(error):
                    if isinstance(error, AdminError) and error.code in (404, 409, 422):
                        return
                    raise
                time.sleep(0.1)
        raise TimeoutError("the server does not come back")

    def use(self) -> None:
        """Claims come, are given devices, give them back, and go."""
        claims = [one["metadata"]["name"] for one in claims_of(self.bed).values()]
        what = self.random.choice(["add", "add", "add", "give back", "go", "again"])
        if what == "add" or not claims:
            self.number += 1
            add_claim(self.bed, f"c{self.number}")
            self.give(f"c{self.number}")
            return
        name = self.random.choice(claims)
        if what == "go":
            self.bed.admin.delete(f"{CLAIMS}/{name}")
            return
        deallocate(self.bed, name)
        if what == "again":
            self.give(name)

    def give(self, name: str) -> None:
        """Give it what no other claim has: a whole device, two of them, or a part of the box."""
        held = {
            result["device"]
            for one in claims_of(self.bed).values()
            for result in (one.get("status", {}).get("allocation") or {"devices": {"results": []}})["devices"][
                "results"
            ]
        }
        node = self.random.randrange(4)
        if self.random.random() < 0.3:
            shares = sum(str(one).count("box-0") > 0 for one in map(_results, claims_of(self.bed).values()))
            if shares < 3:
                share = f"00000000-0000-4000-8000-{self.random.randrange(16**12):012x}"
                more = {"shareID": share, "consumedCapacity": {"capacity": "100Gi", "shares": "1"}}
                allocate(self.bed, name, f"n{node}", [("box", "box-0")], **more)
            return
        rack = f"nvme-rack{node // 2}"
        free = [one for one in (f"{rack}-{i}" for i in range(3)) if one not in held and one in published(self.bed)]
        if free:
            chosen = self.random.sample(free, min(len(free), self.random.choice([1, 1, 2])))
            allocate(self.bed, name, f"n{node}", [(rack, one) for one in chosen])

    def fail(self) -> None:
        """Something breaks."""
        self.faults += 1
        what = self.random.choice(FAULTS)
        if what in ("kill", "stop"):
            self.composed.kill() if what == "kill" else self.composed.stop()
            time.sleep(self.random.choice([0, 0, 0.5]))
            self.composed.start()
        elif what == "server":
            self.bed.kill("kube-apiserver")
            self.bed.start_server()
        elif what == "pause":
            self.bed.pause("kube-apiserver")
            time.sleep(self.random.choice([0.2, 1.0]))
            self.bed.resume("kube-apiserver")
        elif what == "compact":
            self.bed.compact()
        elif what in ("slice", "edit") and (there := slices(self.bed)):
            path = f"{API}/resourceslices/{self.random.choice(there)['metadata']['name']}"
            if what == "slice":
                self.bed.admin.delete(path)
            else:
                self.bed.admin.patch(path, {"spec": {"devices": [{"name": "made-up"}]}})
        elif what == "file":
            self.composed.set_cluster(self.random.choice([CLUSTER, FEWER, "nodes = [", CLUSTER]))
        elif what == "uses" and (attached := sorted(self.composed.attached().items())):
            operation, one = self.random.choice(attached)
            path = self.composed.folder / "fabric" / "connected" / one.node / one.job / f"{operation}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"operation": operation}))
            self.in_use.add(path)

    def go(self, faults: int) -> None:
        while self.faults < faults:
            for _ in range(self.random.randrange(1, 5)):
                self.insist(self.use)
            time.sleep(self.random.choice([0, 0.05, 0.3, 1.0]))
            self.insist(self.fail)
            self.insist(self.check)
            self.supervise()
            if self.in_use and self.random.random() < 0.5:
                self.in_use.pop().unlink()

    def supervise(self) -> None:
        """Start it again if it has ended: it does not begin with a cluster file that is broken."""
        assert self.composed.process is not None
        if (code := self.composed.process.poll()) is not None:
            assert code == 2
            assert "wanted valid TOML" in self.composed.logged()
            self.composed.start()

    def check(self) -> None:
        assert audit(self.composed) == []

    def end(self) -> None:
        """All works again: each claim is told how it stands, gives back what it has, and nothing is left."""
        for path in self.in_use:
            path.unlink()
        self.composed.set_cluster(CLUSTER)
        time.sleep(3)  # until one that began with a broken file has ended
        self.supervise()
        told = {"True", "AttachFailed", "NoDevice"}
        self.composed.until(
            lambda: all({*said(one)} <= told for one in claims_of(self.bed).values()), 60, "all claims are told"
        )
        self.check()
        for one in claims_of(self.bed).values():
            is_there = {state == "True" for state in said(one)}
            is_failed = {state == "True" for state in said(one, FAILED)}
            assert is_there.isdisjoint(is_failed) or len(said(one)) > 1, one
            deallocate(self.bed, one["metadata"]["name"])
        self.composed.until(lambda: audit(self.composed, at_rest=True) == [], 60, "nothing is left")
        self.composed.until(lambda: len(published(self.bed)) == 7, 30, "all devices are published")
        self.composed.until(
            lambda: all("taints" not in one for one in published(self.bed).values()), 30, "none is avoided"
        )
        assert self.composed.process is not None
        assert self.composed.process.poll() is None
        assert "Traceback" not in self.composed.logged()


def _results(claim: dict[str, object]) -> object:
    status = claim.get("status")
    return status.get("allocation") if isinstance(status, dict) else None


@pytest.mark.parametrize(
    ("seed", "faults"), [(1, 14), *[pytest.param(seed, 60, marks=pytest.mark.slow) for seed in range(2, 8)]]
)
def test_whatever_breaks(new_kubernetes: Callable[..., KubernetesBed], tmp_path: Path, seed: int, faults: int) -> None:
    chaos = Chaos(new_kubernetes(kubelets=False), tmp_path, seed)
    try:
        add_class(chaos.bed)
        chaos.composed.until(lambda: len(published(chaos.bed)) == 7, 30, "all devices are published")
        chaos.composed.foreign("17.n0", "nvme-of-others")
        chaos.go(faults)
        chaos.end()
        assert "17.n0" in chaos.composed.attached()
    finally:
        chaos.composed.kill()
