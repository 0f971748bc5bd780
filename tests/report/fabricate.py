"""Study directories made up for tests of the report: a tiny list scheduler on random jobs, no engine needed."""

from __future__ import annotations

import heapq
import json
from pathlib import Path

import numpy as np
import polars as pl
import tomli_w
from fabricate_pools import layout, pool_frames, pool_metrics

from unrack.cluster.spec import Cluster
from unrack.study.results.keep import cluster_record

INTAKE = {
    "source": "LOG.swf.gz", "format": "swf", "read": 310, "kept": 300,
    "dropped": {"cancelled before start": 7, "run missing": 3}, "changed": {"run cut at request": 12},
    "missing": {"memory": 300}, "header": {"Computer": "<b>IBM SP2</b>", "MaxProcs": "100"},
}  # fmt: skip


def schedule(submit, run, size, nodes, rule):
    """Start times and node lists: "fcfs" never lets a later job start first, the others take any job that fits."""
    free, start, held = list(range(nodes)), np.full(len(submit), np.nan), [[] for _ in submit]
    ends, queue, now, following = [], [], 0.0, 0
    while following < len(submit) or queue:
        coming = submit[following] if following < len(submit) else np.inf
        now = max(now, min(coming, ends[0][0] if ends and queue else np.inf))
        while following < len(submit) and submit[following] <= now:
            queue.append(following)
            following += 1
        while ends and ends[0][0] <= now:
            _, job = heapq.heappop(ends)
            for node in held[job]:
                heapq.heappush(free, node)
        if rule == "sjf":
            queue.sort(key=lambda job: (run[job], job))
        for job in list(queue if rule == "fcfs" else queue[:40]):
            if size[job] <= len(free):
                start[job] = now
                held[job] = [heapq.heappop(free) for _ in range(size[job])]
                heapq.heappush(ends, (now + run[job], job))
                queue.remove(job)
            elif rule == "fcfs":
                break
    return start, held


