"""Runs on pooled devices made up for tests of the report: a greedy placement of random jobs, no engine needed."""

from __future__ import annotations

import heapq

import numpy as np
import polars as pl

CLASSES = {
    "smufin": {"run": 1600, "cores": 6, "nvme.bandwidth_mb_s": 1800, "nvme.capacity_mb": 44032},
    "capacity": {"run": 800, "cores": 6, "nvme.bandwidth_mb_s": 160, "nvme.capacity_mb": 614400},
    "compute": {"run": 900, "cores": 15},
    "yolo": {"run": 152, "cores": 2, "gpu.bandwidth_mb_s": 1000, "gpu.memory_mb": 2048},
}
DEMANDS = ("nvme.bandwidth_mb_s", "nvme.capacity_mb", "gpu.bandwidth_mb_s", "gpu.memory_mb")
SHARES = {
    "job": pl.Int64, "attempt": pl.Int32, "start_s": pl.Float64, "end_s": pl.Float64, "kind": pl.String,
    "pool": pl.String, "node": pl.Int32, "devices": pl.List(pl.Int32), "composition": pl.Int32, "size": pl.Int32,
    "parts": pl.Int32,
}  # fmt: skip
PLACEMENTS = {
    "job": pl.Int64, "attempt": pl.Int64, "start_s": pl.Float64, "end_s": pl.Float64, "first_node": pl.Int64,
    "nodes": pl.Int64, "cores_per_node": pl.Int64, "outcome": pl.String,
}  # fmt: skip


def layout(drives):
    """The pools of a cluster file: drives, and a GPU that four jobs may share."""
    nvme, gpu = {"bandwidth_mb_s": 2000, "capacity_mb": 614400}, {"bandwidth_mb_s": 4000, "memory_mb": 16384}
    return [
        {"kind": "nvme", "count": drives, "quantities": nvme},
        {"kind": "gpu", "count": 1, "quantities": gpu, "split": 4},
    ]


class _World:
    """Free cores, free devices and compositions in use: id → [kind, node, devices, app, jobs on it]."""

    def __init__(self, nodes, cores, drives, gpus, sharing):
        self.free = [cores] * nodes
        self.devices = {"nvme": list(range(drives)), "gpu": list(range(drives, drives + gpus))}
        self.lives, self.made, self.sharing = {}, 0, sharing

    def place(self, app, wanted):
        """(node, composition or None, rule), or None where nothing fits."""
        kind = next((name.split(".")[0] for name in CLASSES[app] if "." in name), None)
        open_ = [node for node in np.argsort(self.free)[::-1] if self.free[node] >= CLASSES[app]["cores"]]
        if kind is None:
            return (int(open_[0]), None, "first-fit") if open_ else None
        most = 4 if kind == "gpu" else self.sharing
        for life, (of, node, _, own, jobs) in self.lives.items():
            if kind == "gpu" and (of, own) == (kind, app) and len(jobs) < most and open_:
                return int(open_[0]), life, "max-composition"
            if (of, own) == (kind, app) and len(jobs) < most and node in open_:
                return node, life, "max-composition"
        if not open_ or not self.devices[kind]:
            return None
        held = [self.devices[kind].pop(0) for _ in range(min(wanted if kind == "nvme" else 1, len(self.devices[kind])))]
        self.lives[self.made] = [kind, int(open_[0]), held, app, set()]
        self.made += 1
        return int(open_[0]), self.made - 1, "min-fragmentation"

    def leave(self, job, node, life, app):
        self.free[node] += CLASSES[app]["cores"]
        if life is not None:
            self.lives[life][4].discard(job)
            if not self.lives[life][4]:
                kind, _, held, _, _ = self.lives.pop(life)
                self.devices[kind] = sorted(self.devices[kind] + held)


