"""More time for jobs at their limits: lists and EASY against schedulers in plain Python, and laws of all disciplines."""

from __future__ import annotations

import pytest
from extending import RULES, Extended, overrunning_site

import unrack
from unrack.cluster.spec import Cluster


def with_grace(cluster: Cluster, site: dict[str, object], nodes: list[int]) -> Cluster:
    """Equal nodes whose site says more."""
    return Cluster.from_dict({"nodes": [{"count": len(nodes), "cores": nodes[0]}], "site": site})


@pytest.mark.parametrize("policy", RULES)
@pytest.mark.parametrize("seed", range(60))
def test_a_twin_gives_as_much_more_time(seed: int, policy: str) -> None:
    site, grace, step = overrunning_site(seed), [0, 0, 7][seed % 3], [5, 13, 30][seed % 4 % 3]
    most = step * [1, 2, 5][seed % 5 % 3]
    cluster = with_grace(site.cluster, {"over_time": grace} if grace else {}, site.nodes)
    written = f"{policy.removesuffix(')')}{', ' if '(' in policy else '('}extension={step} s, extension_most={most} s)"
    jobs = unrack.simulate(cluster, site.workload, written).jobs
    columns = jobs.select("job", "start_s", "end_s", "cut", "extended_s").iter_rows()
    found = {int(job) - 1: (round(start), round(end), cut, round(more)) for job, start, end, cut, more in columns}
    assert found == Extended(site, policy, step, most, grace).simulate()
