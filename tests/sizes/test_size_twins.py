"""Against a plain program: the same sizes at the same times, and the same ends."""

from __future__ import annotations

import pytest
from size_twin import World
from size_worlds import S, run, spans, world

POLICIES = {
    "fcfs(molding=earliest-end)": (False, True, False),
    "easy(molding=earliest-end)": (True, True, False),
    "fcfs(resizing=fpsma)": (False, False, True),
    "easy(resizing=fpsma)": (True, False, True),
    "easy(molding=earliest-end, resizing=fpsma)": (True, True, True),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(20))
def test_the_sizes_and_times_are_those_of_a_plain_program(policy: str, seed: int) -> None:
    cores, jobs = world(seed, "malleable" if "resizing" in policy else "moldable")
    twin = World(cores, jobs, *POLICIES[policy]).play()
    result = run(cores, jobs, policy)
    assert spans(result) == {number: merged(one.spans) for number, one in twin.items()}
    assert [round(end * S) for end in result.jobs["end_s"].to_list()] == [twin[n].end for n in range(len(jobs))]


@pytest.mark.parametrize("policy", ["fcfs(resizing=fpsma)", "easy(resizing=fpsma)"])
@pytest.mark.parametrize("seed", range(20))
def test_evolving_jobs_have_what_they_ask_for_when_a_plain_program_gives_it(policy: str, seed: int) -> None:
    cores, jobs = world(seed, "evolving")
    twin = World(cores, jobs, *POLICIES[policy]).play()
    result = run(cores, jobs, policy)
    assert spans(result) == {number: merged(one.spans) for number, one in twin.items()}
    assert [round(end * S) for end in result.jobs["end_s"].to_list()] == [twin[n].end for n in range(len(jobs))]


def merged(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Without spans that took no time."""
    return [one for one, after in zip(found, [*found[1:], (-1, 0)], strict=True) if one[0] != after[0]]
