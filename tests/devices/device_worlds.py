"""Clusters with pools, jobs that ask for devices, and models of how they share: by hand, and at random."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from hypothesis import strategies as st

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.policy.around import seeded
from unrack.policy.table import POLICIES, parse_policy
from unrack.sim.faults import Fault
from unrack.sim.kernel import Kernel
from unrack.sim.log import RunLog
from unrack.sim.world import World as Physics
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

S = 1_000_000
"""Microseconds in a second."""
QUANTITIES = {"nvme": ("bandwidth_mb_s", "capacity_mb"), "gpu": ("bandwidth_mb_s", "memory_mb"), "fpga": ("luts",)}
PLACERS = [name for name, entry in POLICIES.items() if entry.summary.startswith("pools:")]
"""The policies for pools."""


@dataclass(frozen=True)
class D:
    """A job that may ask for devices; times in seconds, ``due`` counted from 0, amounts per task by kind."""

    submit: float
    run: float
    cores: int = 1
    tasks: int = 1
    app: str | None = None
    due: float | None = None
    request: float | None = None
    priority: int = 0
    nvme: Sequence[int] = ()
    gpu: Sequence[int] = ()
    fpga: Sequence[int] = ()


def table(jobs: Sequence[D]) -> JobTable:
    """The jobs as a table, with ids 1, 2, 3 … in the order given."""

    def times(values: Sequence[float]) -> np.ndarray:
        return np.array([round(value * S) for value in values], np.int64)

    devices = {}
    for kind, names in QUANTITIES.items():
        for q, name in enumerate(names):
            amounts = [(*getattr(job, kind), *[0] * len(names))[q] for job in jobs]
            if any(amounts):
                devices[kind, name] = np.array(amounts, np.int64)
    return job_table(
        submit_us=times([j.submit for j in jobs]),
        work_us=times([j.run for j in jobs]),
        request_us=times([j.run if j.request is None else j.request for j in jobs]),
        tasks=np.array([j.tasks for j in jobs], np.int64),
        cores=np.array([j.cores for j in jobs], np.int64),
        priority=np.array([j.priority for j in jobs], np.int64),
        deadline_us=np.array([-1 if j.due is None else round(j.due * S) for j in jobs], np.int64),
        app=pl.Series([j.app for j in jobs], dtype=pl.String),
        devices=devices,
    )


def workload(*jobs: D) -> Workload:
    """Jobs as a workload."""
    return Workload("devices", table(jobs), Intake("devices", "test", len(jobs), len(jobs)))


def pool(kind: str, count: int, *amounts: int, **keys: Any) -> dict[str, Any]:
    """A ``[[pools]]`` table, with the amounts of the kind's quantities in order."""
    return {"kind": kind, "count": count, "quantities": dict(zip(QUANTITIES[kind], amounts, strict=True)), **keys}


def cluster(cores: Sequence[int], *pools: Mapping[str, Any]) -> Cluster:
    """Nodes with so many cores each, and pools; pools without a name go by their number."""
    named = [{"name": f"{table['kind']}{i}", **table} for i, table in enumerate(pools)]
    return Cluster.from_dict(
        {"nodes": [{"count": 1, "cores": c, "name": f"n{i}"} for i, c in enumerate(cores)], "pools": named}
    )


class World(NamedTuple):
    """A whole run's input."""

    cluster: Cluster
    jobs: tuple[D, ...]
    models: tuple[Mapping[str, Any], ...] = ()
    faults: tuple[Fault, ...] = ()


class Played(NamedTuple):
    """A finished run and the core it left behind."""

    log: RunLog
    core: Core


def play(world: World, policy: Any, ties: str = "together", seed: int = 0) -> Played:
    """Run a world; as ``simulate`` does, but the core can be looked at afterwards."""
    chosen = seeded(parse_policy(policy) if isinstance(policy, str) else policy, seed)
    physics = Physics(world.models, faults=world.faults, ties=ties)
    core = Core(world.cluster, table(world.jobs), chosen, physics.pace(world.cluster))
    log = Kernel(core, physics).run()
    return Played(log, core)


# --- at random --------------------------------------------------------------------------------------------------------

