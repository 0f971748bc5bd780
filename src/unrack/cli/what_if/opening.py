"""From the files that a question names to a study, and to the jobs that it asks about."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unrack.errors import InputError

if TYPE_CHECKING:
    from unrack.plan.what_if.scene import Source

MANIFESTS = (".yaml", ".yml", ".json")
"""Endings of manifests; other files are job scripts."""


def opened(
    now: Path, ask: Path | None, policy: str | None, given: Mapping[str, Any]
) -> tuple[Source, list[dict[str, Any]], Sequence[str]]:
    """The study, the jobs that are submitted to it, and what of them is not kept.

    ``given``: what options say that the jobs ask for; it counts before what a script says.
    """
    from unrack.plan.what_if.scene import Source
    from unrack.study.input.document import Document

    objects = now.suffix == ".json"
    if ask is not None and objects != (ask.suffix in MANIFESTS):
        want = "a manifest: YAML or JSON" if objects else "NOW.json before it: what 'kubernetes snapshot' wrote"
        raise InputError("ASK", f"{ask} beside {now}", want)
    submit: list[dict[str, Any]] = []
    notes: Sequence[str] = ()
    if objects:
        source, submit, notes = _of_objects(now, ask, policy)
    else:
        source = Source(Document.read(now), policy)
    if ask is not None and not objects:
        submit, notes = _of_script(ask, source)
    if ask is None and given:
        if "request" not in given:
            raise InputError("--time", "nothing", "how long the job asks to run, such as --time '4 h'")
        submit = [{"id": "asked", "tasks": 1, "cores": 1}]
    return source, [{**one, **given} for one in submit], notes


def _of_script(path: Path, source: Source) -> tuple[list[dict[str, Any]], Sequence[str]]:
    from unrack.live.slurm.job_script import asked_by_script
    from unrack.plan.what_if.asked import columns_of
    from unrack.workload.store import one_row

    memory = bool(source.scene().jobs.memory_mb.any())
    job, notes = asked_by_script(path, lambda spare: source.scene((), spare).cluster, memory)
    return [columns_of(one_row(job, None), 0)], notes


def _of_objects(now: Path, ask: Path | None, policy: str | None) -> tuple[Source, list[dict[str, Any]], Sequence[str]]:
    from unrack.extras import needed_for

    with needed_for("objects of Kubernetes"):
        from unrack.live.kubernetes.asked_pods import NOTHING, asked_pods
    from unrack.plan.what_if.scene import Source
    from unrack.study.input.document import Document

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{now.stem}.toml"
        submit, notes = asked_pods(now, ask, path)
        source = Source(Document.read(path), policy, NOTHING)
        source.scene()  # reads all files, which are gone then
    return source, submit, notes
