"""The laws of the contract, for every policy in every kind of world that it declares; each catches a planted bug."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl
import pytest
from law_worlds import CASES, IDS, S, World, attempts, begun, ledger, mixed, plain, recorded, words

from unrack.core import Core
from unrack.errors import RefusedError, RunError
from unrack.events import Submitted
from unrack.ledger.devices.columns import CHANGING
from unrack.ledger.lease import Lease
from unrack.ledger.state import RUNNING
from unrack.policy.contract import Decision, Policy, Resize, Start
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.file import complete
from unrack.policy.table import parse_policy
from unrack.sim.kernel import Kernel
from unrack.sim.log import RunLog
from unrack.sim.simulate import simulate
from unrack.sim.world import World as Physics
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table
from unrack.workload.usage.curves import UsageCurves

Make = Callable[[], str | Policy[Any]]


# --- the laws: each a check that fails with an AssertionError ---------------------------------------------------------


def check_causality(make: Make, world: World) -> None:
    """Jobs that come later, or not at all, change nothing earlier."""
    submit = world.jobs.submit_us
    middle = int(submit[len(submit) // 2])
    whole = begun(world, make()).run()
    for jobs in (world.jobs.take(submit < middle), with_strangers(world.jobs, middle)):
        other = begun(world, make(), jobs=jobs).run()
        assert attempts(other, middle) == attempts(whole, middle), "what comes later changed what was decided before"


def with_strangers(jobs: JobTable, at_us: int) -> JobTable:
    """The jobs submitted before a moment, and then others that ask for more of everything."""
    early = jobs.take(jobs.submit_us < at_us)
    late = jobs.take(jobs.submit_us >= at_us)
    asks = late.asks.copy()
    if jobs.slo is None:  # what servers ask of tiers is within their memory
        asks = late.asks[:, ::-1].copy()
        asks[0], asks[1:3] = 2, np.maximum(asks[1:3], 2)
    asks[3] += 7 * S

    def both(first: Any, last: Any) -> Any:
        return np.concatenate([first, last])

    return JobTable(
        ids=pl.concat([early.ids, late.ids]), submit_us=both(early.submit_us, late.submit_us),
        work_us=both(early.work_us, late.work_us + 3 * S), asks=np.ascontiguousarray(np.hstack([early.asks, asks])),
        priority=both(early.priority, late.priority + 9), deadline_us=both(early.deadline_us, late.submit_us + 5 * S),
        user=both(early.user, late.user), app=both(early.app, late.app[::-1]), user_names=jobs.user_names,
        app_names=jobs.app_names, slo=jobs.slo,
        usage=None if early.usage is None else and_none(early.usage, len(late)),
        devices={key: both(early.devices[key], late.devices[key][::-1]) for key in jobs.devices},
    )  # fmt: skip


def and_none(usage: UsageCurves, more: int) -> UsageCurves:
    """The same curves, and further jobs that have none."""
    first = np.append(usage.first, np.full(more, usage.first[-1]))
    return UsageCurves(first, usage.point, usage.at, usage.mb)


def check_arrival(make: Make, world: World) -> None:
    """A core that starts with no jobs at all gives the schedule of one that was made for the whole trace."""
    whole, brought = begun(world, make()).run(), begun(world, make(), arrivals=True).run()
    assert attempts(brought, 2**60) == attempts(whole, 2**60)
    assert brought.attempt_end_us.tolist() == whole.attempt_end_us.tolist()
    assert brought.state.tolist() == whole.state.tolist()
    assert {job: str(why) for job, why in brought.reasons.items()} == {
        job: str(why) for job, why in whole.reasons.items()
    }


class Forgetful:
    """A policy whose notes are made anew every few rounds, as after a restart."""

    def __init__(self, inner: Any, every: int) -> None:
        self.inner, self.every, self.rounds = inner, every, 0

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def seeded(self, seed: int) -> Forgetful:
        if hasattr(self.inner, "seeded"):
            self.inner = self.inner.seeded(seed)
        return self

    def decide(self, view: Any, memory: Any, now: int) -> Any:
        self.rounds += 1
        return self.inner.decide(view, self.inner.begin(view) if self.rounds % self.every == 0 else memory, now)


FORGET = {
    "random-fit": "what it draws depends on how much it has drawn",
    "flow": "how often others have passed a job is counted since it began",
}
"""Policies that go on otherwise after ``begin``, and why."""


def forgets(make: Make) -> bool:
    """Whether a policy, by its name, is one of those."""
    text = make()
    return isinstance(text, str) and text.partition("(")[0] in FORGET


def check_restart(make: Make, world: World) -> None:
    """``begin`` on a running cluster changes nothing: what was promised is kept, nobody is refused or forgotten."""
    usual = begun(world, made(make)).run()
    for every in (1, 3, 7):
        try:
            log = begun(world, Forgetful(made(make), every)).run()
        except RefusedError as error:
            raise AssertionError(f"made anew every {every} rounds: {error}") from None
        assert (log.state == 2).sum() == 0
        assert (log.state == 1).sum() <= (usual.state == 1).sum(), "a job that waits was forgotten"
        if not forgets(make):
            assert attempts(log, 2**60) == attempts(usual, 2**60), f"made anew every {every} rounds it goes another way"


def check_replay(make: Make, world: World) -> None:
    """The journal of a run, told to a fresh core that knows no jobs, gives the same decisions."""
    kernel = begun(world, make())
    journal = recorded(kernel)
    kernel.run()
    fresh = begun(world, make(), arrivals=True)
    for event, now, decisions in journal:
        if isinstance(event, Submitted):
            assert isinstance(event.job, int)
            event = Submitted(world.jobs.job(event.job), int(world.jobs.work_us[event.job]))
        assert [words(decision) for decision in told(fresh, event, now)] == decisions


def told(kernel: Kernel, event: Any, now: int) -> list[Decision]:
    """What a core answers to an event of another run; the speeds of a contended world follow its leases."""
    core, speeds = kernel.core, kernel.slowdown
    follows = core.view.contention is not None and speeds is not None
    running = core.state.running[1, : core.state.running_count].tolist() if follows else []
    before = {job: core.state.lease(job) for job in running}
    decisions = core.handle(event, now)
    if follows and speeds is not None:
        gone = [lease for job, lease in before.items() if core.state.conditions[job] != RUNNING]
        for decision in decisions:
            if isinstance(decision, Resize):
                gone += [before[decision.lease.job], decision.lease]
        for lease in (*gone, *(decision.lease for decision in decisions if isinstance(decision, Start))):
            speeds.touched(core.view, lease)
    return decisions


def check_purity(make: Make, world: World) -> None:
    """While a policy decides, the ledger cannot be written, and what it is shown cannot be made writable."""
    kernel = begun(world, made(make))
    core, policy = kernel.core, kernel.core.policy
    decide = policy.decide

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(policy, name)

        def decide(self, view: Any, memory: Any, now: int) -> Any:
            before = ledger(core)
            with locked(core):
                answer = decide(view, memory, now)
            assert ledger(core) == before, "decide changed the ledger"
            assert not list(writable(view)), f"the policy could write {list(writable(view))}"
            return answer

    core.policy = Watched()
    kernel.run()


@contextmanager
def locked(core: Core) -> Iterator[None]:
    """The ledger's arrays cannot be written meanwhile."""
    state = core.state
    arrays = [value for value in vars(state).values() if isinstance(value, np.ndarray)]
    arrays += [] if state.memory is None else list(state.memory)
    if state.devices is not None:  # copies share the other columns, and for read-only ones kernels are compiled anew
        arrays += [getattr(state.devices.columns, name) for name in CHANGING if name != "asked"]
    open_ones = [array for array in arrays if array.flags.writeable]
    for array in open_ones:
        array.flags.writeable = False
    try:
        yield
    except ValueError as error:
        raise AssertionError(f"decide tried to write the ledger: {error}") from error
    finally:
        for array in open_ones:
            array.flags.writeable = True


