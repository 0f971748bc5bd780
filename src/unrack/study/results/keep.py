"""What a finished run and a finished study leave on disk. Nothing in it depends on where or when it was run."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import tomli_w

from unrack.cluster.domains import Level, NodeSets, parted
from unrack.cluster.node_names import NUMBERS, Finder
from unrack.cluster.pools.pool import Devices, Pool, no_devices
from unrack.cluster.prices.bill import bill_of
from unrack.cluster.prices.prices import Prices
from unrack.cluster.spec import GROUPS, UNCOUNTED_MB, Cluster
from unrack.cluster.tiers import tiers_again, tiers_record
from unrack.metric.table import METRICS
from unrack.plugins.code import is_file
from unrack.plugins.table import identity_of
from unrack.policy.table import canonical
from unrack.resources.checked import node_ids
from unrack.resources.contract import Nodes
from unrack.resources.places import built
from unrack.sim.effect import notes_of, out_of_time
from unrack.sim.result import Result
from unrack.slowdown.combined import WORDS
from unrack.slowdown.contention.profile_file import profile_texts
from unrack.slurm_text.hostlists import compress, expand
from unrack.study.grid import Run, Study
from unrack.study.notes import told_of
from unrack.study.results.record import RECORD, defused, is_intact, packed, read_record, sealed, write_whole
from unrack.workload.usage.curves import curves_frame

TORUS = ("torus_rows", "torus_columns")
"""Columns of the nodes, where the layout of some node's cores is known."""


def cluster_record(cluster: Cluster) -> dict[str, Any]:
    """What ``run.json`` says of a cluster: all that schedules depend on, and its digest."""
    of_class = [np.flatnonzero(cluster.node_class == i) for i in range(len(cluster.class_names))]
    classes = [
        {
            "name": name,
            "nodes": len(own),
            "cores": int(cluster.cores[own[0]]),
            "memory_mb": None if cluster.total_mb is None else int(cluster.memory_mb[own[0]]),
        }
        for name, own in zip(cluster.class_names, of_class, strict=True)
    ]
    levels = {level.name: level.written() for level in cluster.failure_levels}
    return {
        "name": cluster.name,
        "nodes": len(cluster),
        "cores": cluster.total_cores,
        "memory_mb": cluster.total_mb,
        "classes": classes,
        "racks": len(cluster.rack_names),
        "rack_names": list(cluster.rack_names),
        "domains": {name: list(nodes) for name, nodes in cluster.domains.items()},
        **({"failure_domains": levels} if levels else {}),
        "columns": _columns(cluster),
        **({"devices": _pools(cluster.devices)} if len(cluster.devices) else {}),
        **({"tiers": tiers_record(cluster)} if cluster.tiers is not None else {}),
        **({"names": compress(cluster.names)} if cluster.names else {}),
        **({"drained": list(cluster.drained)} if cluster.drained else {}),
        **({"resources": cluster.places.written()} if cluster.places.parts else {}),
        "digest": cluster.digest(),
    }


def cluster_again(kept: Mapping[str, Any]) -> Cluster:
    """The cluster that :func:`cluster_record` wrote."""
    columns: dict[str, Any] = {
        name: np.array(values, np.int64).repeat(kept["columns"]["count"])
        for name, values in kept["columns"].items()
        if name != "count"
    }
    sides = [columns.pop(name) for name in TORUS if name in columns]
    columns["torus"] = np.stack(sides, axis=1) if sides else None
    columns["memory_mb"][columns["memory_mb"] < 0] = UNCOUNTED_MB
    rack_names, count = tuple(kept["rack_names"]), len(columns["cores"])
    devices = _devices(kept.get("devices"), count)
    countable = devices.countable(columns["cores"])
    sets, levels = NodeSets(count, columns["rack"], rack_names), list[Level]()
    sets.domains = {name: tuple(nodes) for name, nodes in kept["domains"].items()}
    for level, domains in kept.get("failure_domains", {}).items():
        members = {name: [node for text in texts for node in node_ids(text, count, name)]
                   for name, texts in domains.items()}  # fmt: skip
        levels.append(parted(level, members, count, level))
    sets.levels, names = levels, tuple(expand(kept["names"])) if "names" in kept else ()
    find = None if any(map(NUMBERS.fullmatch, names)) else Finder(sets, names)  # what is kept of sites is by number
    nodes = Nodes(columns["cores"], columns["memory_mb"], columns["rack"], rack_names, find, countable)
    return Cluster(
        name=kept["name"],
        class_names=tuple(entry["name"] for entry in kept["classes"]),
        rack_names=rack_names,
        domains=sets.domains,
        failure_levels=tuple(levels),
        devices=devices,
        tiers=tiers_again(kept.get("tiers")),
        places=built(kept.get("resources", {}), nodes, kept["name"]),
        names=names,
        drained=tuple(kept.get("drained", ())),
        **columns,
    )


