"""The papers' equations and algorithms, and speeds, latencies and overheads, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_worlds import D, S, World, cluster, play, pool, table
from ledger import audit
from small_worlds import nodes_held

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.events import Submitted
from unrack.ledger.lease import Lease, Share
from unrack.ledger.state import ClusterState
from unrack.policy.pools.compositions import alpha, spare
from unrack.policy.pools.place_kernel import MAX_COMPOSITION, MIN_FRAGMENTATION
from unrack.policy.table import parse_policy
from unrack.sim.faults import Fault
from unrack.slowdown.model import pace_of
from unrack.workload.generate.generator import generate

GB = 1024
SMUFIN = {"app": "smufin", "cores": 6, "nvme": (1800, 43 * GB)}
YOLO = {"app": "yolo", "cores": 2, "gpu": (1000, 2 * GB)}
NVME = pool("nvme", 1, 2000, 600 * GB)
T4 = pool("gpu", 1, 4000, 16 * GB, attach="multi", split=4)


def nvme(count: int, **keys: Any) -> dict[str, Any]:
    return {**NVME, "count": count, **keys}


def run(
    where: Cluster, policy: str, *jobs: D, models: Any = ()
) -> list[tuple[float, float, int, tuple[int, ...], int]]:
    """Per job: start and end (s), node, devices of its first share, parts. Models must be tables for the audit."""
    world = World(where, jobs, tuple(models))
    log = play(world, policy).log
    if not any(isinstance(model, str) for model in models):
        audit(log, world)
    found = {}
    for attempt, job in enumerate(log.attempt_job.tolist()):
        shares = [share for share, at in zip(log.shares, log.share_attempt, strict=True) if at == attempt]
        first = shares[0] if shares else Share(-1, (), ())
        times = log.attempt_start_us[attempt] / S, log.attempt_end_us[attempt] / S
        found[int(log.jobs.ids[job])] = (*times, next(iter(nodes_held(log, attempt))), first.devices, first.parts)
    return [found[job] for job in sorted(found)]


def starts(*args: Any, **keys: Any) -> list[float]:
    return [row[0] for row in run(*args, **keys)]


def ends(*args: Any, **keys: Any) -> list[float]:
    return [row[1] for row in run(*args, **keys)]


def nodes(*args: Any, **keys: Any) -> list[int]:
    return [row[2] for row in run(*args, **keys)]


# --- equations --------------------------------------------------------------------------------------------------------


@pytest.fixture
def half_used() -> ClusterState:
    """One NVMe of 2000 MB/s and 600 GB on which a job holds 900 MB/s and 300 GB; the next job asks 500 and 100."""
    where = cluster([10], NVME)
    jobs = table([D(0, 9, 6, nvme=(900, 300 * GB)), D(0, 9, 4, nvme=(500, 100 * GB))])
    state = ClusterState(
        where, jobs.asks, where.devices.wanted(jobs.devices, len(jobs)), pace_of((), where.devices, jobs)
    )
    state.submit(0)
    state.start(Lease.on(0, [0], [1], [6], [0])._replace(shares=(Share(0, (0,), (900, 300 * GB)),)), 9, 0)
    return state


def test_fitness_is_bandwidth_left_plus_capacity_left(half_used: ClusterState) -> None:
    # eq. 4.1: (1100 - 500) + (300 - 100)
    assert spare.py_func(half_used.devices.columns, 1, 0, 0) == 800  # type: ignore[union-attr, attr-defined]


def test_alpha_is_what_is_left_of_a_composition_over_what_is_used_of_the_cores(half_used: ClusterState) -> None:
    # eq. 4.2: (1 - (500/1100 + 100/300)) / (4/10) = (1 - 26/33) / 0.4 = 35/66
    found = alpha.py_func(half_used.devices.columns, 1, 0, 0, 4, 10)  # type: ignore[union-attr, attr-defined]
    assert found == pytest.approx(35 / 66)


def test_min_fragmentation_takes_the_composition_with_the_least_alpha() -> None:
    # free 1100 and 300 on node 0, 200 and 500 on node 1: 100/1100 + 100/300 = 0.424, 100/200 + 100/500 = 0.7;
    # alpha = 0.576 / (2/4) = 1.15 and 0.3 / (2/4) = 0.6
    where = cluster([10, 10], nvme(2, share=2))
    jobs = [D(0, 99, 6, nvme=(900, 300 * GB)), D(1, 99, 6, nvme=(1800, 100 * GB)), D(2, 9, 2, nvme=(100, 100 * GB))]
    assert nodes(where, "min-fragmentation", *jobs) == [0, 1, 1]
    # with 12 free cores on node 1 in place of 4: 0.3 / (2/12) = 1.8
    assert nodes(cluster([10, 18], nvme(2, share=2)), "min-fragmentation", *jobs) == [0, 1, 0]


def test_beta_chooses_the_node_least_used_and_equation_5_1_the_one_with_most_cores_left() -> None:
    where = cluster([8, 25, 10], NVME)
    # min-fragmentation fills by share: 8 free of 8, 25 of 25, 10 of 10 are ties (node 0); then 5/8 < 1 (node 1);
    # then 15/25 and 5/8 < 1 (node 2); then 5/8 = 0.625, 15/25 = 0.6, 7/10 = 0.7 (node 2)
    spread = [D(0, 99, 3), D(1, 99, 10), D(2, 99, 3), D(3, 99, 1)]
    assert nodes(where, "min-fragmentation", *spread) == [0, 1, 2, 2]
    # resource-aware by cores: 25 (node 1), then 22, 12, then 12 against 10 and 8 (node 1)
    assert nodes(where, "resource-aware", *spread) == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("bandwidth", "capacity", "rule"),
    [
        (0, 0, MAX_COMPOSITION),
        (500, 500, MAX_COMPOSITION),
        (501, 500, MIN_FRAGMENTATION),
        (500, 501, MIN_FRAGMENTATION),
        (699, 500, MIN_FRAGMENTATION),
        (700, 500, MAX_COMPOSITION),
        (700, 700, MAX_COMPOSITION),
        (700, 701, MIN_FRAGMENTATION),
        (0, 900, MIN_FRAGMENTATION),
        (3000, 100, MAX_COMPOSITION),
    ],
)
def test_equation_4_4_switches_at_half_and_at_seven_tenths(bandwidth: int, capacity: int, rule: int) -> None:
    policy = parse_policy("disaggregation-aware")
    where = cluster([9], pool("nvme", 10, 100, 100))  # 1000 MB/s and 1000 MB in all
    jobs = [D(0, 1, nvme=(300, 0), tasks=10)] if bandwidth == 3000 else [D(0, 1, nvme=(bandwidth, 0))]
    core = Core(where, table([*jobs, D(0, 1, nvme=(0, capacity if bandwidth < 3000 else 100))]), policy)
    for job in range(2):
        core.state.submit(job)
    pooled = policy.mixed.pooled
    assert pooled.rule_now(core.view, pooled.begin(core.view)) == rule


def test_the_load_of_equation_4_4_counts_waiting_and_running_jobs_until_they_end() -> None:
    policy = parse_policy("disaggregation-aware")
    pooled = policy.mixed.pooled
    core = Core(
        cluster([9], pool("nvme", 1, 1000, 1000)), table([D(0, 1, nvme=(600, 0)), D(0, 1, nvme=(600, 0))]), policy
    )
    loads = []
    for step in range(4):
        if step < 2:
            core.handle(Submitted(step), 0)
        else:
            job = step - 2
            core.state.start(Lease.on(job, [0], [1], [1], [0])._replace(shares=(Share(0, (0,), (600, 0)),)), 1, 0)
            core.state.release(job, 1)
        loads.append(pooled.load(core.view, pooled.begin(core.view), "bandwidth_mb_s"))
    assert loads == [0.6, 1.2, 0.6, 0.0]


# --- algorithms -------------------------------------------------------------------------------------------------------


def test_algorithm_1_gives_smufin_two_devices_and_fio_as_many_as_its_model_knows() -> None:
    where = cluster([25], nvme(10))
    # alone: 1489.15 s on one, 1455.48 s on two, 1478.5 s on three
    assert run(where, "max-composition", D(0, 1600, **SMUFIN), models=["smufin"]) == [(0, 1455.48, 0, (0, 1), 0)]
    fio = D(0, 900, 6, app="fio", nvme=(1800, 43 * GB))
    assert run(where, "max-composition", fio, models=["fio"]) == [(0, 300, 0, (0, 1, 2), 0)]
    # what no model knows takes what its demand needs
    assert run(where, "max-composition", D(0, 800, 6, nvme=(160, 600 * GB)))[0][3] == (0,)
    assert run(where, "max-composition", D(0, 800, 6, nvme=(160, 601 * GB)))[0][3] == (0, 1)


def test_where_fewer_devices_are_free_than_help_the_least_that_will_do_are_taken() -> None:
    where = cluster([25], nvme(3))
    first = D(0, 5000, 6, nvme=(160, 1200 * GB))
    assert run(where, "max-composition", first, D(1, 1600, **SMUFIN), models=["smufin"]) == [
        (0, 5000, 0, (0, 1), 0),
        (1, 1490.15, 0, (2,), 0),
    ]


def test_a_composition_in_use_is_joined_only_while_nobody_there_is_late() -> None:
    where = cluster([25, 25], nvme(1))
    tight = [D(0, 1600, due=1500, **SMUFIN), D(10, 1600, due=9999, **SMUFIN)]
    # the first would end at t + 1601.25 (1 - t / 1489.15), at 1500 s for t = 1345.017284
    assert starts(where, "max-composition", *tight, models=["smufin"]) == [0, 1345.017284]
    loose = [D(0, 1600, due=1700, **SMUFIN), D(10, 1600, due=9999, **SMUFIN)]
    assert starts(where, "max-composition", *loose, models=["smufin"]) == [0, 10]
    late = [D(0, 1600, due=1700, **SMUFIN), D(10, 1600, due=1500, **SMUFIN)]  # would end at 10 + 1601.25
    assert starts(where, "max-composition", *late, models=["smufin"]) == [0, 1489.15]


def test_a_deadline_that_is_just_met_is_met() -> None:
    # 40 s alone, then 60 s left at half speed: 160 s; the second alone would take 100 s of its own
    where, models = cluster([9], nvme(1)), [HALVES]
    for due, start in ((160, 40), (159.999999, 40.000001)):
        first = D(0, 100, app="h", nvme=(1, 1), due=due)
        assert starts(where, "max-composition", first, half(40), models=models) == [0, start]
    for due, start in ((240, 40), (239.999999, 100)):  # the second's own, at half speed
        second = D(40, 100, app="h", nvme=(1, 1), due=due)
        assert starts(where, "max-composition", half(0), second, models=models) == [0, start]


def test_time_alone_may_open_a_composition_that_one_more_would_have_made_late() -> None:
    # at 40 the first would end at 160, at 50 at 150: the policy looks again then, and not only when a job arrives
    jobs = [D(0, 100, app="h", nvme=(1, 1), due=150), half(40), D(60, 1)]
    assert starts(cluster([9], nvme(1)), "max-composition", *jobs, models=[HALVES]) == [0, 50, 60]


def test_of_compositions_that_would_live_as_long_the_one_with_least_to_spare_is_joined() -> None:
    full = [D(0, 99, nvme=(900, 1)), D(0, 99, nvme=(1500, 1)), D(1, 9, nvme=(100, 1))]
    assert [row[3] for row in run(cluster([9], nvme(2)), "max-composition", *full)] == [(0,), (1,), (1,)]
    # time to live comes first: 200 - 99 on the second, 200 - 250 on the first
    live = [D(0, 250, nvme=(900, 1)), D(0, 99, nvme=(1500, 1)), D(0, 200, nvme=(100, 1))]
    assert [row[3] for row in run(cluster([9], nvme(2)), "max-composition", *live)] == [(0,), (1,), (0,)]


@pytest.mark.parametrize(
    ("split", "asks", "parts"),
    [
        (4, (1000, 2 * GB), 4),  # YOLO on a T4: min(4000 / 1000, 16 / 2)
        (8, (1000, 2 * GB), 4),
        (2, (1000, 2 * GB), 2),  # no more than the device allows
        (4, (1000, 8 * GB), 2),  # by memory
        (4, (1500, 2 * GB), 2),
        (4, (4000, 1 * GB), 1),
        (64, (250, 1 * GB), 16),
    ],
)
def test_algorithm_3_makes_as_many_parts_as_the_job_fits_in(split: int, asks: tuple[int, int], parts: int) -> None:
    where = cluster([25], {**T4, "split": split})
    for policy in ("first-fit", "resource-aware", "max-composition"):
        assert run(where, policy, D(0, 152, 2, gpu=asks))[0][4] == parts


def test_algorithm_4_takes_a_free_vgpu_in_time_else_splits_another_gpu_else_waits() -> None:
    def yolo(at: float, due: float | None) -> D:
        return D(at, 152, due=due, **YOLO)

    one, two = cluster([25, 25], T4), cluster([25, 25], {**T4, "count": 2})
    # two on one GPU: 175 s; four: 757 s (base 152 s, alone 151 s)
    soon = [yolo(0, None), yolo(1, 176), yolo(2, 150)]
    assert [row[3] for row in run(two, "resource-aware", *soon, models=["yolo"])] == [(0,), (0,), (1,)]
    assert starts(one, "resource-aware", yolo(0, None), yolo(1, 170), models=["yolo"]) == [0, 151]
    assert starts(one, "resource-aware", *[yolo(0, None)] * 5, models=["yolo"])[:4] == [0, 0, 0, 0]
    assert ends(one, "resource-aware", *[yolo(0, None)] * 4, models=["yolo"]) == [757] * 4


def test_the_resource_aware_rule_spreads_vgpus_to_the_nodes_with_most_cores_left() -> None:
    where = cluster([10, 14, 12], T4)
    # 14 cores on node 1; then 12 and 12: the lower number; then 12 on node 2; then 10 everywhere
    assert nodes(where, "resource-aware", *[D(0, 152, **YOLO)] * 4, models=["yolo"]) == [1, 1, 2, 0]


# --- orders -----------------------------------------------------------------------------------------------------------

QUEUE = [
    D(0, 10, due=1),
    D(1, 10, due=90),
    D(1, 10),
    D(2, 10, due=50),
    D(3, 10, due=50, priority=1),
    D(4, 10, due=2),
    D(5, 10, priority=1),
]
"""One core: the first runs until 10 s, by when the others wait."""


@pytest.mark.parametrize(
    ("order", "want"),
    [
        ("edf", [1, 6, 4, 5, 2, 3, 7]),  # late ones keep their place; ties by submission; without a deadline last
        ("fcfs", [1, 2, 3, 4, 5, 6, 7]),
        ("priority-edf", [1, 5, 7, 6, 4, 2, 3]),
    ],
)
def test_orders_on_one_core(order: str, want: list[int]) -> None:
    found = starts(cluster([1], NVME), f"first-fit(order={order})", *QUEUE)
    assert [job + 1 for job in np.argsort(found)] == want


# --- speeds -----------------------------------------------------------------------------------------------------------

HALVES = {"model": "h", "linear": True, "most_devices": 1}
"""n jobs on a device run at 1/n each."""


def half(at: float, run_s: float = 100) -> D:
    return D(at, run_s, app="h", nvme=(1, 1))


@pytest.mark.parametrize(("frozen", "want"), [(False, [160, 200]), (True, [100, 240])])
def test_sharers_follow_who_comes_and_goes_unless_they_are_frozen(frozen: bool, want: list[float]) -> None:
    # following: 40 alone, then 60 left at 1/2 until 160; the other did 60 by then, and 40 more alone.
    # frozen: 100 as begun; the other 100 at 1/2
    models = [{**HALVES, "frozen": frozen}]
    for policy in ("max-composition", "first-fit", "resource-aware"):
        assert ends(cluster([9], nvme(1)), policy, half(0), half(40), models=models) == want


def test_two_smufin_on_a_device_end_when_the_table_says() -> None:
    # A does 600/1489.15 alone, the rest at 1601.25 s a job; then B has what A had done at 600 s left, alone
    first = 600 + (1 - 600 / 1489.15) * 1601.25
    found = ends(
        cluster([25], nvme(1)), "max-composition", *[D(at, 1600, **SMUFIN) for at in (0, 600)], models=["smufin"]
    )
    assert found == pytest.approx([first, first + 600], abs=3e-6)


def test_a_job_that_asks_two_kinds_is_as_fast_as_the_slower_and_keeps_what_is_frozen_of_it() -> None:
    where = cluster([9], nvme(1), pool("gpu", 1, 4000, 16))
    both = D(0, 100, app="h", nvme=(1, 1), gpu=(1, 1))
    slow = {"model": "h2", "apps": ["h", "other"], "kind": "gpu", "times_s": [[100.0, 125.0, 500.0]]}
    other = D(50, 100, app="other", gpu=(1, 1))
    # frozen on the NVMe at speed 1: the second sharer there at 20 changes nothing; at 50 the GPU gives it 100/125
    assert ends(where, "first-fit", both, half(20, 40), other, models=[{**HALVES, "frozen": True}, slow])[0] == (
        50 + 50 / 0.8
    )
    # following: 20 at 1, then at 1/2 beside the other (which ends at 100, 40 at 1/2), then at 0.8
    assert ends(where, "first-fit", both, half(20, 40), other, models=[HALVES, slow])[0] == 100 + 40 / 0.8


def test_a_seventh_smufin_is_not_admitted() -> None:
    jobs = [D(0, 1600, 1, app="smufin", nvme=(100, 1 * GB))] * 7
    for policy in ("max-composition", "min-fragmentation", "first-fit"):
        found = run(cluster([25], nvme(1)), policy, *jobs, models=["smufin"])
        assert [row[0] for row in found] == [0] * 6 + [2802.62]
        assert [row[1] for row in found] == pytest.approx([2802.62] * 6 + [2802.62 + 1489.15], abs=2e-6)


def test_without_models_jobs_run_their_base_time_and_all_they_ask_is_a_hard_limit() -> None:
    jobs = [D(0, 1600, **SMUFIN)] * 2
    for policy in ("first-fit", "best-fit", "random-fit", "max-composition"):
        assert ends(cluster([25], nvme(1)), policy, *jobs) == [1600, 3200]


def test_first_fit_runs_jobs_at_the_speeds_of_the_models_and_holds_every_amount_to_be_a_hard_limit() -> None:
    jobs = [D(0, 1600, **SMUFIN)] * 2
    for policy in ("first-fit", "best-fit", "random-fit"):
        assert ends(cluster([25], nvme(1)), policy, *jobs, models=["smufin"]) == [1489.15, 2 * 1489.15]


def test_a_size_that_the_model_does_not_admit_is_passed_over() -> None:
    odd = {"model": "odd", "times_s": [[5.0], [None], [5.0]]}
    job = D(0, 5, app="odd", nvme=(1, 700 * GB))
    assert run(cluster([9], nvme(3)), "max-composition", job, models=[odd])[0][3] == (0, 1, 2)
    assert run(cluster([9], nvme(2)), "max-composition", job, models=[odd]) == []


# --- latencies and overhead -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attach", ["single", "multi"])
def test_a_job_begins_when_its_device_is_attached_and_the_device_is_free_when_it_is_detached(attach: str) -> None:
    def one(at: float) -> D:
        return D(at, 10, nvme=(2000, 1))

    where = cluster([9, 9], nvme(1, attach=attach, attach_latency="3 s", detach_latency="4 s"))
    assert [row[:2] for row in run(where, "first-fit", one(0), one(1))] == [(0, 13), (17, 30)]
    # who joins what is attached does not wait; who joins what is being attached waits as long as the first
    shared = [D(at, 10, nvme=(1, 1)) for at in (0, 1, 5)]
    assert ends(where, "first-fit", *shared) == [13, 13, 15]


def test_at_home_a_device_needs_no_attaching_and_no_detaching() -> None:
    where = cluster([1, 1], nvme(1, home=["0"], attach_latency=3, detach_latency=4, share=1))
    at_home = [D(0, 10, nvme=(1, 1)), D(1, 10, nvme=(1, 1))]
    assert [row[:2] for row in run(where, "first-fit", *at_home)] == [(0, 10), (10, 20)]
    away = [D(0, 99), *at_home]
    assert [row[:2] for row in run(where, "first-fit", *away)][1:] == [(0, 13), (17, 30)]
    only = cluster([1], nvme(1, reach=["0"], attach_latency=3, detach_latency=4))
    assert ends(only, "first-fit", D(0, 10, nvme=(1, 1))) == [10]


def test_remote_use_costs_the_overhead_and_home_use_does_not() -> None:
    where = cluster([2, 2], nvme(1, home=["0"], overhead=0.05))
    assert ends(where, "first-fit", D(0, 100, 2, nvme=(1, 1))) == [100]
    assert ends(where, "first-fit", D(0, 9, 2), D(0, 100, 2, nvme=(1, 1)))[1] == 105
    assert ends(cluster([2, 2], nvme(1, overhead=0.05)), "max-composition", D(0, 100, nvme=(1, 1))) == [105]


def test_a_composition_of_which_one_device_is_away_is_remote() -> None:
    where = cluster([2, 2], nvme(2, home=["0-1"], overhead=0.5, attach_latency=3))
    assert ends(where, "first-fit", D(0, 10, nvme=(1, 700 * GB))) == [18]


def test_detaching_goes_on_while_a_node_is_down() -> None:
    where = cluster([4, 4], nvme(1, home=["0"], detach_latency=100))
    jobs = (D(0, 1000, 4), D(0, 5, nvme=(1, 1)), D(20, 500, nvme=(1, 1)))
    world = World(where, jobs, (), (Fault("node0", 10 * S, 5 * S),))
    log = play(world, "first-fit").log
    audit(log, world)
    found = dict(zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True))
    assert found[2] == 105 * S


def test_a_late_gang_whose_tasks_must_share_one_device_runs_all_the_same() -> None:
    gang = D(0, 10, tasks=2, nvme=(1, 1), due=5)
    for policy in ("max-composition", "min-fragmentation", "disaggregation-aware", "resource-aware"):
        assert ends(cluster([9], nvme(1)), policy, gang) == [10]


def test_two_pools_of_multi_attached_devices_each_serve_the_nodes_in_their_reach() -> None:
    where = cluster(
        [4, 4],
        pool("gpu", 1, 2000, 9, attach="multi", reach=["0"]),
        pool("gpu", 1, 2000, 9, attach="multi", reach=["1"]),
    )
    jobs = [D(0, 99, 2, gpu=(100, 0)), D(0, 99, 3, gpu=(100, 0)), D(1, 9, 2), D(2, 9, 1, gpu=(100, 0))]
    assert [row[:3:2] for row in run(where, "first-fit", *jobs)] == [(0, 0), (0, 1), (1, 0), (2, 1)]


def test_the_speed_predicted_for_a_composition_is_slowed_if_any_of_its_devices_is_remote() -> None:
    pool = {"kind": "nvme", "count": 2, "home": ["0", "1"], "overhead": 0.25, "quantities": {"capacity_mb": 600}}
    where = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], "pools": [pool]})
    spec = {"jobs": 1, "arrivals": {"gap_s": 0}, "classes": [{"run_s": 100, "devices": {"nvme.capacity_mb": 1000}}]}
    core = Core(where, generate(spec).jobs, parse_policy("first-fit"))
    core.handle(Submitted(0), 0)
    lease = Lease.on(0, [0], [1], [1], [0])._replace(shares=(Share(0, (0, 1), (1000,)),))
    assert core.view.devices.predicted_us(lease, 100_000_000, 0) == {0: 125_000_000}
    core.state.start(lease, 100_000_000, 0)
    assert core.state.booked_end(0) == 125_000_000
