"""Jobs that ask for shares of GPUs beside those that ask for whole ones, of which Slurm chooses by its own rule."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from fake_slurm import FakeJob
from strict_slurm import StrictSlurm
from test_driver_limits import Strict

from unrack.live.driver.state.replay import replay
from unrack.live.driver.state.stage import INTENDED
from unrack.live.slurm.reading import MPS, SHARD, Reading, SlurmJob
from unrack.resources.gpus.columns import WHOLE

EACH, GPUS = 3, 2
"""Shares of a GPU, and GPUs of a node that has any; the last node has GPUs without shares."""


class Sharing(StrictSlurm):
    """A Slurm whose GPUs have shares: a job has those of the first GPU of a node on which there are enough.

    MPS is of one GPU of a node at a time.
    """

    kind = SHARD

    def __init__(self, clock: Any, **more: Any) -> None:
        super().__init__(clock, **more)
        for name, node in self.nodes.items():
            own = {} if name == "n4" else {self.kind: EACH * GPUS}
            self.nodes[name] = replace(node, gres={"gpu": GPUS, **own}, types=tuple(own))
        self.shards: dict[int, int] = {}  # job → of each of its nodes
        self.on: dict[int, dict[str, dict[int, int]]] = {}  # as of :attr:`SlurmJob.gpus`

    def used(self, name: str) -> Counter[int]:
        """The GPUs of a node → how many of their shards are held."""
        running = (job.id for job in self.jobs.values() if name in job.held_on)
        held = (gpu for number in running for gpu in self.on[number].get(name, {}).items())
        found = Counter[int]()
        for gpu, shards in held:
            found[gpu] += shards or EACH
        return found

    def chosen(self, job: FakeJob, name: str) -> dict[int, int] | None:
        used, shards = self.used(name), self.shards.get(job.id, 0)
        inside = self.kind == MPS and {
            g
            for one in self.jobs.values()
            if name in one.held_on and one.id in self.shards
            for g in self.on[one.id].get(name, {})
        }
        there = inside if shards and inside else range(GPUS)
        found = [gpu for gpu in there if used[gpu] + (shards or EACH) <= EACH][: 1 if shards else job.gpus]
        return dict.fromkeys(found, shards) if len(found) == (1 if shards else job.gpus) else None

    def fits(self, job: FakeJob, name: str) -> bool:
        return super().fits(job, name) and self.chosen(job, name) is not None

    def _launch(self, parts: Sequence[FakeJob], places: Sequence[tuple[str, ...]]) -> None:
        for part, names in zip(parts, places, strict=True):
            self.on[part.id] = {name: self.chosen(part, name) or {} for name in names}
        super()._launch(parts, places)

    def read(self) -> Reading:
        reading = super().read()
        return replace(reading, jobs=tuple(map(self._with_gpus, reading.jobs)))

    def _with_gpus(self, job: SlurmJob) -> SlurmJob:
        gpus = {name: of for name, of in self.on.get(job.id, {}).items() if name in job.holds and of}
        asked = {self.kind: self.shards[job.id]} if job.id in self.shards else {}
        return replace(job, gpus=gpus, gres={**job.gres, **asked}, types=tuple(asked))


class Shards(Strict):
    """Four nodes of four cores."""

    made = Sharing
    slurm: Sharing

    def differs(self) -> set[tuple[Any, ...]]:
        """The nodes of whose GPUs jobs hold something else by the ledger than in Slurm, with both, in shards.

        Those are left out on which a job is to start.
        """
        assert self.driver.epoch is not None
        state, names = self.driver.epoch.core.state, self.driver.epoch.names
        part = next(part for part in state.cluster.places.parts if part.name == "gpus")
        held = (state.cluster.places.total - state.claimed.free)[part.places].reshape(-1, GPUS) // (WHOLE // EACH)
        used = [[self.slurm.used(name)[gpu] for gpu in range(GPUS)] for name in names.nodes]
        to_start = {name for entry in self.driver.table.in_phase(INTENDED) for name in entry.nodes}
        each = zip(names.nodes, held.tolist(), used, strict=True)
        return {(name, *own, *given) for name, own, given in each if own != given and name not in to_start}


class SharingServices(Sharing):
    """The same with MPS."""

    kind = MPS


class Services(Shards):
    """The same over it."""

    made = SharingServices


@pytest.mark.long
@pytest.mark.parametrize("kind", [Shards, Services])
@pytest.mark.parametrize("policy", ["easy", "conservative", "slurm(interval=1 s)", "fcfs"])
@pytest.mark.parametrize("seed", range(3))
def test_shares_and_whole_gpus_are_held_where_slurm_has_them_and_all_jobs_run(
    policy: str, seed: int, kind: type[Shards]
) -> None:
    draw, world, apart = random.Random(seed), kind(policy), Counter[tuple[Any, ...]]()
    for step in range(200):
        if step % 3 == 0:
            asks = draw.choice(["shard", "shard", "gpu", ""])
            nodes, run_s = draw.choice([1, 1, 2]), draw.uniform(0.5, 6)
            number = world.slurm.submit(nodes, 1, run_s, 8, gpus=draw.randint(1, GPUS) if asks == "gpu" else 0)
            if asks == "shard":
                world.slurm.shards[number] = draw.randint(1, EACH)
        if step % 60 == 50:
            world.driver.acting.close()
            world.driver = world.make()
        seen_us = world.clock.at_us - 400_000
        running = [number for number, job in world.slurm.jobs.items() if job.held_on and job.start_us < seen_us]
        if step % 40 == 30 and running:
            world.slurm.requeue(draw.choice(running), held=draw.random() < 0.5)
        world.go()
        apart = Counter({one: apart[one] + 1 for one in world.differs()})
        assert max(apart.values(), default=0) <= 5, (step, apart)
    world.until_done(3000)
    assert {job.state for job in world.slurm.jobs.values()} == {"COMPLETED"}
    assert {len(job.starts) - job.restarts for job in world.slurm.jobs.values()} == {1}
    assert not [why for why in world.whys() if "did not start it" in why]
    for number in world.slurm.shards:
        assert "n4" not in world.slurm.run_on(number)
    assert world.all_free()
    assert replay(world.journal.records()).differences == []


def test_more_shards_than_a_gpu_has_are_the_reason_of_a_job_and_hold_up_none() -> None:
    world = Shards()
    number, other = world.slurm.submit(run_s=1), world.slurm.submit(run_s=1)
    world.slurm.shards |= {number: EACH + 1, other: EACH}
    world.go(12)
    assert world.why(number) == "it asks for 4 shards, which Slurm gives of one GPU, and each has 3"
    assert world.slurm.jobs[other].state == "COMPLETED"