def _columns(cluster: Cluster) -> dict[str, list[int]]:
    """The nodes, run by run of equal consecutive ones: how many, and their columns; -1: memory not counted."""
    memory = np.where(cluster.memory_mb == UNCOUNTED_MB, -1, cluster.memory_mb)
    names = ["cores", "memory_mb", "node_class", "rack"]
    rows = [cluster.cores, memory, cluster.node_class, cluster.rack]
    for name in GROUPS:
        if getattr(cluster, name).any():
            names.append(name)
            rows.append(getattr(cluster, name))
    if cluster.torus is not None:
        names += TORUS
        rows += list(cluster.torus.T)
    table = np.stack(rows)
    first = np.flatnonzero(np.append(True, (np.diff(table, axis=1) != 0).any(axis=0)))
    kept = {name: table[row, first].tolist() for row, name in enumerate(names)}
    return {"count": np.diff(np.append(first, len(cluster))).tolist(), **kept}


def _pools(devices: Devices) -> dict[str, Any]:
    return {
        "kinds": list(devices.kinds),
        "quantities": [list(names) for names in devices.quantities],
        "pools": [
            {
                **asdict(pool),
                "capacity": devices.capacity[:, pool.first].tolist(),
                "nodes_reached": int(devices.reach[i].sum()),
                "home": devices.home[pool.first : pool.first + pool.count].tolist(),
                "reach": np.flatnonzero(devices.reach[i]).tolist(),
            }
            for i, pool in enumerate(devices.pools)
        ],
    }


def _devices(kept: dict[str, Any] | None, nodes: int) -> Devices:
    """The pooled devices, as :func:`_pools` wrote them."""
    if kept is None:
        return no_devices(nodes)
    pools = [Pool(**{key: entry[key] for key in (field.name for field in fields(Pool))}) for entry in kept["pools"]]
    total = sum(pool.count for pool in pools)
    capacity = np.zeros((max(map(len, kept["quantities"])), total), np.int64)
    home, which = np.full(total, -1, np.int64), np.zeros(total, np.int64)
    reach = np.zeros((len(pools), nodes), np.bool_)
    for i, (pool, entry) in enumerate(zip(pools, kept["pools"], strict=True)):
        here = slice(pool.first, pool.first + pool.count)
        capacity[:, here] = np.array(entry["capacity"], np.int64)[:, None]
        home[here], which[here] = entry["home"], i
        reach[i, entry["reach"]] = True
    kind = np.array([kept["kinds"].index(pool.kind) for pool in pools], np.int64)[which]
    names = tuple(tuple(names) for names in kept["quantities"])
    return Devices(tuple(kept["kinds"]), names, tuple(pools), which, kind, home, capacity, reach)


CURVES = "curves.parquet"
"""What jobs use of their memory over their progress."""
ROUNDS = "rounds"
"""The table of rounds, of policies that tell them."""
LISTED = "study.json"
"""The ids of the runs of a study that is not finished, in the folder of the runs; later they are in the summary."""
FAILED = "failed.json"
"""Beside it: policy, seed and error of each run that failed; not there if none did."""
Files = Mapping[str, bytes]
"""The files of a finished run by their names in its folder."""
PAST = "past"
"""Key of the record of runs that were made of what a driver really did: ``"real"`` or ``"simulated"``."""
PROFILES = "profiles"
"""Folder, in that of a run, of the application profiles by which its jobs slowed each other down."""


def is_kept(directory: Path, run: Run) -> bool:
    """Whether the run was finished before, and what it left is as it was."""
    return is_intact(directory / "runs" / run.id, run.id)


def list_runs(directory: Path, runs: Sequence[Run]) -> None:
    """Note which runs are those of a study that is not finished: the folder may hold finished runs of others."""
    write_whole(directory / "runs" / LISTED, json.dumps([run.id for run in runs], indent=1) + "\n")


