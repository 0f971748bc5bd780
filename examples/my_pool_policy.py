"""A policy of one's own for pools of devices.

unrack run examples/my_pool_policy.toml
"""

from __future__ import annotations

from unrack.policy import Candidate, Placed, SeenJob, View


def shortest_wait_for_all(view: View, job: SeenJob, now: int) -> Candidate | None:
    """Of all drives and compositions that the job could have, take those where the jobs on them end earliest."""

    def mean_end(candidate: Candidate) -> tuple[float, int]:
        ends = view.expected_ends_us(candidate)
        return sum(ends.values()) / len(ends), candidate.node

    return min(view.candidates(job), key=mean_end, default=None)


SHORTEST_WAIT = Placed(shortest_wait_for_all, order="edf", label="shortest wait for all")
