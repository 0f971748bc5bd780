"""Metrics, and that nothing depends on the library that makes them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from unrack.live.watch.meters import Meters, Operation

prometheus = pytest.importorskip("prometheus_client", reason="needs the extra live")


def values(meters: Meters) -> dict[str, float]:
    """Name with its labels → value, of all numbers."""
    from prometheus_client.parser import text_string_to_metric_families

    return {
        sample.name + "".join(f" {key}={value}" for key, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(meters.text().decode())
        for sample in family.samples
    }


def use(meters: Meters) -> None:
    """Everything once."""
    meters.queue(waiting=3, running=2, foreign=1)
    counts = {"decided-start": 2, "decided-reject": 1, "start-failed": 1, "misread": 1, "policy-fault": 1, "came": 7}
    meters.turned(counts, [(5_000_000, 5_300_000, 5_400_000, 0)], 0.004)
    meters.turned({}, (), 0.0)
    meters.looked(0.02)
    meters.unreachable()
    meters.refused("Release")
    meters.refused("Place")
    meters.refused("Answer")
    meters.journal(1234)
    meters.fabric(Operation.ATTACH, 2.0)
    meters.fabric(Operation.DETACH, 2.0, failed=True)


def test_what_happened_is_counted_once() -> None:
    meters = Meters("easy", ["batch", "night"])
    use(meters)
    found = values(meters)
    assert {name: found[f"unrack_{name}"] for name in (
        "jobs state=waiting", "jobs state=running", "jobs state=foreign", "decisions_total kind=start",
        "decisions_total kind=reject", "decisions_total kind=stop", "round_seconds_count", "round_seconds_sum",
        "job_step_seconds_count step=submit_to_decided", "job_step_seconds_sum step=submit_to_decided",
        "job_step_seconds_sum step=decided_to_released", "job_step_seconds_sum step=submit_to_started",
        "polls_total changed=yes", "read_seconds_count", "slurm_unreachable_total", "slurm_reachable",
        "refused_orders_total order=Release", "refused_orders_total order=Place", "refused_orders_total order=other",
        "failed_starts_total", "rejected_asks_total", "policy_faults_total", "journal_bytes",
        "fabric_seconds_count operation=attach", "fabric_failures_total operation=attach",
        "fabric_failures_total operation=detach",
    )} == {
        "jobs state=waiting": 3, "jobs state=running": 2, "jobs state=foreign": 1, "decisions_total kind=start": 2,
        "decisions_total kind=reject": 1, "decisions_total kind=stop": 0, "round_seconds_count": 1,
        "round_seconds_sum": 0.004, "job_step_seconds_count step=submit_to_decided": 1,
        "job_step_seconds_sum step=submit_to_decided": 0.3, "job_step_seconds_sum step=decided_to_released": 0.1,
        "job_step_seconds_sum step=submit_to_started": 0, "polls_total changed=yes": 1, "read_seconds_count": 1,
        "slurm_unreachable_total": 1, "slurm_reachable": 0, "refused_orders_total order=Release": 1,
        "refused_orders_total order=Place": 1, "refused_orders_total order=other": 1, "failed_starts_total": 1,
        "rejected_asks_total": 1, "policy_faults_total": 1, "journal_bytes": 1234,
        "fabric_seconds_count operation=attach": 1, "fabric_failures_total operation=attach": 0,
        "fabric_failures_total operation=detach": 1,
    }  # fmt: skip
    assert any(name.startswith("unrack_build_info") and "policy=easy" in name for name in found)


def test_two_schedulers_in_one_process_count_for_themselves() -> None:
    first, second = Meters(), Meters()
    first.turned({"start-failed": 1}, (), 0.0)
    assert (values(first)["unrack_failed_starts_total"], values(second)["unrack_failed_starts_total"]) == (1, 0)


def test_labels_are_fixed_words_so_that_no_job_makes_new_ones() -> None:
    meters = Meters()
    names = set(values(meters))
    use(meters)
    added = {name for name in set(values(meters)) - names if not name.startswith(("process_", "unrack_polls"))}
    assert all(name.startswith("unrack_jobs") for name in added)
    names = set(values(meters))
    meters.turned({"decided-anything": 1, "anything": 1}, (), 1.0)
    assert set(values(meters)) == names


def test_without_the_library_nothing_is_counted_and_nothing_fails() -> None:
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from unrack.live.watch.meters import Meters\n"
        "meters = Meters('easy', ['batch'])\nassert not meters.counts\nassert meters.text() == b''\n"
        "meters.queue(1, 2, 3); meters.turned({'start-failed': 1}, (), 1.0); meters.looked(1.0); meters.journal(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_meters_that_are_not_wanted_count_nothing() -> None:
    meters = Meters(wanted=False)
    use(meters)
    assert (meters.counts, meters.text()) == (False, b"")
