"""Studies of lent memory made up for tests of the report: first come, first served on whole nodes, no engine needed."""

from __future__ import annotations

import heapq
import json

import numpy as np
import polars as pl
import tomli_w

from unrack.cluster.spec import Cluster
from unrack.ledger.state import Status
from unrack.reasons import Code, Reason
from unrack.sim.log import RunLog
from unrack.sim.recorder import Outcome, Recorder
from unrack.sim.result import Result
from unrack.study.results.keep import cluster_record
from unrack.workload.job import job_table

S = 1_000_000
CORES = 4


def cluster_of(normal, large, name="iron"):
    """Nodes of 32 GB and nodes of 64 GB."""
    kinds = [("normal", normal, "32 GB"), ("large", large, "64 GB")]
    nodes = [{"name": kind, "count": n, "cores": CORES, "memory": mb} for kind, n, mb in kinds if n]
    return Cluster.from_dict({"name": name, "nodes": nodes})


def jobs_of(count, seed, large_share=0.4):
    """Jobs of 1 to 4 nodes, some of which need more than 32 GB on each."""
    rng = np.random.Generator(np.random.PCG64(seed))
    tasks = rng.integers(1, 5, count)
    mb = np.where(rng.random(count) < large_share, rng.integers(34, 60, count), rng.integers(4, 30, count)) * 1024
    work = rng.integers(100, 4000, count) * S
    submit = np.cumsum(rng.integers(0, 300, count)) * S
    return job_table(
        submit_us=submit, work_us=work, request_us=2 * work, tasks=tasks, cores=np.full(count, CORES), memory_mb=mb
    )


def run_of(cluster, jobs, lends):
    """A finished run; remote memory stretches a job by half its share."""
    free, busy = cluster.memory_mb.copy(), np.zeros(len(cluster), bool)
    recorder, running, reasons = Recorder(), [], {}
    state, now = np.full(len(jobs), Status.FINISHED, np.int8), 0

    def leave():
        end, job, start, rows, loans = heapq.heappop(running)
        for node, _, _, _, mb in rows:
            busy[node] = False
            free[node] += mb
        for _, lender, mb in loans:
            free[lender] += mb
        loans = np.array(loans, np.int64).reshape(-1, 3)
        recorder.attempt(job, start, end, Outcome.FINISHED, np.array(rows, np.int64), loans)
        return end

    for job in range(len(jobs)):
        wanted, mb = int(jobs.tasks[job]), int(jobs.memory_mb[job])
        if not lends and (cluster.memory_mb >= mb).sum() < wanted:
            state[job], reasons[job] = Status.REJECTED, Reason(Code.TOO_BIG, "MB on one node", mb, 0)
            continue
        now = max(now, int(jobs.submit_us[job]))
        while running and running[0][0] <= now:
            leave()
        while True:
            nodes = np.flatnonzero(~busy & ((free == cluster.memory_mb) | lends) & ((free >= mb) | lends))[:wanted]
            if len(nodes) == wanted and (not lends or free.sum() >= wanted * mb):
                break
            now = leave()
        rows, loans = [], []
        for node in nodes.tolist():
            busy[node] = True
            local = min(mb, int(free[node]))
            free[node] -= local
            rows.append((node, 1, 1, CORES, local))
        for node, _, _, _, local in rows:
            for lender in np.argsort(-free, kind="stable").tolist():
                part = min(mb - local, int(free[lender]))
                if part > 0:
                    free[lender] -= part
                    local += part
                    loans.append((node, lender, part))
        remote = sum(part for _, _, part in loans) / (mb * wanted)
        end = now + round(int(jobs.work_us[job]) * (1 + 0.5 * remote))
        heapq.heappush(running, (end, job, now, rows, loans))
    while running:
        now = leave()
    log = RunLog.of(recorder, cluster, jobs, state, reasons, [], now)
    return Result(log, lends=lends)


def make_memory_study(folder, *, systems=((24, 8), (32, 0)), mixes=(("mix", 0),), jobs=120, seeds=(0,), note=""):
    """Write a finished study of two policies, one of which lends."""
    (folder / "runs").mkdir(parents=True)
    policies = ("baseline", "disaggregated")
    (folder / "study.toml").write_text(tomli_w.dumps({"name": "Memory", "policies": list(policies)}))
    rows = []
    for normal, large in systems:
        cluster = cluster_of(normal, large, f"{normal}+{large}")
        for mix, shift in mixes:
            for policy in policies:
                for seed in seeds:
                    run = f"run--{len(rows):03d}"
                    result = run_of(cluster, jobs_of(jobs, 100 * shift + seed), policy == "disaggregated")
                    rows.append(_write(folder / "runs" / run, result, run, mix, policy, seed, note))
    pl.DataFrame(rows, infer_schema_length=None).write_csv(folder / "summary.csv")
    return folder


def _write(path, result, run, mix, policy, seed, note):
    cluster = result.log.cluster
    record = {
        "id": run,
        "cluster": cluster_record(cluster),
        "workload": {"name": mix, "intake": {}}, "policy": policy, "policy_label": policy, "seed": seed,
        "ties": "together", "parameters": {}, "metrics": result.metrics, "unrack": "0.1.0",
        **({"contention": note} if note else {}),
    }  # fmt: skip
    path.mkdir()
    (path / "run.json").write_text(json.dumps(record))
    for name in ("jobs", "usage", "placements", *(["loans"] if len(result.log.loans) else [])):
        result.table(name).write_parquet(path / f"{name}.parquet")
    return {"run": run, "cluster": cluster.name, "workload": mix, "policy": policy, "seed": seed, **result.metrics}
