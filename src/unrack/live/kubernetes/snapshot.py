"""A running Kubernetes at one moment: its nodes, its pods as a workload that begins now, and its present policy."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.kubernetes_text import asked_by, inside, moment_s
from unrack.live.kubernetes.client.access import Access
from unrack.live.kubernetes.client.answers import DeniedError
from unrack.live.kubernetes.client.connection import Connection
from unrack.live.kubernetes.client.objects import NODES, PODS, Node, Pod
from unrack.live.kubernetes.machines import PODS_OF_NODE, Machines, amounts_of, counted, machines_of
from unrack.live.kubernetes.places import asks_where, may_run
from unrack.live.kubernetes.run_time import RUN_TIME, limit_s
from unrack.live.kubernetes.volumes.claims import KINDS, Volumes, claimed_by, uses
from unrack.live.study_file import in_use, workload_of, write_study
from unrack.slurm_text.hostlists import compress
from unrack.units import SECOND_US
from unrack.workload.job import Workload

PRESENT = {
    "name": "list",
    "order": "priority",
    "backfill": "any",
    "place": "worst-fit",
    "label": "present (kube-scheduler)",
}
"""A pod that fits is started, high priority first, on the emptiest node; no place is kept for others."""
_DTYPES: dict[str, type[pl.DataType]] = {
    "id": pl.String, "submit": pl.Float64, "run": pl.Float64, "request": pl.Float64, "user": pl.String,
    "app": pl.String, "on": pl.String, "ran": pl.Float64, "exc_nodes": pl.String, "waits_for": pl.String,
}  # fmt: skip
_LEAST_S = 1.0
GANG = frozenset({"scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "kueue.x-k8s.io/pod-group-name"})
"""Labels of pods that belong to a gang."""
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_UNKEPT: tuple[tuple[str, Callable[[Pod], Any]], ...] = (
    ("affinity to other pods", lambda pod: inside(pod.spec.affinity, "podAffinity")),
    ("anti-affinity to other pods", lambda pod: inside(pod.spec.affinity, "podAntiAffinity")),
    ("nodes that it would rather have", lambda pod: inside(pod.spec.affinity, "nodeAffinity", _PREFERRED)),
    ("topology spread", lambda pod: pod.spec.topology_spread_constraints),
    ("its gang, of which each starts alone", lambda pod: pod.spec.scheduling_group or GANG & set(pod.metadata.labels)),
    ("claims of devices", lambda pod: pod.spec.resource_claims),
    ("ports of its node", lambda pod: any(port.get("hostPort") for one in pod.spec.containers for port in one.ports)),
)
"""What waiting pods may ask for and is not kept; and how it is seen."""


Row = dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """What an API server says at one moment."""

    at_s: float  # when, s since 1970
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    volumes: Volumes = field(default_factory=Volumes, compare=False)  # as far as it lets us look


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A running Kubernetes."""

    at_s: float  # when, s since 1970
    content: Mapping[str, Any]  # the keys of its cluster file
    table: pl.DataFrame  # a row a pod; those that wait for something else than their turn have no ``submit``
    notes: tuple[str, ...]  # what was left out or changed, a sentence each
    spare: Mapping[str, Any] = field(default_factory=dict)  # keys of a cluster file of what no pod asks for

    @property
    def cluster(self) -> Cluster:
        """Its nodes."""
        return Cluster.from_dict(self.content, "cluster")

    @property
    def workload(self) -> Workload:
        """Its pods, without those that wait for something else; a TraceError if there are none."""
        return workload_of(self.table)

    def write(self, path: Path) -> Path:
        """Write a study file, and a CSV of the pods beside it; returns the latter."""
        return write_study(path, self.content, self.table, PRESENT, "Kubernetes", self.at_s, self.notes, self.spare)


def reading_of(access: Access, timeout_s: float = 30.0) -> Reading:
    """All nodes and pods that a server has now; errors are those of its client."""

    async def read() -> Reading:
        async with Connection(access, timeout_s=timeout_s) as connection:
            return await read_now(connection, time.time())

    return asyncio.run(read())


async def read_now(connection: Connection, at_s: float) -> Reading:
    """All nodes and pods that there are, and volumes if it may see these."""
    nodes, pods, volumes = await connection.list(NODES), await connection.list(PODS), Volumes()
    for kind in KINDS:
        with suppress(DeniedError):
            listed = await connection.list(kind)
            volumes.take(kind, [(None, one) for one in listed.objects], "")
    return Reading(at_s, nodes.objects, pods.objects, volumes)


