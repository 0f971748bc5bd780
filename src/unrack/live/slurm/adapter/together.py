"""The components of a heterogeneous job as one job: what the driver places, releases and follows as one.

Slurm starts them together or not at all, in a cycle of its backfill scheduler. The first of them, the leader, stands
for all in the commands that hold, release and requeue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from unrack.live.slurm.reading import NodeShare, SlurmJob


def merged(parts: Sequence[SlurmJob], nodes: Collection[str]) -> SlurmJob:
    """One job of the components that are known of one; ``nodes``: the names of all nodes.

    It runs while one of them does, and holds what they hold. It waits, held, as soon as one of them is. Nodes by name
    are those that all of them ask for; one that may have no other nodes asks for those.
    """
    parts = tuple(sorted(parts, key=lambda part: part.component))
    first = parts[0]
    running, waiting = [part for part in parts if part.runs], [part for part in parts if part.waits]
    stands = next((part for part in running if not part.completing), None) or next(iter(running), None)
    if stands is None and waiting:
        held = [part for part in waiting if part.is_held]
        stands = next((part for part in held or waiting if part.reason not in ("", "None", "Resources")), None)
        stands = stands or (held or waiting)[0]
    stands = stands or first
    limits = {part.limit_s for part in parts}
    asked = [_wanted(part, nodes) for part in parts]
    return replace(
        first,
        id=first.het,
        state=stands.state,
        reason=stands.reason,
        completing=bool(running) and all(part.completing for part in running),
        priority=stands.priority,
        eligible_s=max(part.eligible_s for part in parts),
        limit_s=None if None in limits else max(part.limit_s or 0 for part in parts),
        end_s=0 if running or waiting else max(part.end_s for part in parts),
        required_nodes=tuple(sorted({name for names in asked for name in names})) if all(asked) else (),
        licences=_sum(part.licences for part in running or parts),
        gres={},
        gres_total=_sum(_gres(part) for part in running or parts),
        beyond=tuple(dict.fromkeys(word for part in parts for word in part.beyond)),
        holds=_held(parts),
        components=parts,
    )


def broken(job: SlurmJob) -> str:
    """Why a job that waits cannot start with all of its components; ``""``: it can."""
    if not job.components:
        return ""
    if [part.component for part in job.components] != list(range(max(job.het_size, 2))):
        return f"{len(job.components)} of its {job.het_size} components can be read"
    over = next((part for part in job.components if not part.waits and not part.runs), None)
    if over is not None:
        why = f"component {over.component} has ended ({over.state}), without which Slurm starts none"
        return f"{why}: cancel it, and submit it again if it is to run"
    return ""


def for_each(job: SlurmJob, change: Callable[[SlurmJob], SlurmJob]) -> SlurmJob:
    """A job of which something was changed in every component, or in itself if it has none."""
    return replace(job, components=tuple(map(change, job.components))) if job.components else change(job)


def _wanted(part: SlurmJob, nodes: Collection[str]) -> tuple[str, ...]:
    """The nodes that a component must have."""
    if not part.waits or not part.excluded_nodes:
        return part.required_nodes
    left = sorted(set(nodes).difference(part.excluded_nodes))
    return tuple(left) if len(left) == part.nodes_min else part.required_nodes


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in amounts:
        for name, count in one.items():
            found[name] = found.get(name, 0) + count
    return found


def _gres(part: SlurmJob) -> dict[str, int]:
    return _sum([part.gres_total, {name: count * part.nodes_min for name, count in part.gres.items()}])


def _held(parts: Sequence[SlurmJob]) -> dict[str, NodeShare]:
    found: dict[str, NodeShare] = {}
    for part in parts:
        for name, one in part.holds.items():
            own = found.get(name, NodeShare(0, 0))
            found[name] = NodeShare(own.cores + one.cores, own.memory_mb + one.memory_mb)
    return found