def frames(jobs, nodes, rule, seed, *, cores=1, user="user", state="finished"):
    """The three tables of one run."""
    rng = np.random.Generator(np.random.PCG64(seed))
    size = np.minimum(2 ** rng.integers(0, 6, jobs), nodes)
    run = np.round(np.exp(rng.normal(6.5, 2, jobs)), 0) + 1
    gap = (run * size).mean() / nodes / 0.75
    submit = np.round(np.cumsum(rng.exponential(gap, jobs)), 0)
    start, held = schedule(submit, run, size, nodes, rule)
    if state != "finished":
        start[:] = np.nan
    end, wait = start + run, start - submit
    cut = lambda values: pl.Series(values, dtype=pl.Float64).fill_nan(None)  # noqa: E731
    table = pl.DataFrame({
        "job": np.arange(1, jobs + 1), "submit_s": submit, "start_s": cut(start), "end_s": cut(end),
        "wait_s": cut(wait), "response_s": cut(end - submit),
        "run_s": run, "request_s": run * 2, "slowdown": cut((end - submit) / run),
        "bounded_slowdown": cut(np.maximum((end - submit) / np.maximum(run, 10), 1)), "tasks": size, "nodes": size,
        "cores": size * cores, "core_s": size * cores * run, "memory_mb": np.zeros(jobs, np.int64),
        "user": [f"{user}{k}" for k in rng.integers(0, 30, jobs)], "app": [f"app{k}" for k in rng.integers(0, 4, jobs)],
        "priority": np.zeros(jobs, np.int64), "state": [state] * jobs,
        "reason": ["" if state == "finished" else "too-big: cores (asked 200, free 100)"] * jobs,
        "restarts": np.zeros(jobs, np.int64), "queue": rng.integers(0, 3, jobs),
    })  # fmt: skip
    rows = []
    for job, own in enumerate(held):
        if state != "finished" or not own:
            continue
        runs = np.split(np.sort(own), np.flatnonzero(np.diff(np.sort(own)) > 1) + 1)
        rows += [(job + 1, 1, start[job], end[job], int(part[0]), len(part), cores, "finished") for part in runs]
    if rows:
        rows[len(rows) // 2] = (*rows[len(rows) // 2][:7], "node-failed")
    schema = {"job": pl.Int64, "attempt": pl.Int64, "start_s": pl.Float64, "end_s": pl.Float64, "first_node": pl.Int64,
              "nodes": pl.Int64, "cores_per_node": pl.Int64, "outcome": pl.String}  # fmt: skip
    placements = pl.DataFrame(rows, schema=schema, orient="row")
    return table, usage(table, nodes * cores), placements


def usage(table, total):
    """The step function of cores held and jobs queued."""
    done = table.filter(pl.col("state") == "finished")
    submit, start, end, cores = (done[name].to_numpy() for name in ("submit_s", "start_s", "end_s", "cores"))
    times = np.unique(np.concatenate([[0.0], submit, start, end]))
    at = lambda when, amount: np.bincount(np.searchsorted(times, when), amount, len(times)).cumsum()  # noqa: E731
    one = np.ones(len(submit))
    held = at(start, cores) - at(end, cores)
    queued = at(submit, one) - at(start, one)
    return pl.DataFrame({
        "time_s": times, "cores_held": held.astype(np.int64), "cores_asked": held.astype(np.int64),
        "memory_mb_held": np.zeros(len(times), np.int64), "cores_online": np.full(len(times), total),
        "running_jobs": (at(start, one) - at(end, one)).astype(np.int64), "queued_jobs": queued.astype(np.int64),
        "queued_cores": (at(submit, cores) - at(start, cores)).astype(np.int64),
    })  # fmt: skip


def metrics(table, use, total):
    """A few of the metrics a run has."""
    done = table.filter(pl.col("state") == "finished")
    out = {"jobs_finished": len(done), "jobs_rejected": len(table) - len(done), "jobs_queued": 0}
    for name in ("wait_s", "response_s", "slowdown", "bounded_slowdown"):
        out |= {f"{name}_mean": done[name].mean(), f"{name}_median": done[name].median(),
                f"{name}_p95": done[name].quantile(0.95), f"{name}_max": done[name].max()}  # fmt: skip
    span = done["end_s"].max()
    held = float(np.dot(use["cores_held"].to_numpy()[:-1], np.diff(use["time_s"].to_numpy())))
    return out | {
        "makespan_s": span, "throughput_jobs_per_h": len(done) / span * 3600 if span else None,
        "utilisation_cores": held / span / total if span else None, "utilisation_memory": None,
        "queue_length_mean": None if span is None else float(use["queued_jobs"].mean()), "restarts": 0,
    }  # fmt: skip


def make_study(
    folder: Path,
    *,
    jobs=300,
    nodes=16,
    policies=("fcfs", "easy", "sjf"),
    seeds=(0,),
    sweep=None,
    cores=1,
    name="Made up",
    question="Which policy waits least?",
    user="user",
    state="finished",
    workload="log",
    pools=False,
    drives=10,
):
    """Write a finished study; ``sweep`` is (key, values) and scales nothing but the seed.

    With ``pools`` the policies differ in how many jobs share a device, 25 cores a node, and the cluster has pools.
    """
    (folder / "runs").mkdir(parents=True)
    (folder / "study.toml").write_text(tomli_w.dumps({"name": name, "question": question, "policies": list(policies)}))
    rows = []
    for step, value in enumerate(sweep[1] if sweep else (None,)):
        for policy in policies:
            for seed in seeds:
                run = f"log--{len(rows):03d}"
                tables = {}
                if pools:
                    cores, sharing = 25, 1 + policies.index(policy)
                    table, placed, shares = pool_frames(jobs, nodes, 100 * seed + step, sharing=sharing, drives=drives)
                    use, tables = usage(table, nodes * cores), {"shares": shares}
                    found = metrics(table, use, nodes * cores) | pool_metrics(table)
                else:
                    table, use, placed = frames(
                        jobs, nodes, policy.split("(")[0], 100 * seed + step, cores=cores, user=user, state=state
                    )
                    found = metrics(table, use, nodes * cores)
                tables |= {"jobs": table, "usage": use, "placements": placed}
                parameters = {sweep[0]: value} if sweep else {}
                devices = {"pools": layout(drives)} if pools else {}
                thin = {"name": "thin", "count": nodes, "cores": cores}
                iron = Cluster.from_dict({"name": "iron", "nodes": [thin], **devices})
                record = {
                    "id": run, "cluster": cluster_record(iron),
                    "workload": {"name": workload, "intake": INTAKE, "digest": "ab" * 32},
                    "policy": f"{policy}(order=fcfs)" if "(" not in policy else policy, "policy_label": policy,
                    "seed": seed, "ties": "together", "parameters": parameters, "metrics": found, "unrack": "0.1.0",
                }  # fmt: skip
                (folder / "runs" / run).mkdir()
                (folder / "runs" / run / "run.json").write_text(json.dumps(record))
                for title, frame in tables.items():
                    frame.write_parquet(folder / "runs" / run / f"{title}.parquet")
                rows.append(
                    {"run": run, "cluster": "iron", "workload": workload, "policy": policy, "seed": seed, **found}
                )
    pl.DataFrame(rows, infer_schema_length=None).write_csv(folder / "summary.csv")
    return folder