def snapshot_of(
    reading: Reading, *, schedulers: Collection[str] | None = None, longest_us: int = 7 * 86_400 * SECOND_US
) -> Snapshot:
    """What a reading shows, as a study that begins then.

    Parameters
    ----------
    reading
        What the server says.
    schedulers
        Only waiting pods of one of these; ``None``: of all. Pods that run are of any.
    longest_us
        How long a pod that does not say so is taken to run, µs.

    Raises
    ------
    ClusterError
        No node is left.
    InputError
        A pod asks for an amount that is none.
    """
    pods = [pod for pod in reading.pods if pod.status.phase not in ("Succeeded", "Failed")]
    waiting = [pod for pod in pods if not pod.spec.node_name and pod.metadata.deletion_timestamp is None]
    waiting = [pod for pod in waiting if schedulers is None or pod.spec.scheduler_name in schedulers]
    waiting.sort(key=lambda pod: (_moment(pod.metadata.creation_timestamp) or 0.0, _key(pod)))
    runs = sorted((pod for pod in pods if pod.spec.node_name), key=lambda pod: (_started(pod) or 0.0, _key(pod)))
    asked = [_asked(pod) for pod in (*runs, *waiting)]
    machines = machines_of(reading.nodes, asked, Counter(pod.spec.node_name for pod in runs))
    tally: Counter[str] = Counter()
    rows = list(_running(runs, asked, machines, reading.at_s, longest_us, tally))
    kept_off = [_without_volumes(pod, machines, reading.volumes, runs, tally) for pod in waiting]
    rows += _waiting(waiting, asked[len(runs) :], kept_off, machines, reading.at_s, longest_us, tally)
    notes = [f"{what}: {count} pod{'s' * (count != 1)}." for what, count in tally.items()]
    if any((pod.spec.priority or 0) > min((one.spec.priority or 0 for one in runs), default=0) for pod in waiting):
        notes.append("No pod is preempted, though some wait with a priority above that of others that run.")
    columns = {name: [row.get(name) for row in rows] for name in (*_DTYPES, *dict.fromkeys(k for r in rows for k in r))}
    table = pl.DataFrame([pl.Series(name, of, dtype=_DTYPES.get(name, pl.Int64)) for name, of in columns.items()])
    content, unused, spare = in_use(machines.content, table)
    if table.filter(table["submit"].is_not_null())["exc_nodes"].null_count() == table["submit"].count():
        del content["site"]
        unused.append("exc_nodes")
    return Snapshot(reading.at_s, content, table.drop(unused), (*machines.notes, *notes), spare)


def _running(
    pods: Sequence[Pod], asked: Sequence[Mapping[str, Fraction]], machines: Machines, at_s: float, longest_us: int,
    tally: Counter[str],
) -> list[Row]:  # fmt: skip
    """Pods that hold something of a node from the start, as far as it has that."""
    free = {name: _held(amounts_of(node), machines, math.floor) for name, node in machines.nodes.items()}
    rows = []
    for pod, amounts in zip(pods, asked, strict=False):
        node, row = pod.spec.node_name, _row(pod, amounts, machines)
        holds = {key: row[key] for key in row if key in ("cores", "memory") or "." in key}
        if node not in free:
            tally["Runs on a node that is not there; left out"] += 1
            continue
        if any(amount > free[node].get(key, 0) for key, amount in holds.items()):
            tally["Runs beyond what its node has; left out"] += 1
            continue
        for key, amount in holds.items():
            free[node][key] -= amount
        ran_s = max(0.0, at_s - (_started(pod) or at_s))
        run_s = max(_limit_s(pod, longest_us, ran_s), ran_s + _LEAST_S)
        if (ends_s := _moment(pod.metadata.deletion_timestamp)) is not None:
            run_s = ran_s + min(max(ends_s - at_s, _LEAST_S), run_s - ran_s)
        rows.append({**row, "submit": 0.0, "run": run_s, "request": run_s, "on": node, "ran": round(ran_s, 3)})
    return rows