def writable(view: Any) -> Iterator[str]:
    """Public arrays of a view that can be written, by themselves or by an array that they come from."""
    for name in dir(type(view)):
        if name.startswith("_") or not isinstance(getattr(type(view), name), property):
            continue
        try:
            seen = getattr(view, name)
        except IndexError:
            continue
        yield from open_arrays(seen, name)
    for part in (view.cluster, view.cluster.devices, view.cluster.tiers):
        for name, value in vars(part).items() if part is not None else ():
            yield from open_arrays(value, f"{type(part).__name__}.{name}")


def open_arrays(seen: Any, name: str) -> Iterator[str]:
    """The name, for every array that can be written: the one seen, or one that it comes from."""
    while isinstance(seen, np.ndarray):
        if seen.flags.writeable:
            yield name
        seen = seen.base


def check_transactions(make: Make, world: World) -> None:
    """A plan of which one decision is refused changes nothing."""
    kernel = begun(world, made(make))
    core = kernel.core
    handle, refused = core.handle, 0

    def spoiling(event: Any, now: int) -> list[Decision]:
        nonlocal refused
        if type(event).__name__ == "Round":
            before = ledger(core)
            decisions, _ = core.policy.decide(core.view, copy.deepcopy(core.memory), now)
            if decisions:
                notes = copy.deepcopy(core.memory)
                core.policy = Saying(core.policy, [*decisions, decisions[0]])
                with pytest.raises(RefusedError):
                    handle(event, now)
                assert ledger(core) == before, "a refused plan changed the ledger"
                core.policy, core.memory = core.policy.inner, notes
                refused += 1
        return handle(event, now)

    core.handle = spoiling  # type: ignore[method-assign]
    kernel.run()
    assert refused


