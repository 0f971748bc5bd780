"""Energy: against a meter in plain Python, second by second; what switching off costs in time; metrics and columns."""

from __future__ import annotations

import numpy as np
import pytest
from energy_twin import Meter
from power_worlds import POLICIES, S, random_power

from unrack.sim.result import Result

CASES = [(POLICIES[seed % len(POLICIES)], seed) for seed in range(80)]


def per_second(result: Result, column: str, until: int) -> list[float]:
    """The table of power at each second; it changes at whole ones."""
    steps = result.table("power")
    times = steps["time_s"].to_numpy()
    assert (times == np.round(times)).all()
    at = np.searchsorted(times, np.arange(until), side="right") - 1
    return [float(value) for value in steps[column].to_numpy()[at]]


@pytest.mark.parametrize(("policy", "seed"), CASES)
def test_a_meter_in_plain_python_reads_the_same_in_every_second(policy: str, seed: int) -> None:
    world = random_power(seed)
    result = world.run(policy)
    until = result.log.end_us // S
    meter = Meter(world, result)
    watts, alone, off, ready = meter.measure(until)
    assert per_second(result, "watts", until) == pytest.approx([float(value) for value in watts], abs=1e-9)
    assert per_second(result, "watts_without_jobs", until) == pytest.approx([float(value) for value in alone], abs=1e-9)
    assert per_second(result, "nodes_off", until) == off
    if result.jobs["end_s"].max() == until:
        assert result.metrics["energy_kwh"] == pytest.approx(float(sum(watts)) / 3.6e6, rel=1e-12)
        assert result.metrics["power_peak_kw"] == pytest.approx(max(per_second(result, "watts", until + 1)) / 1000)
    work = {row["job"]: row["work_s"] for row in result.jobs.iter_rows(named=True)}
    finished = set(result.placements.filter(outcome="finished").select("job", "attempt").rows())
    for key, (start, end) in meter.spans.items():
        if any(hash(own) == key for own in finished):
            assert end - ready.get(key, end) == work[meter.job[key]], (start, end)
