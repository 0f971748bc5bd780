"""What jobs say and no site could mean is refused, by job and column; what some say in vain rejects these alone."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import tomli_w

import unrack
from unrack.cli.main import main
from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

SITES: dict[str, dict[str, Any]] = {
    "partition": {"partitions": [{"name": "batch"}]},
    "qos": {"qos": [{"name": "high", "priority": 5}]},
    "account": {"accounts": [{"name": "physics", "shares": 5}]},
    "reservation": {"reservations": [{"name": "course", "start": 0, "duration": "1 d", "nodes": ["0"]}]},
    "constraint": {"features": {"ib": ["0-1"]}},
    "queue": {"queues": [{"name": "team", "quotas": [{"nominal": {"cores": 4}}]}]},
    "req_nodes": {"partitions": [{"name": "batch"}]},
    "exc_nodes": {"partitions": [{"name": "batch"}]},
}
KNOWN = {
    "partition": "batch", "qos": "high", "account": "physics", "reservation": "course", "constraint": "ib",
    "queue": "team", "req_nodes": "1", "exc_nodes": "1",
}  # fmt: skip
LIMIT = {"limits": [{"per": "user", "amounts": {"jobs": 9}}]}


def run(site: dict[str, Any], **columns: list[Any]) -> Any:
    count = len(next(iter(columns.values())))
    table = job_table(
        submit_us=np.arange(count) * 10**6, work_us=np.full(count, 10**7), tasks=np.ones(count, np.int64),
        extra=pl.DataFrame(columns, strict=False),
    )  # fmt: skip
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], **({"site": site} if site else {})})
    return unrack.simulate(cluster, Workload("said", table, Intake("", "", 0, 0)), "fcfs")


@pytest.mark.parametrize("column", SITES)
def test_a_word_that_the_site_does_not_know_is_refused_where_no_job_says_a_better_one(column: str) -> None:
    with pytest.raises(InputError, match=rf"^job 2, {column}: got 'nope', wanted some of "):
        run(SITES[column], **{column: ["", "nope", "nope"]})
    states = run(SITES[column], **{column: ["", KNOWN[column], "nope"]}).jobs["state"].to_list()
    tolerated = column in ("account", "exc_nodes")  # one without shares of its own; what is not there is left out
    assert states == ["finished", "finished", "finished" if tolerated else "rejected"]


@pytest.mark.parametrize("column", ["reservation", "constraint"])
def test_a_site_without_any_refuses_them(column: str) -> None:
    with pytest.raises(InputError, match=f"^job 2, {column}: got 'nope', wanted none: the site has no "):
        run(LIMIT, **{column: ["", "nope"]})
    assert run({}, **{column: ["", "nope"]}).jobs["state"].to_list() == ["finished"] * 2  # a note tells it


@pytest.mark.parametrize("column", ["qos", "account"])
def test_a_site_that_lists_none_lets_any_pass(column: str) -> None:
    assert run(LIMIT, **{column: ["", "nope"]}).jobs["state"].to_list() == ["finished"] * 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), "soon", "1e999"])
@pytest.mark.parametrize("column", ["begin_s", "think_s", "array_limit", "nice"])
def test_numbers_that_are_none_are_refused(column: str, value: Any) -> None:
    more = {"follows": ["", "1"]} if column == "think_s" else {"array": ["a", "a"]}
    with pytest.raises(InputError, match=f"^job 2, {column}: got '.*', wanted a number"):
        run(LIMIT, **{column: ["1", str(value)] if isinstance(value, str) else [1.0, value]}, **more)


@pytest.mark.parametrize(("column", "value"), [("array_limit", -2), ("array_limit", 1.5), ("nice", 0.5)])
def test_numbers_that_are_not_whole_or_too_small_are_refused(column: str, value: float) -> None:
    with pytest.raises(InputError, match=f"^job 2, {column}: got {value}, wanted a whole number"):
        run(LIMIT, **{column: [1, value]}, array=["a", "a"])


@pytest.mark.parametrize("minutes", ["²", "1" * 20, "-1", "x"])
def test_minutes_after_a_start_that_are_no_number_are_refused(minutes: str) -> None:
    with pytest.raises(InputError, match=r"^job 2, dependency: got 'after:1.*', wanted ids of jobs of the trace"):
        run({}, dependency=[None, f"after:1+{minutes}"])


def test_a_time_to_begin_before_the_log_began_says_nothing() -> None:
    assert run({}, begin_s=[-5.0, 3.0]).jobs["start_s"].to_list() == [0.0, 3.0]


@pytest.mark.parametrize(
    ("site", "column", "values", "words"),
    [
        *[(SITES[column], column, ("", "nope"), f"job 2, {column}: got 'nope'") for column in SITES],
        (LIMIT, "reservation", ("", "nope"), "job 2, reservation: got 'nope', wanted none"),
        ({}, "array_limit", ("1", "-4"), "job 2, array_limit: got -4, wanted a whole number, 0 or more"),
        ({}, "dependency", ("afterok:2", "afterok:1"), "job 1, dependency: got job 1 waits for 2 waits for 1"),
        ({"limits": [{"amounts": {"cores": -1}}]}, "user", ("a", "b"), "got {'cores': -1}, wanted a whole number"),
        (
            {"queues": [{"name": "q", "quotas": [{"nominal": {"cores": -1}}]}]}, "queue", ("q", "q"),
            "site.queues.0.quotas.0.nominal: got {'cores': -1}, wanted a whole number of 0 or more",
        ),
    ],
)  # fmt: skip
def test_a_study_is_refused_before_it_runs(
    site: dict[str, Any], column: str, values: tuple[str, str], words: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    rows = "".join(f"{job},0,10,10,1,{value}\n" for job, value in enumerate(values, 1))
    (tmp_path / "jobs.csv").write_text(f"id,submit,run,request,cores,{column}\n{rows}")
    cluster = {"name": "c", "nodes": [{"count": 2, "cores": 4}], **({"site": site} if site else {})}
    study = {"policies": ["fcfs"], "clusters": [cluster], "workloads": [{"name": "w", "trace": "jobs.csv"}]}
    (tmp_path / "study.toml").write_text(tomli_w.dumps(study))
    monkeypatch.setattr(sys, "argv", ["unrack", "run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    found = " ".join(capsys.readouterr().err.split())
    assert words in found
    assert "study.toml, line " in found
    assert not (tmp_path / "out").exists()


def test_names_may_stand_in_a_list_or_between_commas_as_in_slurm_conf() -> None:
    def site(**how: Any) -> Any:
        partition = {"name": "p", "nodes": how["nodes"], "accounts": how["accounts"], "users": how["users"]}
        kept = {"name": "r", "nodes": how["nodes"], "users": how["users"], "days": how["days"], "start_day": "mon"}
        return Cluster.from_dict({
            "nodes": [{"count": 6, "cores": 4}],
            "counted": [{"name": "licence", "amount": 3, "per": "node", "nodes": how["nodes"]}],
            "site": {
                "partitions": [partition], "features": {"fast": how["nodes"]},
                "accounts": [{"name": name, "users": how["users"]} for name in ("a", "b")],
                "reservations": [kept | {"start": 0, "duration": 60, "every": "1 d", "until": "9 d"}],
            },
        })  # fmt: skip

    text = {"nodes": "node[0-1,3], 5", "accounts": "a,b", "users": "ann , bob", "days": "mon,sat"}
    lists = {
        "nodes": ["node0", "node1", "3", "5"], "accounts": ["a", "b"], "users": ["ann", "bob"], "days": ["mon", "sat"],
    }  # fmt: skip
    assert site(**text).digest() == site(**lists).digest()
    for wrong in ("", "0,,1", 3, {"a": 1}):
        with pytest.raises(
            InputError, match=r"nodes: got .*, wanted names in a list, or between commas as in 'n.1-4,7.,"
        ):
            site(**lists | {"nodes": wrong})


@pytest.mark.parametrize(
    ("site", "key", "one"),
    [({"hue": 1}, "site.hue", "partitions"),
     ({"partitions": [{"name": "a", "colour": 1}]}, "site.partitions.0.colour", "tier"),
     ({"queues": [{"name": "q", "quotas": [{"cores": 4}]}]}, "site.queues.0.quotas.0.cores", "nominal"),
     ({"accounts": [{"name": "a", "users": [{"name": "u", "colour": 1}]}]}, "colour", "shares")],
)  # fmt: skip
def test_a_key_that_is_none_is_told_with_those_of_its_own_table(site: dict[str, Any], key: str, one: str) -> None:
    with pytest.raises(InputError) as told:
        Cluster.from_dict({"nodes": [{"count": 4, "cores": 4}], "site": site})
    got, _, wanted = str(told.value).partition("wanted one of ")
    assert key in got
    assert one in wanted.split(", ")


@pytest.mark.parametrize("value", [{}, [], ["1"], 10**400, -(10**400), float("nan"), float("inf"), True])
def test_amounts_that_are_none_are_refused_with_their_key(value: Any) -> None:
    """Of every kind, as TOML has tables, lists, and whole numbers of any length."""
    kept = {"name": "r", "nodes": ["0"], "start": 0, "duration": 9, "every": 20, "until": 99}
    sites = [{"reservations": [kept | {key: {name: value}}]} for key, name in (
        ("licences", "a"), ("licences", "b_mb"), ("licences", "b_mb_s"), ("devices", "d"))]  # fmt: skip
    sites += [{"reservations": [kept | {key: value}]} for key in ("start", "duration", "every", "until")]
    sites += [{"partitions": [{"name": "p", key: value}]} for key in ("max_time", "over_time", "tier", "max_nodes")]
    sites += [
        {"priority": {key: value}} for key in ("age", "max_age", "half_life", "calc_period", "used_until", "dampening")
    ]
    sites += [{"qos": [{"name": "q", "usage_factor": value}]}]
    counted = [{"name": name, "amount": 4} for name in ("a", "b_mb", "b_mb_s")]
    for site in sites if value is not True else sites[:4]:
        with pytest.raises(InputError, match=r"^cluster, site\.[a-z]+(\.0)?"):
            Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], "counted": counted, "site": site})
    for other in ({"links": {"mb_s": value}}, {"pools": [{"kind": "x", "quantities": {"bandwidth_mb_s": value}}]}):
        with pytest.raises(InputError, match=r"mb_s|quantities"):
            Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], **other})
    for power in ({"idle": value, "peak": 9}, {"idle": 2, "peak": value}, {"idle": 2, "peak": 9, "cap": value}):
        with pytest.raises(InputError, match=r"^cluster, power\.\w+: got .*, wanted watts, or text"):
            Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}], "power": power})


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [("cores", "four", "a whole number"), ("cores", 1.5, "a whole number"), ("names", 3, "text")],
)
def test_what_is_wanted_is_said_in_plain_words(key: str, value: Any, words: str) -> None:
    with pytest.raises(InputError, match=f", nodes.0.{key}: got {value!r}, wanted {words}$"):
        Cluster.from_dict({"nodes": [{"count": 2, "cores": 4, key: value}]})


def test_a_job_waits_for_no_id_that_several_jobs_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for the last of them: here one that comes 49 s after it."""
    log, study = tmp_path / "log.csv", tmp_path / "study.toml"
    study.write_text('policies = ["easy"]\nclusters = [{ nodes = [{ count = 4, cores = 4 }] }]\n'
                     f'workloads = [{{ trace = "{log}" }}]\n')  # fmt: skip
    for columns, waits, words in (
        ("dependency", "afterok:1", "job 2, dependency: got 'afterok:1', wanted ids of one job each, not '1'"),
        ("follows,think_s", "1,3", "job 2, follows: got '1', wanted the id of one job"),
    ):
        none = "," * columns.count(",")
        rows = [f"1,0,10,1,{none}", f"2,1,10,1,{waits}", f"1,50,10,1,{none}"]
        log.write_text("\n".join([f"id,submit_s,run_s,tasks,{columns}", *rows, ""]))
        monkeypatch.setattr(sys, "argv", ["unrack", "run", str(study), "-o", str(tmp_path / "out")])
        with pytest.raises(SystemExit):
            main()
        assert words in capsys.readouterr().err
