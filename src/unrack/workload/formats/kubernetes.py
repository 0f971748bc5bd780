"""Pods that run and wait now, as ``kubectl get pods -o json`` tells of them: what a run starts from."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import polars as pl

from unrack.cluster.formats.kubernetes.nodes import GPUS, node_down
from unrack.errors import InputError
from unrack.kubernetes_text import asked_by, entries, inside, moment_s, objects, quantity, table
from unrack.workload.formats.intake import DEVICE, EXTRA, RUNNING, Tally, unheeded, workload
from unrack.workload.formats.quantities import MOST, MOST_MB, asked_as, choice, shown, time_option_us
from unrack.workload.formats.source import Source, load
from unrack.workload.job import Workload

COMMAND = "the output of: kubectl get pods --all-namespaces -o json"
ASKS = ("nodeSelector", "affinity", "topologySpreadConstraints", "priorityClassName")
"""Keys of a pod's specification with what it asks for and nothing honours."""
_QUEUE, _PRIORITY, _OF_VOLCANO = (
    "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class", "scheduling.volcano.sh/queue-name",
)  # fmt: skip
_ITS_GATES = frozenset({"kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"})
"""Gates that Kueue opens as soon as there is quota."""
_SCHEMA: dict[str, Any] = {
    "id": pl.String, "running": pl.Boolean, "created": pl.Float64, "started": pl.Float64, "limit_s": pl.Float64,
    "cores": pl.Int64, "memory_mb": pl.Int64, "gpus": pl.Int64, "priority": pl.Int64, "user": pl.String,
    "app": pl.String, "gated": pl.Boolean, "ends": pl.Float64, f"{EXTRA}state": pl.String, f"{EXTRA}node": pl.String,
    "other devices": pl.String, f"{EXTRA}queue": pl.String, f"{EXTRA}qos": pl.String, **dict.fromkeys(ASKS, pl.String),
}  # fmt: skip


def read_pods(
    path: str | os.PathLike[str] | Source,
    *,
    run: float | str | None = None,
    cpu: str = "whole",
    gpus: str = "gpus.count",
    running: str = "kept",
) -> Workload:
    """Read pods; each becomes a job of one task, and those that run are on their nodes from the start.

    A pod asks for what :func:`unrack.kubernetes_text.asked_by` says; labels of Kueue and an annotation of Volcano name
    its ``queue`` and its class of priority, ``qos``. Time 0 is the latest time in the file:
    pods that have a node (they run, or are about to) are there then, and those that wait are submitted right after it
    (a µs apart), in the order of their creation. Its namespace becomes the user, and its controller's name the app.
    Other objects of the list, such as nodes, are passed over.

    Parameters
    ----------
    run
        How long each pod runs from now on, s or text such as ``"1 h"``; needed for pods without an
        activeDeadlineSeconds, which has them run until then.
    cpu
        ``"whole"``: cores, rounded up; ``"milli"``: thousandths of a core, for a cluster of cores counted so.
    gpus
        What GPUs are asked as: ``"gpus.count"``, ``"gpu.devices"`` and the like, or ``"ignore"``.
    running
        Pods that run: ``"kept"`` on their nodes, which the cluster has to have by the same names, or ``"anew"``: placed
        by the policy, before those that wait.
    """
    choice("cpu", cpu, ("whole", "milli"))
    choice("running", running, RUNNING)
    asked_as("gpus", gpus)
    run_s = None if run is None else time_option_us("run", run, "a time such as '1 h'") / 1e6
    source = load(path)
    try:
        content = json.loads(source.data)
    except (ValueError, RecursionError) as error:
        raise source.fault(None, "", f"damaged JSON ({str(error)[:80]})", "whole JSON") from None
    try:
        found = objects(content, "Pod")
    except ValueError as error:
        raise source.fault(None, "", "another document", str(error).rpartition(" is not ")[2]) from None
    if not found:
        raise source.fault(None, "", "no pod", COMMAND)
    rows = [_row(source, where, pod, cpu == "milli") for where, pod in found]
    frame = pl.DataFrame(rows, _SCHEMA, orient="row")
    tally = Tally()
    over = pl.col(f"{EXTRA}state").is_in(["Succeeded", "Failed"]) | (~pl.col("running") & pl.col("ends").is_not_null())
    frame = tally.drop(frame, "already over", over)
    names = [inside(node, "metadata", "name") for _, node in objects(content, "Node") if node_down(node)]
    unused = [name for name in names if name and isinstance(name, str)]
    frame = tally.drop(frame, "on a node not in use", pl.col("running") & pl.col(f"{EXTRA}node").is_in(unused))
    frame = tally.drop(frame, "held back", pl.col("gated") & ~pl.col("running"))
    now = max((time for row in rows for time in row[2:4] if time is not None), default=0.0)
    frame = _timed(frame, now, run_s, source, tally)
    if running == "anew":
        left = pl.col("work_us") - pl.col("ran_us")
        frame = frame.with_columns(work_us=left, request_us=left).drop("on", "ran_us")
    ranked = frame["priorityClassName"].set(frame["priority"].is_not_null(), None)
    asked = unheeded([*(frame[name] for name in ASKS[:-1]), ranked])
    frame = frame.with_columns(*asked, *unheeded([frame["other devices"]], "other devices"))
    frame = frame.drop("gpus") if gpus == "ignore" else frame.rename({"gpus": DEVICE + gpus})
    where = "on their nodes" if running == "kept" else "placed anew"
    header = {"Columns": f"pods that run are {where} from the start", "UnixStartTime": str(int(now))}
    return workload(source, "kubernetes", len(rows), frame.drop(*ASKS, "gated", "other devices"), tally, "keep", header)


