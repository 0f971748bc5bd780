"""What would happen if: starts as a plain twin has them, who pays for it, and what would help."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from unrack.cli.main import app
from unrack.errors import InputError
from unrack.plan.what_if.answer import Answer, Question, answer
from unrack.plan.what_if.scene import StudySource, state_at
from unrack.plan.what_if.starts import as_asked, starts_of
from unrack.sim.simulate import prepared
from unrack.study.input.inputs import Document

Row = dict[str, Any]
SITE = '[{name = "main", nodes = ["n[1-3]"], default = true}, {name = "short", nodes = ["n4"]}]'
NODES = '{count = 4, cores = 16, memory = "64 GB", names = "n[1-4]"}'
JOBS = [
    {"id": "1", "submit": 0, "request": 36_000, "tasks": 2, "cores": 16, "on": "n[1-2]", "ran": 3_000},
    {"id": "2", "submit": 0, "request": 7_200, "cores": 8, "on": "n3", "ran": 1_200},
    {"id": "3", "submit": 1e-6, "request": 3_600, "cores": 16},
    {"id": "4", "submit": 2e-6, "request": 3_600, "tasks": 2, "cores": 16},
]


def study(
    folder: Path, jobs: list[Row], nodes: str = NODES, more: str = f"\n[clusters.site]\npartitions = {SITE}",
    policy: str = "easy", end: str = "",
) -> Path:  # fmt: skip
    """A study that begins now; of each job what is not said is one task of one core."""
    columns = ["id", "submit", "run", "request", "tasks", "cores", "memory", "user", "partition", "on", "ran"]
    columns += sorted({key for job in jobs for key in job} - set(columns))
    lines = [",".join(columns)]
    for job in jobs:
        own = {"tasks": 1, "cores": 1, "run": job["request"], **job}
        lines.append(",".join(f'"{own.get(name, "")}"' for name in columns))
    (folder / "now.csv").write_text("\n".join(lines))
    path = folder / "now.toml"
    path.write_text(
        f'name = "now"\npolicies = ["{policy}"]\nworkloads = [{{name = "now", trace = "now.csv"}}]\n'
        f"[[clusters]]\nnodes = [{nodes}]{more}\n{end}"
    )
    return path


def told(path: Path, tries: int = 0, **question: Any) -> Answer:
    return answer(StudySource(Document.read(path)), Question(**question), tries=tries)


def command(*words: object) -> Result:
    return CliRunner().invoke(app, ["what-if", *map(str, words)])


# --- against a plain twin ---------------------------------------------------------------------------------------------


def in_turn(nodes: int, runs: list[tuple[float, int]], queue: list[tuple[int, float]]) -> list[float]:
    """Starts of jobs (nodes, time) one after the other, as they come, on equal nodes; ``runs``: (end, nodes)."""
    held, now, starts = list(runs), 0.0, list[float]()
    for wants, lasts in queue:
        while nodes - sum(count for end, count in held if end > now) < wants:
            now = min(end for end, _ in held if end > now)
        starts.append(now)
        held.append((now + lasts, wants))
    return starts


@pytest.mark.parametrize("seed", range(12))
def test_starts_are_those_of_a_plain_twin(seed: int, tmp_path: Path) -> None:
    random, nodes = Random(seed), 12
    jobs, runs, free = list[Row](), list[tuple[float, int]](), list(range(nodes))
    for number in range(4):
        count, left, ran = random.randrange(1, 4), random.randrange(100, 5000), random.randrange(1, 900)
        on, free = free[:count], free[count:]
        jobs.append({
            "id": f"r{number}", "submit": 0, "request": left + ran, "tasks": count, "ran": ran,
            "on": ",".join(map(str, on)),
        })  # fmt: skip
        runs.append((left, count))
    queue = [(random.randrange(1, 9), float(random.randrange(50, 3000))) for _ in range(8)]
    jobs += [
        {"id": f"q{number}", "submit": (number + 1) / 1e6, "request": lasts, "tasks": wants}
        for number, (wants, lasts) in enumerate(queue)
    ]
    path = study(tmp_path, jobs, f"{{count = {nodes}, cores = 1}}", "", "fcfs")
    wants, lasts = random.randrange(1, nodes + 1), 500.0
    found = told(path, submit=[{"id": "new", "tasks": wants, "cores": 1, "request": lasts}])
    assert found.start_s == pytest.approx(in_turn(nodes, runs, [*queue, (wants, lasts)])[-1], abs=0.001)
    assert found.others.moved == ()
    gone = random.randrange(4)
    left = [run for number, run in enumerate(runs) if number != gone]
    found = told(path, end=[f"r{gone}"], job="q7")
    assert found.start_s == pytest.approx(in_turn(nodes, left, queue)[-1], abs=0.001)
    before, after = in_turn(nodes, runs, queue), in_turn(nodes, left, queue)
    sooner = [was - then for was, then in zip(before[:-1], after[:-1], strict=True) if was - then >= 1]
    assert found.others.earlier_h * 3600 == pytest.approx(sum(sooner), abs=0.01)
    assert found.lost_core_h * 3600 == pytest.approx(jobs[gone]["ran"] * jobs[gone]["tasks"])


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_the_state_at_a_time_of_a_run_goes_on_as_the_run_did(policy: str, tmp_path: Path) -> None:
    random = Random(5)
    jobs = [
        {
            "id": f"j{number}", "submit": number * 60, "request": random.randrange(300, 9000),
            "tasks": random.randrange(1, 9), "cores": random.randrange(1, 5),
        }
        for number in range(120)
    ]  # fmt: skip
    source = StudySource(Document.read(study(tmp_path, jobs, "{count = 6, cores = 8}", "", policy)))
    whole = as_asked(source.scene())
    time_us = 3_600_000_000
    begun, over = state_at(whole, time_us)
    known = whole.jobs.take(whole.jobs.submit_us <= time_us)
    log = prepared(whole.cluster, known, whole.policy).run()
    start, end = (np.zeros(len(known), np.int64) for _ in range(2))
    start[log.attempt_job], end[log.attempt_job] = log.attempt_start_us, log.attempt_end_us
    ids = np.array(known.ids.to_list())
    assert set(over.ids.to_list()) == set(ids[end <= time_us])
    runs = set(ids[(start <= time_us) & (end > time_us)])
    assert {str(one) for one, ran in zip(begun.jobs.ids, begun.runs, strict=True) if ran} == runs
    assert begun.queued == len(begun.jobs) == len(known) - len(over)
    again = starts_of(begun)
    waits = [str(one) for one in ids[start > time_us]]
    assert waits
    if policy != "conservative":  # whose promises of before are forgotten
        assert again.of(waits) == pytest.approx([int(one) for one in start[start > time_us]], abs=1000)


@pytest.mark.whole
@pytest.mark.parametrize(("waits", "start"), [
    ("after:1+20", 600), ("afterok:1,after:2+50", 2_990), ("afterok:1:2", 3_000), ("afternotok:1", None),
    ("after:1+20?afterok:2", 600),
])  # fmt: skip
def test_at_a_time_of_a_run_jobs_wait_for_what_is_left_to_wait_for(
    waits: str, start: float | None, tmp_path: Path
) -> None:
    """It was an error where a job waits for one that is over."""
    jobs = [
        {"id": "1", "submit": 0, "request": 60, "dependency": ""},
        {"id": "2", "submit": 590, "request": 3_010, "dependency": "afterany:1"},
        {"id": "3", "submit": 599, "request": 60, "dependency": waits},
    ]
    begun, _ = state_at(StudySource(Document.read(study(tmp_path, jobs))).scene(), 600 * 10**6)
    starts = starts_of(begun)
    found = dict(zip(starts.ids, ((starts.start_us - begun.now_us) / 1e6).tolist(), strict=True))
    assert found.get("3") == pytest.approx(start, abs=0.01)


LOW_AND_HIGH = """
[clusters.site]
preempt = {{ by = "qos", mode = "{mode}" }}
qos = [{{ name = "high", preempts = ["low"] }}, {{ name = "low" }}]
"""
STOPPED = [
    {"id": "1", "submit": 0, "request": 3_600, "cores": 16, "qos": "low"},
    {"id": "2", "submit": 60, "request": 600, "cores": 16, "qos": "high"},
]


@pytest.mark.parametrize(
    ("jobs", "policy", "more", "said"),
    [
        ([{"id": "1", "submit": 0, "request": 3_600, "memory": 1500}], "easy(memory=naive)", "", "of other nodes"),
        ([{"id": "1", "submit": 0, "request": 3_600, "min_tasks": 1, "max_tasks": 4, "speedup": "linear"}],
         "easy(molding=working-set)", "", "another size than its own"),
        (STOPPED, "easy", LOW_AND_HIGH.format(mode="suspend"), "is suspended, or was"),
        (STOPPED, "easy", LOW_AND_HIGH.format(mode="checkpoint"), "keeps work that it did before it was stopped"),
        (STOPPED, "easy", LOW_AND_HIGH.format(mode="requeue"), ""),
    ],
)  # fmt: skip
def test_a_time_at_which_a_job_is_unlike_those_that_a_run_begins_with_is_refused(
    jobs: list[Row], policy: str, more: str, said: str, tmp_path: Path
) -> None:
    nodes = "{count = 2, cores = 16, memory = 1000}" if "memory" in policy else "{count = 1, cores = 16}"
    path = study(tmp_path, jobs, nodes, more, policy)
    done = command(path, "--at", "2 min", "--cores", 1, "--time", "1 h", "--tries", 0)
    assert done.exit_code == (1 if said else 0), done.output
    assert said in str(done.exception or "")


def test_a_time_at_which_no_job_runs_or_waits_is_refused(tmp_path: Path) -> None:
    path = study(tmp_path, [{"id": str(at), "submit": at, "request": 60} for at in (0, 3600)], more="")
    done = command(path, "--at", "30 min", "--cores", 1, "--time", "1 h")
    assert "--at: got 30 min, wanted a time at which jobs run or wait" in str(done.exception)


# --- what may be so ---------------------------------------------------------------------------------------------------


def test_running_jobs_stay_on_nodes_that_drain_and_nothing_starts_there(tmp_path: Path) -> None:
    path = study(tmp_path, JOBS)
    found = told(path, drain=["n3"])
    assert {one.job: (one.before_s, one.after_s) for one in found.others.moved} == {
        "3": (pytest.approx(6000), pytest.approx(33_000)),
        "4": (pytest.approx(33_000), pytest.approx(36_600)),
    }
    assert found.others.later_h == pytest.approx(8.5)
    assert told(path, drain=["n[1-2]"]).others.never.keys() == {"4"}


def test_more_nodes_are_in_the_partitions_of_the_node_that_they_are_like(tmp_path: Path) -> None:
    path = study(tmp_path, JOBS)
    assert told(path, job="3", add=["1 like n1"]).start_s == pytest.approx(0, abs=0.01)
    assert told(path, job="3", add=["1 like n4"]).start_s == pytest.approx(6000)
    scene = StudySource(Document.read(path))
    assert told(path, add=["2 like n1", "1 like n4"]).others.earlier == 2
    assert scene.scene().cluster.names == ("n1", "n2", "n3", "n4")


def test_more_nodes_have_what_the_node_has_that_is_told_by_number_or_name(tmp_path: Path) -> None:
    from unrack.cluster.spec import Cluster
    from unrack.plan.what_if.starts import more_like

    content = {
        "nodes": [{"count": 2, "cores": 8, "names": "a[1-2]"}, {"count": 2, "cores": 4, "names": "b[1-2]"}],
        "gpus": [{"machine": "dgx-1", "nodes": "0-1"}],
        "counted": [{"name": "nic", "amount": 2, "per": "node", "nodes": ["a1,b2"]}],
        "domains": {"left": ["0"]},
        "site": {"features": {"fast": ["a[1-2]"]}},
    }  # fmt: skip
    cluster = Cluster.from_dict(content)
    made = more_like(cluster, "2 like a1")(content)
    assert len(Cluster.from_dict(made)) == 6
    assert made["nodes"][-1] == {"count": 2, "cores": 8, "names": "b[3-4]", "name": "class-2"}
    assert [one["nodes"] for one in made["gpus"]] == ["0-1", "4-5"]
    assert made["counted"][0]["nodes"] == ["a1,b[2-4]"]
    assert made["domains"]["left"] == ["0", "4-5"]
    assert made["site"]["features"]["fast"] == ["a[1-2],b[3-4]"]


def test_a_job_that_is_stopped_waits_behind_all_and_what_it_did_is_lost(tmp_path: Path) -> None:
    found = told(study(tmp_path, JOBS), job="3", requeue=["2"])
    assert found.start_s == pytest.approx(0, abs=0.01)
    assert found.lost_core_h == pytest.approx(8 * 1200 / 3600)
    assert next(one for one in found.others.moved if one.job == "2").after_s == pytest.approx(3600, abs=0.01)


WAITS = [
    {"id": "1", "submit": 0, "request": 600, "cores": 16, "on": "n1", "ran": 300, "dependency": ""},
    {"id": "2", "submit": 1e-6, "request": 60, "dependency": "afterany:1"},
    {"id": "3", "submit": 2e-6, "request": 60, "dependency": "afterok:1"},
    {"id": "4", "submit": 3e-6, "request": 60, "dependency": "afterok:3"},
    {"id": "5", "submit": 4e-6, "request": 60, "dependency": "after:3", "deadline": 900},
]


@pytest.mark.whole
@pytest.mark.parametrize(("question", "starts"), [
    ({}, [300, 300, 360, 300]),
    ({"end": ["1"]}, [0, None, None, 0]),
    ({"end": ["3"]}, [300, None, None, 0]),
    ({"end": ["1", "5"]}, [0, None, None, None]),
    ({"requeue": ["1"]}, [600, 600, 660, 600]),
    ({"job": "4", "asks": {"cores": 2}}, [300, 300, 360, 300]),
    ({"job": "4", "asks": {"dependency": "after:1"}}, [300, 300, 0, 300]),
])  # fmt: skip
def test_jobs_wait_for_others_whatever_becomes_of_these(
    question: Row, starts: list[int | None], tmp_path: Path
) -> None:
    """Where one ended, the question was an error; one that asks for something else waited for none."""
    found = told(study(tmp_path, WAITS, policy="easy"), **question).after
    at = dict(zip(found.ids, (found.start_us / 1e6).round().tolist(), strict=True))
    assert [at.get(one, 1e12) if at.get(one, 1e12) < 1e12 else None for one in "2345"] == starts


def test_a_new_job_waits_for_what_it_says_and_for_nothing_that_is_not_there(tmp_path: Path) -> None:
    path = study(tmp_path, WAITS)
    ask = {"id": "new", "tasks": 1, "cores": 1, "request": 60.0}
    assert told(path, submit=[{**ask, "dependency": "afterok:3:2"}]).start_s == pytest.approx(360, abs=0.01)
    for text in ("afterok:9", "afterok:1:9", "expand:1"):
        with pytest.raises(InputError, match=f"dependency: got '{text}', wanted"):
            told(path, submit=[{**ask, "dependency": text}])


def test_a_job_that_asks_for_something_else_keeps_its_deadline(tmp_path: Path) -> None:
    jobs = [
        {"id": "1", "submit": 0, "request": 600, "cores": 16, "on": "n1", "ran": 300},
        {"id": "2", "submit": 1e-6, "request": 60, "cores": 16},
        {"id": "3", "submit": 2e-6, "request": 60, "cores": 16, "deadline": 900},
    ]
    path = study(tmp_path, jobs, NODES.replace("4", "1", 1).replace("-4", "-1"), "", "easy(order=edf)")
    assert told(path, job="3").start_s == told(path, job="3", asks={"request": 50.0}).start_s == 300


@pytest.mark.parametrize("option", ["end", "requeue"])
def test_a_job_that_is_said_twice_is_one(option: str, tmp_path: Path) -> None:
    path = study(tmp_path, JOBS)
    once, twice = (told(path, **{option: ["2"] * times}) for times in (1, 2))
    assert (once.after.ids, once.lost_core_h, once.others) == (twice.after.ids, twice.lost_core_h, twice.others)


def test_a_job_that_is_stopped_waits_behind_all_also_where_the_last_is_ended(tmp_path: Path) -> None:
    found = told(study(tmp_path, JOBS), job="3", requeue=["2"], end=["4"])
    assert found.start_s == pytest.approx(0, abs=0.01)
    assert next(one for one in found.others.moved if one.job == "2").after_s == pytest.approx(3600, abs=0.01)


def test_a_key_of_the_study_may_be_another(tmp_path: Path) -> None:
    limit = "\n[clusters.site]\nlimits = [{per = 'user', amounts = {cores = 16}}]"
    jobs = [
        {"id": "1", "submit": 0, "request": 900, "cores": 16, "user": "ann", "on": "n1", "ran": 300},
        {"id": "2", "submit": 1e-6, "request": 60, "cores": 4, "user": "ann"},
    ]
    path = study(tmp_path, jobs, NODES, limit)
    found = told(path, job="2")
    assert found.start_s == pytest.approx(600)
    assert found.look is not None
    assert found.look.reason is not None
    assert found.look.reason.code == "limit"
    assert told(path, job="2", set=["clusters.0.site.limits.0.amounts.cores=20"]).start_s == pytest.approx(0, abs=0.01)


def test_what_no_job_asks_for_is_there_when_one_would(tmp_path: Path) -> None:
    spare = "[[spare.counted]]\nname = 'matlab'\namount = 2\n"
    path = study(tmp_path, JOBS, end=spare)
    ask = {"id": "new", "tasks": 1, "cores": 1, "request": 60.0}
    assert told(path, submit=[{**ask, "counted.matlab": 2}]).start_s == pytest.approx(0, abs=0.01)
    assert told(path, submit=[{**ask, "counted.matlab": 3}]).start_s is None
    with pytest.raises(InputError, match=r"counted\.idl: got .* one of counted\.matlab"):
        told(path, submit=[{**ask, "counted.idl": 1}])


def test_what_the_nodes_lack_is_counted_by_node(tmp_path: Path) -> None:
    ask = {"id": "new", "tasks": 1, "cores": 16, "memory": 1024, "request": 60.0, "partition": "main"}
    found = told(study(tmp_path, JOBS), submit=[ask])
    assert found.look is not None
    room = found.look.room
    assert room is not None
    assert (room.nodes, room.with_room, room.closed, room.lacks) == (4, 0, 1, {"cores": 3})


# --- what would help --------------------------------------------------------------------------------------------------


def test_what_would_help_is_what_it_says_when_it_is_tried(tmp_path: Path) -> None:
    path = study(tmp_path, JOBS)
    ask = {"id": "new", "tasks": 1, "cores": 16, "request": 3600.0, "partition": "main"}
    found = told(path, tries=24, submit=[ask])
    helps = {one.words: one for one in found.advice.found}
    assert found.advice.found[0].start_s < 1
    assert {"in partition short", "8 cores a task", "4 more nodes like n1"} <= helps.keys()
    again = told(path, submit=[{**ask, "partition": "short"}])
    assert again.start_s == pytest.approx(helps["in partition short"].start_s, abs=0.01)
    stopped = helps["job 2 stopped and queued again"]
    again = told(path, submit=[ask], requeue=["2"])
    assert again.start_s == pytest.approx(stopped.start_s, abs=0.01)
    assert again.lost_core_h == stopped.lost_core_h > 0
    starts = [one.start_s for one in found.advice.found]
    assert starts == sorted(starts)
    assert found.advice.tried <= 24 < found.advice.of + 20


def test_no_more_is_tried_than_is_allowed_and_nothing_where_a_job_starts_at_once(tmp_path: Path) -> None:
    path = study(tmp_path, JOBS)
    assert told(path, tries=2, job="3").advice.tried == 2
    assert told(path, tries=9, job="3", add=["1 like n1"]).advice.of == 0


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--job", "1"], "--job: got '1', which runs already"),
        (["--job", "77"], "--job: got '77', wanted a job of the 4"),
        (["--drain", "n9"], "--drain: got 'n9', wanted a node: n1"),
        (["--add", "0 like n1"], "--add: got '0 like n1'"),
        (["--add", "2 like n[1-2]"], "one node with cores"),
        (["--end", "9"], "--end: got '9'"),
        (["--requeue", "4"], "--requeue: got '4', which does not run"),
        (["--set", "clusters.0.nope=1"], "clusters[0].nope: got an unknown key"),
        (["--set", "nope"], "--set: got 'nope', wanted KEY=VALUE"),
        (["--cores", "4"], "--time: got nothing"),
        (["--time", "-4 h", "--cores", "1"], "--time: got '-4 h'"),
        (["--time", "1 h", "--memory", "0"], "--memory: got '0'"),
        (["--time", "1 h", "--gpus", "2"], "gpus.count: got a resource that this system does not have"),
        (["--time", "1 h", "--partition", "nope"], "partition: got 'nope'"),
        (["--time", "1 h", "--ask", "cores"], "--ask: got 'cores'"),
        (["--time", "1 h", "--ask", "counted.seat=²"], "--ask: got 'counted.seat=²'"),
        (["--at", "1 h"], "--at: got 1 h, wanted no time for a study that begins with running jobs"),
        (["--out", "page.pdf"], "--out: got 'page.pdf'"),
        (["--job", "3", "job.sh"], "--job: got '3' beside job.sh"),
        (["pod.yaml"], "ASK: got pod.yaml beside"),
    ],
)
def test_a_question_that_cannot_be_is_refused_with_its_place(words: list[str], said: str, tmp_path: Path) -> None:
    found = command(study(tmp_path, JOBS), *words)
    assert isinstance(found.exception, InputError)
    assert found.exception.exit_code == 2
    assert said in str(found.exception)


def test_the_answer_in_words_as_json_and_as_a_page(tmp_path: Path) -> None:
    path = study(tmp_path, JOBS)
    asked = [path, "--cores", 16, "--time", "1:00:00", "--partition", "main"]
    found = command(*asked, "--out", tmp_path / "page.html")
    assert found.exception is None
    words = found.output
    for part in ("starts     2h40", "2 jobs ahead", "3 lack cores", "in partition short"):
        assert part in words
    told_ = json.loads(command(*asked, "--json").output)
    assert told_["start_s"] == pytest.approx(9600)
    assert told_["nodes"] == {"all": 4, "with_room": 0, "closed": 1, "lack": {"cores": 3}}
    assert not told_["starts_now"]
    assert told_["advice"]["found"][0]["options"].startswith("--")
    page = (tmp_path / "page.html").read_text()
    assert "What would help" in page
    assert "<svg" not in page.split("<h2>Starts</h2>")[0]
    assert "://" not in page


def test_names_of_users_are_no_markup(tmp_path: Path) -> None:
    path = study(tmp_path, [*JOBS[:2], {**JOBS[2], "id": "<b>[red]x"}, JOBS[3]])
    found = command(path, "--drain", "n3", "--out", tmp_path / "page.html")
    assert "<b>[red]x" in found.output
    assert "<b>[red]" not in (tmp_path / "page.html").read_text()


def test_run_times_are_learnt_from_what_was_over_by_then(tmp_path: Path) -> None:
    random = Random(2)
    jobs = [
        {"id": f"j{number}", "submit": number * 40, "request": 1000, "run": random.randrange(100, 500), "user": "ann",
         "cores": 4}
        for number in range(80)
    ]  # fmt: skip
    path = study(tmp_path, jobs, "{count = 1, cores = 16}", "", "easy")
    source = StudySource(Document.read(path))
    found = answer(
        source, Question([{"id": "new", "tasks": 1, "cores": 16, "request": 60.0}], at_us=2_000_000_000), tries=0
    )
    assert found.learnt.runs
    assert found.start_s is not None
    assert found.spread_s[2] is not None
    assert found.spread_s[2] < found.start_s
    again = answer(
        source, Question([{"id": "new", "tasks": 1, "cores": 16, "request": 60.0}], at_us=2_000_000_000), tries=0
    )
    assert again.spread_s == found.spread_s
