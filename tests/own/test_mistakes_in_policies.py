"""Whatever is wrong with a user's policy is said with its file and line, what was got and what was wanted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

import unrack
from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import FaultyPolicyError, PolicyError, RefusedError, RunError
from unrack.events import ROUND
from unrack.ledger.jobs import Promise, Promises
from unrack.policy.file import complete, load_policy
from unrack.study.grid import load_study
from unrack.study.runner import run_study

ROOT = Path(__file__).parents[2]
HEAD = """
import numpy as np
from unrack.policy import *
from unrack.policy import Lease, Start

def one(view, **changed):
    job = int(view.queue[0])
    tasks, cores, mb, _ = view.asks[:, job].tolist()
    return Lease.on(job, [0], [tasks], [tasks * cores], [tasks * mb])._replace(**changed)

"""

ANSWERS = {
    "nothing": ("return None", ["decide returned None", "a pair: a list of decisions, memory"]),
    "no return at all": ("pass", ["decide returned None", "a pair"]),
    "an int": ("return 5", ["decide returned 5 (int)", "a pair"]),
    "a list without memory": ("return [Start(one(view))]", ["a list of 1 Start without the memory", "a pair"]),
    "the memory first": ("return memory, []", ["(None, an empty list), the memory first", "a pair"]),
    "three things": ("return [], memory, now", ["(an empty list, None, 1", "a pair"]),
    "a generator": ("yield Start(one(view))", ["a generator (there is a yield in it)", "a pair"]),
    "job numbers": ("return [0], memory", ["decisions[0] = 0 (int)", "Start(lease)"]),
    "a lease": ("return [one(view)], memory", ["decisions[0] = a Lease", "Start(lease)"]),
    "the class": ("return [Start], memory", ["decisions[0] = the class Start", "Start(lease), Resize(lease)"]),
    "a start of a number": ("return [Start(0)], memory", ["Start(0 (int))", "Start(lease)"]),
    "a rule that is no text": ("return [Start(one(view), 3)], memory", ["rule=3 (int)", "a text"]),
    "a lease for a float": (
        "return [Start(one(view, job=0.0))], memory",
        ["a lease for 0.0 (float)", "number of a job"],
    ),
    "rows of floats": (
        "return [Start(one(view, rows=np.ones((1, 5))))], memory",
        ["rows = an array of float64[1, 5]", "int64[rows, 5]"],
    ),
    "rows of another shape": (
        "return [Start(one(view, rows=np.ones((1, 4), np.int64)))], memory",
        ["rows = an array of int64[1, 4]", "int64[rows, 5]"],
    ),
    "rows in a list": ("return [Start(one(view, rows=[[0, 1, 1, 1, 0]]))], memory", ["rows = a list of 1 list"]),
    "amounts below 0": (
        "return [Start(Lease.on(0, [0], [1], [-1], [0]))], memory",
        ["amounts below 0: [[0, 1, 1, -1, 0]]", "tasks, cores, MB"],
    ),
    "a reason that is a text": ("return [Reject(0, 'no')], memory", ["Reject(reason='no')", "a Reason("]),
    "a job that is none": ("return [Requeue(None, Reason(Code.PREEMPTED))], memory", ["Requeue(job=None)", "number"]),
}
"""The body of ``decide`` → what is said."""


def study_of(cores: int = 2, jobs: int = 3) -> tuple[unrack.Cluster, unrack.Workload]:
    classes = [{"run_s": 60, "tasks": 1, "cores": 2}]
    workload = unrack.generate({"jobs": jobs, "arrivals": {"gap_s": 10}, "classes": classes}, seed=0)
    return unrack.Cluster.homogeneous(nodes=2, cores=cores), workload


def written(folder: Path, text: str) -> tuple[str, int]:
    """A policy file; its path, and the line that the comment marks, or 0."""
    path = folder / "mine.py"
    path.write_text(HEAD + text)
    lines = path.read_text().splitlines()
    return str(path), next((i for i, line in enumerate(lines, 1) if "# here" in line), 0)


def deciding(body: str) -> str:
    return f"class Mine:\n    def decide(self, view, memory, now):  # here\n        {body}\n"


@pytest.mark.parametrize("case", ANSWERS)
def test_a_wrong_answer_of_decide_says_what_was_got_and_wanted_and_where(case: str, tmp_path: Path) -> None:
    body, words = ANSWERS[case]
    path, line = written(tmp_path, deciding(body))
    with pytest.raises(FaultyPolicyError) as caught:
        unrack.simulate(*study_of(), load_policy(f"{path}:Mine"))
    for word in (*words, f"mine.py, line {line}: def decide", "given: at 10 s, 1 of 1 jobs so far wait: job 0 (1 task"):
        assert word in str(caught.value)


REFUSED = {
    "a job that does not wait": ("return [Start(one(view, job=2))], memory", ["start job 2: it is not queued"]),
    "a job that runs": (
        "return [Start(one(view, job=0))] if view.waiting else [], memory",
        ["start job 0: it is not queued", "asked: job 0 (1 task of 2 cores, 60 s), which runs"],
    ),
    "more cores than there are": (
        "return [Start(Lease.on(int(view.queue[0]), [0], [1], [99], [0]))], memory",
        ["more cores or memory than is free", "1 task(s) with 99 cores on node 0", "free: 2 cores on node 0"],
    ),
    "a node that is not there": (
        "return [Start(Lease.on(int(view.queue[0]), [7], [1], [2], [0]))], memory",
        ["a node that does not exist", "on node 7"],
    ),
    "a resize of who waits": ("return [Resize(one(view))], memory", ["resize job 0: it is not running"]),
    "somebody stopped who waits": (
        "return [Requeue(0, Reason(Code.PREEMPTED))], memory",
        ["requeue job 0: it is not running", "Requeue(job=0"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_decision_that_is_refused_is_told_with_what_was_free_and_whose_it_is(case: str, tmp_path: Path) -> None:
    body, words = REFUSED[case]
    path, line = written(tmp_path, deciding(body))
    with pytest.raises(RefusedError) as caught:
        unrack.simulate(*study_of(), load_policy(f"{path}:Mine"))
    for word in (*words, f"by policy Mine: {shown(path)}, line {line}: def decide", "given: at "):
        assert word in str(caught.value)


def shown(path: str) -> str:
    below = os.path.relpath(path)
    return path if below.startswith("..") else below


def test_numbers_of_numpy_are_as_good_as_those_of_python(tmp_path: Path) -> None:
    path, _ = written(
        tmp_path,
        deciding("return [Start(one(view, job=view.queue[0]))] if view.waiting else [], memory")
        + "    stepwise = True\n",
    )
    result = unrack.simulate(*study_of(cores=8), load_policy(f"{path}:Mine"))
    assert result.metrics["jobs_finished"] == 3


WAITS = "    def decide(self, view, memory, now):\n        return [], memory\n"
OTHERS = {
    "next_round of a float": (
        f"class Mine:\n{WAITS}    def next_round(self, view, memory, now):  # here\n        return now + 1.5\n",
        ["next_round returned 10000001.5 (float)", "a time in whole µs, after 10000000, or None"],
    ),
    "next_round in the past": (
        f"class Mine:\n{WAITS}    def next_round(self, view, memory, now):  # here\n        return now\n",
        ["next_round returned 10000000 (int)", "after 10000000"],
    ),
    "begin that yields": (
        f"class Mine:\n{WAITS}    def begin(self, view):  # here\n        yield 1\n",
        ["begin returned a generator", "the memory itself"],
    ),
    "an order of places": (
        "def order(view, queue, now):  # here\n    return np.argsort(view.estimate_us[queue])\n"
        "Mine = ListScheduler(order=order, backfill='easy')\n",
        ["order returned [0]: places in the queue perhaps", "by_key"],
    ),
    "an order of keys": (
        "def order(view, queue, now):  # here\n    return view.submit_us[queue] / 7\nMine = SlurmLike(order=order)\n",
        ["order returned an array of float64[1]", "in another order"],
    ),
    "an order that forgets": (
        "def order(view, queue, now):  # here\n    return queue[1:]\nMine = SlurmLike(order=order)\n",
        ["order returned 0 jobs", "the 1 job numbers of queue"],
    ),
    "an order of None": (
        "def order(view, queue, now):  # here\n    queue.copy().sort()\nMine = Placed(lambda *_: None, order=order)\n",
        ["order returned None"],
    ),
    "a place that is a node": (
        "def place(view, job, now):  # here\n    return 0\nMine = Placed(place)\n",
        ["place for job 0 returned 0 (int)", "a Lease"],
    ),
    "a place for another": (
        "def place(view, job, now):  # here\n    return one(view, job=1)\nMine = Placed(place)\n",
        ["a lease for job 1", "one for job 0"],
    ),
    "a place that is not there": (
        "def place(free, total, job):  # here\n    return Lease.on(job.index, [-1], [1], [2], [0])\n"
        "Mine = ListScheduler(place=place)\n",
        ["a lease on node -1", "nodes 0 to 1"],
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_wrong_answer_of_another_function_says_the_same(case: str, tmp_path: Path) -> None:
    text, words = OTHERS[case]
    path, line = written(tmp_path, text)
    with pytest.raises(FaultyPolicyError) as caught:
        unrack.simulate(*study_of(), load_policy(f"{path}:Mine"))
    for word in (*words, f"mine.py, line {line}: def ", "given: at "):
        assert word in str(caught.value)


def test_a_reason_that_is_none_is_said_when_somebody_asks_for_it(tmp_path: Path) -> None:
    path, line = written(
        tmp_path, f"class Mine:\n{WAITS}    def why(self, view, memory, job, now):  # here\n        return 'no'\n"
    )
    with pytest.raises(
        FaultyPolicyError, match=rf"why returned 'no', wanted a Reason.*\n  .*mine.py, line {line}: def why"
    ):
        unrack.simulate(*study_of(), load_policy(f"{path}:Mine"))


LOADING = {
    "a misspelt decide": ("class Mine:  # here\n    def decid(self, view, memory, now): ...\n", ["it has 'decid'"]),
    "no decide": ("class Mine:  # here\n    pass\n", ["without a method decide", "decide(view, memory, now)"]),
    "a parameter too few": (
        "class Mine:\n    def decide(self, view, now): ...  # here\n",
        ["decide(view, now)", "wanted decide(view, memory, now)"],
    ),
    "no self": (
        "class Mine:\n    def decide(view, memory, now): ...  # here\n",
        ["decide(memory, now)", "wanted decide(view, memory, now)"],
    ),
    "a misspelt member": (
        f"class Mine:\n{WAITS}    def nextround(self, view, memory, now): ...  # here\n",
        ["a method 'nextround', which is never called", "'next_round', or another name"],
    ),
    "begin that takes nothing": (f"class Mine:\n{WAITS}    def begin(self): ...  # here\n", ["begin()", "begin(view)"]),
    "parameters that nobody gives": (
        f"class Mine:  # here\n    def __init__(self, limit, share=1): ...\n{WAITS}",
        ["Mine without limit, which it needs", "MINE = Mine(limit=…)"],
    ),
    "an order with another signature": (
        "def order(queue): ...  # here\nMine = ListScheduler(order=order)\n",
        ["order(queue)", "wanted order(view, queue, now)"],
    ),
    "a place with the signature of another": (
        "def place(free, total, job, more): ...  # here\nMine = Placed(place)\n",
        ["wanted place(view, job, now)"],
    ),
    "a place with too few": (
        "def place(view, job): ...  # here\nMine = ListScheduler(place=place)\n",
        ["wanted place(free, total, job)"],
    ),
    "a line that is no Python": ("class Mine\n    # here is the line before\n", ["class Mine", "SyntaxError"]),
    "an import of what is not there": (
        "import not_installed_anywhere  # here\n",
        ["No module named 'not_installed_any"],
    ),
    "an error while the file runs": ("X = {}['a']  # here\n", ["KeyError: 'a'"]),
    "an error while it is made": (
        f"class Mine:\n    def __init__(self):\n        1 / 0  # here\n{WAITS}",
        ["ZeroDivisionError", "wanted a policy"],
    ),
    "traits that are none": (f"class Mine:\n    traits = {{'learns': True}}\n{WAITS}", ["traits: got", "Traits(…)"]),
    "estimates that are none": (f"class Mine:\n    estimates = 'true'\n{WAITS}", ["'true'", "requested, exact"]),
    "needs that are none": (f"class Mine:\n    needs = 'deadlines'\n{WAITS}", ["'deadlines'", "Need.DEADLINES"]),
}


@pytest.mark.parametrize("case", LOADING)
def test_what_cannot_be_a_policy_is_refused_when_it_is_loaded(case: str, tmp_path: Path) -> None:
    text, words = LOADING[case]
    path, line = written(tmp_path, text)
    with pytest.raises(PolicyError) as caught:
        load_policy(f"{path}:Mine")
    line -= case == "a line that is no Python"
    for word in (*words, *([f"mine.py, line {line}"] if line > 0 else [])):
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_needs_no_name_where_it_has_one_policy_and_lists_them_where_it_has_more(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY.format("mine.py"))
    written(tmp_path, f"class Mine:\n{WAITS}")
    assert load_study(str(tmp_path / "study.toml")).runs[-1].policy.file.endswith("mine.py:Mine")
    path, _ = written(tmp_path, f"class Mine:\n{WAITS}class Other:\n{WAITS}FEW = Mine()\n")
    with pytest.raises(PolicyError, match=r"2 policies and no name, wanted .*mine.py:Other or .*mine.py:FEW"):
        load_policy(path)
    path, _ = written(tmp_path, "X = 3\n")
    with pytest.raises(PolicyError, match="a file without a policy"):
        load_policy(path)


# --- what a policy raises ---------------------------------------------------------------------------------------------

RAISES = """
def score(job):
    return 1 / (job.index - 1)  # here

