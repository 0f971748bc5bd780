"""Predicted starts: what is learnt, what is drawn, what is saved, and how good it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from now_readings import AT_S, ended, node, reading, running, waiting
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import InputError, TraceError
from unrack.live.prediction.forecast import Forecast, forecast_from, learnt_from
from unrack.live.prediction.hindsight import hindsight
from unrack.live.prediction.learnt import LEAST, Learnt, Past
from unrack.live.prediction.saved import Saved, SavedStart, load_saved, save
from unrack.live.prediction.starts import predicted, quicker
from unrack.live.slurm.constraints import Partition
from unrack.live.slurm.prediction.accounting import _runs
from unrack.live.slurm.prediction.forecast import forecast_of, learnt_now
from unrack.live.slurm.prediction.seen import past_of_reading, seen_starts
from unrack.live.slurm.snapshot.snapshot import snapshot_of
from unrack.slurm_text.scheduler import Scheduler

FULL = [running(number, {f"n{number}": (8, 100)}) for number in range(1, 5)]  # all end in 540 s at the latest
QUEUE = [*FULL, *(waiting(number, cpus=8) for number in range(11, 16))]
HALF = Learnt.of([Past("bob", 300, 600)] * LEAST + [Past("ann", 60, 600)] * LEAST, "a list")


def forecast(jobs: list, learnt: Learnt = HALF, policies: tuple[str, ...] = (), **more: object) -> Forecast:  # type: ignore[type-arg]
    return forecast_of(reading(jobs), Scheduler(kind="builtin"), learnt, policies, draws=10, **more)  # type: ignore[arg-type]


def test_starts_follow_from_the_limits_of_those_that_run() -> None:
    starts = forecast(QUEUE, Learnt()).predictions[0].starts
    assert [start.requested_s for start in starts] == [540, 540, 540, 540, 1140]
    assert [start.middle_s for start in starts] == [540, 540, 540, 540, 1140]
    assert {start.runs for start in starts} == {0}


@pytest.mark.parametrize("kind", ["builtin", "backfill"])
def test_a_queue_is_there_at_once_so_that_no_job_starts_before_another_of_it_has_come(kind: str) -> None:
    """Job 2 came first and has room now, but would delay job 3, which goes before it."""
    late = waiting(3, cpus=8, priority=1000)
    jobs = [running(1, {"n1": (4, 100)}), waiting(2, cpus=4, priority=1, submit_s=int(AT_S) - 500), late]
    made = forecast_of(reading(jobs, [node("n1")]), Scheduler(kind=kind), Learnt())
    assert [(start.job, start.requested_s) for start in made.predictions[0].starts] == [("2", 1140), ("3", 540)]


def test_learnt_run_times_of_both_users_bring_starts_forward() -> None:
    starts = forecast(QUEUE).predictions[0].starts
    assert [start.early_s for start in starts] == [240, 240, 240, 240, 300]  # bob's end after 300, ann's take 60
    assert [start.requested_s for start in starts] == [540, 540, 540, 540, 1140]
    assert {(start.runs, start.of_user) for start in starts} == {(LEAST, True)}


def test_a_range_is_in_order_and_the_same_for_the_same_seed() -> None:
    random = np.random.default_rng(1)
    learnt = Learnt.of([Past("x", float(ran), 600) for ran in random.integers(1, 600, 50)], "drawn")
    one, same, other = (forecast(QUEUE, learnt, seed=seed).predictions[0].starts for seed in (1, 1, 2))
    assert one == same != other
    for start in one:
        assert start.early_s is not None
        assert start.middle_s is not None
        assert start.early_s <= start.middle_s <= (start.late_s or np.inf)
        assert not start.of_user


def test_long_queues_are_drawn_with_fewer_backfills_and_short_ones_as_configured() -> None:
    for waits, same in ((5, True), (400, False)):
        jobs = [*FULL, *(waiting(100 + number, cpus=8, limit_s=7200) for number in range(waits))]
        taken = snapshot_of(reading(jobs), Scheduler(backfill_depth=50))
        quick = quicker(taken.policy, taken.cluster, taken.workload.jobs)
        assert isinstance(quick, dict)
        assert (quick["interval"] == 30) is same
        assert quick["depth"] == 50
        assert float(quick["interval"]) % 30 == 0


def test_other_policies_stand_beside_the_present_one() -> None:
    made = forecast(QUEUE, policies=("easy", "list(order=smallest)"))
    assert [prediction.policy for prediction in made.predictions] == [
        "present (builtin)",
        "easy",
        "list(order=smallest)",
    ]
    with pytest.raises(InputError, match="second"):
        forecast(QUEUE, policies=("easy", "easy"))
    with pytest.raises(InputError, match="policy"):
        forecast(QUEUE, policies=("no-such",))


def test_a_job_that_never_fits_has_no_start_and_says_why() -> None:
    start = forecast([waiting(1, cpus=8, nodes_min=9, nodes_max=9)]).predictions[0].starts[0]
    assert (start.requested_s, start.late_s) == (None, None)
    assert "9" in start.why


def test_parts_that_share_no_nodes_are_looked_at_one_by_one() -> None:
    nodes = [node("n1"), node("x1", partitions=frozenset({"other"}))]
    jobs = [running(1, {"n1": (8, 1)}), waiting(2, cpus=8), waiting(3, cpus=8, partition="other"),
            waiting(4, cpus=8, partition="main,other")]  # fmt: skip
    made = forecast_of(reading(jobs, nodes), Scheduler(kind="builtin"), Learnt())
    assert {start.job: start.requested_s for start in made.predictions[0].starts} == {
        "2": 540, "3": pytest.approx(0, abs=1e-3), "4": 600
    }  # fmt: skip


HALVES = [node("n1", partitions=frozenset({"left"})), node("n2", partitions=frozenset({"right"}))]


def test_parts_that_share_licences_are_looked_at_together() -> None:
    """Those that ran with a licence in one part were not seen in the other: it was free there."""
    jobs = [
        running(1, {"n1": (1, 100)}, partition="left", licences={"lic": 2}),
        waiting(2, partition="right", licences={"lic": 1}),
    ]
    made = forecast_of(reading(jobs, HALVES, {"lic": 2}), Scheduler(kind="builtin"), Learnt())
    assert [start.requested_s for start in made.predictions[0].starts] == [540]


def test_a_part_of_which_all_nodes_are_out_of_service_keeps_no_other_from_being_looked_at() -> None:
    """There was no prediction at all."""
    down = node("n2", partitions=frozenset({"right"}), words=frozenset({"DOWN"}))
    seen = reading([waiting(1, partition="left"), waiting(2, partition="right")], [HALVES[0], down])
    seen = replace(seen, partitions={name: Partition(name) for name in ("left", "right")})
    made = forecast_of(seen, Scheduler(kind="builtin"), Learnt())
    assert [(start.job, round(start.requested_s or 0)) for start in made.predictions[0].starts] == [("1", 0)]
    assert [(one.job, one.waits_for) for one in made.aside] == [("2", "its partition")]


def test_a_system_in_which_nobody_waits_has_no_predictions() -> None:
    assert forecast(FULL).predictions == ()
    assert forecast([]).predictions == ()


@given(st.lists(st.floats(0, 2), max_size=20), st.integers(1, 10**9), st.integers(0, 2 * 10**9), st.integers(0, 99))
def test_a_draw_is_longer_than_what_has_run_and_within_the_limit(
    shares: list[float], limit_us: int, ran_us: int, seed: int
) -> None:
    learnt = Learnt.of([Past("u", share * 100, 100) for share in shares], "drawn")
    drawn = learnt.draw_us(np.random.default_rng(seed), "u", limit_us, ran_us)
    assert drawn > ran_us
    assert drawn <= max(limit_us, ran_us + 1)


def test_few_runs_of_a_user_are_not_learnt_from_alone() -> None:
    learnt = Learnt.of([Past("ann", 10, 100)] * (LEAST - 1) + [Past("bob", 90, 100)] * LEAST, "a list")
    assert learnt.shares("ann")[1] is False
    assert len(learnt.shares("ann")[0]) == 2 * LEAST - 1
    assert learnt.shares("bob")[1] is True


def test_what_slurm_remembers_is_learnt_from_where_there_are_no_accounts() -> None:
    seen = reading([ended(1, 30, 60), ended(2, 30, 0), ended(3, 60, 60, state="TIMEOUT"), waiting(4), FULL[0]])
    assert [run.ran_s for run in past_of_reading(seen)] == [30, 60]
    assert learnt_now(seen, []).runs == 2
    assert learnt_now(seen, [Past("x", 1, 2)]).source == "sacct"
    line = Saved(at_s=1, starts={}, ended=[("ann", 5, 60), ("ann", 5, 60)])
    assert learnt_now(seen, [], [line, line]).runs == 4  # each run once, though two lines tell of it


def test_accounts_are_read_line_by_line_and_what_is_odd_is_passed_over() -> None:
    listed = b"ann|100|10\nbob|5|UNLIMITED\nx|y\n\xff\xfe|7|1\nc|0|5\n"
    assert list(_runs(listed)) == [Past("ann", 100, 600), Past("\ufffd\ufffd", 7, 60)]


def test_a_file_of_the_past_is_learnt_from(tmp_path: Path) -> None:
    (tmp_path / "past.csv").write_text("submit,run,request,user\n0,30,60,ann\n5,60,60,bob\n")
    assert learnt_from(tmp_path / "past.csv").every.tolist() == [0.5, 1.0]


# --- saved and compared -----------------------------------------------------------------------------------------------


def test_what_is_saved_is_read_back_and_a_line_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    path, made = tmp_path / "p.jsonl", forecast([*QUEUE, ended(99, 5, 60)])
    save(path, made.saved)
    save(path, made.saved)
    assert load_saved(path) == [made.saved, made.saved]
    assert made.saved.started["1"] == AT_S - 60
    path.write_bytes(path.read_bytes()[:-20])
    assert load_saved(path) == [made.saved]


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"at_s": 1}', '{"at_s": NaN, "starts": {}}', '{"at_s":1,"starts":{},"x":2}']
)
def test_a_line_that_is_none_of_ours_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(f'{{"at_s": 1, "starts": {{}}}}\n{line}\n')
    with pytest.raises(TraceError, match="line 2"):
        load_saved(path)


def saved(at_s: float, started: dict[str, float] | None = None, **starts: tuple[float, float, float, float]) -> Saved:
    listed = [
        SavedStart(job=job[1:], requested_s=one[0], early_s=one[1], middle_s=one[2], late_s=one[3])
        for job, one in starts.items()
    ]
    return Saved(at_s=at_s, starts={"easy": listed}, started=started or {})


def test_hindsight_counts_each_job_once_by_its_first_prediction() -> None:
    lines = [
        saved(100, j1=(400, 110, 200, 300), j2=(400, 110, 200, 300), j3=(400, 110, 200, 300), j4=(400, 1, 2, 3)),
        saved(150, {"1": 210}, j2=(500, 490, 495, 500)),
    ]
    found = hindsight(lines, {"2": 350.0, "3": 90.0})  # 3 started before it was predicted: another job of that number
    assert len(found) == 1
    assert (found[0].compared, found[0].open) == (2, 2)
    assert found[0].error_s is not None
    assert found[0].error_s[1] == 80  # 10 and 150
    assert found[0].within == 0.5
    assert found[0].later == 1.0
    assert "later" in found[0].bias
    assert found[0].requested_error_s is not None
    assert found[0].requested_error_s[1] == -120


def test_hindsight_without_a_start_says_so() -> None:
    found = hindsight([saved(100, j1=(400, 110, 200, 300))], {})
    assert found[0].bias == "nothing to compare yet"
    assert found[0].error_s is None


def test_predictions_of_a_simulated_world_hold_where_jobs_run_as_they_ask() -> None:
    taken = snapshot_of(reading(QUEUE), Scheduler(kind="builtin"))
    made = predicted(taken.cluster, taken.workload, taken.policy, Learnt())
    later = {start.job: AT_S + (start.requested_s or 0) for start in made.starts}
    found = hindsight([forecast(QUEUE, Learnt()).saved], later)
    assert (found[0].compared, found[0].within, found[0].bias) == (5, 1.0, "not biased")


def test_starts_that_are_seen_are_those_of_jobs_and_of_members() -> None:
    member = running(30, {"n1": (1, 1)}, array=29, member=4)
    assert seen_starts(reading([FULL[0], member, waiting(5, start_s=int(AT_S) + 9)])) == {
        "1": AT_S - 60,
        "29_4": AT_S - 60,
    }


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def study(tmp_path: Path) -> Path:
    snapshot_of(reading(QUEUE), Scheduler(kind="builtin")).write(tmp_path / "now.toml")
    (tmp_path / "past.csv").write_text("submit,run,request,user\n" + "0,300,600,bob\n0,60,600,ann\n" * LEAST)
    return tmp_path / "now.toml"


def test_predictions_from_a_file_are_those_of_the_moment(study: Path) -> None:
    history = study.parent / "past.csv"
    made = forecast_from(study, ["easy"], history, draws=10)
    assert made.predictions[0].starts == forecast(QUEUE).predictions[0].starts
    assert [one.policy for one in made.predictions] == ["present (builtin)", "easy"]
    assert made.facts["11"].user == "ann"
    assert made.facts["11"].waited_s == 100


def test_the_command_prints_a_table_of_80_columns_and_json(study: Path) -> None:
    run = CliRunner()
    words = ["slurm", "predict", "--from", str(study), "--history", str(study.parent / "past.csv"), "--draws", "5"]
    told = run.invoke(app, words, env={"COLUMNS": "80"})
    assert told.exit_code == 0, told.output
    assert max(map(len, told.output.splitlines())) <= 80
    assert "5 own" in told.output
    found = json.loads(run.invoke(app, [*words, "--json"]).output)
    assert found["learnt_from"]["runs"] == 2 * LEAST
    assert found["predictions"][0]["starts"][4]["requested_s"] == 1140


def test_the_command_saves_and_looks_back(study: Path) -> None:
    kept = study.parent / "kept.jsonl"
    words = ["slurm", "predict", "--from", str(study), "--save", str(kept)]
    assert CliRunner().invoke(app, words).exit_code == 0
    told = CliRunner().invoke(app, [*words, "--since", str(kept)])
    assert "5 have not" in told.output
    assert len(load_saved(kept)) == 2


@pytest.mark.parametrize("words", [["--since", "soon"], ["--since", "2 h"], ["--partition", "main"]])
def test_what_does_not_go_together_is_refused(study: Path, words: list[str]) -> None:
    told = CliRunner().invoke(app, ["slurm", "predict", "--from", str(study), *words])
    assert isinstance(told.exception, InputError)