def _timed(frame: pl.DataFrame, now: float, run_s: float | None, source: Source, tally: Tally) -> pl.DataFrame:
    if run_s is None and (unknown := frame["limit_s"].null_count()):
        pods = f"{unknown} pods without activeDeadlineSeconds"
        raise InputError(f"{source.path}: run times", pods, "the option run = '1 h', how long pods run from now on")
    runs = pl.col("running")
    tally.change_where(frame, "holds from the start", runs)
    ran = pl.when(runs).then((now - pl.col("started")).fill_null(0.0).clip(lower_bound=0.0)).otherwise(0.0)
    left = pl.when(pl.col("limit_s").is_null()).then(pl.lit(run_s, pl.Float64)).otherwise(pl.col("limit_s") - ran)
    ends = pl.col("ends").is_not_null()
    tally.change_where(frame, "being ended", ends)
    frame = frame.with_columns(
        left_us=(pl.min_horizontal(left, pl.col("ends") - now) * 1e6).round().cast(pl.Int64),
        ran_us=(ran * 1e6).round().cast(pl.Int64),
    )
    tally.change_where(frame, "past its limit", (pl.col("left_us") < 1_000_000) & ~ends)
    order = pl.struct(pl.col("created").fill_null(now), pl.int_range(pl.len())).rank("ordinal").cast(pl.Int64)
    whole = pl.col("left_us").clip(lower_bound=1_000_000) + pl.col("ran_us")
    return frame.with_columns(
        work_us=whole,
        request_us=whole,
        on=pl.when(runs).then(f"{EXTRA}node"),
        submit_us=pl.when(runs).then(0).otherwise(order),
        tasks=pl.lit(1, pl.Int64),
        **{f"{EXTRA}waited_s": pl.when(~runs).then(now - pl.col("created"))},
    ).drop("running", "created", "started", "limit_s", "ends", "left_us")


def _row(source: Source, where: str, pod: Mapping[str, Any], milli: bool) -> tuple[Any, ...]:
    def read(field: str, value: Any, parse: Any) -> Any:
        try:
            return parse(value)
        except ValueError as error:
            at = f"{where}.{field}".lstrip(".")
            raise source.fault(None, at, shown(str(value)), str(error).rpartition(" is not ")[2]) from None

    asked = asked_by(pod, lambda field, value: read(field, value, quantity))
    others = dict.fromkeys(f"claim {one.get('name', '')}" for one in entries(pod, "spec", "resourceClaims"))
    others |= dict.fromkeys(key for key in asked if "/" in key and key not in GPUS)
    cores = max(math.ceil(asked.get("cpu", 0) * (1000 if milli else 1)), 1)
    memory_mb = math.ceil(asked.get("memory", 0) / 2**20)
    count = math.ceil(sum(asked.get(key, 0) for key in GPUS))
    for field, amount, most in (("cpu", cores, MOST), ("memory", memory_mb, MOST_MB), ("gpu", count, MOST)):
        if amount >= most:
            raise source.fault(None, f"{where}.spec, {field}".lstrip("."), str(amount), f"below {most}")
    phase = inside(pod, "status", "phase")
    node = inside(pod, "spec", "nodeName")
    limit = inside(pod, "spec", "activeDeadlineSeconds")
    priority = inside(pod, "spec", "priority")
    labels = table(pod, "metadata", "labels")
    owners = [one.get("name") for one in entries(pod, "metadata", "ownerReferences")]
    app = next((str(labels[key]) for key in ("app.kubernetes.io/name", "app", "k8s-app") if key in labels), None)
    namespace = inside(pod, "metadata", "namespace")
    queue = f"{namespace or 'default'}/{labels[_QUEUE]}" if labels.get(_QUEUE) else None
    queue = queue or table(pod, "metadata", "annotations").get(_OF_VOLCANO)
    name = inside(pod, "metadata", "name")
    return (
        "/".join(str(part) for part in (namespace, name) if part) or None,
        isinstance(node, str) and node != "",
        read("metadata.creationTimestamp", inside(pod, "metadata", "creationTimestamp"), moment_s),
        read("status.startTime", inside(pod, "status", "startTime"), moment_s),
        None if limit is None else float(read("spec.activeDeadlineSeconds", limit, _seconds)),
        cores,
        memory_mb,
        count,
        priority if isinstance(priority, int) and abs(priority) < 2**53 else None,
        None if namespace is None else str(namespace),
        app or (str(owners[0]) if owners and owners[0] else None),
        any(one.get("name") not in _ITS_GATES for one in entries(pod, "spec", "schedulingGates")),
        read("metadata.deletionTimestamp", inside(pod, "metadata", "deletionTimestamp"), moment_s),
        phase if isinstance(phase, str) else None,
        node if isinstance(node, str) else None,
        ", ".join(others) or None,
        str(queue) if queue else None,
        str(labels[_PRIORITY]) if labels.get(_PRIORITY) else None,
        *(json.dumps(said) if (said := inside(pod, "spec", key)) else None for key in ASKS),
    )


def _seconds(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
        raise ValueError(f"{value!r} is not a whole number of seconds")
    return value