def pool_frames(jobs, nodes, seed, *, sharing=3, cores=25, drives=10, gpus=1, load=0.7):
    """The four tables of one run: jobs, placements, shares and the layout of ``run.json``."""
    rng = np.random.Generator(np.random.PCG64(seed))
    apps = rng.choice(list(CLASSES), jobs, p=[0.5, 0.2, 0.2, 0.1])
    wanted, high = rng.integers(1, 4, jobs), rng.random(jobs) < 0.2
    work = np.array([CLASSES[app]["run"] * CLASSES[app]["cores"] for app in apps])
    submit = np.round(np.cumsum(rng.exponential(work.mean() / (nodes * cores) / load, jobs)), 1)
    world = _World(nodes, cores, drives, gpus, sharing)
    start, end, rules = np.full(jobs, np.nan), np.full(jobs, np.nan), [None] * jobs
    queue, ends, coming, shares, placements = [], [], 0, [], []
    while coming < jobs or queue:
        now = min(submit[coming] if coming < jobs else np.inf, ends[0][0] if ends else np.inf)
        while ends and ends[0][0] <= now:
            _, job, node, life = heapq.heappop(ends)
            world.leave(job, node, life, apps[job])
        while coming < jobs and submit[coming] <= now:
            queue.append(coming)
            coming += 1
        for job in queue[:30]:
            found = world.place(apps[job], int(wanted[job]))
            if found is None:
                continue
            node, life, rule = found
            queue.remove(job)
            held = world.lives.get(life)
            run = CLASSES[apps[job]]["run"] * (1 if held is None else 1 + 0.15 * len(held[4]) / len(held[2]))
            start[job], end[job], rules[job] = now, round(now + run, 1), rule
            world.free[node] -= CLASSES[apps[job]]["cores"]
            heapq.heappush(ends, (end[job], job, node, life))
            placements.append((job + 1, 1, now, end[job], node, 1, CLASSES[apps[job]]["cores"], "finished"))
            if held is not None:
                held[4].add(job)
                parts = 4 if held[0] == "gpu" else 0
                shares.append((job + 1, 1, now, end[job], held[0], held[0], node, held[2], life, len(held[2]), parts))
    base = np.array([CLASSES[app]["run"] for app in apps], float)
    table = pl.DataFrame({
        "job": np.arange(1, jobs + 1), "submit_s": submit, "start_s": start, "end_s": end, "wait_s": start - submit,
        "response_s": end - submit, "run_s": end - start, "request_s": base, "slowdown": (end - submit) / base,
        "bounded_slowdown": (end - submit) / base, "tasks": np.ones(jobs, np.int64), "nodes": np.ones(jobs, np.int64),
        "cores": [CLASSES[app]["cores"] for app in apps],
        "core_s": (end - start) * [CLASSES[app]["cores"] for app in apps],
        "cores_per_task": [CLASSES[app]["cores"] for app in apps], "memory_mb": np.zeros(jobs, np.int64),
        "user": ["user"] * jobs, "app": apps, "priority": high.astype(np.int64), "state": ["finished"] * jobs,
        "reason": [""] * jobs, "restarts": np.zeros(jobs, np.int64), "placed_by": rules, "fastest_s": base * 0.9,
        "missed": pl.Series(end - submit > base * np.where(high, 1.2, 4)),
        **{name: [CLASSES[app].get(name, 0) for app in apps] for name in DEMANDS},
    })  # fmt: skip
    return (
        table,
        pl.DataFrame(placements, schema=PLACEMENTS, orient="row"),
        pl.DataFrame(shares, schema=SHARES, orient="row").sort("start_s", "job"),
    )


def pool_metrics(table, bound=0.01):
    """Metrics of a run on pools that the other runs do not have; most are made up."""
    missed = float(table["missed"].mean())
    return {
        "missed_deadlines": missed,
        "missed_deadlines_high": float((table["missed"] & (table["priority"] > 0)).mean()),
        "bound_missed_deadlines": min(bound, missed),
        "used_nvme": 0.61, "asked_nvme_bandwidth_mb_s": 1.2, "asked_nvme_capacity_mb": 0.4,
        "composition_size_nvme": 1.6, "sharing_nvme": 2.1, "stranded_nvme": 0.02,
        "fragmentation_nvme_bandwidth_mb_s": 0.2, "fragmentation_nvme_capacity_mb": None, "used_gpu": 0.3,
        "asked_gpu_bandwidth_mb_s": 0.2, "asked_gpu_memory_mb": 0.1, "composition_size_gpu": 1.0, "sharing_gpu": 1.4,
        "stranded_gpu": 0.0, "fragmentation_gpu_bandwidth_mb_s": 0.5, "fragmentation_gpu_memory_mb": 0.7,
    }  # fmt: skip