AMOUNTS = {"nvme": ((2000, 600), (1000, 900)), "gpu": ((4000, 16), (2000, 16)), "fpga": ((100,), (60,))}
ASKS = {
    "nvme": ((1800, 43), (160, 600), (900, 300), (0, 700), (2500, 10), (100, 0)),
    "gpu": ((1000, 2), (1000, 8), (4000, 1), (0, 5), (5000, 1)),
    "fpga": ((30,), (100,), (61,), (150,)),
}
TABLES: tuple[Mapping[str, Any], ...] = (
    {"model": "a", "apps": ["a", "ag"], "times_s": [[8.0, 9.0, 14.0], [7.0, 7.0, 8.0], [7.0, 6.5, 7.5]], "base_s": 8.5},
    {"model": "b", "linear": True, "most_devices": 2, "most_sharers": 2},
    {"model": "g", "apps": ["g", "ag"], "kind": "gpu", "times_s": [[3.0, 4.0, 6.0, 16.0]]},
    {"model": "n", "times_s": [[None, 5.0], [5.0, 5.0]], "base_s": 5.0, "governs": []},
    {"model": "f", "kind": "fpga", "times_s": [[5.0, 7.0], [None, None], [4.0, 5.0]], "governs": ["luts"]},
)
APPS = {"nvme": ("a", "a", "a", "b", "n", None, None), "gpu": ("g", "g", "g", None), "fpga": ("f", "f", None)}


def _pool(rng: random.Random, kind: str, nodes: int) -> dict[str, Any]:
    """Any pool on so many nodes."""

    def some() -> list[str]:
        return [str(node) for node in sorted(rng.sample(range(nodes), rng.randint(1, nodes)))]

    multi = rng.random() < 0.35
    split = rng.choice([1, 2, 4]) if multi else rng.choice([1, 1, 1, 2])
    keys: dict[str, Any] = {"attach": "multi" if multi else "single", "split": split}
    if not multi and split == 1 and rng.random() < 0.4:
        keys["compose"] = rng.randint(1, 3)
    if rng.random() < 0.3:
        keys["share"] = rng.randint(1, 3)
    if rng.random() < 0.3:
        keys["reach"] = some()
    if rng.random() < 0.3:
        keys["home"] = some()
    if rng.random() < 0.5:
        keys["overhead"] = rng.choice([0.0, 0.05, 0.5])
        keys["detach_latency"] = rng.choice([0, 2, 7])
        # who made a group of multi-attached devices cannot be told from the log, so neither whether it was at home
        unsure = multi and ("home" in keys or len(keys.get("reach", "ab")) == 1 or nodes == 1)
        keys["attach_latency"] = 0 if unsure else rng.choice([0, 1, 3])
    return pool(kind, rng.choice([1, 1, 1, 2, 3, 4]), *rng.choice(AMOUNTS[kind]), **keys)


def _jobs(rng: random.Random, kinds: Sequence[str]) -> tuple[D, ...]:
    """Jobs that crowd, with many equal times and demands."""
    jobs = []
    submit = 0
    gap = rng.choice([(0,), (0, 0, 1), (0, 1, 2, 5)])
    few = {kind: rng.sample(ASKS[kind], rng.choice([1, 2, len(ASKS[kind])])) for kind in kinds}
    tight = rng.choice([(None,), (1.0, 1.1, 1.5, 2.0), (None, 0.5, 1.0, 1.2, 2.0, 4.0)])
    gangs = rng.choice([(1,), (1, 1, 1, 2, 3)])
    for _ in range(rng.randint(3, 14)):
        submit += rng.choice(gap)
        run = rng.choice([0, 1, 3, 5, 8, 8, 8])
        what = rng.choice([(), *[(kind,) for kind in kinds for _ in range(4)], kinds])
        stretch = rng.choice(tight)
        app = rng.choice(APPS[rng.choice(what)]) if len(what) == 1 else rng.choice([None, "a", "g", "ag", "ag"])
        jobs.append(
            D(
                submit,
                run,
                cores=rng.choice([1, 1, 2, 3]),
                tasks=rng.choice(gangs),
                app=app,
                due=None if stretch is None else submit + stretch * run,
                request=rng.choice([None, None, None, 2 * run, run + 3]),
                priority=rng.randint(0, 1),
                **{kind: rng.choice(few[kind]) for kind in what},
            )
        )
    if all(job.due is None for job in jobs):  # some policies ask for a workload with deadlines
        jobs[0] = replace(jobs[0], due=20)
    return tuple(jobs)


