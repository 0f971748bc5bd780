"""Preemption: the engine against a scheduler in plain Python, and laws of it under every discipline."""

from __future__ import annotations

import pytest
from tests.sites.preempting import Preempting, preempting_site

import unrack


@pytest.mark.parametrize("seed", range(60))
def test_first_come_first_served_with_preemption_of_the_youngest(seed: int) -> None:
    site = preempting_site(seed)
    twin = Preempting(site)
    twin.run(None)
    found = unrack.simulate(site.cluster, site.workload, "fcfs").placements
    rows = {
        (int(job) - 1, round(start), round(end), outcome)
        for job, start, end, outcome in found.select("job", "start_s", "end_s", "outcome").iter_rows()
    }
    assert rows == set(twin.attempts)
