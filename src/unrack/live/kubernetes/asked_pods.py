"""Pods that are asked about, and the pods that are there, as a study and as columns of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from unrack.errors import InputError
from unrack.live.kubernetes.client.objects import Pod
from unrack.live.kubernetes.manifest import pods_of, reading_of_file
from unrack.live.kubernetes.snapshot import snapshot_of

NOTHING = "-nothing-"
"""A job of the study that is not to be in it, as a study without any is none."""
_OF_A_STUDY = ("submit", "run", "waited_s")


def asked_pods(now: Path, manifest: Path | None, study: Path) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Write a study of the objects of a file, without the pods of a manifest; returns these, and what is not kept.

    Both are read in one go, so that the amounts of both are counted alike.

    Raises
    ------
    InputError
        A file cannot be read, or a pod is there already.
    """
    reading, pods = reading_of_file(now, 0.0), [] if manifest is None else pods_of(manifest)
    names = [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods]
    if twice := {f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in reading.pods}.intersection(names):
        raise InputError(str(manifest), f"{min(twice)}, which is there already", "pods of other names, or --job")
    taken = snapshot_of(replace(reading, pods=[*reading.pods, *_later(pods, reading.at_s)]))
    mine = taken.table["id"].is_in(names)
    row = {"id": NOTHING, "submit": 0.0, "run": 1.0, "request": 1.0, "tasks": 1, "cores": 1, "memory": 0}
    others = pl.concat([taken.table.filter(~mine), pl.DataFrame([row])], how="diagonal_relaxed")
    replace(taken, table=others).write(study)
    rows = taken.table.filter(mine).to_dicts()
    kept = [{key: value for key, value in row.items() if value is not None and key not in _OF_A_STUDY} for row in rows]
    return kept, taken.notes


def _later(pods: Sequence[Pod], at_s: float) -> list[Pod]:
    """The pods as if they were made after all others."""
    made = datetime.fromtimestamp(at_s + 1, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, creation_timestamp=made))
        for pod in pods
    ]