class Saying:
    """Decides what it is told to, once."""

    def __init__(self, inner: Any, decisions: list[Decision]) -> None:
        self.inner, self.decisions = inner, decisions

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def decide(self, view: Any, memory: Any, now: int) -> Any:
        return self.decisions, memory


def check_determinism(make: Make, world: World) -> None:
    """The same inputs and seed give the same log."""
    first, second = begun(world, make()).run(), begun(world, make()).run()
    assert attempts(first, 2**60) == attempts(second, 2**60)


def check_accounting(make: Make, world: World) -> None:
    """What the tables say was held is what there was: the audit of every run, from its tables alone."""
    workload = Workload("law", world.jobs, Intake("law", "test", len(world.jobs), len(world.jobs)))
    try:
        simulate(
            world.cluster,
            workload,
            make(),
            seed=5,
            world=Physics(faults=world.faults, models=world.models, contention=world.contention),
            core_tiles=None if world.cluster.torus is None else "quick",
        )
    except RunError as error:
        raise AssertionError(str(error)) from None


def made(make: Make) -> Any:
    chosen = make()
    return parse_policy(chosen) if isinstance(chosen, str) else chosen


LAWS = [check_causality, check_arrival, check_restart, check_replay, check_purity, check_transactions,
        check_determinism, check_accounting]  # fmt: skip


def in_turn(case: int, always: int) -> Iterator[tuple[Callable[[Make, World], None], tuple[pytest.MarkDecorator, ...]]]:
    """The laws for a case among many, each with its marks: all but ``always``, others for each case, are slow."""
    for number, law in enumerate(LAWS):
        yield law, () if (number - always * case) % len(LAWS) < always else (pytest.mark.slow,)


@pytest.mark.parametrize("other", [0, pytest.param(1, marks=pytest.mark.slow)], ids=["", "other world"])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__.removeprefix("check_"))
@pytest.mark.parametrize(("text", "kind"), CASES, ids=IDS)
def test_every_policy_keeps_every_law(
    law: Callable[[Make, World], None], text: str, kind: Callable[[int], World], other: int
) -> None:
    """Each in one of two worlds, half of the laws in the one; in the other with the slow tests."""
    law(lambda: text, kind((LAWS.index(law) + other) % 2))


