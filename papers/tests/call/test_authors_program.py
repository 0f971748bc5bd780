"""The policies in their authors' reading start every job when the plain twin of the authors' program does."""

from __future__ import annotations

import numpy as np
import pytest
from authors_program import ATTACHED, POOL, Job, Program, drawn, listed

from unrack.errors import InputError
from unrack.sim.simulate import simulate
from unrack.sim.world import Ties, World
from unrack.slowdown.model import make_models
from unrack.workload.job import Workload
from unrack_papers.simulation import cluster_of

MODEL = {"model": "smufin", "frozen": True, "whole_seconds": True}
RULES = {"aware": "disaggregation-aware", "max": "max-composition", "min": "min-fragmentation"}
LAYOUTS = {"nvme-pool": POOL, "nvme-attached-4-6": ATTACHED}


def starts_s(workload: Workload, cluster: str, policy: str) -> list[float]:
    log = simulate(cluster_of(cluster), workload, policy, world=World(models=[MODEL], ties=Ties.TOGETHER)).log
    starts = np.full(len(workload.jobs), -1.0)
    starts[log.attempt_job] = log.attempt_start_us / 10**6
    return starts.tolist()


@pytest.mark.parametrize("cluster", LAYOUTS)
@pytest.mark.parametrize("scenario", ["nvme-s1", "nvme-s2", "nvme-s3"])
@pytest.mark.parametrize(
    ("load", "arrivals", "seed"), [(0.5, "fixed", 1), (0.6, "poisson", 2), (0.7, "fixed", 3), (0.8, "poisson", 4),
                                   (0.9, "fixed", 5), (1.4, "fixed", 6)]
)  # fmt: skip
def test_every_job_starts_when_the_plain_twin_starts_it(
    scenario: str, load: float, arrivals: str, seed: int, cluster: str
) -> None:
    workload = drawn(scenario, load, arrivals, 150, seed)
    ours = starts_s(workload, cluster, "disaggregation-aware(reading=authors)")
    assert ours == Program(listed(workload), LAYOUTS[cluster], "aware").run()


@pytest.mark.parametrize("rule", ["max", "min"])
@pytest.mark.parametrize("cluster", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_so_does_either_rule_by_itself(rule: str, cluster: str, seed: int) -> None:
    workload = drawn("nvme-s1", 0.8, "poisson", 150, seed)
    ours = starts_s(workload, cluster, f"{RULES[rule]}(reading=authors)")
    assert ours == Program(listed(workload), LAYOUTS[cluster], rule).run()


def test_the_lists_tell_the_two_readings_apart() -> None:
    """Else the tests above would test nothing."""
    workload = drawn("nvme-s1", 0.9, "fixed", 150, 5)
    text, authors = (starts_s(workload, "nvme-pool", f"disaggregation-aware(reading={one})")
                     for one in ("text", "authors"))  # fmt: skip
    assert text != authors


def test_whole_seconds_are_refused_where_they_cannot_be() -> None:
    for wrong in ({"model": "fio", "whole_seconds": True}, {"model": "x", "times_s": [[0.5]], "whole_seconds": True}):
        with pytest.raises(InputError, match="whole_seconds"):
            make_models([wrong])


def test_in_the_twin_a_job_waits_for_two_drives_until_its_deadline_is_past_and_then_takes_one() -> None:
    """Four fills of single drives leave one; nothing may be joined, and two are wanted."""
    fills = [Job(0, 10**6, 10**5, 1, 160, 600, "capacity") for _ in range(3)]
    waits = Job(10, 3000, 1600, 6, 1800, 43, "smufin")
    assert Program([*fills, waits], ((4, (0,)),), "max").run() == [0, 0, 0, 3001]