def _waiting(
    pods: Sequence[Pod], asked: Sequence[Mapping[str, Fraction]], kept_off: Sequence[set[str]], machines: Machines,
    at_s: float, longest_us: int, tally: Counter[str],
) -> list[Row]:  # fmt: skip
    """Pods that wait, in order of their creation; ``kept_off``: nodes that their volumes are not for."""
    closed: dict[str, set[str]] = {}
    rows = list[Row]()
    for pod, amounts, off in zip(pods, asked, kept_off, strict=True):
        where = asks_where(pod)
        if where not in closed:
            closed[where] = {name for name, node in machines.nodes.items() if not may_run(pod, node)}
        without = closed[where] | off
        gates = [str(one.get("name")) for one in pod.spec.scheduling_gates]
        absent = sorted(key for key, amount in amounts.items() if amount and not _is_known(key, machines))
        waits_for = f"its gates {', '.join(gates)}" if gates else ""
        if not waits_for and absent:
            waits_for = f"{', '.join(absent)}, which no node has"
        elif not waits_for and without >= set(machines.nodes) - machines.drained:
            waits_for = "a node that it may run on"
        if waits_for:
            tally[f"Waits for something else ({'its gates' if gates else waits_for})"] += 1
        for what, sees in _UNKEPT:
            if sees(pod):
                tally[f"Not kept of a pod: {what}"] += 1
        created, run_s = _moment(pod.metadata.creation_timestamp), _limit_s(pod, longest_us, 0.0)
        rows.append({
            **_row(pod, amounts, machines), "run": run_s, "request": run_s, "waits_for": waits_for or None,
            "submit": None if waits_for else 1 / SECOND_US,
            "exc_nodes": compress([name for name in machines.nodes if name in without]) or None,
            "waited_s": None if created is None else max(0, round(at_s - created)),
        })  # fmt: skip
    return rows


def _without_volumes(
    pod: Pod, machines: Machines, volumes: Volumes, runs: Sequence[Pod], tally: Counter[str]
) -> set[str]:
    """The nodes that the volumes of a pod are not for; where some are not bound yet, none, and a note."""
    if not claimed_by(pod):
        return set()
    found = volumes.keep_off(
        pod, machines.nodes, lambda claim: any(uses(one, claim, pod.metadata.namespace) for one in runs)
    )
    if isinstance(found, str):
        tally["Not kept of a pod: volumes that are not bound, not known or in use"] += 1
        return set()
    return found


def _row(pod: Pod, amounts: Mapping[str, Fraction], machines: Machines) -> Row:
    """What is the same of pods that run and that wait."""
    at = pod.metadata
    owner = next((one.name for one in at.owner_references if one.controller), "")
    keys = ("app.kubernetes.io/name", "app", "k8s-app")
    held = _held({**amounts, PODS_OF_NODE: Fraction(1)}, machines, math.ceil)
    return {
        "id": f"{at.namespace}/{at.name}", "tasks": 1, **held, "cores": max(held["cores"], 1),
        "priority": pod.spec.priority or 0, "user": at.namespace,
        "app": next((at.labels[key] for key in keys if key in at.labels), owner) or None,
    }  # fmt: skip


def _held(amounts: Mapping[str, Fraction], machines: Machines, whole: Callable[[Fraction], int]) -> dict[str, int]:
    """Amounts as the columns of a table have them."""
    found = {"cores": whole(amounts.get("cpu", Fraction(0)) * (1000 if machines.milli else 1))}
    found["memory"] = counted("memory", amounts.get("memory", Fraction(0)), whole)
    if machines.gpu:
        found["gpus.count"] = whole(amounts.get(machines.gpu, Fraction(0)))
    for resource, name in machines.counters.items():
        found[f"counted.{name}"] = counted(resource, amounts.get(resource, Fraction(0)), whole)
    return found


def _is_known(resource: str, machines: Machines) -> bool:
    return resource in ("cpu", "memory", machines.gpu) or resource in machines.counters


def _asked(pod: Pod) -> Mapping[str, Fraction]:
    try:
        return asked_by(msgspec.to_builtins(pod))
    except ValueError as error:
        got, _, want = str(error).rpartition(" is not ")
        raise InputError(f"pod {'/'.join(_key(pod))}", got, want) from None


def _limit_s(pod: Pod, longest_us: int, ran_s: float) -> float:
    try:
        limit = limit_s(pod)
    except ValueError as error:
        got, _, want = str(error).partition(" is not ")
        raise InputError(f"pod {'/'.join(_key(pod))}, {RUN_TIME}", got, want or "a time") from None
    return float(limit) if limit is not None else ran_s + longest_us / SECOND_US


def _started(pod: Pod) -> float | None:
    return _moment(pod.status.start_time)


def _moment(text: str | None) -> float | None:
    """Seconds since 1970; ``None`` too of what is no time that can be."""
    try:
        return moment_s(text)
    except ValueError:
        return None


def _key(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name
