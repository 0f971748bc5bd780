"""When the jobs of a scene start, and which of them start at another time than in another scene.

A scene may have other nodes than the cluster's file: some are drained, or there are more of a kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from unrack.cluster.node_names import NUMBERS, more_names, numbers_of
from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.kernels.arrays import Ints
from unrack.plan.what_if.scene import SOON_US, Scene
from unrack.reasons import Reason
from unrack.sim.simulate import prepared
from unrack.sim.world import PolicyAtWork
from unrack.slurm_text.hostlists import compress, expand
from unrack.units import NEVER_US, SECOND_US


class Starts(NamedTuple):
    """When each job of a scene starts, µs."""

    ids: tuple[str, ...]
    start_us: Ints  # int64[jobs]: ``NEVER_US``: never
    reasons: Mapping[str, Reason]  # why never

    @property
    def by_id(self) -> dict[str, int]:
        """When each job starts, by its id."""
        return dict(zip(self.ids, self.start_us.tolist(), strict=True))

    def of(self, jobs: Sequence[str]) -> list[int]:
        """When some jobs start, by their ids."""
        return list(map(self.by_id.__getitem__, jobs))


def as_asked(scene: Scene) -> Scene:
    """The scene in which every job runs for as long as it asks."""
    return replace(scene, jobs=replace(scene.jobs, work_us=scene.jobs.request_us.copy()))


def starts_of(scene: Scene) -> Starts:
    """Simulate all of a scene; errors are those of :func:`unrack.simulate`."""
    with PolicyAtWork(scene.policy):
        log = prepared(scene.cluster, scene.jobs, scene.policy, scene.seed, scene.world).run()
    found = np.full(len(scene.jobs), NEVER_US, np.int64)
    np.minimum.at(found, log.attempt_job, log.attempt_start_us)
    ids = tuple(map(str, scene.jobs.ids.to_list()))
    return Starts(ids, found, {ids[job]: reason for job, reason in log.reasons.items()})


class Moved(NamedTuple):
    """A job that starts at another time, s from now; ``None``: never."""

    job: str
    before_s: float | None
    after_s: float | None


class Others(NamedTuple):
    """What becomes of all other jobs."""

    later: int
    later_h: float  # by how many hours in all
    earlier: int
    earlier_h: float
    never: dict[str, str]  # job that never starts any more → why
    moved: tuple[Moved, ...]  # by how much, the most first


def others_of(before: Starts, after: Starts, now_us: int, without_: set[str]) -> Others:
    """The jobs of both, by when they start."""
    was = before.by_id
    moved, later_us, earlier_us, never = list[tuple[int, Moved]](), list[int](), list[int](), dict[str, str]()
    for job, then in zip(after.ids, after.start_us.tolist(), strict=True):
        if job in without_ or job not in was or abs(was[job] - then) < SOON_US:
            continue
        gap = then - was[job]
        moved.append((-abs(gap), Moved(job, since_s(was[job], now_us), since_s(then, now_us))))
        if then >= NEVER_US:
            never[job] = str(after.reasons.get(job, "it never starts"))
        elif was[job] < NEVER_US:
            (later_us if gap > 0 else earlier_us).append(abs(gap))
    moved.sort(key=lambda one: (one[0], one[1].job))
    return Others(
        len(later_us), sum(later_us) / 3.6e9, len(earlier_us), sum(earlier_us) / 3.6e9, never,
        tuple(one for _, one in moved),
    )  # fmt: skip


def since_s(time_us: int | None, now_us: int) -> float | None:
    """A time in s from now; ``None``: never."""
    return None if time_us is None or time_us >= NEVER_US else (time_us - now_us) / SECOND_US


Content = dict[str, Any]
_MORE = re.compile(r"\s*(\d{1,6})\s+like\s+(\S.*?)\s*")
_LISTED = ("domains", "failure_domains", "features")
"""Keys below which all texts are lists of nodes; elsewhere those of the key ``nodes`` are."""


def drained(cluster: Cluster, nodes: Sequence[str]) -> Callable[[Content], Content]:
    """The change by which nothing is started on further nodes; an InputError if there are none of that name."""
    found = set(cluster.drained)
    for text in nodes:
        found.update(_nodes("--drain", text, cluster))
    names = [cluster.names[node] if cluster.names else f"{node}" for node in sorted(found)]
    return lambda content: {**content, "drained": compress(names) if cluster.names else ",".join(names)}


def more_like(cluster: Cluster, text: str) -> Callable[[Content], Content]:
    """The change by which there are more nodes, as in ``4 like n1``, with all that is said of that one."""
    match = _MORE.fullmatch(text)
    if match is None or not int(match[1]):
        raise InputError("--add", repr(text), "how many and like which, such as '4 like n1'")
    found = _nodes("--add", match[2], cluster)
    if len(found) > 1 or not cluster.cores[found[0]]:
        raise InputError("--add", repr(match[2]), "one node with cores")
    return lambda content: _with_more(content, found[0], int(match[1]))


def _with_more(content: Content, node: int, count: int) -> Content:
    if content.get("memory_pools") or "memory_system" in content:
        raise InputError("--add", "a cluster with nodes that are memory alone", "a cluster where all nodes have cores")
    cluster = Cluster.from_dict(content)
    of, numbers = content["nodes"][int(cluster.node_class[node])], f"{len(cluster)}-{len(cluster) + count - 1}"
    name = cluster.names[node] if cluster.names else f"node{node}"
    names = more_names(cluster.names[-1], set(cluster.names), count) if cluster.names else []
    calls = {**of, "name": f"{of.get('name') or 'class'}-{len(content['nodes'])}", "count": count}
    if names:
        calls["names"] = compress(names)

    def is_in(text: object) -> bool:
        return isinstance(text, str) and bool(NUMBERS.fullmatch(text)) and node in numbers_of(text, {}, len(cluster))

    def longer(text: str) -> str:
        with suppress(ValueError):
            if names and name in expand(text):
                return compress([*expand(text), *names])
        return text

    def within(value: Any, listed: bool) -> Any:
        if isinstance(value, dict):
            return {key: within(one, listed or key == "nodes" or key in _LISTED) for key, one in value.items()}
        if isinstance(value, list):  # numbers get an entry of their own: not everywhere may one have commas
            more: list[Any] = [numbers] if listed and any(map(is_in, value)) else []
            more += [{**one, "nodes": numbers} for one in value if isinstance(one, dict) and is_in(one.get("nodes"))]
            return [*(within(one, listed) for one in value), *more]
        return longer(value) if listed and isinstance(value, str) else value

    rest = {key: within(value, key in _LISTED) for key, value in content.items() if key != "nodes"}
    return {**rest, "nodes": [*content["nodes"], calls]}


def _nodes(option: str, text: str, cluster: Cluster) -> list[int]:
    try:
        return numbers_of(text, cluster.number_of, len(cluster))
    except ValueError as error:
        got, _, want = str(error).rpartition(" is not ")
        raise InputError(option, got or repr(text[:80]), want) from None
