"""Run a workload on a cluster under a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import InputError, check_kinds
from unrack.kernels.arrays import Ints
from unrack.ledger.lease import Sizes
from unrack.policy.around import seeded, told_rounds
from unrack.policy.contract import Estimates, Policy
from unrack.policy.file import complete
from unrack.policy.limits import Extending, check_stopping, shortening
from unrack.policy.preemption.preempting import Preempting, as_site_says, check_suspending, suspends
from unrack.policy.sizing.sizing import Sizing, check_sizes
from unrack.policy.table import parse_policy
from unrack.resources.site.installed import Site
from unrack.sim.changing import (
    ExpiringKernel,
    LimitedKernel,
    SizedKernel,
    SizedSuspendingKernel,
    SuspendingKernel,
    possible_sizes,
)
from unrack.sim.effect import effects, notes_of, out_of_time
from unrack.sim.frames.held import core_chooser
from unrack.sim.kernel import Kernel
from unrack.sim.result import Result
from unrack.sim.result import audit as audit_tables
from unrack.sim.world import NOTHING_SPECIAL, PolicyAtWork, World
from unrack.workload.formats.rules import intake_notes
from unrack.workload.job import JobTable, Workload
from unrack.workload.site.graph import graces_us, says_over_time
from unrack.workload.site.settled import settled
from unrack.workload.sizing import least_times, sizes_of
from unrack.workload.watts import with_watts


def simulate(
    cluster: Cluster,
    workload: Workload,
    policy: str | Policy[Any] = "easy",
    *,
    seed: int = 0,
    world: World = NOTHING_SPECIAL,
    core_tiles: str | None = None,
    window_us: tuple[int, int] | None = None,
    progress: Callable[[int, int], None] | None = None,
    audit: bool = True,
) -> Result:
    """Run a workload on a cluster under a policy.

    Parameters
    ----------
    cluster
        What there is.
    workload
        What is asked.
    policy
        A name (``"easy"``), a name with parameters (``"easy(order=sjf)"``) or an object.
    seed
        Given to policies that draw random numbers (those that declare ``seeded``); of the built-in ones, random-fit.
    world
        How fast jobs run, what fails and what changes cost: a :class:`World`. By default jobs run their base times.
    core_tiles
        Also choose which cores of a node a job has, by a rule of a plug-in: ``"best"``, ``"quick"`` or ``"first-fit"``
        of ``unrack-papers``, where the nodes' ``torus`` is known. This changes no schedule.
    window_us
        From when to when metrics of time are taken, µs.
    progress
        Told now and then how many jobs have been submitted, of how many.
    audit
        Check the tables of the run, from nothing but themselves, when it has ended: :func:`unrack.audit`.

    Raises
    ------
    PolicyError
        The policy does not exist, or needs what the workload lacks.
    ClusterError
        A fault names a domain that the cluster does not have.
    InputError
        ``window_us`` is no span of time.
    FaultyPolicyError
        A policy of one's own raised something (the ``__cause__``), or returned what is no answer.
    RunError
        The policy decided something impossible, or the audit found something in the tables that cannot be.

    Examples
    --------
    >>> import unrack
    >>> cluster = unrack.Cluster.homogeneous(nodes=2, cores=1)
    >>> workload = unrack.generate({"jobs": 3, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 10}]}, seed=0)
    >>> unrack.simulate(cluster, workload, "fcfs").jobs["wait_s"].to_list()
    [0.0, 0.0, 8.0]
    """
    check_kinds("simulate", cluster=(cluster, Cluster), workload=(workload, Workload), world=(world, World))
    if window_us is not None and not 0 <= window_us[0] < window_us[1]:
        raise InputError("window", repr(window_us), "a start of 0 or more and a later end")
    if core_tiles is not None:
        core_chooser(core_tiles, cluster)  # an error now, not when all is done
    chosen = parse_policy(policy) if isinstance(policy, str) else complete(policy, "policy")
    with PolicyAtWork(chosen):
        kernel = prepared(cluster, workload.jobs, chosen, seed, world)
        core = kernel.core
        log = kernel.run(progress)
    late = world.faults[:1] if all(out_of_time(log, [fault]) for fault in world.faults) else ()
    site = cluster.places.installed.get("site")
    read = intake_notes(workload.name, asdict(workload.intake), None if site is None else site.written())
    idle = notes_of(effects(cluster, workload.jobs, chosen, world))
    notes = (*read, *idle, *out_of_time(log, late, window_us))
    lends = core.traits.lends or len(log.loans) > 0
    telling = told_rounds(core.policy, core.memory)
    result = Result(
        log, window_us, world.pace(cluster)(workload.jobs) if len(cluster.devices) else None, lends,
        None if kernel.memory_speeds is None else kernel.memory_speeds.note, bool(world.faults), core_tiles, notes,
        bool(core.traits.monitor_us), None if telling is None else telling[0].rounds(telling[1]),
        policy if isinstance(policy, str) else chosen.name, core.state.sizes,
        "work_s" if core.traits.estimates == Estimates.EXACT else "request_s",
    )  # fmt: skip
    del core, kernel, telling  # the tables are made and looked at without the ledger
    if audit:
        audit_tables(result)
    return result


def check_carried(cluster: Cluster, jobs: JobTable) -> None:
    """Refuse a column that is carried along though it is called as the cluster's devices."""
    for name in jobs.extra.columns:
        kind, _, quantity = name.partition(".")
        if (kind, quantity) in cluster.devices.named and (kind, quantity) not in jobs.devices:
            want = f"columns = {{ {name!r} = {name!r} }}, or the name devices.{name}: {cluster.name} has such devices"
            raise InputError("columns of the jobs", f"{name}, which is mapped to nothing", want)


