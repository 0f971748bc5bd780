"""EASY++ against a twin in plain Python, by hand, and what it may know."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_easy_plus_plus import STEPS, Ask, Machine
from plain_first_fit import first_fit
from small_worlds import workload_of
from tries import draws

from unrack import Cluster
from unrack.core import Core
from unrack.errors import PolicyError
from unrack.policy.prediction.easy_plus_plus import CORRECTIONS, ROUNDS, TIMES, EasyPlusPlus
from unrack.policy.prediction.forecast import Correction, expected_end_us
from unrack.policy.table import parse_policy
from unrack.sim.faults import Fault
from unrack.sim.kernel import Kernel
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.study.grid import load_study
from unrack.workload.job import JobTable, job_table

S = 1_000_000
HOUR = 3600


def table(asks: Sequence[Ask]) -> JobTable:
    submit, run, size, request, user = np.array(asks, np.int64).T
    return job_table(
        submit_us=submit * S, work_us=run * S, tasks=size, request_us=request * S, user=pl.Series(user.tolist())
    )


def starts(asks: Sequence[Ask], processors: int, policy: Any, ties: str = "together") -> list[int]:
    cluster = Cluster.homogeneous(nodes=processors, cores=1)
    result = simulate(cluster, workload_of(table(asks)), policy, world=World(ties=ties), audit=False)
    return [int(start) for start in result.jobs.sort("job")["start_s"]]


def ask(row: tuple[int, int, int, int, int]) -> Ask:
    return Ask(*row)


ASKS = st.lists(
    st.tuples(
        st.integers(0, 40), st.integers(0, 25), st.integers(1, 4), st.integers(0, 30), st.integers(0, 2),
    ).map(ask),
    min_size=1, max_size=30,
).map(sorted)  # fmt: skip
KEYS = st.fixed_dictionaries({
    "correction": st.sampled_from(list(CORRECTIONS)), "predict_at": st.sampled_from(TIMES),
    "rounds": st.sampled_from(ROUNDS),
})  # fmt: skip


@draws(300)
@given(asks=ASKS, processors=st.integers(4, 7), keys=KEYS, ties=st.sampled_from(["together", "submit-first"]),
       scale=st.sampled_from([1, 40, 20_000]))  # fmt: skip
def test_starts_are_those_of_the_twin(
    asks: list[Ask], processors: int, keys: dict[str, str], ties: str, scale: int
) -> None:
    asks = [one._replace(run=one.run * scale, request=one.request * scale, submit=one.submit * scale) for one in asks]
    assert starts(asks, processors, EasyPlusPlus(**keys), ties) == Machine(processors, ties=ties, **keys).starts(asks)


@pytest.mark.long
@pytest.mark.needs_data
@pytest.mark.parametrize("ties", ["together", "submit-first"])
@pytest.mark.parametrize(
    ("correction", "predict_at", "rounds"),
    [
        ("steps", "submission", "events"),
        ("steps", "pass", "corrections"),
        ("added-steps", "submission", "events"),
        ("request", "pass", "events"),
    ],
)
def test_starts_are_those_of_the_twin_on_a_real_log(
    data: Path, correction: str, predict_at: str, rounds: str, ties: str
) -> None:
    with gzip.open(data / "swf" / "KTH-SP2.easy-reference.swf.gz", "rt") as lines:
        rows = [[int(field) for field in line.split()[:12]] for line in lines if not line.startswith(";")][:5000]
    asks = [Ask(row[1], row[3], row[7], row[8], row[11]) for row in sorted(rows, key=lambda row: (row[1], row[0]))]
    keys = {"correction": correction, "predict_at": predict_at, "rounds": rounds}
    found = starts(asks, 100, EasyPlusPlus(**keys), ties)
    assert found == Machine(100, ties=ties, **keys).starts(asks)
    assert found != starts(asks, 100, "easy(backfill_order=sjf)", ties)


@draws(60)
@given(asks=ASKS, keys=KEYS, order=st.sampled_from(["sjf", "fcfs", "wfp3", "largest"]))
def test_a_placement_of_ones_own_decides_as_the_compiled_pass(
    asks: list[Ask], keys: dict[str, str], order: str
) -> None:
    own = EasyPlusPlus(place=first_fit, backfill_order=order, **keys)
    assert starts(asks, 4, own) == starts(asks, 4, EasyPlusPlus(backfill_order=order, **keys))


class Forgetful:
    """Begins anew at every round, from what the ledger tells."""

    def __init__(self, inner: EasyPlusPlus) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def decide(self, view: Any, memory: Any, now: int) -> Any:
        return self.inner.decide(view, self.inner.begin(view), now)


@draws(100)
@given(asks=ASKS, keys=KEYS)
def test_what_a_new_beginning_makes_of_the_ledger_is_what_was_remembered(asks: list[Ask], keys: dict[str, str]) -> None:
    asks = [one._replace(run=one.run + 1) for one in asks]
    assert starts(asks, 5, Forgetful(EasyPlusPlus(**keys))) == starts(asks, 5, EasyPlusPlus(**keys))


def test_run_times_that_are_requested_exactly_and_never_repeat_give_easy_with_shortest_first() -> None:
    random = np.random.default_rng(3)
    rows = np.stack([np.sort(random.integers(0, 4000, 200)), random.integers(1, 300, 200), random.integers(1, 9, 200)])
    asks = [Ask(submit, run, size, run, user) for user, (submit, run, size) in enumerate(rows.T.tolist())]
    for order in ("sjf", "fcfs"):
        mine = starts(asks, 16, f"easy++(backfill_order={order})")
        assert mine == starts(asks, 16, f"easy(backfill_order={order})")


# --- by hand ----------------------------------------------------------------------------------------------------------

# Two processors. User 1 asks for an hour each time and runs 10 and 20 s: the next is expected to run 15 s.
BEFORE = [Ask(0, 10, 1, HOUR, 1), Ask(0, 20, 1, HOUR, 1)]


def test_the_last_two_run_times_of_the_user_let_a_job_pass() -> None:
    head = [Ask(100, 16, 1, 16, 2), Ask(101, 50, 2, 50, 3)]
    passing = Ask(101, 15, 1, HOUR, 1)
    assert starts([*BEFORE, *head, passing], 2, "easy++") == [0, 0, 100, 116, 101]
    assert starts([*BEFORE, *head, passing], 2, "easy") == [0, 0, 100, 116, 166]
    once = [BEFORE[0], *head, passing]
    assert starts(once, 2, "easy++") == [0, 100, 116, 166], "one run is no history: the request counts"
    assert starts([*BEFORE, *head, passing._replace(user=4)], 2, "easy++") == [0, 0, 100, 116, 166]


def test_the_shortest_predicted_passes_first() -> None:
    short, long = Ask(102, 5, 1, HOUR, 1), Ask(101, 14, 1, 14, 2)
    asks = [*BEFORE, Ask(90, 30, 1, 30, 5), Ask(90, 13, 1, 13, 6), Ask(91, 9, 2, 9, 7), long, short]
    # at 103 a processor is free until the head starts at 120: the last two are expected to run 14 and 15 s
    assert starts(asks, 2, "easy++")[-2:] == [103, 129]
    asks[-2] = long._replace(run=16, request=16)
    assert starts(asks, 2, "easy++")[-2:] == [129, 103]


def test_a_job_that_outlives_its_prediction_lets_another_start_when_that_is_corrected() -> None:
    overdue = Ask(100, 1000, 1, HOUR, 1)  # expected: 15 s, then 75 s, then 315 s …
    head, waits = Ask(101, 10, 2, 10, 2), Ask(102, 40, 1, 40, 3)
    asks = [*BEFORE, overdue, head, waits]
    assert starts(asks, 2, "easy++(rounds=corrections)") == [0, 0, 100, 1100, 115]
    assert starts(asks, 2, "easy++") == [0, 0, 100, 1100, 1110]
    # twice: until 130, 160, 220
    assert starts(asks, 2, "easy++(correction=double, rounds=corrections)") == [0, 0, 100, 1100, 160]
    assert starts([*asks, Ask(110, 1, 2, 1, 4)], 2, "easy++")[4] == 1110
    assert starts([*asks, Ask(120, 1, 2, 1, 4)], 2, "easy++")[4] == 120


def test_a_correction_step_counts_from_the_first_prediction_and_replaces_the_step_before() -> None:
    """Predicted: 15 s; then until 175 s (1 min), 415 s (5 min) and 1015 s (15 min) in place of 475 and 1375 s."""
    overdue, head = Ask(100, 2000, 1, HOUR, 1), Ask(101, 10, 2, 10, 2)
    for correction, seen in (("steps", 416), ("added-steps", 476)):
        before, after = (
            starts([*BEFORE, overdue, head, Ask(at, 300, 1, 300, 3)], 2, f"easy++(correction={correction})")[-1]
            for at in (seen - 2, seen)
        )
        assert (before, after) == (2110, seen), correction


def test_a_prediction_follows_the_history_or_is_made_once() -> None:
    # the passing job comes at 5, before the runs of its user have ended at 10 and 20
    blocker, head = Ask(0, 200, 1, 200, 2), Ask(1, 50, 4, 50, 3)
    asks = [*BEFORE, blocker, head, Ask(5, 60, 2, HOUR, 1)]
    assert starts(asks, 4, "easy++(predict_at=pass)")[-1] == 20
    assert starts(asks, 4, "easy++")[-1] == 250


@pytest.mark.parametrize("rule", list(Correction))
def test_predictions_grow_up_to_the_request(rule: Correction) -> None:
    request, ends, run = 500 * HOUR * S, [], 15 * S
    while run < request:
        run = expected_end_us(0, 15 * S, request, run, int(rule))
        ends.append(run)
    if rule == Correction.STEPS:
        assert ends == [15 * S + step for step in STEPS] + [request]
    elif rule == Correction.ADDED_STEPS:
        assert ends == [15 * S + sum(STEPS[: k + 1]) for k in range(len(STEPS))] + [request]
    elif rule == Correction.REQUEST:
        assert ends == [request]
    else:
        assert ends == [min(request, 15 * S * 2**k) for k in range(1, len(ends) + 1)]
    assert expected_end_us(7, 0, 0, 9, int(rule)) == 7, "beyond the request nothing is expected"


# --- what it may know -------------------------------------------------------------------------------------------------


def test_only_ended_jobs_show_how_long_they_ran() -> None:
    random = np.random.default_rng(1)
    rows = np.stack([np.sort(random.integers(0, 200, 60)), random.integers(0, 30, 60), random.integers(1, 4, 60)])
    asks = [Ask(submit, run, size, 40, run % 3) for submit, run, size in rows.T.tolist()]
    faults = (Fault("node0", 30 * S, 5 * S), Fault("node2", 90 * S, 9 * S))
    core = Core(Cluster.homogeneous(nodes=4, cores=1), table(asks), EasyPlusPlus())
    seen = []

    def look(now: int) -> None:
        view, runs = core.view, core.view.runs
        assert runs is not None
        assert len(runs.ran_us) == len(view.user) == view.jobs
        finished = np.flatnonzero(view.status == 3)
        assert sorted(runs.ended.tolist()) == finished.tolist()
        assert (runs.ran_us[finished] // S == rows[1][finished]).all()
        assert (np.delete(runs.ran_us, finished) == -1).all()
        running = view.running[1, : view.running_count]
        assert (runs.started_us[running] <= now).all()
        seen.append(len(finished))

    Kernel(core, World(faults=faults)).run(after_round=look)
    assert seen[-1] == 60


def test_the_ledger_keeps_no_runs_for_policies_that_do_not_learn() -> None:
    core = Core(Cluster.homogeneous(nodes=2, cores=1), table(BEFORE), parse_policy("easy"))
    assert core.view.runs is None


def test_a_policy_that_learns_and_expects_nothing_expects_booked_ends() -> None:
    class Learns:
        learns = True
        inner = parse_policy("easy")

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    random = np.random.default_rng(5)
    rows = np.stack([np.sort(random.integers(0, 150, 90)), random.integers(0, 9, 90), random.integers(1, 4, 90)])
    asks = [Ask(submit, run, size, run + run % 2, 1) for submit, run, size in rows.T.tolist()]
    assert starts(asks, 4, Learns(), "submit-first") == starts(asks, 4, "easy", "submit-first")


def test_a_workload_without_users_is_refused() -> None:
    nobody = table(BEFORE)
    nobody = job_table(submit_us=nobody.submit_us, work_us=nobody.work_us, tasks=nobody.tasks)
    with pytest.raises(PolicyError, match=r"easy\+\+: got a workload without users, wanted a workload with users"):
        simulate(Cluster.homogeneous(nodes=2, cores=1), workload_of(nobody), "easy++")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("easy++(correction=never)", "correction: got 'never', wanted one of steps, request, double, added-steps"),
        ("easy++(estimates=exact)", "the parameter 'estimates'"),
        ("easy+", "'easy++' perhaps"),
    ],
)
def test_what_is_not_there_is_refused(text: str, words: str) -> None:
    with pytest.raises(PolicyError) as error:
        parse_policy(text)
    assert words in str(error.value)


def test_a_study_names_it_with_its_plusses(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        'name = "plus"\npolicies = ["easy++", "easy++(correction=request, rounds=events)", '
        '{ name = "easy++", predict_at = "submission" }]\n'
        '[[clusters]]\nnodes = [{ count = 4, cores = 2 }]\n[[workloads]]\ntrace = "jobs.csv"\n'
    )
    (tmp_path / "jobs.csv").write_text("id,submit_s,run_s,tasks,user\n1,0,5,2,a\n2,1,5,8,b\n")
    names = [run.policy.label for run in load_study(path).runs]
    assert names[:2] == ["easy++", "easy++(correction=request, rounds=events)"]
    assert names[2].startswith("easy++(predict_at=submission")
