"""Extensions from files and from distributions: the pages run to the letter, and what is broken stops nobody else."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import tomli_w
import typer
from extension_pages import commands_of, files_of, install, unrack, unrack_anew
from typer.testing import CliRunner

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.metric.table import EVERY_METRIC
from unrack.plugins.table import Extension, Table, using
from unrack.resources.table import RESOURCES
from unrack.sim.simulate import simulate
from unrack.study.grid import load_study
from unrack.workload.filters import filtered
from unrack.workload.formats.readers import FORMATS, read_trace
from unrack.workload.generate.generator import generate

POLICIES = ["fcfs", "easy", "conservative"]


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "summary.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def listed(folder: Path, *options: str, site: Path | None = None) -> dict[tuple[str, str], dict[str, Any]]:
    done = unrack(folder, *options, "plugins", "--json", site=site)
    assert done.returncode == 0, done.stderr
    return {(row["kind"], row["name"]): row for row in json.loads(done.stdout)}


@pytest.mark.long
def test_a_reader_and_a_metric_of_the_page_serve_a_study_from_a_file_and_from_a_distribution(tmp_path: Path) -> None:
    files_of("plugins.md", tmp_path)
    done = [unrack(tmp_path, *command) for command in commands_of("plugins.md")]
    assert not [one.stderr for one in done if one.returncode]
    assert "late share" in done[0].stdout
    rows = rows_of(tmp_path / "out")
    assert [row["jobs_finished"] for row in rows] == ["5.0", "5.0"]
    assert [row["late_share"] for row in rows] == ["0.8", "0.4"]
    assert "late_share" in (tmp_path / "out" / "report.html").read_text()

    again = unrack(tmp_path, "run", "night.toml", "--out", "out", "--verbose", "--no-report")
    assert again.stderr.count("not run again") == 2
    (tmp_path / "night.py").write_text((tmp_path / "night.py").read_text().replace("> 60", "> 6000"))
    changed = unrack(tmp_path, "run", "night.toml", "--out", "out", "--verbose", "--no-report", "--jobs", "2")
    assert "not run again" not in changed.stderr
    assert [row["late_share"] for row in rows_of(tmp_path / "out")] == ["0.0", "0.0"]

    site = tmp_path / "site"
    install(tmp_path / "pyproject.toml", site)
    found = listed(tmp_path, site=site)
    assert found["readers", "night"]["from"] == found["metrics", "late_share"]["from"] == "night-shift 0.3"
    text = (tmp_path / "night.toml").read_text()
    for plugins, measured in (("[]", False), ('["late_share"]', True)):
        (tmp_path / "night.toml").write_text(text.replace('["night.py"]', plugins))
        done = unrack(tmp_path, "run", "night.toml", "--out", "again", "--no-report", site=site)
        assert done.returncode == 0, done.stderr
        assert ("late_share" in rows_of(tmp_path / "again")[0]) == measured


@pytest.mark.long
def test_the_resource_of_the_page_runs_as_it_stands_with_slowdown_metric_and_section(tmp_path: Path) -> None:
    files_of("adding-a-resource.md", tmp_path)
    for command in commands_of("adding-a-resource.md"):
        done = unrack(tmp_path, *command)
        assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path / "out")
    assert [row["policy"] for row in rows] == POLICIES
    assert all(row["jobs_finished"] == "40.0" and float(row["used_burst"]) > 0.1 for row in rows)
    assert "Burst buffers" in (tmp_path / "out" / "report.html").read_text()
    without = tmp_path / "without"
    without.mkdir()
    slowdown = "        return SharedBuffers(cluster)"
    (without / "burst.py").write_text((tmp_path / "burst.py").read_text().replace(slowdown, "        return None"))
    (without / "burst.toml").write_text((tmp_path / "burst.toml").read_text())
    assert unrack(without, "run", "burst.toml", "--out", "out", "--no-report").returncode == 0
    assert float(rows[0]["response_s_mean"]) > float(rows_of(without / "out")[0]["response_s_mean"])

    site = tmp_path / "site"
    install(tmp_path / "pyproject.toml", site)
    (tmp_path / "burst.toml").write_text((tmp_path / "burst.toml").read_text().replace('plugins = ["burst.py"]\n', ""))
    done = unrack(tmp_path, "run", "burst.toml", "--out", "installed", "--jobs", "2", site=site)
    assert done.returncode == 0, done.stderr
    names = ("policy", "response_s_mean", "used_burst")
    assert [[row[name] for name in names] for row in rows_of(tmp_path / "installed")] == [
        [row[name] for name in names] for row in rows
    ]
    gone = unrack(tmp_path, "explain", "installed", "1", "--run", "fcfs")
    assert gone.returncode == 2
    assert "burst" in gone.stderr


MINE = """
import numpy as np
import polars as pl

