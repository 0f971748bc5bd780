"""A past kept as a study: a live run, and simulated ones, in a folder that the report reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unrack.live.driver.history.columns import LIVE
from unrack.live.driver.history.past import Past
from unrack.live.driver.history.runs import live_result, run_of, spec_of, workload_of
from unrack.study.grid import Study
from unrack.study.input.inputs import Document, make_policy_spec
from unrack.study.results.keep import PAST, keep_run, keep_study
from unrack.study.runner import make_folder, simulated

QUESTION = "What really happened, and what would have happened to the same submissions?"


def keep_past(past: Past, directory: Path, policies: Sequence[str] = ()) -> Study:
    """Write a past as a study: as it was, simulated under the same policy, and under others.

    Raises
    ------
    InputError
        A policy is wrong, or the folder cannot be made.
    RunError
        A simulation failed, or the tables of the past contradict each other.
    """
    document = Document("--policy", None, {})
    specs = [spec_of(past), *(make_policy_spec(text, document, -1) for text in policies)]
    workload = workload_of(past, "journal")
    make_folder(directory)
    live = run_of(past, workload, specs[0], f"{LIVE}{specs[0].label}")
    runs = [live, *(run_of(past, workload, spec, f"simulated: {spec.label}") for spec in specs)]
    keep_run(directory, live, live_result(past, workload), {PAST: "real"})
    for run in runs[1:]:
        keep_run(directory, run, simulated(run), {PAST: "simulated"})
    resolved = {"name": "live", "question": QUESTION, "clusters": [past.beginning.keys],
                "policies": [run.policy.label for run in runs]}  # fmt: skip
    study = Study("live", QUESTION, tuple(runs), resolved)
    keep_study(directory, study)
    return study