class Ready(NamedTuple):
    """A cluster, jobs and a policy made ready for each other; what cannot be run together was refused."""

    cluster: Cluster
    jobs: JobTable
    policy: Policy[Any]
    least_us: Mapping[int, int]  # the shortest limits that are made use of, by job
    stops: Ints | None  # for how long each job may overrun its limit; ``None``: none is stopped
    sizes: Mapping[int, Sizes]  # which sizes jobs can have


def made_ready(
    cluster: Cluster, jobs: JobTable, policy: Policy[Any], world: World, *, arrivals: bool = False, real: bool = False
) -> Ready:
    """All that a run begins with but its core and kernel; a PolicyError or InputError says what cannot be.

    ``arrivals`` as of :func:`prepared`; ``real``: the world tells what becomes of jobs at their limits, and suspended.
    """
    check_carried(cluster, jobs)
    told, before, sizes, least_us = jobs, cluster, sizes_of(jobs), {} if arrivals else least_times(jobs)
    cluster, jobs = settled(cluster, jobs)
    jobs = with_watts(cluster, jobs)
    policy = as_site_says(policy, cluster)
    if real and isinstance(policy, Preempting) and suspends(policy, cluster):
        policy = policy.inner  # jobs that were suspended there, Slurm suspended
    stops = None if real else graces_us(before, told, isinstance(policy, Extending))
    if stops is not None:
        check_stopping(policy, jobs)
    if isinstance(policy, Extending) and (stops is None or not world.overruns(cluster, jobs)):
        policy = policy.inner
    policy = shortening(policy, jobs) if least_us else policy
    if isinstance(policy, Sizing):
        check_sizes(policy, cluster, told, jobs, sizes)
    if suspends(policy, cluster):
        check_suspending(policy, jobs, bool(world.models))
    return Ready(cluster, jobs, policy, least_us, stops, sizes)


def refuse_unfit(cluster: Cluster, jobs: JobTable, policy: Policy[Any], world: World) -> None:
    """Refuse before any run what :func:`made_ready` would refuse when its run begins.

    A site whose rules cannot be at odds with policy or jobs is not settled for that, which takes a while.
    """
    site = cluster.places.installed.get("site")
    rules = isinstance(site, Site) and (site.file.preempt is not None or says_over_time(site))
    if rules or isinstance(policy, Sizing | Extending) or least_times(jobs):
        made_ready(cluster, jobs, policy, world)
    else:
        check_carried(cluster, jobs)


def prepared(
    cluster: Cluster,
    jobs: JobTable,
    policy: Policy[Any],
    seed: int = 0,
    world: World = NOTHING_SPECIAL,
    *,
    arrivals: bool = False,
    make: type[Kernel] | None = None,
) -> Kernel:
    """A run that is about to begin; parameters as in :func:`simulate`.

    Parameters
    ----------
    arrivals
        Whether the core is made without jobs and is brought them one by one, as in the live world. The run is the same.
    make
        Which kernel drives it; ``None``: the usual one.
    """
    ready = made_ready(cluster, jobs, seeded(policy, seed), world, arrivals=arrivals, real=make is not None)
    cluster, jobs, policy, least_us, stops, sizes = ready
    keeps = world.contention is not None or jobs.usage is not None
    sized = isinstance(policy, Sizing) and not arrivals
    if isinstance(policy, Sizing):
        sizes = possible_sizes(cluster, jobs, policy, world.pace(cluster), sizes)
    least = policy.smallest(jobs, sizes) if isinstance(policy, Sizing) and sized else None
    core = Core(cluster, None if arrivals else jobs, policy, world.pace(cluster), keeps, least)
    core.state.sizes = sizes if sized else {}
    usual: type[Kernel] = SizedKernel if core.state.sizes else Kernel
    if suspends(policy, cluster):
        usual = SizedSuspendingKernel if core.state.sizes else SuspendingKernel
    if least_us:
        core.state.least_us, usual = least_us, LimitedKernel
    if stops is not None and world.overruns(cluster, jobs):
        core.state.grace_us, usual = stops, ExpiringKernel
    kernel = (make or usual)(core, world, jobs if arrivals else None)
    if stops is not None and kernel.recorder.extensions is None:
        kernel.recorder.extensions = {}  # no job reaches a limit
    return kernel