from unrack.policy import ListScheduler, Parameter, PolicyEntry, one_of
from unrack.report.resource_section import Section
from unrack.resources.use import Table


def draw(spec, seed):
    times = [200.0 * job for job in range(spec["pulses"])]
    return pl.DataFrame({"submit": times, "run": [50.0] * len(times), "cores": [1] * len(times)})


class Slow:
    def touched(self, view, lease):
        return view.running_jobs.copy()

    def speeds(self, view, jobs):
        return np.full(len(jobs), 0.5)

    def feels(self, before, after):
        return False


def tables(runs):
    return (Table("Mine", "Words of mine.", ("policy",), tuple((run.policy,) for run in runs)),)


def sorted_list(order="fcfs", label=""):
    return ListScheduler(order=order, label=label)


GENERATORS = {"pulses": draw}
SLOWDOWNS = {"slow": lambda cluster, jobs: Slow()}
SECTIONS = {"mine": Section("A section of mine", tables)}
ORDER = Parameter("order", one_of(("fcfs", "sjf")), "fcfs", "which order")
POLICIES = {
    "mine": ListScheduler(order="sjf", label="mine"),
    "entry": PolicyEntry("words", sorted_list, {"order": ORDER}, {}),
}
"""
STUDY = """
plugins = ["mine.py"]
policies = ["mine", "fcfs", "entry(order=sjf)"]
clusters = [{ nodes = [{ count = 2, cores = 2 }] }]
workloads = [{ generate = { pulses = 5 } }]
"""


def test_generators_slowdowns_sections_and_policies_of_a_file_take_part_in_its_study(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "study.toml").write_text(STUDY)
    done = unrack(tmp_path, "run", "study.toml", "--out", "out", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path / "out")
    policies = ("mine", "fcfs", "entry(order=sjf)")
    assert [(row["policy"], row["response_s_mean"]) for row in rows] == [(name, "100.0") for name in policies]
    (tmp_path / "study.toml").write_text(STUDY.replace("order=sjf", "order=ljf"))
    done = unrack(tmp_path, "run", "study.toml", "--out", "out", "--jobs", "1")
    assert (done.returncode, "policy entry, order: got 'ljf', wanted" in done.stderr) == (2, True)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "A section of mine" in page
    assert "Words of mine." in page


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Two distributions: one cannot be loaded, and both have a reader of one name, and one a name of unrack's."""
    site = tmp_path / "site"
    for name, readers in (
        ("one", "same = 'one:read'\nbroken = 'one:lost'"),
        ("two", "same = 'two:read'\nswf = 'two:read'"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.py").write_text("def read(source):\n    return 1 / 0\n")
        (folder / "pyproject.toml").write_text(
            f"[project]\nname = '{name}'\nversion = '1'\n[project.entry-points.'unrack.readers']\n{readers}\n"
            f"[project.entry-points.'unrack.commands']\n{name}-command = 'nowhere:run'\n"
        )
        install(folder / "pyproject.toml", site)
    return site


def test_what_is_broken_is_listed_with_its_error_and_stops_only_who_asks_for_it(broken: Path, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("submit,run\n0,5\n")
    (tmp_path / "log.swf").write_text("1 0 0 5 1 -1 -1 1 5 -1 1 1 1 1 1 -1 -1 -1\n")
    found = listed(tmp_path, site=broken)
    assert "lost" in found["readers", "broken"]["error"]
    assert "one 1" in found["readers", "same"]["error"]
    assert "two 1" in found["readers", "same"]["error"]
    assert "two 1 needs another name" in found["readers", "swf"]["error"]
    assert "nowhere" in found["commands", "one-command"]["error"]
    assert unrack(tmp_path, "trace", "info", "log.swf", "--format", "swf", site=broken).returncode == 0
    assert unrack(tmp_path, "trace", "info", "log.csv", site=broken).returncode == 0
    for name, words in (("broken", ("one 1", "lost")), ("same", ("one 1", "two 1"))):
        done = unrack(tmp_path, "trace", "info", "log.csv", "--format", name, site=broken)
        assert done.returncode == 2
        assert all(word in done.stderr for word in words), done.stderr


def test_a_command_that_cannot_be_loaded_says_so_when_it_is_called(broken: Path, tmp_path: Path) -> None:
    asked = unrack_anew(tmp_path, "one-command", site=broken)
    assert (asked.returncode, "nowhere" in asked.stderr) == (2, True)


@pytest.mark.parametrize(
    ("content", "words"),
    [("x = 1\n", "a file that adds nothing"), ("READER = {'a': len}\n", "READERS"),
     ("READERS = [len]\n", "a dictionary"), ("READERS = {'swf': len}\n", "which unrack has"),
     ("READERS = {'a': 3}\n", "a function"), ("RESOURCES = {'a': object()}\n", "without name"),
     ("1 / 0\n", "line 1: 1 / 0"), (None, "not there")],
)  # fmt: skip
def test_a_file_that_cannot_serve_is_refused_in_words(content: str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    if content is not None:
        path.write_text(content)

    def look_up() -> object:
        with using([str(path)]):
            return FORMATS["a"] if "a" in FORMATS else RESOURCES["a"]

    with pytest.raises(InputError, match=words):
        look_up()


def test_a_file_is_in_use_only_within_and_its_errors_name_its_lines(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def read(source):\n    return 1 / 0\n\n\nREADERS = {'mine': read}\n")
    (tmp_path / "log").write_text("x\n")
    with (
        using([str(tmp_path / "mine.py")]),
        pytest.raises(Exception, match=r"the reader mine failed.*\n.*line 2") as one,
    ):
        read_trace(tmp_path / "log", "mine")
    assert type(one.value).__name__ == "RunError"
    with pytest.raises(InputError, match="'mine'"):
        read_trace(tmp_path / "log", "mine")
    assert "late_share" not in EVERY_METRIC
    with pytest.raises(InputError, match="plugins"), using(["late_share"]):
        pass


@pytest.mark.parametrize(
    ("returned", "value"),
    [("np.int64(5)", 5), ("np.float32(0.5)", 0.5), ("np.nan", None), ("None", None), ("True", 1), ("np.inf", "inf"),
     ("'12'", "'12'"), ("window.jobs['wait_s']", "Series")],
)  # fmt: skip
def test_what_a_metric_returns_is_a_number_or_refused(tmp_path: Path, returned: str, value: float | str | None) -> None:
    (tmp_path / "mine.py").write_text(f"import numpy as np\nMETRICS = {{'mine': lambda window: {returned}}}\n")
    workload = generate({"jobs": 2, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 5}]})
    with using([str(tmp_path / "mine.py")]):
        result = simulate(Cluster.homogeneous(nodes=1, cores=1), workload, "fcfs")
        if isinstance(value, str):
            with pytest.raises(InputError, match=rf"the metric mine: got .*{value}.*, wanted a number, or None"):
                result.measured  # noqa: B018
        else:
            assert result.measured["mine"] == value


def test_what_unrack_papers_has_is_said_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import unrack as package
    from unrack.plugins import table

    monkeypatch.setattr(table, "installed", dict)
    (tmp_path / "jobs.csv").write_text("x\n")
    with pytest.raises(InputError, match=r"unrack\[papers\]"):
        read_trace(tmp_path / "jobs.csv", "minsky")
    with pytest.raises(InputError, match=r"unrack\[papers\]"):
        package.generate({"rodinia_jobs": 3})
    with pytest.raises(AttributeError, match=r"unrack_papers\.servers\.place .*unrack\[papers\]"):
        package.place  # noqa: B018
    assert not hasattr(package, "place")
    for name, home in (("best_tiles", "torus"), ("servers", r"workloads\.server_generator")):
        with pytest.raises(AttributeError, match=rf"unrack_papers\.{home}\.{name} .*unrack\[papers\]"):
            getattr(package, name)
    (tmp_path / "some.json").write_text('{"servers": [{"cores": 2, "mem": 100}]}')
    with pytest.raises(InputError, match=r"some.json: format: got 'servers' by its content, .*unrack\[papers\]"):
        read_trace(tmp_path / "some.json")
    with pytest.raises(InputError, match=r"unrack\[papers\]"):
        package.generate({"servers": 3})
    study = {"policies": [{"name": "fcfs"}], "clusters": [{"nodes": [{"count": 1, "cores": 1}]}],
             "workloads": [{"generate": {"servers": 3}}]}  # fmt: skip
    (tmp_path / "study.toml").write_text(tomli_w.dumps(study))
    with pytest.raises(InputError, match=r"workloads\[0\].*unrack\[papers\]"):
        load_study(str(tmp_path / "study.toml"))
    cluster = package.Cluster.from_dict({"nodes": [{"count": 1, "cores": 4, "torus": [2, 2]}]})
    jobs = package.generate({"jobs": 1, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 1}]})
    for rule in ("best", "nearest"):
        with pytest.raises(InputError, match=rf"rule for cores: got '{rule}', wanted .*unrack\[papers\]"):
            package.simulate(cluster, jobs, core_tiles=rule)


CORES = """
from types import SimpleNamespace

import numpy as np


class Last:
    wrong = ""

    def __init__(self, cluster):
        self.free = [set(range(cores)) for cores in cluster.cores.tolist()]

    def knows(self, node):
        return node > 0

    def take(self, node, cores):
        ids = sorted(self.free[node])[-cores:]
        ids = {"twice": ids[:1] * cores, "beyond": [99, 98], "taken": [0, 1]}.get(self.wrong, ids)
        if self.wrong == "raises":
            raise KeyError(node)
        self.free[node] -= set(ids)
        return SimpleNamespace(ids=np.array(ids), dies=1, distance=cores, least=1, apart=0)

    def give(self, node, ids):
        self.free[node] |= set(ids.tolist())


WRONG = ("twice", "beyond", "taken", "raises")
CORE_RULES = {name: type(name, (Last,), {"wrong": name}) for name in WRONG}
CORE_RULES |= {"last": Last, "broken": lambda cluster: 1 / 0, "none": 3}
"""
STUDY_OF_CORES = """
plugins = ["cores.py"]
core_tiles = "last"
policies = ["fcfs"]
clusters = [{ nodes = [{ count = 2, cores = 4 }] }]
workloads = [{ generate = { jobs = 6, arrivals = { gap_s = 1 }, classes = [{ run_s = 5, cores = 2 }] } }]
"""


def test_a_rule_for_cores_of_a_file_serves_its_study_and_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    (tmp_path / "cores.py").write_text(CORES)
    (tmp_path / "study.toml").write_text(STUDY_OF_CORES)
    done = unrack(tmp_path, "run", "study.toml", "--out", "out", "--jobs", "2", "--no-report")
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "out").rglob("cores.parquet")
    rows = pl.read_parquet(path).select("job", "node", "core_ids", "distance").rows()
    assert rows == [(3, 1, "2-3", 2), (4, 1, "0-1", 2)]
    assert rows_of(tmp_path / "out")[0]["core_distance_over_least"] == "2.0"
    for rule, words in (
        ("broken", "CORE_RULES"),
        ("none", "3, wanted a function"),
        ("lost", "one of .*last"),
        *((name, "the rule for cores .* node 1: wanted 2 different") for name in ("twice", "beyond", "taken")),
        ("raises", "the rule for cores raises failed: KeyError"),
    ):
        (tmp_path / "study.toml").write_text(STUDY_OF_CORES.replace('"last"', f'"{rule}"'))
        done = unrack(tmp_path, "run", "study.toml", "--out", "out")
        assert done.returncode != 0
        assert re.search(words, done.stderr), done.stderr


