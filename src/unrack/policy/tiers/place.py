"""Servers placed on tiers of memory from Python: what ``unrack place`` does, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unrack.cluster.spec import Cluster
from unrack.policy.tiers.answer import PlacedServers
from unrack.policy.tiers.one_shot import place_request
from unrack.policy.tiers.order import REQUEST
from unrack.policy.tiers.present import read_now
from unrack.policy.tiers.server_cores import read_cores, with_cores
from unrack.workload.request import read_request


def place(
    cluster: Cluster,
    servers: Sequence[Mapping[str, Any]],
    policy: str = "slo",
    *,
    most_clusters: int | None = None,
    limit_s: float | None = None,
    seed: int = 0,
    now: Mapping[str, Any] | None = None,
    moves: int | None = None,
    resplit: bool = False,
    cores: str | None = None,
    order: str = REQUEST,
    explain: bool = False,
) -> PlacedServers:
    """Place servers with SLOs on the pools of a data centre with tiers of memory.

    Parameters
    ----------
    cluster
        A data centre with tiers.
    servers
        With the keys of a request (``docs/tiers.md``): ``cores``, ``mem`` (MB or text) and, if wanted, ``id``,
        ``local_SLA``, ``remote_SLA``, ``group``, ``spread``, ``forbidden``, ``pinned``.
    policy
        ``"slo"``, ``"first-fit"``, ``"best-fit"``: one at a time, in order; ``"optimal"``: all at once.
    most_clusters
        At most so many clusters may be in use; ``None``: any number.
    limit_s, seed
        Of ``optimal``: time that it may compute, s (of the processor, without compiling), and the seed of its search.
        Without a time limit its work is counted, about a minute of an ordinary core at most, and the answer is the
        same anywhere.
    now
        Where servers are already: what ``as_json`` of an earlier answer said.
    moves
        Of ``optimal`` with ``now``: how many servers may move.
    resplit
        Of ``moves``: servers that stay may have their memory split anew.
    cores
        Also choose which cores: ``"best"``, ``"quick"``, ``"first-fit"``; the cluster's nodes need a ``torus``.
    order
        Of one at a time: ``"request"``, or ``"slo-ratio"``: largest floor // ceiling first, as the authors' program.
    explain
        Say of each server why it is where it is.

    Raises
    ------
    InputError
        Something asked cannot be, or ``now`` does not fit; the message says what and where.
    PolicyError
        There is no such policy or order.

    Examples
    --------
    >>> import unrack
    >>> centre = unrack.Cluster.preset("slo-basic")
    >>> placed = unrack.place(centre, [{"cores": 4, "mem": "16 GB", "local_SLA": "2 GB", "remote_SLA": "20 GB"}])
    >>> placed.as_json()["servers"][0]["tiers"]
    {'local': 2048, 'local-remote': 8192, 'distant-remote': 6144}
    """
    content: dict[str, Any] = {"servers": list(servers)}
    if most_clusters is not None:
        content["most_clusters"] = most_clusters
    request = read_request(content, "place")
    before = None if now is None else read_now(now, cluster, request, "now")
    placed = place_request(
        cluster,
        request,
        policy,
        limit_s=limit_s,
        seed=seed,
        now=before,
        moves=moves,
        resplit=resplit,
        order=order,
        explain=explain,
    )
    if cores is None:
        return placed
    return with_cores(placed, cores, None if now is None else read_cores(now, cluster, request, "now"))