class Mine:
    def decide(self, view, memory, now):
        return [], sorted(view.queue.tolist(), key=lambda job: score(view.job(job)))
"""
STUDY = """
policies = ["fcfs", {{ file = "{}", label = "mine" }}]
seeds = 2
[[clusters]]
nodes = [{{ count = 2, cores = 2 }}]
[[workloads]]
generate = {{ jobs = 3, arrivals = {{ gap_s = 10 }}, classes = [{{ run_s = 60, cores = 2 }}] }}
"""


def test_an_error_of_a_policy_names_its_line_and_what_it_was_given_and_is_kept_as_the_cause(tmp_path: Path) -> None:
    path, line = written(tmp_path, RAISES)
    with pytest.raises(FaultyPolicyError) as caught:
        unrack.simulate(*study_of(), load_policy(f"{path}:Mine"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    first, second, third = str(caught.value).splitlines()
    assert first == "policy Mine failed in decide: ZeroDivisionError: division by zero"
    assert second.endswith(f"mine.py, line {line}, in score: return 1 / (job.index - 1)  # here")
    assert third.startswith("  given: at 20 s, 2 of 2 jobs so far wait: job 0 (1 task of 2 cores, 60 s), job 1 (")


@pytest.mark.parametrize(
    ("text", "member", "cause"),
    [
        ("Mine = Placed(lambda view, job, now: view.free[9])", "decide", IndexError),
        ("Mine = ListScheduler(order=lambda view, queue, now: queue / {}, backfill='easy')", "decide", TypeError),
        ("Mine = ListScheduler(place=lambda free, total, job: job.cors)", "decide", AttributeError),
        (f"class Mine:\n{WAITS}    def begin(self, view): return view.job(5)", "begin", RefusedError),
        (f"class Mine:\n{WAITS}    def possible(self, cluster, jobs): return jobs.none", "possible", AttributeError),
        (f"class Mine:\n{WAITS}    def seeded(self, seed): return self / seed", "seeded", TypeError),
        (f"class Mine:\n{WAITS}    def next_round(self, view, memory, now): return {{}}[3]", "next_round", KeyError),
        (f"class Mine:\n{WAITS}    def why(self, view, memory, job, now): return {{}}[3]", "why", KeyError),
    ],
)
def test_wherever_a_policy_raises_its_line_is_found(text: str, member: str, cause: type, tmp_path: Path) -> None:
    path, _ = written(tmp_path, text + "  # here\n")
    line = len(Path(path).read_text().splitlines())
    with pytest.raises(FaultyPolicyError, match=f"failed in {member}: .*\n  .*mine.py, line {line}") as caught:
        unrack.simulate(*study_of(), load_policy(f"{path}:Mine"))
    assert isinstance(caught.value.__cause__, cause)


def test_what_goes_wrong_elsewhere_is_not_laid_at_the_policys_door(tmp_path: Path) -> None:
    path, _ = written(tmp_path, f"class Mine:\n{WAITS}")

    def progress(done: int, jobs: int) -> None:
        raise LookupError("of the caller's own")

    with pytest.raises(LookupError, match="caller's own"):
        unrack.simulate(*study_of(), load_policy(f"{path}:Mine"), progress=progress)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_study_tells_a_failure_once_and_keeps_the_other_runs(jobs: int, tmp_path: Path) -> None:
    written(tmp_path, RAISES)
    (tmp_path / "study.toml").write_text(STUDY.format("mine.py:Mine"))
    study = load_study(str(tmp_path / "study.toml"))
    with pytest.raises(RunError) as caught:
        run_study(study, tmp_path / "out", jobs=jobs)
    text = str(caught.value)
    assert "2 of 4 runs failed" in text
    assert len(re.findall(r"line \d+, in score: return 1 / ", text)) == 1
    assert text.count("given: at 20 s") == 1
    assert len(list((tmp_path / "out" / "runs").glob("*/run.json"))) == 2


@pytest.mark.long
@pytest.mark.parametrize("arguments", [["--debug", "run"], ["run", "--debug"], ["run"]], ids=" ".join)
def test_the_whole_traceback_is_there_on_demand_also_from_other_processes(arguments: list[str], tmp_path: Path) -> None:
    written(tmp_path, RAISES)
    (tmp_path / "study.toml").write_text(STUDY.format("mine.py:Mine"))
    command = [sys.executable, "-m", "unrack", *arguments, "study.toml", "--out", "out", "--jobs", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "in score: return 1 / (job.index - 1)" in done.stderr
    assert ("Traceback" in done.stderr) == ("--debug" in arguments)
    assert ("in <lambda>" in done.stderr) == ("--debug" in arguments)


def test_a_policy_that_is_installed_as_a_library_is_named_by_its_line_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = written(
        tmp_path, "class Mine:\n    def decide(self, view, memory, now):\n        return {}['x']  # here\n"
    )
    monkeypatch.setattr("unrack.plugins.code.LIBRARIES", (str(tmp_path),))
    with pytest.raises(FaultyPolicyError, match=r"failed in decide: KeyError: 'x'\n  .*mine.py, line \d+"):
        unrack.simulate(*study_of(), load_policy(f"{path}:Mine"))


def test_promises_of_ones_own_reach_the_next_beginning_and_anything_else_is_refused() -> None:
    class Promising:
        told: ClassVar[list[Any]] = []
        answer: Any = Promises({0: Promise(7)})

        def begin(self, view: Any) -> None:
            self.told.append(view.promises.by_job())

        def promised(self, view: Any, memory: Any) -> Any:
            return self.answer

        def decide(self, view: Any, memory: Any, now: int) -> Any:
            return [], memory

    core = Core(Cluster.homogeneous(nodes=1, cores=1), None, complete(Promising(), "test"))
    core.handle(ROUND, 0)
    core.begin_anew()
    assert Promising.told == [{}, {0: Promise(7)}]
    Promising.answer = {0: 7}
    with pytest.raises(FaultyPolicyError, match="promised"):
        core.handle(ROUND, 1)