@pytest.mark.parametrize("name", FORGET)
def test_what_is_said_to_go_on_otherwise_after_a_restart_does(name: str) -> None:
    kind = next(kind for text, kind in reversed(CASES) if text == name)
    text = f"{name}(interval=2 s, passes=1)" if name == "flow" else name
    for seed in range(8):
        world = kind(seed)
        again = Forgetful(parse_policy(text), 5)
        if attempts(begun(world, again).run(), 2**60) != attempts(begun(world, text).run(), 2**60):
            return
    raise AssertionError(f"{name} remembers all that it needs: take it off the list")


def test_a_plan_that_forgets_what_it_promised_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "resumed", Plan.begin)
    with pytest.raises(AssertionError, match="another way"):
        check_restart(lambda: "conservative(order=sjf)", plain(0))


# --- planted bugs -----------------------------------------------------------------------------------------------------


class Plain:
    """Starts whoever fits on the first node, one task a job at a time: a base for policies that break a law."""

    devices = True

    def decide(self, view: Any, memory: Any, now: int) -> tuple[list[Decision], Any]:
        free = view.free.copy()
        found: list[Decision] = []
        for job in self.order(view):
            tasks, cores, mb = view.asks[:3, job].tolist()
            for node in range(free.shape[1]):
                if tasks * cores <= free[0, node] and tasks * mb <= free[1, node]:
                    free[:, node] -= tasks * cores, tasks * mb
                    found.append(Start(Lease.on(job, [node], [tasks], [tasks * cores], [tasks * mb])))
                    break
        return found, memory

    def order(self, view: Any) -> list[int]:
        waiting: list[int] = view.queue.tolist()
        return waiting


class Foresees(Plain):
    """Looks at jobs that have not come yet."""

    def order(self, view: Any) -> list[int]:
        to_come = int(view._store.base.asks[1].sum())
        return sorted(super().order(view), key=lambda job: (job * to_come) % 7)


class CountsRows(Plain):
    """Decides by how much room the ledger has, which is more where a trace is known."""

    def order(self, view: Any) -> list[int]:
        room = view.columns.asks.shape[1]
        return sorted(super().order(view), key=lambda job: (job * room) % 7)


class OwnBooks(Plain):
    """Keeps what is free in its notes, which begin with an empty cluster."""

    def begin(self, view: Any) -> Any:
        return view.total.copy()

    def decide(self, view: Any, memory: Any, now: int) -> tuple[list[Decision], Any]:
        job = int(view.queue[0]) if view.waiting else -1
        if job >= 0 and view.running_count < 2:
            tasks, cores, mb = view.asks[:3, job].tolist()
            for node in range(memory.shape[1]):
                if tasks * cores <= memory[0, node] and tasks * mb <= memory[1, node]:
                    memory[:, node] -= tasks * cores, tasks * mb
                    return [Start(Lease.on(job, [node], [tasks], [tasks * cores], [tasks * mb]))], memory
        return [], memory


class Clock(Plain):
    """Decides by the clock on the wall."""

    def order(self, view: Any) -> list[int]:
        return sorted(super().order(view), key=lambda job: (job * time.perf_counter_ns()) % 1009)


class Writes(Plain):
    """Tries its decision on the ledger itself."""

    def decide(self, view: Any, memory: Any, now: int) -> tuple[list[Decision], Any]:
        free = view._state.free
        free[0, 0] -= 1
        free[0, 0] += 1
        return super().decide(view, memory, now)


class Shows(Plain):
    """Nothing wrong by itself: the view that it is shown can be written."""


class Steals(Plain):
    """Gives itself cores that are not there."""

    def decide(self, view: Any, memory: Any, now: int) -> tuple[list[Decision], Any]:
        view._state.free[0] += 3
        return super().decide(view, memory, now)


