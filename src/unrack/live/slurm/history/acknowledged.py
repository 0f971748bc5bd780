"""A simulated world in which starts are acknowledged as late as they really were."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.events import Started
from unrack.ledger.lease import Lease
from unrack.live.slurm.history.past import Past
from unrack.live.slurm.history.runs import spec_of, workload_of
from unrack.sim.event_order import ACKNOWLEDGE
from unrack.sim.guard import PolicyAtWork
from unrack.sim.kernel import Entry, Kernel
from unrack.sim.log import RunLog
from unrack.sim.simulate import prepared
from unrack.slowdown.model import make_models


class LateWorld(Kernel):
    """The simulated world, where each job is seen to run a while after its start was decided.

    The core expects the end of a job anew when it is seen to run, as it does in the live world.
    """

    latency_us: NDArray[np.int64] = np.zeros(0, np.int64)

    def begin(self, lease: Lease, now: int) -> None:
        """A job starts, which will be acknowledged."""
        super().begin(lease, now)
        self.push(now + int(self.latency_us[lease.job]), ACKNOWLEDGE, lease.job, self.version[lease.job])

    def happen(self, entry: Entry, now: int) -> bool:
        """Let an event happen."""
        if entry[1] != ACKNOWLEDGE:
            return super().happen(entry, now)
        _, _, _, job, version = entry
        if self.version[job] != version:
            return False
        self.core.handle(Started(job), now)
        return True


def acknowledged(past: Past) -> RunLog:
    """The submissions of a past simulated under its policy, with the run times and the latencies that were.

    Raises
    ------
    UnrackError
        The simulation fails.
    """
    jobs = workload_of(past, "journal").jobs
    entries = {entry.key: entry for entry in past.jobs}
    policy = spec_of(past).make()
    with PolicyAtWork(policy):
        models = make_models(past.beginning.models)
        world = prepared(past.names.cluster, jobs, policy, past.beginning.seed, "together", (), models, make=LateWorld)
        assert isinstance(world, LateWorld)
        late = [max(0, entries[key].started_us - entries[key].decided_us) for key in jobs.ids.to_list()]
        world.latency_us = np.array(late, np.int64)
        return world.run()
