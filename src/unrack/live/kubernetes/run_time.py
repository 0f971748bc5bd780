"""How long a pod is expected to run, by what it says itself."""

from __future__ import annotations

from unrack.live.kubernetes.client.objects import Pod
from unrack.units import SECOND_US, time_us

RUN_TIME = "unrack.io/run-time"
"""The annotation in which a pod says how long it is expected to run: seconds, or text such as ``30 min``."""


def limit_s(pod: Pod) -> int | None:
    """How long a pod is expected to run, s: what it says in an annotation, and its deadline at most; ``None``: neither.

    Raises
    ------
    ValueError
        The annotation is no time above 0.
    """
    said, deadline_s = pod.metadata.annotations.get(RUN_TIME), pod.spec.active_deadline_seconds
    if said is None:
        return deadline_s
    run_us = time_us(said[:80])
    if run_us <= 0:
        raise ValueError(f"{said[:80]!r} is not a time above 0")
    run_s = -(-run_us // SECOND_US)
    return run_s if deadline_s is None else min(run_s, deadline_s)
