"""Predictions for a running Slurm, with all that goes into them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from unrack.live.prediction.forecast import (
    Aside,
    Facts,
    Forecast,
    Spec,
    different,
    joined,
    learnt_from,
    without_repeats,
)
from unrack.live.prediction.learnt import Learnt, Past
from unrack.live.prediction.saved import Saved, load_saved, saved_of
from unrack.live.prediction.starts import DRAWS, Prediction, predicted
from unrack.live.slurm.commands.client import CommandClient
from unrack.live.slurm.prediction.accounting import past_of_accounts
from unrack.live.slurm.prediction.seen import past_of_reading, seen_starts
from unrack.live.slurm.reading import Reading
from unrack.live.slurm.snapshot.scheduler import read_scheduler
from unrack.live.slurm.snapshot.snapshot import Snapshot, parts_of, snapshot_of
from unrack.slurm_text.scheduler import Scheduler
from unrack.units import SECOND_US


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
        As of :func:`unrack.live.prediction.starts.predicted`.

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
    groups: list[Collection[str] | None] = [partitions] if partitions else _apart(reading)
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
    predictions = tuple(joined([one[place] for one in made]) for place in range(len(made[0]))) if made else ()
    different([one.policy for one in predictions])
    aside = {row.key: Aside(row.key, row.waits_for) for part in parts for row in part.rows if row.submit_s is None}
    facts = {key: one for part in parts for key, one in _facts(part).items()}
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    unread = [f"{len(reading.unreadable)} answers of Slurm could not be understood."] if reading.unreadable else []
    words = f"Slurm, {len(reading.nodes)} nodes"
    started = seen_starts(reading)
    return Forecast(
        reading.at_s, words, predictions, learnt, facts, tuple(aside.values()), (*unread, *notes),
        saved_of(reading.at_s, predictions, started, past_of_reading(reading)), started,
    )  # fmt: skip


def _apart(reading: Reading) -> list[Collection[str] | None]:
    """The partitions to look at one by one; all as one where they share licences or limits, or one has no node left."""
    busy = {name for job in reading.jobs if job.runs for name in job.holds}
    left = {part for node in reading.nodes if node.usable or node.name in busy for part in node.partitions}
    share = reading.accounting is not None or any(job.waits and job.licences for job in reading.jobs)
    groups = [] if share else parts_of(reading)
    return [*groups] if groups and all(not left.isdisjoint(group) for group in groups) else [None]


def learnt_now(reading: Reading, accounts: Sequence[Past], earlier: Sequence[Saved] = ()) -> Learnt:
    """What Slurm's accounts tell; or else what it remembers, and what earlier predictions have seen."""
    if accounts:
        return Learnt.of(accounts, "sacct")
    remembered = past_of_reading(reading)
    if earlier:
        return Learnt.of([*without_repeats(earlier), *remembered], "earlier predictions, and what squeue remembers")
    return Learnt.of(remembered, "what squeue remembers")


def _facts(part: Snapshot) -> dict[str, Facts]:
    return {
        row.key: Facts(
            row.job.user, row.job.app, row.job.demand.tasks, row.job.demand.cores,
            max(0.0, part.at_s - row.slurm.submit_s) if row.slurm.submit_s else None,
        )
        for row in part.rows
        if not row.runs
    }  # fmt: skip
