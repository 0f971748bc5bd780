"""From a study file to its runs: clusters × workloads × policies × seeds × swept values."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from unrack.cluster.spec import Cluster
from unrack.core.admission import check
from unrack.errors import InputError, PolicyError
from unrack.facts import counted, line, some
from unrack.plugins.code import is_file
from unrack.plugins.table import beside, identity_of, in_use, using
from unrack.policy.contract import Policy
from unrack.resources.table import RESOURCES
from unrack.sim.effect import Effect, draws, effects
from unrack.sim.frames.held import CORE_RULES, core_chooser
from unrack.sim.simulate import refuse_unfit
from unrack.sim.usage.following import make_memory_changes
from unrack.sim.world import World
from unrack.slowdown.combined import make_together
from unrack.slowdown.memory.settings import MemoryContention, make_contention
from unrack.slowdown.model import Model, make_models, sets_speeds
from unrack.study.input.file import StudyTable, WorkloadTable
from unrack.study.input.inputs import (
    Document,
    PolicySpec,
    drawn_faults,
    fixed_faults,
    make_cluster,
    make_policy_spec,
    make_workload,
    random_levels,
    window_of,
)
from unrack.study.input.sweep import combinations
from unrack.study.notes import refuse_idle, refuse_odd_jobs
from unrack.study.results.record import engine_digest, id_of_run
from unrack.study.world import RunTimes
from unrack.workload.filters import SEEDED
from unrack.workload.job import Workload

Range = tuple[int, int]
AS_WRITTEN = (
    "models", "contention", "slowdowns", "memory_changes", "measure", "faults", "random_faults", "sweep", "plan",
)  # fmt: skip
"""Keys of a study that it keeps as they were written."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run of a study.

    Attributes
    ----------
    id
        Its folder: readable names and a hash of everything that determines the result.
    workload_digest
        SHA-256 of the workload's content.
    parameters
        The swept values it was made with.
    world
        How fast its jobs run, what fails and what changes cost.
    window_us
        The window of the metrics, or ``None``.
    failing
        Whether the study asks for failures, of which this run may have drawn none.
    place
        Which of the study's clusters, workloads and policies these are.
    effects
        What was asked for, and whether it can change anything in this run.
    listed
        How many of the faults the study lists; the others were drawn.
    plugins
        Files and names of installed extensions that take part.
    """

    id: str
    cluster: Cluster
    workload: Workload
    workload_digest: str
    policy: PolicySpec
    seed: int
    world: World
    window_us: Range | None
    parameters: Mapping[str, Any]
    failing: bool = False
    core_tiles: str | None = None
    place: tuple[int, int, int] = (0, 0, 0)
    effects: tuple[Effect, ...] = ()
    listed: int = 0
    plugins: tuple[str, ...] = ()

    def __repr__(self) -> str:
        where = f"{counted(len(self.workload), 'job')} of {self.workload.name!r} on {self.cluster.name!r}"
        swept = [f"{key}={value}" for key, value in self.parameters.items()]
        return line("Run", self.id, [self.policy.label, where, f"seed {self.seed}", *swept])


@dataclass(frozen=True, eq=False)
class Study:
    """A study that can be run."""

    # name, question: as written
    name: str
    question: str
    runs: tuple[Run, ...]  # in the order of the report: swept values, clusters, workloads, policies, seeds
    resolved: Mapping[str, Any]  # the study as a table in which everything is said

    def __repr__(self) -> str:
        policies = list(dict.fromkeys(run.policy.label for run in self.runs))
        seeds = len({run.seed for run in self.runs})
        words = [counted(len(self.runs), "run"), f"policies {some(policies)}", counted(seeds, "seed")]
        words += [f"swept {key}" for key in dict.fromkeys(key for run in self.runs for key in run.parameters)]
        return line("Study", self.name, words)


def load_study(
    path: str, *, seed: int | None = None, policies: Sequence[str] = (), document: Document | None = None
) -> Study:
    """Read a study, from a file or a document, and load everything it names.

    ``seed`` takes the place of the study's seeds; ``policies``: further ones, names, names with parameters, or
    ``FILE.py:NAME``. What cannot be run is a StudyError or a PolicyError.
    """
    document = document or Document.read(path)
    whole = document.validated(StudyTable, document.table)
    with using_those_of(whole, document):
        return _loaded(path, whole, seed, policies, document)


@contextmanager
def using_those_of(table: StudyTable, document: Document) -> Iterator[None]:
    """Within it the plug-ins of a study are in use; a StudyError if one cannot be."""
    with ExitStack() as stack:
        with document.part("plugins"):
            stack.enter_context(using(beside(table.plugins, document.folder)))
        yield


def _loaded(path: str, whole: StudyTable, seed: int | None, policies: Sequence[str], document: Document) -> Study:
    name = whole.name or re.sub(r"\.toml$", "", path.replace("\\", "/").rsplit("/", 1)[-1]) or "study"
    seeds = whole.seeds if seed is None else [seed]
    added = [make_policy_spec(text, document, -1) for text in policies]
    sources = Sources(document, added)
    runs: list[Run] = []
    for parameters, table in combinations(document.table, document):
        runs.extend(runs_of(document.validated(StudyTable, table), seeds, parameters, sources))
    seen: dict[str, Run] = {}
    for run in runs:
        if run.id in seen:
            got = f"the same run twice ({run.cluster.name}, {run.workload.name}, {run.policy.label})"
            raise document.fault((), got, "clusters, workloads, policies and swept values that all differ")
        seen[run.id] = run
    refuse_odd_jobs(document, runs)
    refuse_idle(document, runs)
    resolved = _resolved(name, whole, seeds, document.table, added, runs)
    return Study(name, whole.question, tuple(runs), resolved)


@dataclass(frozen=True)
class Sources:
    """What all runs of a study are made of, each read once."""

    document: Document  # the study as it was written
    added: Sequence[PolicySpec] = ()  # further policies
    # workloads, contentions: what was read so far, by what was asked for
    workloads: dict[str, tuple[Workload, str]] = field(default_factory=dict)
    contentions: dict[str, MemoryContention | None] = field(default_factory=dict)


def runs_of(
    table: StudyTable,
    seeds: Sequence[int],
    parameters: Mapping[str, Any],
    sources: Sources,
    only: tuple[int, int] | None = None,
) -> list[Run]:
    """The runs of a study without its sweep: clusters, workloads, policies, seeds; or a StudyError or PolicyError.

    ``table``: the study, with swept values (``parameters``) put in; ``only``: the runs of one cluster and one policy,
    by their numbers.
    """
    with using_those_of(table, sources.document):
        return list(_runs_of(table, seeds, parameters, sources, only))


def _runs_of(
    table: StudyTable,
    seeds: Sequence[int],
    parameters: Mapping[str, Any],
    sources: Sources,
    only: tuple[int, int] | None,
) -> Iterator[Run]:
    document, added, loaded, read = sources.document, sources.added, sources.workloads, sources.contentions
    clusters = [make_cluster(entry, document, i) for i, entry in enumerate(table.clusters)]
    specs = [*(make_policy_spec(entry, document, i) for i, entry in enumerate(table.policies)), *added]
    _different([cluster.name for cluster in clusters], "clusters", document)
    _different([spec.label for spec in specs], "policies", document)
    with document.part("models"):
        models = make_models(table.models, document.folder)
    contention = _contention(table, document, read)
    with document.part("memory_changes"):
        changes = None if table.memory_changes is None else make_memory_changes(table.memory_changes)
    fixed, levels = fixed_faults(table, document, clusters), random_levels(table, document, clusters)
    made = [(spec, spec.make(), spec.identity()) for spec in specs]
    by_seed = {seed: [_workload(entry, document, i, seed, loaded) for i, entry in enumerate(table.workloads)]
               for seed in seeds}  # fmt: skip
    _different([workload.name for workload, _ in by_seed[seeds[0]]], "workloads", document)
    digests: dict[int, str] = {}
    windows: dict[tuple[str, str], Range | None] = {}
    fit: set[tuple[tuple[str, str], int]] = set()  # which cluster, workload and policy go together
    numbers = [range(len(part)) for part in (clusters, table.workloads, made)]
    for i, w, p, seed in itertools.product(*numbers, seeds):
        if only is not None and (i, p) != only:
            continue
        cluster, (workload, digest), (spec, policy, policy_identity) = clusters[i], by_seed[seed][w], made[p]
        if table.core_tiles is not None:
            with document.part("core_tiles"):
                core_chooser(table.core_tiles, cluster)
        if i not in digests:
            digests[i] = cluster.digest()
        key = (digests[i], digest)
        if key not in windows:
            windows[key] = window_of(table, cluster, workload, document)
        here = spec.world == RunTimes.STUDY
        said = World(
            models=models if here else (),
            contention=contention if here else None,
            slowdowns=table.slowdowns,
            faults=fixed + drawn_faults(levels, cluster, workload, seed),
            changes=changes if here else None,
            ties=table.ties,
        )
        both = said.contention is not None and sets_speeds(cluster.devices, said.models)
        world = replace(said, slowdowns=make_together(table.slowdowns) if both else None)
        if (key, p) not in fit:  # a log is the same for every seed
            try:
                check(policy, cluster, workload.jobs)
                refuse_unfit(cluster, workload.jobs, policy, world)
            except InputError as error:
                part = ("policies", p) if isinstance(error, PolicyError) else ("workloads", w)
                with document.part(*part):
                    raise
            fit.add((key, p))
        decisive: list[Any] = [*key, policy_identity, seed, table.ties, world.faults, windows[key], world.models]
        decisive += [] if world.contention is None else [world.contention.identity()]
        decisive += [str(world.slowdowns)] if both else []
        decisive += [] if world.changes is None else [str(world.changes)]
        decisive += [] if table.core_tiles is None else [table.core_tiles, CORE_RULES.distribution(table.core_tiles)]
        decisive += [*identity_of(in_use()), *filter(None, map(RESOURCES.distribution, cluster.places.installed))]
        named = [cluster.name, workload.name, spec.label, dict(parameters)]
        drawn = _draws(table.workloads[w]) or bool(levels)
        yield Run(
            id=id_of_run(named[:3], seed, [*decisive, *named, engine_digest()]),
            cluster=cluster,
            workload=workload,
            workload_digest=digest,
            policy=spec,
            seed=seed,
            world=world,
            window_us=windows[key],
            parameters=dict(parameters),
            failing=bool(table.faults or table.random_faults),
            core_tiles=table.core_tiles,
            place=(i, w, p),
            effects=(
                *effects(cluster, workload.jobs, policy, said),
                *_of_study(spec, models, contention, seeds, drawn, policy),
            ),
            listed=len(fixed),
            plugins=in_use(),
        )


def _draws(table: WorkloadTable) -> bool:
    """Whether a workload is another for every seed."""
    return table.generate is not None or any(getattr(table, name) is not None for name in SEEDED)


def _of_study(
    spec: PolicySpec,
    models: Sequence[Model],
    contention: MemoryContention | None,
    seeds: Sequence[int],
    drawn: bool,
    policy: Policy[Any],
) -> list[Effect]:
    """What a study may ask for beyond what a single run does: worlds and seeds."""
    found = []
    if spec.world != RunTimes.STUDY:
        bare = not models and contention is None
        found.append(Effect("world", spec.label, "the study has neither models nor contention" if bare else ""))
    if len(seeds) > 1:
        found.append(Effect("seeds", "", "" if drawn or draws(policy) else "nothing is drawn, all give the same run"))
    return found


def _contention(
    table: StudyTable, document: Document, read: dict[str, MemoryContention | None]
) -> MemoryContention | None:
    """The same settings are read once."""
    key = json.dumps(table.contention, sort_keys=True, default=str)
    if key not in read:
        with document.part("contention"):
            read[key] = make_contention(table.contention, document.folder)
    return read[key]


def _workload(
    table: WorkloadTable, document: Document, index: int, seed: int, loaded: dict[str, tuple[Workload, str]]
) -> tuple[Workload, str]:
    """Each trace is read once, or once a seed if a filter draws; each generator runs once a seed."""
    key = json.dumps([table.model_dump(mode="json"), index, seed if _draws(table) else None])
    if key not in loaded:
        workload = make_workload(table, document, index, seed)
        loaded[key] = (workload, workload.jobs.digest())
    return loaded[key]


def _different(names: Sequence[str], key: str, document: Document) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise document.fault((key, i), f"a second {name!r}", "a different name (or label) for each")


def _resolved(
    name: str,
    table: StudyTable,
    seeds: Sequence[int],
    written: Mapping[str, Any],
    added: Sequence[PolicySpec],
    runs: Sequence[Run],
) -> dict[str, Any]:
    """The study as a table that can be run again, with every default said."""
    if table.sweep:
        policies = [*written["policies"], *(spec.written() for spec in added)]
    else:
        policies = list({run.policy.label: run.policy.written() for run in runs}.values())
    plugins = runs[0].plugins
    return {
        "name": name,
        "question": table.question,
        "ties": str(table.ties),
        "seeds": list(seeds),
        "policies": policies,
        **({"plugins": [Path(one).name if is_file(one) else one for one in plugins]} if plugins else {}),
        **{key: written[key] for key in AS_WRITTEN if key in written},
        "clusters": list(written["clusters"]),
        "workloads": list(written["workloads"]),
    }
