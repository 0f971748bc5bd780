"""Run a workload on a cluster under a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import InputError, check_kinds
from unrack.policy.complete import complete
from unrack.policy.contract import Policy
from unrack.policy.members import told_rounds
from unrack.policy.placement.core_tiles import CoreTiles
from unrack.policy.table import parse_policy
from unrack.sim.audited import audit as audit_tables
from unrack.sim.effect import effects, notes_of, too_late
from unrack.sim.faults.fault import Fault
from unrack.sim.guard import PolicyAtWork
from unrack.sim.kernel import Kernel, Ties
from unrack.sim.result import Result
from unrack.sim.usage.memory_changes import MemoryChanges, make_memory_changes
from unrack.slowdown.combined import CombinedSpeeds, Together, make_together, together
from unrack.slowdown.contract import Slowdown
from unrack.slowdown.memory.settings import MemoryContention, make_contention
from unrack.slowdown.memory.speeds import MemorySpeeds
from unrack.slowdown.model import Model, make_models
from unrack.slowdown.pools import PoolSpeeds
from unrack.slowdown.table import by_resource
from unrack.workload.formats.rules import intake_notes
from unrack.workload.job import JobTable, Workload


def simulate(
    cluster: Cluster,
    workload: Workload,
    policy: str | Policy[Any] = "easy",
    *,
    seed: int = 0,
    ties: str = "together",
    faults: Sequence[Fault] = (),
    models: Sequence[str | Mapping[str, Any] | Model] = (),
    contention: str | Sequence[str] | Mapping[str, Any] | MemoryContention | None = None,
    slowdowns: str | None = None,
    slowdown: Slowdown | None = None,
    memory_changes: Mapping[str, Any] | MemoryChanges | None = None,
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
        Given to policies that draw random numbers (those with a ``seeded`` method); of the built-in ones, random-fit.
    ties
        What happens first at one time: ``"together"``, ``"finish-first"`` or ``"submit-first"``.
    faults
        Failures of nodes and of whole failure domains.
    models
        How jobs run on shared and composed devices: names of ``unrack models``, tables, or models; see
        :class:`unrack.slowdown.model.ModelTable`.
    contention
        How jobs that use each other's memory slow each other down: ``"synthetic"``, a folder of profiles, a table, or
        settings; see :func:`unrack.slowdown.memory.settings.make_contention`. ``None``: they do not.
    slowdowns
        How speeds combine where both models and contention set them: ``"add"`` (delays add, the default), ``"min"`` or
        ``"product"``; see :func:`unrack.slowdown.combined.combined`.
    slowdown
        How jobs slow each other down, in place of the models and of contention; ``None``: as these say, or not at all.
    memory_changes
        What it costs that memory changes while jobs run, and their checkpoints: a table with ``bandwidth``, ``pause``,
        ``checkpoint_every``, ``checkpoint_cost`` and ``restart_cost``; see
        :class:`unrack.sim.usage.memory_changes.MemoryChanges`. ``None``: nothing, and there are none.
    core_tiles
        Also choose which cores of a node a job has, where the nodes' ``torus`` is known: ``"best"``, ``"quick"`` or
        ``"first-fit"``; see :mod:`unrack.policy.placement.core_tiles`. This changes no schedule.
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
        ``ties``, ``window_us``, ``contention``, ``slowdowns`` or a time of a fault is wrong.
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
    check_kinds("simulate", cluster=(cluster, Cluster), workload=(workload, Workload))
    if ties not in tuple(Ties):
        raise InputError("ties", repr(ties), f"one of {', '.join(Ties)}")
    if window_us is not None and not 0 <= window_us[0] < window_us[1]:
        raise InputError("window", repr(window_us), "a start of 0 or more and a later end")
    for fault in faults:
        if fault.at_us < 0 or fault.repair_us < 0:
            raise InputError("faults", repr(fault), "a time and a repair time of 0 or more")
    if core_tiles is not None:
        CoreTiles(cluster, core_tiles)  # an error now, not when all is done
    chosen = parse_policy(policy) if isinstance(policy, str) else complete(policy, "policy")
    settings = make_contention(contention)
    known, how, changes = make_models(models), make_together(slowdowns), make_memory_changes(memory_changes)
    with PolicyAtWork(chosen):
        kernel = prepared(
            cluster, workload.jobs, chosen, seed, ties, faults, known, settings, slowdown, how=how, changes=changes
        )
        core = kernel.core
        log = kernel.run(progress)
    late = faults if all(fault.at_us > log.end_us for fault in faults) else ()
    read = intake_notes(workload.name, asdict(workload.intake))
    notes = notes_of(effects(cluster, workload.jobs, chosen, known, settings, slowdowns, memory_changes))
    notes = (*read, *notes, *too_late(late[:1], window_us, log.end_us))
    parts = kernel.slowdown.parts if isinstance(kernel.slowdown, CombinedSpeeds) else (kernel.slowdown,)
    note = next((part.note for part in parts if isinstance(part, MemorySpeeds)), None)
    lends = core.traits.lends or len(log.loans) > 0
    telling = told_rounds(core.policy, core.memory)
    counts = None if telling is None else telling[0].rounds(telling[1])
    result = Result(
        log, window_us, core.pace, lends, note, bool(faults), core_tiles, notes, bool(core.traits.monitor_us), counts,
        policy if isinstance(policy, str) else chosen.name,
    )  # fmt: skip
    del core, kernel, parts, telling  # the tables are made and looked at without the ledger
    if audit:
        audit_tables(result)
    return result


def prepared(
    cluster: Cluster,
    jobs: JobTable,
    policy: Policy[Any],
    seed: int,
    ties: str,
    faults: Sequence[Fault],
    models: Sequence[Model],
    contention: MemoryContention | None = None,
    slowdown: Slowdown | None = None,
    arrivals: bool = False,
    how: Together = Together.ADD,
    changes: MemoryChanges | None = None,
    make: type[Kernel] | None = None,
) -> Kernel:
    """A run that is about to begin; parameters as in :func:`simulate`.

    Parameters
    ----------
    arrivals
        Whether the core is made without jobs and is brought them one by one, as in the live world. The run is the same.
    how
        How the speeds by devices and by memory combine.
    changes
        What it costs that memory changes while jobs run.
    make
        Which world drives it; ``None``: the usual one.
    """
    if hasattr(policy, "seeded"):
        policy = policy.seeded(seed)
    keeps = contention is not None or jobs.usage is not None
    core = Core(cluster, None if arrivals else jobs, policy, models, memory=keeps)
    if slowdown is None:
        parts: list[Slowdown] = [PoolSpeeds()] if core.paced else []
        if contention is not None:
            core.view.contention = memory = MemorySpeeds(contention, cluster, jobs)
            parts.append(memory)
        slowdown = together([*parts, *by_resource(cluster, jobs)], how)
    return (make or Kernel)(core, Ties(ties), faults, slowdown, jobs if arrivals else None, changes)