@pytest.mark.parametrize(
    ("law", "culprit"),
    [
        (check_causality, Foresees),
        (check_arrival, CountsRows),
        (check_restart, OwnBooks),
        (check_replay, Clock),
        (check_determinism, Clock),
        (check_purity, Writes),
        (check_accounting, Steals),
    ],
)
def test_every_law_catches_a_policy_that_breaks_it(law: Callable[[Make, World], None], culprit: type) -> None:
    def all_seeds() -> None:
        for seed in range(8):
            law(lambda: complete(culprit(), "test"), mixed(seed))

    with pytest.raises(AssertionError):
        all_seeds()


def test_a_view_that_can_be_written_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from unrack.view import View

    monkeypatch.setattr(View, "free", property(lambda view: view._state.free.view()))
    with pytest.raises(AssertionError):
        check_purity(lambda: complete(Shows(), "test"), mixed(0))


def test_a_core_that_commits_decision_by_decision_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_by_one(self: Core, decisions: list[Decision], now: int) -> None:
        for decision in decisions:
            self.carry_out(decision, now)

    monkeypatch.setattr(Core, "commit", one_by_one)
    with pytest.raises(AssertionError):
        check_transactions(lambda: "easy", mixed(0))


# --- by hand ----------------------------------------------------------------------------------------------------------


def jobs_of(*rows: tuple[int, int, int, int, int]) -> JobTable:
    """Jobs as (submit, run, tasks, request, cores per task), in seconds."""
    submit, run, tasks, request, cores = np.array(rows, np.int64).T
    return job_table(submit_us=submit * S, work_us=run * S, tasks=tasks, request_us=request * S, cores=cores)


def start_times(log: RunLog) -> list[int]:
    found = dict(zip(log.attempt_job.tolist(), (log.attempt_start_us // S).tolist(), strict=True))
    return [found[job] for job in sorted(found)]


def test_a_job_that_comes_much_later_changes_no_earlier_reservation() -> None:
    """The plan counted cores, and named nodes as soon as any job of the whole trace asked for two cores."""
    from unrack.cluster.spec import Cluster

    early = ((0, 6, 2, 1, 1), (1, 1, 2, 10, 1), (2, 4, 3, 4, 1))
    cluster = Cluster.homogeneous(nodes=2, cores=2)
    for rows, want in ((early, [0, 1, 6]), ((*early, (1000, 1, 1, 1, 2)), [0, 1, 6, 1000])):
        assert start_times(begun(World(cluster, jobs_of(*rows)), "conservative").run()) == want


@pytest.mark.parametrize("seed", range(25))
def test_no_reservation_is_later_because_the_plan_has_to_name_nodes_from_now_on(seed: int) -> None:
    world = plain(seed)._replace(faults=())
    honest = world._replace(jobs=job_table(
        submit_us=world.jobs.submit_us, work_us=world.jobs.work_us, tasks=world.jobs.tasks,
    ))  # fmt: skip
    last = int(honest.jobs.submit_us[-1])
    kernel = begun(World(honest.cluster, with_one_more(honest.jobs, last)), "conservative")
    reserved: dict[int, int] = {}

    def after_round(now: int) -> None:
        plan = kernel.core.memory
        for job in kernel.core.view.queue.tolist():
            start = plan.reserved(job)
            assert start >= 0
            assert start <= reserved.setdefault(job, start), "a reservation was delayed"

    log = kernel.run(after_round=after_round)
    for job, start in zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True):
        assert start <= reserved.get(job, start)


def with_one_more(jobs: JobTable, at_us: int) -> JobTable:
    """The jobs and, at the end, one that asks for memory, from which on nodes are named."""
    count = len(jobs)
    return job_table(
        submit_us=np.append(jobs.submit_us, at_us), work_us=np.append(jobs.work_us, 5 * S),
        tasks=np.append(jobs.tasks, 1), cores=np.append(np.ones(count, np.int64), 0),
    )  # fmt: skip