@pytest.mark.parametrize("command", ["place", "reproduce", "tiles"])
def test_a_command_of_unrack_papers_is_not_listed_without_it_and_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    from unrack.cli import main

    monkeypatch.setattr("unrack.plugins.table.installed", dict)
    app = typer.Typer()
    app.command("run")(lambda: None)
    main.plug(app)
    assert command not in CliRunner().invoke(app, ["--help"]).output
    found = CliRunner().invoke(app, [command, "a.toml", "--option", "4x7"]).exception
    assert isinstance(found, InputError)
    assert str(found) == f"unrack {command}: got not installed, wanted pip install 'unrack[papers]'"


def test_a_command_of_a_group_is_added_to_it_or_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from unrack.cli import main

    def app_with_a_group() -> typer.Typer:
        app, group = typer.Typer(), typer.Typer()
        group.command("info")(lambda: None)
        app.add_typer(group, name="usage")
        app.command("run")(lambda: None)
        main.plug(app)
        return app

    monkeypatch.setattr("unrack.plugins.table.installed", dict)
    app = app_with_a_group()
    assert "fit" not in CliRunner().invoke(app, ["usage", "--help"]).output
    found = CliRunner().invoke(app, ["usage", "fit", "a.csv", "--out", "x"]).exception
    assert str(found) == "unrack usage fit: got not installed, wanted pip install 'unrack[papers]'"
    one = Extension("other 1.0", "other:fit", lambda: lambda: typer.echo("fitted"))
    monkeypatch.setattr(main, "COMMANDS", Table("commands", {}, lambda name, found: found))
    monkeypatch.setattr(
        "unrack.plugins.table.installed", lambda: {"commands": {"usage.fit": [one], "nowhere.fit": [one]}}
    )
    assert CliRunner().invoke(app_with_a_group(), ["usage", "fit"]).output == "fitted\n"


def test_shapes_of_use_that_are_not_installed_say_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = generate({"jobs": 3, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 9, "memory_mb": 100}]})
    monkeypatch.setattr("unrack.plugins.table.installed", dict)
    for value in ("google", "mine.toml", {"shapes": "grizzly"}):
        with pytest.raises(InputError, match=r"shapes: .* wanted pip install 'unrack\[papers\]'"):
            filtered(jobs, {"usage": value})
