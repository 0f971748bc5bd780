"""One round of a run: the run is simulated once more up to it, and the policy tells its last round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import InputError, PolicyError
from unrack.policy.contract import Policy
from unrack.policy.members import told_rounds
from unrack.policy.rounds import RoundStory
from unrack.sim.guard import PolicyAtWork
from unrack.sim.simulate import prepared
from unrack.sim.world import NOTHING_SPECIAL, World
from unrack.units import SECOND_US
from unrack.workload.job import JobTable


class _FoundError(Exception):
    """Ends a run when its round has been told."""


@dataclass
class RoundWatch:
    """Asks for the first round at or after a time, µs, and then ends the run."""

    core: Core
    from_us: int
    told: RoundStory | None = None

    def __call__(self, now: int) -> None:
        """Ask, unless it is too early."""
        if now < self.from_us:
            return
        found = told_rounds(self.core.policy, self.core.memory)
        assert found is not None
        telling, memory = found
        story = telling.round_story(self.core.view, memory)
        if story is not None and story.numbers.at_us == now:
            self.told = story
            raise _FoundError


def explain_round(
    cluster: Cluster,
    jobs: JobTable,
    policy: Policy[Any],
    from_us: int,
    seed: int = 0,
    world: World = NOTHING_SPECIAL,
) -> RoundStory:
    """The first round at or after ``from_us`` of the run with these inputs.

    A PolicyError if the policy has no rounds that it could tell, an InputError if there is no round at that time or
    after it; others as :func:`unrack.simulate`.
    """
    with PolicyAtWork(policy):
        kernel = prepared(cluster, jobs, policy, seed, world)
        core = kernel.core
        if told_rounds(core.policy, core.memory) is None:
            raise PolicyError("--round", f"a run of {policy.name}, which tells no rounds", "one of a policy that does")
        watch = RoundWatch(core, from_us)
        try:
            kernel.run(after_round=watch)
        except _FoundError:
            assert watch.told is not None
            return watch.told
    found = told_rounds(core.policy, core.memory)
    assert found is not None
    rounds = found[0].rounds(found[1])
    last = f"the last is at {rounds[-1, 0] / SECOND_US:,.0f} s" if len(rounds) else "this run had none"
    raise InputError("--round", f"{from_us / SECOND_US:,.0f} s, after all rounds", f"a time before one of them: {last}")