def keep_run(directory: Path, run: Run, result: Result, more: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Write a finished run, with further keys of its record; the folder appears whole or not at all."""
    keep_files(directory, run.id, files_of(run, result, more))


def files_of(run: Run, result: Result, more: Mapping[str, Any] = MappingProxyType({})) -> Files:
    """The files of a finished run, its record last."""
    files = {f"{name}.parquet": packed(frame) for name, frame in result.tables.items()
             if name != "failures" or frame.height}  # fmt: skip
    if (usage := run.workload.jobs.usage) is not None:
        files[CURVES] = packed(curves_frame(usage))
    if run.world.contention is not None:
        texts = profile_texts(run.world.contention.profiles)
        files |= {f"{PROFILES}/{name}": text.encode() for name, text in texts.items()}
    record = sealed({**description(run, result), **more}, files)
    return {**files, RECORD: (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode()}


def keep_files(directory: Path, run_id: str, files: Files) -> None:
    """Write what :func:`files_of` gave, perhaps on another machine; the folder appears whole or not at all."""
    runs = directory / "runs"
    target, building = runs / run_id, runs / f".{run_id}.{os.getpid()}"
    shutil.rmtree(building, ignore_errors=True)
    try:
        for name, content in files.items():
            path = building / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
        shutil.rmtree(target, ignore_errors=True)
        building.replace(target)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def description(run: Run, result: Result) -> dict[str, Any]:
    """The content of ``run.json``."""
    names = [Path(one).name if is_file(one) else one for one in run.plugins]
    return {
        "id": run.id,
        "cluster": cluster_record(run.cluster),
        "workload": {"name": run.workload.name, "digest": run.workload_digest, "intake": asdict(run.workload.intake)},
        "policy": canonical(run.policy.make()),
        "policy_label": run.policy.label,
        "policy_table": run.policy.written(),
        "world": str(run.policy.world),
        "seed": run.seed,
        "ties": str(run.world.ties),
        "faults": [list(fault) for fault in run.world.faults],
        **({"core_tiles": run.core_tiles} if run.core_tiles is not None else {}),
        "window_us": list(run.window_us) if run.window_us else None,
        "parameters": dict(run.parameters),
        **({"plugins": dict(zip(names, identity_of(run.plugins), strict=True))} if names else {}),
        **({"models": [model._asdict() for model in run.world.models]} if run.world.models else {}),
        **(
            {"contention": {**run.world.contention.identity(), "note": contended(run, result)}}
            if run.world.contention
            else {}
        ),
        **({"slowdowns": str(run.world.together)} if run.world.together is not None else {}),
        **({"memory_changes": run.world.changes.model_dump()} if run.world.changes is not None else {}),
        **({"notes": list(notes)} if (notes := notes_of_run(run, result)) else {}),
        "metrics": result.metrics,
        **({"bound": asdict(result.bound)} if result.bound is not None else {}),
        "unrack": version("unrack"),
    }


def notes_of_run(run: Run, result: Result) -> tuple[str, ...]:
    """How speeds combined, and what changed nothing in a finished run although it was asked for, a sentence each."""
    idle = any(effect.key == "contention" and effect.why_not for effect in run.effects)
    rule = None if idle else run.world.together
    said = () if rule is None else (f"{WORDS[rule]} (slowdowns = '{rule}')",)
    return (*said, *notes_of(run.effects), *out_of_time(result.log, run.world.faults[: run.listed], run.window_us))


def contended(run: Run, result: Result) -> str:
    """What the profiles did not cover; where no memory was borrowed, that no job needed one."""
    if next((effect.why_not for effect in run.effects if effect.key == "contention"), ""):
        return "no profile was used: no job can use another node's memory"
    return str(result.contention)


def summary(directory: Path, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row a run: what it was, and every metric."""
    rows = []
    worlds = len({run.policy.world for run in runs}) > 1
    for run in runs:
        kept = read_record(directory / "runs" / run.id)
        row: dict[str, Any] = {
            "run": run.id,
            "cluster": run.cluster.name,
            "workload": run.workload.name,
            "policy": run.policy.label,
            **({"world": str(run.policy.world)} if worlds else {}),
            "seed": run.seed,
        }
        row.update(run.parameters)
        row.update({name: kept["metrics"].get(name) for name in METRICS})
        row.update(kept["metrics"])
        if run.cluster.prices is not None:
            row.update(costs(run.cluster, run.cluster.prices, kept["metrics"]))
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def costs(cluster: Cluster, prices: Prices, metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    """What a cluster costs over the years, and the jobs ended an hour per million of it.

    Prices change no schedule and may change after a run: they are not kept with it.
    """
    total, rate = bill_of(cluster, prices).total, metrics.get("throughput_jobs_per_h")
    return {"cost": total, "jobs_h_per_million": rate * 1e6 / total if rate is not None and total else None}


def kept_notes(directory: Path, runs: Sequence[Run]) -> list[str]:
    """What finished runs have to tell, each once; what their workloads have to tell comes first."""
    return told_of(
        (run.policy.label, json.loads((directory / "runs" / run.id / "run.json").read_text())) for run in runs
    )


def keep_study(directory: Path, study: Study, failed: Mapping[str, str] = MappingProxyType({})) -> list[dict[str, Any]]:
    """Write ``summary.csv`` and ``study.toml``, and which runs failed, with their errors; the rows of the summary.

    If all runs failed there are none, and nothing is written.
    """
    rows = summary(directory, [run for run in study.runs if run.id not in failed])
    if not rows:
        return rows
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: defused(value) for name, value in row.items()} for row in rows)
    workloads = {run.workload_digest: run.workload for run in study.runs}
    lines = [
        f"# Resolved by unrack {version('unrack')}: {len(study.runs)} runs. Workloads by content (SHA-256):",
        *(f"#   {workload.name}: {len(workload)} jobs, {digest}" for digest, workload in workloads.items()),
    ]
    resolved = tomli_w.dumps(study.resolved, multiline_strings=True)
    write_whole(directory / "study.toml", "\n".join(lines) + "\n\n" + resolved)
    write_whole(directory / "summary.csv", text.getvalue())
    (directory / "runs" / FAILED).unlink(missing_ok=True)
    if failed:
        lost = [(run.policy.label, run.seed, failed[run.id]) for run in study.runs if run.id in failed]
        write_whole(directory / "runs" / FAILED, json.dumps(lost, indent=1, ensure_ascii=False) + "\n")
    (directory / "runs" / LISTED).unlink(missing_ok=True)
    return rows
