"""How many pods of a JobSet start together.

All pods of the jobs that it makes at once do. It makes some jobs only after others: in order, if its startup policy is
that, or once those are ready or complete on which they depend; the pods of each of these start together by themselves.
With exclusive placement by affinity it makes the pods of a job only once the first of them has a node: so these start
one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unrack.kubernetes_text import entries, inside
from unrack.live.kubernetes.client.objects import Pod
from unrack.live.kubernetes.client.others import Other

JOB_SET_LABEL, JOB_LABEL = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"
ATTEMPT_LABEL = "jobset.sigs.k8s.io/restart-attempt"
"""Labels of the pods of a JobSet: its name, that of one of its replicated jobs, and how often it was restarted."""
EXCLUSIVE, BY_SELECTOR = "alpha.jobset.sigs.k8s.io/exclusive-topology", "alpha.jobset.sigs.k8s.io/node-selector"
"""Annotations of a JobSet, or of the jobs of one kind: each job has a place for itself; that is done by node labels."""
_MOST = 100_000


def part_of(job_set: Other, pod: Pod) -> str:
    """The replicated job of a pod, if its pods start apart from others; ``""``: they do not."""
    name = pod.metadata.labels.get(JOB_LABEL, "")
    return name if any(job.get("name") == name and _is_apart(job_set, job) for job in _jobs(job_set)) else ""


def size_of(job_set: Other, pod: Pod) -> int | str:
    """How many pods start together with one, of those that name the same scheduler; or what of it is no number."""
    part, total = part_of(job_set, pod), 0
    for job in _jobs(job_set):
        if part != (str(job.get("name")) if _is_apart(job_set, job) else ""):
            continue
        if _is_exclusive(job_set, job):
            return 1
        spec: Mapping[str, Any] = inside(job, "template", "spec") or {}
        if str(inside(spec, "template", "spec", "schedulerName") or "default-scheduler") != pod.spec.scheduler_name:
            continue
        pods, most = spec.get("parallelism", 1), spec.get("completions")
        for what, number in (("replicas", job.get("replicas", 1)), ("parallelism", pods), ("completions", most)):
            if not isinstance(number, int | None) or not 0 <= (number or 0) <= _MOST:
                return f"{what} of replicated job {job.get('name')} is {number!r:.40}, not a number of pods"
        total += job.get("replicas", 1) * (pods if most is None else min(pods, most))
    return max(1, total) if total <= _MOST else f"its JobSet has {total} pods, of {_MOST} at most"


def _jobs(job_set: Other) -> list[Mapping[str, Any]]:
    return list(entries(job_set.spec, "replicatedJobs"))


def _is_apart(job_set: Other, job: Mapping[str, Any]) -> bool:
    in_order = inside(job_set.spec, "startupPolicy", "startupPolicyOrder") == "InOrder"
    return in_order or bool(job.get("dependsOn")) or _is_exclusive(job_set, job)


def _is_exclusive(job_set: Other, job: Mapping[str, Any]) -> bool:
    said = [job_set.metadata.annotations, inside(job, "template", "metadata", "annotations") or {}]
    return any(EXCLUSIVE in one and BY_SELECTOR not in one for one in said)
