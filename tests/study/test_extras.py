"""Without the libraries of the extras everything else runs; what needs them says in one line how to get them."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from unrack import extras
from unrack.errors import MissingError
from unrack.report.charts.vega import bundled
from unrack.solver.min_cost_flow import solve
from unrack.solver.servers import Asked, Supply, asked
from unrack_papers.amaral.flow.solvers import scheduling_network
from unrack_papers.servers.problem import regular_supply

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "src", ROOT / "papers" / "src")
FORBIDDING = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("ortools", "scipy", "vl_convert", "altair", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Forbidden())

from importlib import resources
from pathlib import Path

class Report:
    def __init__(self, source):
        self.source = source

    def joinpath(self, *names):
        return (Path(__file__).parent if names[-1] == "vega.js" else self.source).joinpath(*names)

files = resources.files
resources.files = lambda package: Report(files(package)) if package == "unrack.report" else files(package)
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the script of charts that comes with the wheel, where no library of an extra is to be had.

    The package itself is not copied: machine code of its kernels is kept by where they stand.
    """
    folder = tmp_path_factory.mktemp("site-packages")
    (folder / "assets").mkdir()
    (folder / "assets" / "vega.js").write_text(bundled(), encoding="utf-8")
    (folder / "sitecustomize.py").write_text(FORBIDDING)
    return folder


def unrack(plain: Path, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unrack", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "160", "PYTHONPATH": os.pathsep.join(map(str, (plain, *SOURCES)))}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)


@pytest.mark.long
@pytest.mark.parametrize("name", ["demo", "nvme", "lending"])
def test_an_example_runs_without_them(plain: Path, tmp_path: Path, name: str) -> None:
    done = unrack(
        plain, "run", ROOT / "examples" / f"{name}.toml", "--out", "out", "--jobs", 1, "--seed", 1, folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "vegaEmbed" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    "command", ["--help", "policies", "metrics", "presets", "models", "scenarios", "traces", "reproduce --list"]
)
def test_a_list_is_printed_without_them(plain: Path, tmp_path: Path, command: str) -> None:
    done = unrack(plain, *command.split(), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("run flow.toml", "solvers"),
        ("trace fit log.swf --plot fit.svg", "figures"),
        ("place centre.toml servers.toml --policy optimal", "solvers"),
    ],
)
def test_what_needs_them_says_in_one_line_how_to_install_them(
    plain: Path, tmp_path: Path, command: str, extra: str
) -> None:
    (tmp_path / "flow.toml").write_text(
        'name = "one"\npolicies = ["flow(solver=ortools)"]\n[[clusters]]\nnodes = [{count = 1, cores = 1}]\n'
        '[[workloads]]\nname = "some"\n[workloads.generate]\njobs = 3\narrivals = {gap_s = 5}\n'
        "classes = [{run_s = 9}]\n"
    )
    (tmp_path / "log.swf").write_text("")
    for name in ("centre.toml", "servers.toml"):
        shutil.copy(ROOT / "examples" / "place" / name, tmp_path)
    done = unrack(plain, *command.split(), folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.endswith(f"pip install 'unrack[{extra}]'\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.long
def test_servers_are_placed_without_them_one_after_the_other(plain: Path, tmp_path: Path) -> None:
    files = [ROOT / "examples" / "place" / f"{name}.toml" for name in ("centre", "servers")]
    done = unrack(plain, "place", *files, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "SLOs broken: local 0, remote 0" in done.stdout


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """OR-Tools cannot be imported, in this process."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "ortools"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ortools", None)
    extras._installed.cache_clear()
    yield
    extras._installed.cache_clear()


@pytest.mark.parametrize("seed", range(4))
def test_flows_are_the_same_without_or_tools(seed: int, request: pytest.FixtureRequest) -> None:
    network = scheduling_network(60, 5, 9, 4, seed, aggregator=True)
    with_it = solve(network)
    request.getfixturevalue("missing")
    without = solve(network)
    assert not extras.has_solvers()
    assert with_it.cost == without.cost
    assert np.array_equal(with_it.amount, without.amount)
    with pytest.raises(MissingError, match=r"solver 'ortools': got no ortools installed, .*unrack\[solvers\]"):
        solve(network, "ortools")


def some_servers() -> tuple[Supply, Asked]:
    supply = regular_supply(3, (4, 100), ((400, 1, 50, 1), (800, 2, 25, 1)), price=100)
    return supply, asked(np.array([1, 1]), np.array([200, 300]), np.array([20, 30]), np.array([270, 400]), tiers=3)


def test_servers_all_at_once_say_what_they_need(missing: None) -> None:
    from unrack_papers.servers.allocator.one_by_one import place_one_by_one
    from unrack_papers.servers.batch.constraint import place_cp
    from unrack_papers.servers.batch.running.repack import repack
    from unrack_papers.servers.batch.solve import place_batch

    supply, asks = some_servers()
    now = place_one_by_one(supply, asks, "slo")
    for place in (place_batch, place_cp, lambda *those: repack(*those, now, moves=1, resplit=True)):
        with pytest.raises(MissingError, match=r"unrack\[solvers\]"):
            place(supply, asks)  # type: ignore[operator]


def test_another_module_that_is_missing_is_not_taken_for_an_extra() -> None:
    with pytest.raises(ModuleNotFoundError), extras.needed_for("anything"):
        import a_module_that_nobody_has  # type: ignore[import-not-found]  # noqa: F401


def test_the_error_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(MissingError("charts", "vl_convert", "figures")))
    assert str(error) == "charts: got no vl_convert installed, wanted pip install 'unrack[figures]'"


@pytest.mark.long
def test_a_reproduction_without_pictures_says_so_and_has_its_numbers(plain: Path, tmp_path: Path) -> None:
    done = unrack(plain, "reproduce", "gpu-timeline", "--out", ".", folder=tmp_path)
    assert done.returncode == 0
    assert "no pictures will be made; they need: pip install 'unrack[figures]'" in done.stderr
    assert {path.suffix for path in tmp_path.glob("gpu-timeline*")} == {".md", ".csv"}
    assert "![" not in (tmp_path / "gpu-timeline.md").read_text()
