"""Predictions for a running Slurm or a snapshot of one, with all that goes into them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from unrack.errors import PolicyError
from unrack.live.slurm.commands.client import CommandClient
from unrack.live.slurm.prediction.accounting import past_of_accounts
from unrack.live.slurm.prediction.learnt import Learnt, Past, past_of_reading, past_of_workload
from unrack.live.slurm.prediction.saved import Saved, load_saved, saved_of, seen_starts
from unrack.live.slurm.prediction.starts import DRAWS, Prediction, Start, predicted
from unrack.live.slurm.reading import Reading
from unrack.live.slurm.snapshot.scheduler import read_scheduler
from unrack.live.slurm.snapshot.snapshot import Snapshot, parts_of, snapshot_of
from unrack.slurm_text.scheduler import Scheduler
from unrack.study.grid import load_study
from unrack.study.input.inputs import PolicySpec
from unrack.units import SECOND_US
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
    slurm_start_s: float | None


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


def forecast_now(
    policies: Sequence[str],
    history: Path | None = None,
    saved: Path | None = None,
    *,
    partitions: Collection[str] | None = None,
    longest_us: int = 7 * 86_400 * SECOND_US,
    held_by_admin: bool = False,
    timeout_s: float = 30.0,
    environment: Mapping[str, str] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Forecast:
    """Predict the starts of the jobs that wait in a running Slurm, which is only read.

    Partitions that share no nodes are looked at one by one.

    Parameters
    ----------
    policies
        Further policies beside the present one.
    history
        A file of runs of the past; ``None``: what Slurm's accounts tell, or else what it remembers and what earlier
        predictions have seen.
    saved
        The file to which predictions are saved.
    partitions, longest_us, held_by_admin
        As of :func:`unrack.live.slurm.snapshot.snapshot.snapshot_of`.
    draws, seed
        As of :func:`unrack.live.slurm.prediction.starts.predicted`.

    Raises
    ------
    UnreachableError
        Slurm does not answer.
    InputError
        There is no such partition or policy, or a file cannot be read.
    """
    reading = CommandClient(timeout_s, environment).read()
    scheduler = read_scheduler(timeout_s, environment)
    if history is not None:
        learnt = learnt_from(history)
    else:
        earlier = load_saved(saved) if saved is not None and saved.is_file() else []
        learnt = learnt_now(reading, past_of_accounts(timeout_s, environment), earlier)
    return forecast_of(
        reading, scheduler, learnt, policies, partitions=partitions, longest_us=longest_us,
        held_by_admin=held_by_admin, draws=draws, seed=seed,
    )  # fmt: skip


def forecast_of(
    reading: Reading,
    scheduler: Scheduler,
    learnt: Learnt,
    policies: Sequence[str] = (),
    *,
    partitions: Collection[str] | None = None,
    longest_us: int = 7 * 86_400 * SECOND_US,
    held_by_admin: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
) -> Forecast:
    """The same of what was read."""
    groups: list[Collection[str] | None] = [partitions] if partitions else [*parts_of(reading)] or [None]
    parts = [
        snapshot_of(reading, scheduler, partitions=group, longest_us=longest_us, held_by_admin=held_by_admin)
        for group in groups
    ]
    made: list[list[Prediction]] = []
    for part in parts:
        if any(not row.runs and row.submit_s is not None for row in part.rows):
            specs: list[Spec] = [part.policy, *policies]
            workload, cluster = part.workload, part.cluster
            made.append([predicted(cluster, workload, spec, learnt, draws=draws, seed=seed) for spec in specs])
    predictions = tuple(_joined([one[place] for one in made]) for place in range(len(made[0]))) if made else ()
    _different([one.policy for one in predictions])
    aside = {row.key: Aside(row.key, row.waits_for) for part in parts for row in part.rows if row.submit_s is None}
    facts = {key: one for part in parts for key, one in _facts(part).items()}
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    unread = [f"{len(reading.unreadable)} answers of Slurm could not be understood."] if reading.unreadable else []
    words = f"Slurm, {len(reading.nodes)} nodes"
    return Forecast(
        reading.at_s, words, predictions, learnt, facts, tuple(aside.values()), (*unread, *notes),
        saved_of(reading.at_s, predictions, reading), seen_starts(reading),
    )  # fmt: skip


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
    facts, at_s = _facts_of(workload.jobs), 0.0
    words = f"{path}, {len(cluster)} nodes"
    return Forecast(at_s, words, predictions, learnt, facts, (), (), saved_of(at_s, predictions, None))


def learnt_from(path: Path) -> Learnt:
    """What a file of runs of the past tells: what ``sacct`` printed, any trace, or saved predictions.

    Raises
    ------
    InputError
        It cannot be read.
    """
    if path.suffix == ".jsonl":
        return Learnt.of(_without_repeats(load_saved(path)), str(path))
    return Learnt.of(past_of_workload(read_trace(path)), path.name)


def learnt_now(reading: Reading, accounts: Sequence[Past], earlier: Sequence[Saved] = ()) -> Learnt:
    """What Slurm's accounts tell; or else what it remembers, and what earlier predictions have seen."""
    if accounts:
        return Learnt.of(accounts, "sacct")
    remembered = past_of_reading(reading)
    if earlier:
        return Learnt.of([*_without_repeats(earlier), *remembered], "earlier predictions, and what squeue remembers")
    return Learnt.of(remembered, "what squeue remembers")


# --- inside -----------------------------------------------------------------------------------------------------------


def _without_repeats(saved: Sequence[Saved]) -> list[Past]:
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


def _joined(parts: Sequence[Prediction]) -> Prediction:
    """The predictions for parts of a system as one; of a job that may start in several, the earliest."""
    best: dict[str, Start] = {}
    for part in parts:
        for start in part.starts:
            known = best.get(start.job)
            if known is None or _sooner(start, known):
                best[start.job] = start
    return dataclasses.replace(parts[0], starts=tuple(best.values()))


def _sooner(one: Start, other: Start) -> bool:
    return one.requested_s is not None and (other.requested_s is None or one.requested_s < other.requested_s)


def _different(labels: Sequence[str]) -> None:
    for place, label in enumerate(labels):
        if label in labels[:place]:
            raise PolicyError("--policy", f"a second {label!r}", "policies that all differ")


def _facts(part: Snapshot) -> dict[str, Facts]:
    return {
        row.key: Facts(
            row.job.user, row.job.app, row.job.demand.tasks, row.job.demand.cores,
            max(0.0, part.at_s - row.slurm.submit_s) if row.slurm.submit_s else None,
            max(0.0, row.slurm.start_s - part.at_s) if row.slurm.start_s else None,
        )
        for row in part.rows
        if not row.runs
    }  # fmt: skip


def _facts_of(jobs: JobTable) -> dict[str, Facts]:
    extra, count = jobs.extra, len(jobs)
    waited = [None] * count
    if "waited_s" in extra.columns:
        waited = extra["waited_s"].cast(pl.Float64, strict=False).to_list()
    users, apps = (
        pl.Series([*names, ""], dtype=pl.String).gather([code if code >= 0 else len(names) for code in codes]).to_list()
        for codes, names in ((jobs.user.tolist(), jobs.user_names), (jobs.app.tolist(), jobs.app_names))
    )
    return {
        str(jobs.ids[i]): Facts(users[i], apps[i], int(jobs.tasks[i]), int(jobs.cores[i]), waited[i], None)
        for i in range(count)
    }
