"""Predictions for a running Kubernetes: when its waiting pods start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unrack.kubernetes_text import moment_s
from unrack.live.kubernetes.snapshot import PRESENT, Reading, snapshot_of
from unrack.live.prediction.forecast import Aside, Forecast, Spec, different, facts_of, learnt_from
from unrack.live.prediction.learnt import Learnt
from unrack.live.prediction.saved import saved_of
from unrack.live.prediction.starts import DRAWS, predicted
from unrack.units import SECOND_US


def forecast_of(
    reading: Reading,
    policies: Sequence[str] = (),
    history: Path | None = None,
    *,
    schedulers: Sequence[str] | None = None,
    longest_us: int = 7 * 86_400 * SECOND_US,
    draws: int = DRAWS,
    seed: int = 0,
) -> Forecast:
    """Predict the starts of the pods that wait, under the present policy and others.

    Parameters
    ----------
    reading
        What the server says.
    policies
        Further policies beside the present one.
    history
        A file of runs of the past; ``None``: every pod runs for as long as it says.
    schedulers, longest_us
        As of :func:`unrack.live.kubernetes.snapshot.snapshot_of`.
    draws, seed
        As of :func:`unrack.live.prediction.starts.predicted`.

    Raises
    ------
    InputError
        There is no such policy, or a pod or a file cannot be understood.
    """
    taken = snapshot_of(reading, schedulers=schedulers, longest_us=longest_us)
    learnt = Learnt() if history is None else learnt_from(history)
    there = taken.table["submit"].is_not_null()
    specs: list[Spec] = [PRESENT, *policies] if (there & taken.table["on"].is_null()).any() else []
    workload = taken.workload if specs else None
    predictions = tuple(
        predicted(taken.cluster, workload, spec, learnt, draws=draws, seed=seed) for spec in specs if workload
    )
    different([one.policy for one in predictions])
    aside = taken.table.filter(~there).select("id", "waits_for").rows()
    started = seen_starts(reading)
    return Forecast(
        reading.at_s, f"Kubernetes, {len(taken.cluster)} nodes", predictions, learnt,
        {} if workload is None else facts_of(workload.jobs), tuple(Aside(*row) for row in aside), taken.notes,
        saved_of(reading.at_s, predictions, started), started,
    )  # fmt: skip


def seen_starts(reading: Reading) -> dict[str, float]:
    """Pod → when its kubelet took it up, s since 1970, of all of which the server tells."""
    found = {}
    for pod in reading.pods:
        try:
            at_s = moment_s(pod.status.start_time)
        except ValueError:
            continue
        if at_s is not None and at_s <= reading.at_s:
            found[f"{pod.metadata.namespace}/{pod.metadata.name}"] = at_s
    return found
