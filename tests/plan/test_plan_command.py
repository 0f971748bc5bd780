"""``unrack plan`` as its users call it, and what it says of wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import unrack
from unrack.cli.main import app
from unrack.errors import InputError

STUDY = """question = "How many nodes?"
policies = ["easy"]
[[clusters]]
name = "nodes"
nodes = [{count = 4, cores = 8}]
[[workloads]]
name = "some"
generate = {jobs = 30, arrivals = {gap_s = 60}, classes = [CLASS]}
""".replace("CLASS", '{run_s = {kind = "exponential", mean = 300}, cores = 4, tasks = 2}')
PLAN = """[plan]
goals = ["wait_s_p95 < 10 min"]
seeds = 4
share = 0.75
prices = {node = 100}
[plan.vary]
"clusters.0.nodes.0.count" = "1..6"
"""
COUNT = "clusters.0.nodes.0.count=1..6"


def call(tmp_path: Path, *arguments: str, text: str = STUDY) -> tuple[int, str]:
    (tmp_path / "study.toml").write_text(text)
    command = ["plan", str(tmp_path / "study.toml"), "-j", "1", "--out", str(tmp_path / "out"), *arguments]
    done = CliRunner().invoke(app, command)
    if isinstance(done.exception, InputError):
        return done.exception.exit_code, str(done.exception)
    return done.exit_code, done.output


def test_a_plan_in_the_study_needs_no_options_and_leaves_a_page_and_json(tmp_path: Path) -> None:
    code, said = call(tmp_path, text=STUDY + PLAN)
    assert code == 0, said
    found = json.loads((tmp_path / "out" / "plan.json").read_text())
    own = found["lines"][0]["answer"]
    assert own["cost"]["total"] == 100 * own["values"]["clusters.0.nodes.0.count"]
    assert f"nodes = {own['values']['clusters.0.nodes.0.count']} for" in said
    page = (tmp_path / "out" / "plan.html").read_text()
    assert page.count('<div class="plot"></div>') == 1
    assert len(json.loads(page.partition('id="charts-data">')[2].partition("</script>")[0])) == 1
    assert "How many nodes?" in page
    assert "EXAMPLES" not in said


def test_json_is_the_answer_and_nothing_else(tmp_path: Path) -> None:
    code, said = call(tmp_path, "--json", text=STUDY + PLAN)
    assert code == 0
    assert json.loads(said)["lines"][0]["answer"]["verdict"] == "meets"


def test_in_python_the_answer_is_that_of_the_command(tmp_path: Path) -> None:
    code, said = call(tmp_path, "--json", text=STUDY + PLAN)
    assert code == 0
    found = unrack.plan_study(tmp_path / "study.toml", directory=tmp_path / "python")
    told = json.loads(said)
    assert dict(found.found) == {key: value for key, value in told.items() if key not in ("directory", "report")}
    assert found.page is not None
    assert found.page.read_bytes() == (tmp_path / "out" / "plan.html").read_bytes()
    assert repr(found).startswith("<plan for wait_s_p95 < 10 min")
    assert ">easy on " in found._repr_html_()
    other = unrack.plan_study(tmp_path / "study.toml", ["served > 1 %"], {"clusters.0.nodes.0.count": [2, 3]}, seeds=2)
    assert other.page is None
    assert other.lines[0]["answer"]["values"] == {"clusters.0.nodes.0.count": 2}
    assert "smaller ones may do" in other.lines[0]["sentence"]
    assert found.found["question"] == "How many nodes?"
    assert other.found["question"] is None, "these goals are not what the study asks"


def test_goals_that_small_and_large_systems_miss_are_met_between_them(tmp_path: Path) -> None:
    goals = ["--goal", "wait_s_p95 < 1 min", "--goal", "utilisation_cores > 60 %", "--seeds", "1"]
    few, every = (
        json.loads(call(tmp_path, "--json", *goals, "--vary", "clusters.0.nodes.0.count=1..60", "--search", way)[1])
        for way in ("bisect", "every")
    )
    assert few["lines"][0]["answer"]["values"] == every["lines"][0]["answer"]["values"]
    assert few["lines"][0]["answer"]["verdict"] == "meets"
    assert len(few["lines"][0]["tried"]) < 25


@pytest.mark.parametrize(("right", "wrong"), [("wait_s_p95", "waits"), ("goals", "goal"), ("1..6", "6..1")])
def test_a_run_refuses_a_plan_that_cannot_be(right: str, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY + PLAN.replace(right, wrong))
    done = CliRunner().invoke(app, ["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, InputError)
    assert "plan" in str(done.exception)
    assert wrong in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_options_take_the_place_of_what_the_study_says(tmp_path: Path) -> None:
    arguments = (
        "--goal",
        "served >= 100 %",
        "--seeds",
        "2",
        "--vary",
        "clusters.0.nodes.0.count=5,6",
        "--share",
        "100 %",
    )
    code, said = call(tmp_path, *arguments, "--json", text=STUDY + PLAN)
    assert code == 0, said
    found = json.loads(said)
    assert (found["goals"], found["seeds"], found["served_by_default"]) == (["served >= 100 %"], 2, False)
    assert [one["values"]["clusters.0.nodes.0.count"] for one in found["lines"][0]["tried"]] == [5, 6]


def test_prices_that_nobody_gave_are_called_examples(tmp_path: Path) -> None:
    code, said = call(tmp_path, "--goal", "wait_s_mean < 1 h", "--vary", COUNT, "--seeds", "2")
    assert code == 0, said
    assert "EXAMPLES" in said
    assert "examples that belong to no vendor" in (tmp_path / "out" / "plan.html").read_text()


def test_where_nothing_is_drawn_one_run_of_each_system_is_enough(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submit_s,run_s,tasks\n" + "".join(f"{10 * i},100,2\n" for i in range(20)))
    text = STUDY[: STUDY.index("[[workloads]]")] + "[[workloads]]\ntrace = 'jobs.csv'\n"
    code, said = call(
        tmp_path, "--goal", "wait_s_max < 1 s", "--vary", "clusters.0.nodes.0.count=1..4", "--json", text=text
    )
    assert code == 0, said
    found = json.loads(said)
    assert not found["drawn"]
    assert {one["seeds"] for one in found["lines"][0]["tried"]} == {1}
    assert found["lines"][0]["answer"]["values"] == {"clusters.0.nodes.0.count": 3}, (
        "20 cores for at most 20 s of each 10"
    )


def test_keys_of_presets_and_of_files_can_be_varied(tmp_path: Path) -> None:
    (tmp_path / "machine.toml").write_text("nodes = [{count = 9, cores = 8}]\nprices = {node = 10}\n")
    jobs = STUDY[STUDY.index("[[workloads]]") :]
    text = f"policies = ['easy']\n[[clusters]]\nfile = 'machine.toml'\nname = 'mine'\n{jobs}"
    code, said = call(tmp_path, "--goal", "served > 1 %", "--vary", COUNT, "--seeds", "1", "--json", text=text)
    assert code == 0, said
    line = json.loads(said)["lines"][0]
    assert (line["cluster"], line["answer"]["cost"]["total"]) == ("mine", 10)
    text = f"policies = ['easy']\n[[clusters]]\npreset = 'nvme-pool'\n{jobs}"
    vary = "clusters.0.pools.0.count=2..3"
    code, said = call(tmp_path, "--goal", "served > 1 %", "--vary", vary, "--seeds", "1", "--json", text=text)
    assert code == 0, said
    assert json.loads(said)["lines"][0]["answer"]["cost"]["items"][-2]["amount"] == 2
    code, said = call(tmp_path, "--goal", "served > 1 %", "--vary", vary, text=text.replace("nvme-pool", "nvme-pol"))
    assert code == 2
    assert "'nvme-pool' perhaps" in said


def test_jobs_that_no_system_can_run_are_said_with_what_helps(tmp_path: Path) -> None:
    text = STUDY.replace("cores = 4, tasks = 2}", "cores = {kind = 'choice', values = [4, 9]}}")
    goal = ("--goal", "wait_s_mean < 1 h", "--vary", COUNT, "--seeds", "2")
    code, said = call(tmp_path, *goal, "--json", text=text)
    assert code == 1, said
    sentence = json.loads(said)["lines"][0]["sentence"]
    assert "leave work undone" in sentence
    wanted = sentence.rpartition("--goal '")[2].rstrip("'")
    code, said = call(tmp_path, *goal, "--goal", wanted, "--json", "--share", "50 %", text=text)
    assert code == 0, said
    assert json.loads(said)["lines"][0]["answer"] is not None


def test_what_a_sweep_lists_is_varied_where_nothing_else_is_said(tmp_path: Path) -> None:
    text = STUDY + "[sweep]\n'clusters.0.nodes.0.count' = [2, 3]\n"
    code, said = call(tmp_path, "--goal", "served > 1 %", "--seeds", "1", "--json", text=text)
    assert code == 0, said
    assert json.loads(said)["lines"][0]["systems"] == 2
    code, said = call(tmp_path, "--goal", "served > 1 %", "--vary", COUNT, "--seeds", "1", "--json", text=text)
    assert code == 0, said
    code, said = call(tmp_path, "--goal", "served > 1 %", "--vary", "clusters.0.nodes.0.cores=8,9", text=text)
    assert code == 2
    assert "a sweep over what is not varied" in said


def test_systems_on_which_nothing_ends_only_fail(tmp_path: Path) -> None:
    text = STUDY.replace("tasks = 2}", "tasks = 12}").replace("cores = 4", "cores = 8")
    vary = ("--vary", "clusters.0.nodes.0.count=1..14", "--seeds", "2")
    code, said = call(tmp_path, "--goal", "wait_s_p95 < 10 d", *vary, "--json", text=text)
    assert code == 0, said
    assert json.loads(said)["lines"][0]["answer"]["values"] == {"clusters.0.nodes.0.count": 12}


def test_a_policy_that_draws_gets_its_seeds_beside_one_that_does_not(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("submit_s,run_s,tasks\n" + "".join(f"{10 * i},100,2\n" for i in range(20)))
    pools = "pools = [{kind = 'nvme', count = 4}]"
    text = f"policies = ['first-fit', 'random-fit']\n[[clusters]]\nnodes = [{{count = 4, cores = 8}}]\n{pools}\n"
    text += "[[workloads]]\ntrace = 'jobs.csv'\n"
    arguments = (
        "--goal",
        "served > 1 %",
        "--vary",
        "clusters.0.nodes.0.count=3..4",
        "--seeds",
        "5",
        "--share",
        "100 %",
    )
    code, said = call(tmp_path, *arguments, "--json", text=text)
    assert code == 0, said
    assert [line["answer"]["seeds"] for line in json.loads(said)["lines"]] == [1, 5]


def test_costs_in_several_currencies_are_not_compared(tmp_path: Path) -> None:
    other = "[[clusters]]\nname = 'other'\nnodes = [{count = 4, cores = 8}]\nprices = {node = 1, currency = 'EUR'}\n"
    text = STUDY.replace("[[workloads]]", f"{other}[[workloads]]")
    code, said = call(tmp_path, "--goal", "served > 1 %", "--vary", "clusters.nodes.count=1..2", text=text)
    assert code == 2
    assert "USD for nodes, EUR for other" in said


def test_the_first_line_is_the_answer_with_the_share_of_all_seeds_that_is_certain(tmp_path: Path) -> None:
    code, said = call(tmp_path, text=STUDY + PLAN)
    assert code == 0, said
    first = said.partition("\n")[0]
    assert first.startswith("easy on nodes: nodes = ")
    assert first.endswith("on 3 of 3 seeds: on 36.8 % of all seeds at least, with 95 % confidence")
    found = json.loads((tmp_path / "out" / "plan.json").read_text())
    assert found["headline"] == first
    assert f"<b>{first}.</b>" in (tmp_path / "out" / "plan.html").read_text()


def test_a_goal_out_of_reach_is_said_first_with_exit_status_1(tmp_path: Path) -> None:
    arguments = ("--goal", "wait_s_p95 < 1 us", "--vary", "clusters.0.nodes.0.count=1..2", "--seeds", "2")
    code, said = call(tmp_path, *arguments)
    assert code == 1, said
    assert said.startswith("easy on nodes: out of reach: none of the 2 systems tried meets the goals; nodes = 2, the")
    assert call(tmp_path, *arguments, "--json")[0] == call(tmp_path, *arguments, "--quiet")[0] == 1
    two = STUDY.replace('["easy"]', '["easy", "fcfs"]')
    code, said = call(tmp_path, *arguments, text=two)
    assert (code, said[:13]) == (1, "out of reach:")


def test_of_one_seed_it_is_said_that_it_says_nothing_of_others(tmp_path: Path) -> None:
    arguments = ("--goal", "served > 1 %", "--vary", "clusters.0.nodes.0.count=2..3", "--seeds", "1")
    code, said = call(tmp_path, *arguments)
    assert code == 0, said
    first = said.partition("\n")[0]
    assert "on the one seed that was run, which says nothing of others" in first
    assert "smaller ones may do" in first
    close = ("--goal", "wait_s_mean < 1 min", "--vary", "clusters.0.nodes.0.count=3..4", "--seeds", "1")
    code, said = call(tmp_path, *close, "--confidence", "90 %")
    assert (code, "undecided" in said.partition("\n")[0]) == (1, True), said


def test_so_few_seeds_that_nothing_can_be_shown_are_refused(tmp_path: Path) -> None:
    goal = "served > 1 % on 90 % of seeds, at 95 % confidence"
    code, said = call(tmp_path, "--goal", goal, "--vary", COUNT, "--seeds", "20")
    assert code == 2
    assert "seeds: got 20, wanted at least" in said


WRONG = {
    "no goal": (["--vary", COUNT], ["no goal", "wait_s_p95 < 10 min"]),
    "nothing to vary": (["--goal", "served > 1 %"], ["nothing to vary"]),
    "an unknown metric": (["--goal", "wait_p95 < 1", "--vary", COUNT], ["'wait_p95'", "wait_s_p95"]),
    "no comparison": (["--goal", "wait_s_p95 10", "--vary", COUNT], ["--goal", "METRIC < VALUE"]),
    "equality": (["--goal", "wait_s_p95 = 10", "--vary", COUNT], ["one of <=, >=, <, >"]),
    "no value": (["--goal", "wait_s_p95 <", "--vary", COUNT], ["a value after <"]),
    "a wrong unit": (["--goal", "wait_s_p95 < 10 parsecs", "--vary", COUNT], ["parsecs"]),
    "a value that is none": (["--goal", "served > most", "--vary", COUNT], ["a number in place of 'most'"]),
    "a key that leads nowhere": (
        ["--goal", "served > 1 %", "--vary", "clusters.7.nodes.0.count=1..2"], ["clusters.7", "leads nowhere"]),
    "a key that does not exist": (
        ["--goal", "served > 1 %", "--vary", "clusters.0.nodes.0.cuont=1..2"], ["cuont", "count"]),
    "a value that cannot be": (["--goal", "served > 1 %", "--vary", "clusters.0.nodes.0.count=0..2"], ["count", "0"]),
    "a range that goes down": (["--goal", "served > 1 %", "--vary", "clusters.0.nodes.0.count=5..2"], ["goes up"]),
    "a value twice": (["--goal", "served > 1 %", "--vary", "clusters.0.nodes.0.count=2,2"], ["2 twice"]),
    "a key twice": (["--goal", "served > 1 %", "--vary", COUNT, "--vary", COUNT], ["twice"]),
    "no values": (["--goal", "served > 1 %", "--vary", "clusters.0.nodes.0.count"], ["KEY=VALUES"]),
    "too many systems": (
        ["--goal", "served > 1 %", "--vary", "clusters.0.nodes.0.count=1..9000", "--vary",
         "clusters.0.nodes.0.cores=1..9"], ["81,000 systems", "at most"]),
    "a metric that no run has": (["--goal", "used_fpga > 1 %", "--vary", COUNT], ["used_fpga", "no value in any run"]),
    "deadlines that no job has": (
        ["--goal", "missed_deadlines < 1 %", "--vary", COUNT], ["missed_deadlines", "no value in any run"]),
    "an unknown objective": (["--goal", "served > 1 %", "--vary", COUNT, "--objective", "money"], ["'money'", "cost"]),
    "prices that are not there": (["--goal", "served > 1 %", "--vary", COUNT, "--prices", "cheap"], ["'cheap'"]),
    "a share above 1": (["--goal", "served > 1 %", "--vary", COUNT, "--share", "90"], ["--share", "up to 1"]),
    "a confidence of 1": (["--goal", "served > 1 %", "--vary", COUNT, "--confidence", "1"], ["--confidence"]),
    "a reference that nobody said": (
        ["--goal", "wait_s_mean < 90 % of reference", "--vary", COUNT], ["reference", "--reference KEY=VALUE"]),
    "an unknown policy of the reference": (
        ["--goal", "wait_s_mean < 90 % of reference", "--vary", COUNT, "--reference", "policy=esay"], ["esay", "easy"]),
    "a search that is none": (["--goal", "served > 1 %", "--vary", COUNT, "--search", "luck"], ["luck", "bisect"]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_said_with_exit_code_2(name: str, tmp_path: Path) -> None:
    arguments, words = WRONG[name]
    code, said = call(tmp_path, *arguments, "--seeds", "1")
    assert code == 2, said
    for word in words:
        assert word in said, said


def test_a_cost_that_nothing_varied_changes_is_refused_with_a_way_out(tmp_path: Path) -> None:
    arguments = ("--goal", "served > 1 %", "--vary", COUNT, "--prices", str(tmp_path / "prices.toml"))
    (tmp_path / "prices.toml").write_text("rack = 5000\n")
    code, said = call(tmp_path, *arguments)
    assert code == 2
    assert "--objective clusters.0.nodes.0.count" in said


def test_a_table_of_the_plan_with_an_unknown_key_names_the_line(tmp_path: Path) -> None:
    code, said = call(tmp_path, text=STUDY + "[plan]\ngaols = []\n")
    assert code == 2
    assert "line 10" in said
    assert "goals" in said


def test_a_study_with_a_plan_runs_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY + PLAN)
    done = CliRunner().invoke(app, ["run", str(tmp_path / "study.toml"), "-j", "1", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert len([path for path in (tmp_path / "out" / "runs").iterdir() if path.is_dir()]) == 1
