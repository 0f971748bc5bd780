"""All laws for every discipline in the order ``multifactor``, on sites with accounts."""

from __future__ import annotations

from typing import Any

import pytest
from law_worlds import World
from test_laws import LAWS
from tests.sites.priority_twins import random_priorities

from unrack.workload.site.settled import settled

EVERY = (
    "list(order=multifactor)", "list(order=multifactor, backfill=any, depth=2)", "easy(order=multifactor)",
    "easy(backfill_order=multifactor)", "conservative(order=multifactor)", "slurm(order=multifactor)",
    "slurm(order=multifactor, main=interval, interval=20 s)",
    "slurm(order=multifactor, reserve=nodes, place=tightest-run)", "flow(order=multifactor, cost=network)",
    "first-fit(order=multifactor)",
)  # fmt: skip


@pytest.mark.parametrize("seeds", [[0], pytest.param([1, 2], marks=pytest.mark.slow)])
@pytest.mark.parametrize("policy", EVERY)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__.removeprefix("check_"))
def test_every_discipline_in_this_order_keeps_every_law(law: Any, policy: str, seeds: list[int]) -> None:
    for seed in seeds:
        site = random_priorities(seed, 40)
        law(lambda: policy, World(*settled(site.cluster, site.workload.jobs)))
