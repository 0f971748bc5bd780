"""The report's tables of a site, by hand: partitions, accounts and limits, and who waited for them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.report.page import breakdowns
from unrack.report.resource_section import _kept, resource_sections
from unrack.report.setting import Setting, read_finished, settings_of
from unrack.resources.site.told.partitions import _due, partition_tables
from unrack.resources.use import Table

STUDY = """
policies = ["fcfs", "easy"]
[[clusters]]
nodes = [{ count = 4, cores = 2 }]
[[clusters.site.partitions]]
name = "all"
default = true
[[clusters.site.partitions]]
name = "debug"
nodes = ["0"]
limits = [{ per = "user", amounts = { jobs = 1 } }]
[[clusters.site.accounts]]
name = "physics"
shares = 3
users = ["ann"]
limits = [{ amounts = { cores = 4 } }]
[[clusters.site.accounts]]
name = "theory"
parent = "physics"
[[clusters.site.accounts]]
name = "chem"
[[workloads]]
trace = "jobs.csv"
"""
JOBS = """id,submit,run,request,tasks,cores,user,account,partition
1,0,100,100,1,1,ann,physics,debug
2,0,50,50,1,1,ann,physics,debug
3,0,100,100,1,1,bob,theory,
4,0,100,100,2,2,cy,chem,all
5,10,100,100,5,1,cy,theory,"debug,all"
6,10,100,100,1,2,bob,theory,"debug,all"
"""


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.toml").write_text(STUDY)
    (folder / "jobs.csv").write_text(JOBS)
    done = CliRunner().invoke(app, ["run", str(folder / "study.toml"), "--out", str(folder / "out")])
    assert done.exit_code == 0, done.output
    page = (folder / "out" / "report.html").read_text()
    assert "Partitions and limits" in page
    assert "site.where" not in page
    assert "site.counts" not in page
    (found,) = settings_of(read_finished(folder / "out").runs)
    return found


@pytest.fixture(scope="module")
def tables(setting: Setting) -> dict[str, Table]:
    (section,) = resource_sections([setting])
    ((_, own),) = section.settings
    return {table.title: table for table in own}


def rows(table: Table, *names: str) -> dict[tuple[str, str], tuple[str, ...]]:
    at = [table.head.index(name) for name in names]
    return {(row[0], row[1]): tuple(row[i] for i in at) for row in table.rows}


def test_partitions_have_their_jobs_use_and_waits(tables: dict[str, Table]) -> None:
    found = rows(tables["Partitions"], "jobs", "not served", "used", "mean wait")
    # Job 2 waits 100 s for the only place of ann; job 6 takes a node of all, as debug is in use; job 5 is too big.
    assert found["fcfs", "debug"] == ("3", "1", f"{100 * 150 / 300:.1f} %", "50 s")
    assert found["fcfs", "all"] == ("3", "0", f"{100 * (100 + 400 + 200) / (8 * 150):.1f} %", "0 s")


def test_the_use_of_partitions_over_seeds_is_of_the_time_of_every_run_by_itself(setting: Setting) -> None:
    runs = [run for run in _kept(setting, "site", dict.fromkeys(setting.runs, "")) if run.policy == "fcfs"]
    times = pl.col("submit_s", "start_s", "end_s")
    assert runs[0].table is not None
    later = {name: runs[0].table(name) for name in ("jobs", "placements")}
    later["jobs"] = later["jobs"].with_columns(times + 10_000)
    (once,) = partition_tables(runs)
    (twice,) = partition_tables([*runs, runs[0]._replace(seed=1, table=later.__getitem__)])
    assert [row[:6] for row in once.rows] == [row[:6] for row in twice.rows]


def test_accounts_are_counted_with_those_below(tables: dict[str, Table]) -> None:
    found = rows(tables["Accounts"], "jobs", "not served", "shares", "use")
    assert found["easy", "physics"] == ("5", "1", "75.0 %", f"{100 * 450 / 850:.1f} %")
    assert found["easy", "theory"] == ("3", "1", "37.5 %", f"{100 * 300 / 850:.1f} %")
    assert found["easy", "chem"] == ("1", "0", "25.0 %", f"{100 * 400 / 850:.1f} %")


def test_limits_say_how_full_they_were_and_who_waited(tables: dict[str, Table]) -> None:
    found = rows(tables["Limits"], "jobs", "held at most", "full", "waited", "hours waited", "too big")
    assert found["fcfs", "jobs of each user, partition debug: 1"] == ("2", "1", "100.0 %", "1", "0.0", "0")
    assert found["fcfs", "cores of all together, account physics: 4"] == ("4", "4", "60.0 %", "1", "0.0", "1")


def test_who_waits_is_told_by_account(setting: Setting) -> None:
    assert any(title.startswith("Account") for title, _, _ in breakdowns(setting))


def test_members_of_an_account_without_shares_of_its_own_count_as_those_of_the_account_above() -> None:
    accounts = {
        "science": {"shares": 3, "users": [{"name": "ann"}, {"name": "bob", "shares": "parent"}]},
        "chemistry": {"parent": "science", "shares": "parent", "users": [{"name": "cy", "shares": 2}]},
        "lab": {"parent": "chemistry", "shares": 5},
        "rest": {},
    }
    # of science: ann 1, cy 2, lab 5
    assert _due(accounts) == {"science": 0.75, "lab": pytest.approx(0.75 * 5 / 8), "rest": 0.25}


QUEUES = """
policies = ["fcfs"]
[[clusters]]
nodes = [{ count = 4, cores = 2 }]
[clusters.site]
preempt = { by = "quota", mode = "requeue" }
partitions = [{ name = "spot", nodes = ["0-1"] }]
[[clusters.site.queues]]
name = "a"
also = ["team/a"]
cohort = "all"
reclaim = "any"
quotas = [{ nominal = { cores = 4 } }]
[[clusters.site.queues]]
name = "b"
cohort = "all"
default = true
quotas = [{ nominal = { cores = 4 }, lend = { cores = 2 } }]
[[clusters.site.queues]]
name = "alone"
quotas = [{ flavour = "spot", nominal = { cores = 2, jobs = 3 } }]
[[workloads]]
trace = "jobs.csv"
"""
QUEUED = """id,submit,run,request,tasks,cores,queue
1,0,100,100,1,2,
2,0,100,100,2,2,b
3,50,100,100,2,2,team/a
4,300,50,50,3,2,a
5,320,50,50,1,1,a
6,390,10,10,1,1,alone
"""


def test_queues_tell_what_they_used_borrowed_and_lent_and_how_their_jobs_waited(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(QUEUES)
    (tmp_path / "jobs.csv").write_text(QUEUED)
    done = CliRunner().invoke(app, ["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    (section,) = resource_sections(settings_of(read_finished(tmp_path / "out").runs))
    ((_, own),) = section.settings
    found = {table.title: table for table in own}
    waits = rows(found["Queues"], "jobs", "not served", "stopped", "mean wait")
    # at 50 s a has its quota back from b, which had borrowed 2 of 6 cores; job 5 waits 30 s for what a borrows of b
    assert waits == {
        ("fcfs", "a"): ("3", "0", "0", "10 s"),
        ("fcfs", "b"): ("2", "0", "1", "50 s"),
        ("fcfs", "alone"): ("1", "0", "0", "0 s"),
    }
    columns = ("policy", "queue", "quota", "nominal", "used", "used at most", "borrowed", "lent", "time borrowing")
    assert found["Quotas"].head == columns
    assert [row[1:] for row in found["Quotas"].rows] == [
        ("a", "cores", "4", f"{(4 * 100 + 6 * 50 + 50) / 400:.2f}", "6", f"{2 * 50 / 400:.2f}", "0.25", "12.5 %"),
        ("b", "cores", "4", f"{(6 * 50 + 2 * 50 + 4 * 100) / 400:.2f}", "6", "0.25", "0.25", "12.5 %"),
        ("alone", "cores in spot", "2", f"{10 / 400:.2f}", "1", "0.00", "0.00", "0.0 %"),
        ("alone", "jobs in spot", "3", f"{10 / 400:.2f}", "1", "0.00", "0.00", "0.0 %"),
    ]
    assert "b: 2.00 used on average" in found["Use of cores over time, fcfs"].picture
    assert "Limits" not in found
