"""From the files that a question names to a study, and to the jobs that it asks about."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unrack.errors import InputError

if TYPE_CHECKING:
    from unrack.plan.what_if.scene import Source

SCRIPTS = (".yaml", ".yml", ".json")
"""Endings of manifests; other files are job scripts."""

_NOTHING = "-nothing-"
"""A job that is there and in no scene, as a study without any is none."""


def opened(
    now: Path, ask: Path | None, policy: str | None, given: Mapping[str, Any]
) -> tuple[Source, list[dict[str, Any]], list[str]]:
    """The study, the jobs that are submitted to it, and what of them is not kept.

    ``given``: what options say that the jobs ask for; it counts before what a script says.
    """
    from unrack.plan.what_if.scene import Source
    from unrack.study.input.document import Document

    if now.suffix == ".json":
        return _of_objects(now, ask, policy, given)
    if ask is not None and ask.suffix in SCRIPTS:
        got = f"{ask}, a manifest, beside a study"
        raise InputError("ASK", got, "NOW.json beside it: what 'kubernetes snapshot' or 'kubectl get -o json' wrote")
    source = Source(Document.read(now), policy)
    if ask is None:
        return source, [{"id": "asked", "tasks": 1, "cores": 1, **_needed(given)}] if given else [], []
    columns, notes = _of_script(ask, source)
    return source, [{**columns, **given}], notes


def _needed(given: Mapping[str, Any]) -> Mapping[str, Any]:
    if "request" not in given:
        raise InputError("--time", "nothing", "how long the job asks to run, such as --time '4 h'")
    return given


def _of_script(path: Path, source: Source) -> tuple[dict[str, Any], list[str]]:
    from unrack.live.driver.contract import Problem
    from unrack.live.slurm.job_script import read_script
    from unrack.live.slurm.jobs import JobReading, job_of, odd
    from unrack.plan.what_if.asked import columns_of
    from unrack.workload.store import one_row

    job, left_out = read_script(path)
    scene = source.scene((), spare=bool(job.gres or job.gres_total or job.licences))
    how = JobReading(memory=bool(scene.jobs.memory_mb.any()), lenient=True)
    made = job_of(job, scene.cluster, how, key=job.name, now_us=1)
    if isinstance(made, Problem):
        raise InputError(str(path), made.why, "a job that this system could hold")
    notes = [f"Not kept of {path.name}: --{name}." for name in left_out]
    notes += [f"Not kept of {path.name}: {words}." for words in odd(job, scene.cluster)]
    if job.limit_s is None:
        notes.append(f"{path.name} says no time limit: it is taken to run for 7 days (--time).")
    return columns_of(one_row(made, None), 0), notes


def _of_objects(
    now: Path, ask: Path | None, policy: str | None, given: Mapping[str, Any]
) -> tuple[Source, list[dict[str, Any]], list[str]]:
    """Of objects of Kubernetes: the pods of a manifest are read with those that are there, in one go."""
    import polars as pl

    from unrack.extras import needed_for

    with needed_for("objects of Kubernetes"):
        from unrack.live.kubernetes.manifest import pods_of, reading_of_file
        from unrack.live.kubernetes.snapshot import Reading, snapshot_of
    from unrack.plan.what_if.scene import Source
    from unrack.study.input.document import Document

    if ask is not None and ask.suffix not in SCRIPTS:
        raise InputError("ASK", str(ask), "a manifest: YAML or JSON")
    reading = reading_of_file(now, 0.0)
    pods = pods_of(ask) if ask is not None else []
    taken = snapshot_of(Reading(reading.at_s, reading.nodes, [*reading.pods, *_later(pods, reading.at_s)]))
    names = [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods]
    if twice := set(names) & {f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in reading.pods}:
        raise InputError(str(ask), f"{min(twice)}, which is there already", "pods of other names, or --job")
    mine = taken.table["id"].is_in(names)
    rows = [
        {name: value for name, value in row.items() if value is not None and name not in ("submit", "run", "waited_s")}
        for row in taken.table.filter(mine).to_dicts()
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{now.stem}.toml"
        row = {"id": _NOTHING, "submit": 0.0, "run": 1.0, "request": 1.0, "tasks": 1, "cores": 1, "memory": 0}
        nothing = pl.DataFrame([row])
        others = pl.concat([taken.table.filter(~mine), nothing], how="diagonal_relaxed")
        replace(taken, table=others).write(path)
        source = Source(Document.read(path), policy, _NOTHING)
        source.read()
    if ask is None and given:
        rows = [{"id": "asked", "tasks": 1, "cores": 1, **_needed(given)}]
    return source, [{**row, **given} for row in rows], list(taken.notes)


def _later(pods: Sequence[Any], at_s: float) -> list[Any]:
    """The pods as if they were made after all others."""
    from datetime import UTC, datetime

    import msgspec

    made = datetime.fromtimestamp(at_s + 1, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, creation_timestamp=made))
        for pod in pods
    ]
