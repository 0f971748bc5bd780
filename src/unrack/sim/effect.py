"""Which parts of a run's input can change nothing in it, and why: nothing that was asked for is ignored in silence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from unrack.cluster.distance import NAMES
from unrack.cluster.spec import UNCOUNTED_MB, Cluster
from unrack.policy.around import innermost, traits_of
from unrack.policy.contract import Ability, Policy
from unrack.policy.limits import Extending, backfills
from unrack.policy.orders import BY_CORES, MULTIFACTOR
from unrack.policy.preemption.preempting import Preempting, preempts, site_of
from unrack.policy.sizing.sizing import Sizing
from unrack.resources.power.resource import Power
from unrack.resources.site.installed import Site
from unrack.sim.faults import Fault
from unrack.sim.log import RunLog
from unrack.sim.usage.following import MemoryChanges
from unrack.sim.world import NOTHING_SPECIAL, World
from unrack.slowdown.memory.settings import MemoryContention
from unrack.slowdown.model import BY_DEFAULT, Model, sets_speeds
from unrack.units import DATES_S, SECOND_US
from unrack.vocabulary import Need
from unrack.workload.job import JobTable
from unrack.workload.site.graph import says_over_time
from unrack.workload.site.settled import idle, unused
from unrack.workload.sizing import COLUMN, least_times, sizes_of

_NO_SIZE = ("counted", "links", "power", "site", "spread")
"""What jobs ask for that says nothing of how large they are."""


class Effect(NamedTuple):
    """A part of the input of a run, and whether it can change anything."""

    # which part: ``"models"``, ``"contention"``, ``"distance"``, ``"slo"``, ``"tiers"``, ``"lending"``, ``"racks"``,
    # ``"memory"``, ``"priority"``, ``"site"``, ``"order"``, ``"near"``, ``"slowdowns"``, ``"resources"``,
    # ``"preempt"``, ``"sizes"``, ``"limits"``, ``"extension"``, ``"over_time"``, ``"molding"``, ``"resizing"``,
    # ``"governs"``, ``"provisioning"``, ``"growth"`` or ``"memory_changes"``
    key: str
    of: str  # which of several; ``""``: there is one
    why_not: str  # why it can change nothing, in words; ``""``: it can
    counted: bool = False  # it changes no schedule, but metrics count by it: it is told, and not refused


def effects(
    cluster: Cluster, jobs: JobTable, policy: Policy[Any], world: World = NOTHING_SPECIAL
) -> tuple[Effect, ...]:
    """What was asked for, and whether it can change anything in a run with these inputs.

    Only what can be told before the run is looked at; a policy of one's own is taken to use what it could use.
    """
    parts = (
        *_models(cluster, jobs, world.models),
        *_memory(cluster, jobs, policy),
        *_lending(cluster, jobs, policy, world.contention),
        *_jobs(cluster, jobs, policy),
        *_orders(cluster, jobs, policy),
        *([] if world.together is None else [_slowdowns(cluster, world.models, world.contention)]),
        *_resources(cluster, jobs),
        *_preempts(cluster, policy),
        *_sizes(jobs, policy),
        *_use(jobs, policy, world.changes),
        *_limits(jobs, policy),
        *_stops(cluster, jobs, policy, world),
    )
    return tuple(parts)


def _models(cluster: Cluster, jobs: JobTable, models: Sequence[Model]) -> Iterator[Effect]:
    for model in models:
        why = ""
        if model.kind not in cluster.devices.kinds:
            why = f"{cluster.name} has no {model.kind} devices"
        else:
            asking = np.zeros(len(jobs), np.bool_)
            for (kind, _), amounts in jobs.devices.items():
                asking |= (kind == model.kind) & (amounts > 0)
            codes = [code for code, name in enumerate(jobs.app_names) if name in model.apps]
            if not bool((asking & np.isin(jobs.app, codes)).any()):
                why = f"no job of {' or '.join(model.apps)} asks for {model.kind}"
        yield Effect("models", model.name, why)
        has = dict(zip(cluster.devices.kinds, cluster.devices.quantities, strict=True)).get(model.kind, ())
        for name in model.governs:
            if not why and name not in (*has, BY_DEFAULT):
                yield Effect("governs", name, f"{model.kind} of {cluster.name} has {' and '.join(has)}")


def _slowdowns(cluster: Cluster, models: Sequence[Model], contention: MemoryContention | None) -> Effect:
    why = "" if sets_speeds(cluster.devices, models) else f"devices set no speeds on {cluster.name}"
    return Effect("slowdowns", "", "memory is not contended" if contention is None else why)


def _memory(cluster: Cluster, jobs: JobTable, policy: Policy[Any]) -> Iterator[Effect]:
    if bool((jobs.memory_mb > 0).any()):
        counted = bool((cluster.memory_mb != UNCOUNTED_MB).any())
        yield Effect("memory", cluster.name, "" if counted else f"memory is not counted on {cluster.name}")
    tiered = traits_of(policy).tiers
    if jobs.slo is not None and jobs.slo.any:
        why = f"memory has no tiers on {cluster.name}"
        if cluster.tiers is not None:
            why = "" if tiered else f"{policy.name} does not look at them, and what it breaks is counted"
        yield Effect("slo", cluster.name, why, cluster.tiers is not None)
    if cluster.tiers is not None:
        why = "" if tiered else f"{policy.name} places nothing in them; only metrics count by them"
        yield Effect("tiers", cluster.name, why)


def _lending(
    cluster: Cluster, jobs: JobTable, policy: Policy[Any], contention: MemoryContention | None
) -> Iterator[Effect]:
    why = _lends_not(cluster, jobs, policy)
    computing = cluster.cores > 0
    if cluster.tiers is None and (bool(cluster.lending_group[computing].any()) or not bool(computing.all())):
        yield Effect("lending", cluster.name, why)  # to let no node lend is an effect
    why = why or _alone(cluster)
    near = Need.RACKS in traits_of(policy).reads
    if contention is not None:
        yield Effect("contention", "", why)
        there = _distances(cluster)
        for name, factor in contention.distance.model_dump().items():
            if factor != 1.0:
                far = f"no two nodes of {cluster.name} are at that distance"
                yield Effect("distance", name, why or ("" if name in there else far))
    if bool(cluster.rack_group.any()):
        asked = near or contention is not None
        yield Effect("racks", cluster.name, why or ("" if asked else "no policy asks how far borrowed memory is"))
    if near:
        one = f"all nodes of {cluster.name} are in one rack"
        yield Effect("near", policy.name, why or ("" if len(cluster.rack_names) > 1 else one))


def _lends_not(cluster: Cluster, jobs: JobTable, policy: Policy[Any]) -> str:
    """Why a policy and its jobs never use memory of another node; ``""``: they may."""
    if not traits_of(policy).lends:
        return f"{policy.name} never lets a job use another node's memory"
    if not bool((jobs.memory_mb > 0).any()):
        return "no job asks for memory"
    return f"memory is not counted on {cluster.name}" if bool((cluster.memory_mb == UNCOUNTED_MB).all()) else ""


def _alone(cluster: Cluster) -> str:
    """Why no node may lend to another; ``""``: some may."""
    everybody = bool((cluster.lending_group == -1).any())
    groups = np.unique(cluster.lending_group, return_counts=True)[1]
    return "" if everybody or bool((groups > 1).any()) else f"no two nodes of {cluster.name} may lend to each other"


def _distances(cluster: Cluster) -> set[str]:
    computing = cluster.cores > 0
    racks, first = np.unique(cluster.rack[computing], return_index=True)
    groups = cluster.rack_group[computing][first]
    found = {NAMES[0]}
    if len(racks) > len(np.unique(groups)):
        found.add(NAMES[1])
    if len(np.unique(groups)) > 1:
        found.add(NAMES[2])
    if not bool(computing.all()):
        found.add(NAMES[3])
    return found


def _jobs(cluster: Cluster, jobs: JobTable, policy: Policy[Any]) -> Iterator[Effect]:
    if bool((jobs.priority != 0).any()):
        traits = traits_of(policy)
        seen = Need.PRIORITIES in traits.reads | traits.needs
        counted = bool((jobs.deadline_us >= 0).any())  # metrics tell deadlines of high priority apart
        yield Effect("priority", "", "" if seen or counted else f"{policy.name} does not look at priorities")


def _orders(cluster: Cluster, jobs: JobTable, policy: Policy[Any]) -> Iterator[Effect]:
    inner = innermost(policy)
    site = cluster.places.installed.get("site")
    weighed = isinstance(site, Site) and site.file.priority is not None
    if weighed:
        seen = Need.ACCOUNTS in traits_of(policy).reads
        yield Effect("site", cluster.name, "" if seen else f"{policy.name} does not look at them", counted=True)
    asked = sorted({kind for (kind, _), amounts in jobs.devices.items() if bool((amounts > 0).any())} - set(_NO_SIZE))
    for option in ("order", "backfill_order"):
        order = getattr(inner, option, None)
        if isinstance(order, str) and order in BY_CORES and asked:
            of = f"what jobs ask of {', '.join(asked)} on {option}={order}"
            yield Effect("order", of, "it counts cores alone")
        if order == MULTIFACTOR:
            why = "" if weighed else f"{cluster.name} has no site.priority, and all jobs are equal"
            yield Effect("order", f"{option}={order}", why)


def _resources(cluster: Cluster, jobs: JobTable) -> Iterator[Effect]:
    site = cluster.places.installed.get("site")
    reserved = {name for one in site.file.reservations for name in one.licences} if isinstance(site, Site) else ()
    for part in cluster.places.parts:
        asked = {
            quantity for quantity in part.installed.quantities
            if (amounts := jobs.devices.get((part.name, quantity))) is not None and bool((amounts > 0).any())
        }  # fmt: skip
        if isinstance(part.installed, Power):  # all else of it counts in every run
            for key in part.installed.file.devices:
                amounts = jobs.devices.get((key.partition(".")[0], key.partition(".")[2]), np.zeros(0, np.int64))
                why = "" if bool((amounts > 0).any()) else f"no job asks for {key}"
                yield Effect("resources", f"{part.name} of {key}", why, counted=True)
            continue
        if isinstance(part.installed, Site):
            yield Effect("resources", part.name, why := idle(part.installed, jobs))
            for what, none in [] if why else unused(part.installed, jobs):
                yield Effect("resources", f"{what} of the site", none, counted=True)
        elif set(part.amounts) == set(part.installed.quantities):
            for quantity in part.installed.quantities:
                why = "" if quantity in asked else f"no job asks for {part.name}.{quantity}"
                yield Effect("resources", f"{part.name} {quantity}", why, counted=quantity in reserved)
        else:  # some say how others are asked
            yield Effect("resources", part.name, "" if asked else f"no job asks for {part.name}")


def _preempts(cluster: Cluster, policy: Policy[Any]) -> Iterator[Effect]:
    if isinstance(policy, Preempting) and policy.on:
        yield Effect("preempt", "", "" if preempts(cluster) else f"{cluster.name} has no table site.preempt")


def _sizes(jobs: JobTable, policy: Policy[Any]) -> Iterator[Effect]:
    sizes = sizes_of(jobs).values()
    sizing = policy if isinstance(policy, Sizing) else Sizing(policy)
    if any(len(one.tasks) > 1 for one in sizes):
        used = any((sizing.molding and len(one.tasks) > 1) or (sizing.resizing and one.changes) for one in sizes)
        yield Effect("sizes", "", "" if used else f"{policy.name} does not choose among them", counted=True)
    if sizing.molding:
        several = any(len(one.tasks) > 1 for one in sizes)
        yield Effect("molding", str(sizing.molding), "" if several else "no job has several sizes")
    if sizing.resizing:
        several = any(len(one.tasks) > 1 and one.changes for one in sizes)
        yield Effect("resizing", str(sizing.resizing), "" if several else "no job is malleable or evolving")


def _limits(jobs: JobTable, policy: Policy[Any]) -> Iterator[Effect]:
    if least_times(jobs):
        why = "" if backfills(policy) else f"{policy.name} lets no job pass others"
        yield Effect("limits", COLUMN, why, counted=True)


def _stops(cluster: Cluster, jobs: JobTable, policy: Policy[Any], world: World) -> Iterator[Effect]:
    why = "" if world.overruns(cluster, jobs) else "no job runs beyond its limit"
    if isinstance(policy, Extending):
        yield Effect("extension", "", why, counted=True)
    if (site := site_of(cluster)) is not None and says_over_time(site):
        yield Effect("over_time", cluster.name, why, counted=True)
    for one in () if site is None else site.file.reservations:
        if _before_dates(one.windows_us[-1][1], jobs):
            yield Effect("reservation", one.name, _DATED, counted=True)


def _use(jobs: JobTable, policy: Policy[Any], costs: MemoryChanges | None) -> Iterator[Effect]:
    monitors = traits_of(policy).monitor_us > 0
    unknown = "" if jobs.usage is not None else "what jobs use is not known: they are taken to use what they ask"
    if monitors:
        yield Effect("provisioning", policy.name, unknown)
    if monitors and getattr(policy, "growth", False):
        plans = getattr(innermost(policy), "backfill", "easy") == "easy"
        yield Effect("growth", policy.name, unknown or ("" if plans else f"{policy.name} reserves nothing for later"))
    if costs is not None:
        idle = unknown or ("" if monitors else f"{policy.name} changes no job's memory")
        checkpoints = costs.checkpoint_every is not None and costs.checkpoint_cost > 0  # all jobs pay for these
        yield Effect("memory_changes", "", "" if checkpoints else idle)


def draws(policy: Policy[Any]) -> bool:
    """Whether a policy draws random numbers, as far as is known."""
    return Ability.SEEDED in traits_of(policy).does


WORDS = {
    "models": "the model {of}", "contention": "contention", "distance": "the factor of the distance {of!r}",
    "governs": "{of}, which a model governs",
    "slo": "the jobs' SLOs of memory", "tiers": "the tiers of memory of {of}",
    "lending": "which nodes may lend to which on {of}", "racks": "the groups of racks of {of}",
    "memory": "the memory that jobs ask for", "priority": "the priorities of jobs", "near": "near=yes", "order": "{of}",
    "site": "the weights of priorities of {of}", "slowdowns": "how slowdowns combine", "preempt": "preempt=yes",
    "sizes": "the sizes of jobs",
    "limits": "{of}", "extension": "extension", "over_time": "over_time of {of}",
    "molding": "molding={of}", "resizing": "resizing={of}",
    "resources": "the {of} of the cluster", "reservation": "the reservation {of}",
    "provisioning": "provisioning=dynamic", "growth": "growth", "memory_changes": "what it costs that memory changes",
    "world": "world=base", "seeds": "the seeds", "faults": "the failure of {of}", "window": "the window of the metrics",
}  # fmt: skip
"""Key → what it is, for people."""


def note(effect: Effect) -> str:
    """An effect that is none, as a sentence."""
    return f"no effect of {WORDS[effect.key].format(of=effect.of)}: {effect.why_not}"


def notes_of(found: Sequence[Effect]) -> tuple[str, ...]:
    """What changes nothing, a sentence each."""
    return tuple(dict.fromkeys(note(effect) for effect in found if effect.why_not))


_DATED = "it is counted from 1970, as the jobs have dates: the filter rebase = 0 has their clock begin with them"


def _before_dates(until_us: int, jobs: JobTable) -> bool:
    return until_us < DATES_S * SECOND_US < int(jobs.submit_us[:1].sum())


def out_of_time(log: RunLog, faults: Sequence[Fault], window_us: tuple[int, int] | None = None) -> tuple[str, ...]:
    """What was to happen after the last event of a run, or before the first date of a log, a sentence each."""
    times = [("faults", one.domain, "is due", one.at_us, one.at_us + one.repair_us) for one in faults]
    times += [] if window_us is None else [("window", "", "begins", *window_us)]
    found = []
    for key, of, begins, at_us, until_us in times:
        if _before_dates(until_us, log.jobs):
            found.append(note(Effect(key, of, _DATED)))
        elif at_us > log.end_us:
            why = f"it {begins} at {at_us / SECOND_US:,.0f} s, and the run ends at {log.end_us / SECOND_US:,.0f} s"
            found.append(note(Effect(key, of, why)))
    return tuple(found)
