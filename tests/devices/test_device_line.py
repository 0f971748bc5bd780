"""Devices at times to come, with more jobs on one of them than there was room for."""

from __future__ import annotations

from device_worlds import D, cluster, pool, table

from unrack.ledger.devices.columns import JOBS
from unrack.ledger.lease import Share
from unrack.ledger.state import ClusterState
from unrack.slowdown.model import pace_of
from unrack.view import DeviceLine

SHARERS = 20
"""More than the columns have room for at first."""


def test_what_was_asked_of_starts_is_forgotten_also_where_there_was_too_little_room() -> None:
    installed = cluster([SHARERS], pool("nvme", 1, 2000, 600, share=SHARERS))
    jobs = table([D(0, 9, 1, nvme=(1, 1)) for _ in range(SHARERS)])
    wants = installed.devices.wanted(jobs.devices, len(jobs))
    state = ClusterState(installed, jobs.asks, wants, pace_of((), installed.devices, jobs))
    assert state.devices is not None
    line = DeviceLine(state.devices)
    line.begin(0, state.running[:, :0], lambda _: (), trust=False)
    line.begin_starts()
    for job in range(SHARERS):
        assert line.starts(int(line.numbers_of([(job, 0, 9, (Share(0, (0,), (1, 1)),))])[0]))
    line.begin(0, state.running[:, :0], lambda _: (), trust=False)
    line.least(0, 9)
    assert line.shown.columns.group[JOBS].tolist() == [0]
    line.add(*((job, 0, 9, (Share(0, (0,), (1, 1)),)) for job in range(SHARERS)))
    line.least(5, 9)
    assert line.shown.columns.group[JOBS].tolist() == [SHARERS]
