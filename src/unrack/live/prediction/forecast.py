"""Predictions for a system at one moment, with all that goes into them: from what a snapshot wrote, or of any other."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from unrack.errors import PolicyError
from unrack.live.prediction.learnt import Learnt, Past, past_of_jobs
from unrack.live.prediction.saved import Saved, load_saved, saved_of
from unrack.live.prediction.starts import DRAWS, Prediction, Start, predicted
from unrack.study.grid import load_study
from unrack.study.input.inputs import PolicySpec
from unrack.workload.formats.readers import read_trace
from unrack.workload.job import JobTable

Spec = str | Mapping[str, Any]


class Aside(NamedTuple):
    """A job that waits for something else than its turn, and for what."""

    job: str
    waits_for: str


class Facts(NamedTuple):
    """What people recognise a job by."""

    user: str
    name: str
    tasks: int
    cores: int
    waited_s: float | None


@dataclass(frozen=True)
class Forecast:
    """Predictions, and what they are made from."""

    at_s: float  # the moment that is ``now`` in them, s since 1970
    source: str  # where the jobs are from, in words
    predictions: tuple[Prediction, ...]  # one a policy, the present one first
    learnt: Learnt  # what runs of the past told
    facts: Mapping[str, Facts]  # job → what people recognise it by
    aside: tuple[Aside, ...]  # jobs that wait for something else, of which nothing is predicted
    notes: tuple[str, ...]  # what was left out or changed, a sentence each
    saved: Saved  # what is to be written of all that
    # job → when it started, s since 1970, as far as it can be seen
    started: Mapping[str, float] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """What programs read of it."""
        return {
            "at_s": self.at_s,
            "source": self.source,
            "learnt_from": {"runs": self.learnt.runs, "source": self.learnt.source},
            "notes": list(self.notes),
            "waits_for_more": [waiting._asdict() for waiting in self.aside],
            "predictions": [
                {"policy": prediction.policy, "starts": [start._asdict() for start in prediction.starts]}
                for prediction in self.predictions
            ],
        }


def forecast_from(
    path: Path, policies: Sequence[str], history: Path | None = None, *, draws: int = DRAWS, seed: int = 0
) -> Forecast:
    """Predict from a study that begins with running jobs, such as ``unrack slurm snapshot`` writes.

    Its first cluster, workload and seed count, and all of its policies.

    Raises
    ------
    InputError
        A file cannot be read, or there is no such policy.
    """
    study = load_study(str(path), policies=policies)
    first = study.runs[0]
    runs = [run for run in study.runs if run.place[:2] == first.place[:2] and run.seed == first.seed]
    learnt = Learnt() if history is None else learnt_from(history)
    workload, cluster = first.workload, first.cluster
    predictions = tuple(
        predicted(cluster, workload, _spec(run.policy), learnt, draws=draws, seed=seed, label=run.policy.label)
        for run in {run.policy.label: run for run in runs}.values()
    )
    facts, at_s = facts_of(workload.jobs), 0.0
    words = f"{path}, {len(cluster)} nodes"
    return Forecast(at_s, words, predictions, learnt, facts, (), (), saved_of(at_s, predictions, {}))


def learnt_from(path: Path) -> Learnt:
    """What a file of runs of the past tells: what ``sacct`` printed, any trace, or saved predictions.

    Raises
    ------
    InputError
        It cannot be read.
    """
    if path.suffix == ".jsonl":
        return Learnt.of(without_repeats(load_saved(path)), str(path))
    return Learnt.of(past_of_jobs(read_trace(path).jobs), path.name)


def without_repeats(saved: Sequence[Saved]) -> list[Past]:
    """The runs of saved lines, each once: Slurm remembers a job for a while, so that several lines tell of it."""
    found: dict[tuple[str, float, float, int], Past] = {}
    for one in saved:
        count: dict[Past, int] = {}
        for run in one.past:
            count[run] = count.get(run, 0) + 1
            found[*run, count[run]] = run
    return list(found.values())


def _spec(policy: PolicySpec) -> Spec:
    return policy.file or {"name": policy.name, **dict(policy.parameters), "label": policy.label}


def joined(parts: Sequence[Prediction]) -> Prediction:
    """The predictions for parts of a system as one; of a job that may start in several, the earliest."""
    best: dict[str, Start] = {}
    for part in parts:
        for start in part.starts:
            known = best.get(start.job, start)
            best[start.job] = min(known, start, key=lambda one: (one.requested_s is None, one.requested_s))
    return dataclasses.replace(parts[0], starts=tuple(best.values()))


def different(labels: Sequence[str]) -> None:
    """Refuse two policies that are called the same."""
    for place, label in enumerate(labels):
        if label in labels[:place]:
            raise PolicyError("--policy", f"a second {label!r}", "policies that all differ")


def facts_of(jobs: JobTable) -> dict[str, Facts]:
    """Job → what people recognise it by."""
    extra, count = jobs.extra, len(jobs)
    waited = [None] * count
    if "waited_s" in extra.columns:
        waited = extra["waited_s"].cast(pl.Float64, strict=False).to_list()
    users, apps = (
        pl.Series([*names, ""], dtype=pl.String).gather([code if code >= 0 else len(names) for code in codes]).to_list()
        for codes, names in ((jobs.user.tolist(), jobs.user_names), (jobs.app.tolist(), jobs.app_names))
    )
    return {
        str(jobs.ids[i]): Facts(users[i], apps[i], int(jobs.tasks[i]), int(jobs.cores[i]), waited[i])
        for i in range(count)
    }