def random_world(seed: int) -> World:
    """A small data centre under pressure, with models, and sometimes nodes that fail."""
    rng = random.Random(seed)
    nodes = rng.randint(1, 3)
    cores = [rng.choice([3, 6, 12, 12]) for _ in range(nodes)]
    kinds = rng.choice([("nvme",), ("nvme",), ("gpu",), ("nvme", "gpu"), ("nvme", "gpu"), ("nvme", "gpu", "fpga")])
    tables = [_pool(rng, kind, nodes) for kind in (*kinds, *rng.choices(kinds, k=rng.randint(0, 2)))]
    frozen = rng.choice([0, 0, 0b11111, 0b00101, 0b00001])
    models = [{**model, "frozen": bool(frozen >> i & 1)} for i, model in enumerate(TABLES)]
    faults = [
        Fault(f"node{rng.randrange(nodes)}", rng.randint(0, 15) * S, rng.randint(1, 6) * S)
        for _ in range(rng.choice([0, 0, 0, 1, 3]))
    ]
    return World(cluster(cores, *tables), _jobs(rng, kinds), tuple(models), tuple(faults))


def crowd(seed: int) -> World:
    """Many jobs that ask alike and run about equally long, and differ in their deadlines."""
    rng = random.Random(seed)
    run = rng.choice([5, 8])
    kinds = [D(0, run, 1, app="a", nvme=(900, 10)), D(0, run, 2, app="a", nvme=(900, 10)), D(0, run, 1, nvme=(600, 90))]
    jobs, submit = [], 0
    for _ in range(rng.randint(12, 24)):
        submit += rng.choice([0, 0, 0, 0, 1])
        due = submit + rng.choice([run, run + 1, run + 2, 2 * run, 2 * run + 1, 3 * run, 50, 99])
        due, lasts = rng.choice([due, due, due, due, None]), rng.choice([run, run, run - 3])
        jobs.append(replace(rng.choice(kinds), submit=submit, due=due, run=lasts))
    jobs[0] = replace(jobs[0], due=30)
    if rng.random() < 0.3:
        jobs = [replace(job, tasks=3 if job.nvme[1] == 90 else 2) for job in jobs]
    tables = [pool("nvme", rng.randint(1, 4), 2000, 600, compose=rng.choice([1, 3]), overhead=rng.choice([0, 0.1]))]
    return World(cluster([rng.choice([4, 12]), rng.choice([4, 12])], *tables), tuple(jobs), TABLES)


def pressing(seed: int, gangs: bool = False) -> World:
    """Few devices and deadlines that bind: whether a job may share them hangs on how far the others are."""
    rng = random.Random(seed)
    nodes, jobs, submit = rng.randint(1, 2), [], 0.0
    both = rng.random() < 0.3
    for _ in range(rng.randint(3, 9)):
        submit += rng.choice([0, 0.7, 2, 5])
        run = rng.choice([8, 8, 20, 33])
        stretch = rng.choice([1.0, 1.05, 1.1, 1.2, 1.4, 2, 4, 4, None])
        jobs.append(
            D(
                submit, run, rng.choice([1, 2]), tasks=rng.choice([1, 2, 3]) if gangs else 1,
                app=rng.choice(["a", "a", "a", "b", "ag"] if both else ["a", "a", "a", "b"]),
                due=None if stretch is None else submit + stretch * run,
                request=rng.choice([None, None, None, run + 2, run - 2]), nvme=rng.choice([(900, 10), (900, 200)]),
                gpu=(1000, 2) if both and rng.random() < 0.5 else (),
            )
        )  # fmt: skip
    if all(job.due is None for job in jobs):
        jobs[0] = replace(jobs[0], due=20)
    keys = {"overhead": rng.choice([0, 0.1]), "attach_latency": rng.choice([0, 0, 3]), "home": ["0"]}
    tables = [pool("nvme", rng.choice([1, 1, 2, 3]), 2000, 600, compose=1, **keys)]
    if both:
        tables.append(pool("gpu", 1, 4000, 16, attach="multi", split=rng.choice([1, 4])))
    frozen = rng.choice([0, 0, 0, 0b11111])
    models = [{**model, "frozen": bool(frozen >> i & 1)} for i, model in enumerate(TABLES)]
    return World(cluster([rng.choice([6, 12]) for _ in range(nodes)], *tables), tuple(jobs), tuple(models))


def worlds() -> st.SearchStrategy[World]:
    """Worlds by number: Hypothesis alone would draw mostly tame ones."""
    return st.integers(0, 2**32).map(random_world)
